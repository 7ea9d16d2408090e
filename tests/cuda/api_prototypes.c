// Compiles where our declarations of CUDA's functions and constants are those of its headers.
#include <cublasLt.h>
#include <cuda.h>
#include <nvrtc.h>

#define ZR_BLAS_TYPES_ARE_GIVEN
typedef cublasLtMatmulDesc_t zr_blas_product;
typedef cublasLtMatrixLayout_t zr_blas_layout;
typedef cublasLtMatmulPreference_t zr_blas_wishes;
typedef cublasLtMatmulAlgo_t zr_blas_algorithm;
typedef cublasLtMatmulHeuristicResult_t zr_blas_choice;
#include "cublaslt_api.h"
#include "driver_api.h"
#include "nvrtc_api.h"

#if CUDA_VERSION < 12080 // has the function by its older name alone
#define cuEventElapsedTime_v2 cuEventElapsedTime
#endif

#define SAME_VALUE(name, value)                                                                    \
    _Static_assert((long long)ZR_##name == (long long)(name), #name " has another value");
ZR_CUDA_CONSTANTS(SAME_VALUE)
ZR_BLAS_CONSTANTS(SAME_VALUE)

#define SAME_TYPE(result, name, parameters)                                                        \
    _Static_assert(__builtin_types_compatible_p(result parameters, __typeof__(name)),              \
                   #name " has another type");
#define SAME_DRIVER_TYPE(name, older, parameters) SAME_TYPE(zr_cuda_result, name, parameters)
ZR_CUDA_FUNCTIONS(SAME_DRIVER_TYPE)
ZR_BLAS_FUNCTIONS(SAME_TYPE)
ZR_NVRTC_FUNCTIONS(SAME_TYPE)
