// The kernels of one file of src/cuda/kernels, compiled for the CPU, with their structures.
// EMULATED_TEXT is the file's path, EMULATED_FILE its name without the extension.
#include "simt.h"

#include EMULATED_TEXT
#include "emulated.h"

namespace emulated {

namespace {

// Puts a pointer that the program knows to where its bytes lie.
template <class T> bool resolve(T *&pointer, const void **lost)
{
    if (!pointer)
        return true;
    void *real = reach((zr_cuda_address)pointer, 1, false);
    if (!real)
        *lost = pointer;
    pointer = (T *)real;
    return real;
}

#define RESOLVE_ADDRESS(type, name)                                                                \
    if (!resolve(a.name, lost))                                                                    \
        return "its member " #name " leads nowhere";
#define RESOLVE_ADDRESSES(type, name, count)                                                       \
    for (auto &one : a.name)                                                                       \
        if (!resolve(one, lost))                                                                   \
            return "its member " #name " leads nowhere";
#define KEEP_VALUE(type, name)
#define KEEP_VALUES(type, name, count)

#define RUN(file, kernel_)                                                                         \
    std::string run_##kernel_(const void *arguments, dim3 grid, dim3 block, const void **lost)     \
    {                                                                                              \
        zr_##kernel_##_args a = *(const zr_##kernel_##_args *)arguments;                           \
        ZR_ARGS_##kernel_(RESOLVE_ADDRESS, KEEP_VALUE, RESOLVE_ADDRESSES, KEEP_VALUES);            \
        return simt::launch(grid, block, thread_order(), [&] { zr_##kernel_(a); });                \
    }
#define ROW(file, kernel_) {#file, "zr_" #kernel_, sizeof(zr_##kernel_##_args), run_##kernel_},

#define JOINED(a, b) a##b
#define KERNELS_OF(file, X) JOINED(ZR_KERNELS_, file)(X)

KERNELS_OF(EMULATED_FILE, RUN)

} // namespace

#define TABLE(file) JOINED(kernels_of_, file)
extern const kernel TABLE(EMULATED_FILE)[];
const kernel TABLE(EMULATED_FILE)[] = {KERNELS_OF(EMULATED_FILE, ROW){}};

} // namespace emulated
