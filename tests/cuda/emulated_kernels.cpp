// The kernels of tools/gpu/kernels.cu, compiled for the CPU, by their names.
#include "simt.h"

#include "../../tools/gpu/kernels.cu"
#include "emulated.h"

namespace emulated {

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
    {"probe_copy", sizeof(probe_copy_args), run_copy},
    {"probe_limbs", sizeof(probe_limb_args), run_limbs},
    {"probe_attention", sizeof(probe_attention_args), run_attention},
};

} // namespace

const kernel *find_kernel(const char *name)
{
    for (const kernel &known : kernels)
        if (!strcmp(known.name, name))
            return &known;
    return nullptr;
}

} // namespace emulated
