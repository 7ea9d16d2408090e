// The functions of NVRTC (libnvrtc.so), which compiles kernels where a program runs: declared here,
// so that nothing needs CUDA's headers. CUDA 12 and 13 are alike in all of them.
#ifndef ZR_NVRTC_API_H
#define ZR_NVRTC_API_H

#include <stddef.h>

typedef unsigned zr_nvrtc_result; // 0: no error
typedef struct _nvrtcProgram *zr_nvrtc_program;
enum { ZR_NVRTC_ERROR_INVALID_OPTION = 5 };

// X(RESULT, NAME, PARAMETERS)
#define ZR_NVRTC_FUNCTIONS(X)                                                                      \
    X(zr_nvrtc_result, nvrtcVersion, (int *major, int *minor))                                     \
    X(const char *, nvrtcGetErrorString, (zr_nvrtc_result result))                                 \
    X(zr_nvrtc_result, nvrtcCreateProgram,                                                         \
      (zr_nvrtc_program * program, const char *text, const char *name, int header_count,           \
       const char *const *headers, const char *const *header_names))                               \
    X(zr_nvrtc_result, nvrtcDestroyProgram, (zr_nvrtc_program * program))                          \
    X(zr_nvrtc_result, nvrtcCompileProgram,                                                        \
      (zr_nvrtc_program program, int option_count, const char *const *options))                    \
    X(zr_nvrtc_result, nvrtcGetProgramLogSize, (zr_nvrtc_program program, size_t * bytes))         \
    X(zr_nvrtc_result, nvrtcGetProgramLog, (zr_nvrtc_program program, char *log))                  \
    X(zr_nvrtc_result, nvrtcGetCUBINSize, (zr_nvrtc_program program, size_t * bytes))              \
    X(zr_nvrtc_result, nvrtcGetCUBIN, (zr_nvrtc_program program, char *image))

#define ZR_NVRTC_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct zr_nvrtc {
    ZR_NVRTC_FUNCTIONS(ZR_NVRTC_MEMBER)
} zr_nvrtc;
#undef ZR_NVRTC_MEMBER

#endif
