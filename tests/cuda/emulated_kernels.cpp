// The kernels of tools/gpu/kernels.cu, compiled for the CPU, by their names; and those of
// src/cuda/kernels, which emulated_texts.cpp compiles.
#include "simt.h"

#include "../../src/cuda/kernels/kernels.h"
#include "../../tools/gpu/kernels.cu"
#include "emulated.h"

namespace emulated {

#define DECLARE_TABLE(file) extern const kernel kernels_of_##file[];
ZR_CUDA_FILES(DECLARE_TABLE)

namespace {

// Puts a pointer that the program knows to where its bytes lie.
template <class T> bool resolve(T *&pointer, const void **lost)
{
    void *real = reach((zr_cuda_address)pointer, 1, false);
    if (!real)
        *lost = pointer;
    pointer = (T *)real;
    return real;
}

std::string run_copy(const void *arguments, dim3 grid, dim3 block, const void **lost)
{
    probe_copy_args a = *(const probe_copy_args *)arguments;
    if (!resolve(a.from, lost) || !resolve(a.to, lost))
        return "";
    return simt::launch(grid, block, thread_order(), [=] { probe_copy(a); });
}

std::string run_limbs(const void *arguments, dim3 grid, dim3 block, const void **lost)
{
    probe_limb_args a = *(const probe_limb_args *)arguments;
    if (!resolve(a.x, lost) || !resolve(a.sum, lost))
        return "";
    return simt::launch(grid, block, thread_order(), [=] { probe_limbs(a); });
}

std::string run_attention(const void *arguments, dim3 grid, dim3 block, const void **lost)
{
    probe_attention_args a = *(const probe_attention_args *)arguments;
    if (!resolve(a.qkv, lost) || !resolve(a.out, lost) || !resolve(a.log_sums, lost))
        return "";
    return simt::launch(grid, block, thread_order(), [=] { probe_attention(a); });
}

const kernel kernels[] = {
    {"", "probe_copy", sizeof(probe_copy_args), run_copy},
    {"", "probe_limbs", sizeof(probe_limb_args), run_limbs},
    {"", "probe_attention", sizeof(probe_attention_args), run_attention},
    {},
};

#define TABLE_ADDRESS(file) kernels_of_##file,
const kernel *const tables[] = {kernels, ZR_CUDA_FILES(TABLE_ADDRESS)};

} // namespace

const kernel *find_kernel(const char *name)
{
    for (const kernel *table : tables)
        for (; table->name; table++)
            if (!strcmp(table->name, name))
                return table;
    return nullptr;
}

std::string image_of(const char *file)
{
    std::string image = image_head;
    for (const kernel *table : tables)
        for (; table->name; table++)
            if (!strcmp(table->file, file))
                image += std::string(table->name) + "\n";
    image += '\0'; // the names end
    return image;
}

} // namespace emulated
