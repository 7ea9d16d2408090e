// The three libraries, loaded once a process and never unloaded.
#ifndef ZR_CUDA_LIBRARIES_H
#define ZR_CUDA_LIBRARIES_H

#include "cuda/cublaslt_api.h"
#include "cuda/cards.h"
#include "cuda/driver_api.h"
#include "cuda/nvrtc_api.h"

// Return the functions of a library, or NULL with a sentence that says what is missing. Any thread.
const zr_cuda_driver *zr_cuda_driver_get(zero_error *error);
const zr_blas *zr_cuda_blas_get(zero_error *error);
const zr_nvrtc *zr_cuda_nvrtc_get(zero_error *error);

// library_folders.c: calls `visit` with each folder that may have a library, in the order in which
// they are tried, until it returns true. The loader's own path is not among them.
typedef bool zr_cuda_visit(void *user, const char *folder);
bool zr_cuda_each_folder(zr_cuda_visit *visit, void *user);
// The same for those that only Python itself can name: asks python3, once a process, for at most
// ten seconds.
bool zr_cuda_each_python_folder(zr_cuda_visit *visit, void *user);

#endif
