// The functions of cuBLASLt (libcublasLt.so) that products of matrices take, with their types and
// constants: declared here, so that nothing needs CUDA's headers. CUDA 12 and 13 are alike in all
// of them. Matrices are stored by columns.
#ifndef ZR_CUBLASLT_API_H
#define ZR_CUBLASLT_API_H

#include "driver_api.h"

typedef unsigned zr_blas_status;                      // 0: no error
typedef struct cublasLtContext *zr_blas_handle;       // one on a device
#ifndef ZR_BLAS_TYPES_ARE_GIVEN                       // by who compares with CUDA's headers
typedef struct zr_blas_product_data *zr_blas_product; // which product: transpositions, epilogue
typedef struct zr_blas_layout_data *zr_blas_layout;   // of a matrix: type, rows, columns, stride
typedef struct zr_blas_wishes_data *zr_blas_wishes;   // what an algorithm may use
typedef struct zr_blas_algorithm {
    uint64_t data[8];
} zr_blas_algorithm;
typedef struct zr_blas_choice { // an algorithm that fits, best first
    zr_blas_algorithm algorithm;
    size_t workspace; // bytes
    zr_blas_status state;
    float waves; // of blocks over the device's processors
    int reserved[4];
} zr_blas_choice;
#endif

// X(NAME, VALUE): ZR_NAME is a constant of that value.
#define ZR_BLAS_CONSTANTS(X)                                                                       \
    X(CUBLAS_STATUS_SUCCESS, 0)                                                                    \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)                                                              \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                                                             \
    X(CUBLAS_OP_N, 0)                                                                              \
    X(CUBLAS_OP_T, 1)                                                                              \
    X(CUBLAS_COMPUTE_32F, 68)                                                                      \
    X(CUDA_R_32F, 0)                                                                               \
    X(CUDA_R_16F, 2)                                                                               \
    X(CUDA_R_16BF, 14)                                                                             \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                              \
    X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                                                              \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                                            \
    X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                                        \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11)                                               \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12)                                                    \
    X(CUBLASLT_EPILOGUE_DEFAULT, 1)                                                                \
    X(CUBLASLT_EPILOGUE_BIAS, 4)                                                                   \
    X(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 164)                                                        \
    X(CUBLASLT_EPILOGUE_DGELU, 192)                                                                \
    X(CUBLASLT_EPILOGUE_DGELU_BGRAD, 208)                                                          \
    X(CUBLASLT_EPILOGUE_BGRADA, 256)                                                               \
    X(CUBLASLT_EPILOGUE_BGRADB, 512)                                                               \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                                                 \
    X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                                               \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)                                               \
    X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)

#define ZR_BLAS_CONSTANT(name, value) ZR_##name = value,
enum { ZR_BLAS_CONSTANTS(ZR_BLAS_CONSTANT) };
#undef ZR_BLAS_CONSTANT

// X(RESULT, NAME, PARAMETERS). The last computes D = epilogue(alpha op(A) op(B) + beta C).
#define ZR_BLAS_FUNCTIONS(X)                                                                       \
    X(size_t, cublasLtGetVersion, (void))                                                          \
    X(const char *, cublasLtGetStatusString, (zr_blas_status status))                              \
    X(zr_blas_status, cublasLtCreate, (zr_blas_handle * handle))                                   \
    X(zr_blas_status, cublasLtDestroy, (zr_blas_handle handle))                                    \
    X(zr_blas_status, cublasLtMatmulDescCreate,                                                    \
      (zr_blas_product * product, unsigned compute_type, unsigned scale_type))                     \
    X(zr_blas_status, cublasLtMatmulDescDestroy, (zr_blas_product product))                        \
    X(zr_blas_status, cublasLtMatmulDescSetAttribute,                                              \
      (zr_blas_product product, unsigned attribute, const void *value, size_t bytes))              \
    X(zr_blas_status, cublasLtMatrixLayoutCreate,                                                  \
      (zr_blas_layout * layout, unsigned type, uint64_t rows, uint64_t columns, int64_t stride))   \
    X(zr_blas_status, cublasLtMatrixLayoutDestroy, (zr_blas_layout layout))                        \
    X(zr_blas_status, cublasLtMatmulPreferenceCreate, (zr_blas_wishes * wishes))                   \
    X(zr_blas_status, cublasLtMatmulPreferenceDestroy, (zr_blas_wishes wishes))                    \
    X(zr_blas_status, cublasLtMatmulPreferenceSetAttribute,                                        \
      (zr_blas_wishes wishes, unsigned attribute, const void *value, size_t bytes))                \
    X(zr_blas_status, cublasLtMatmulAlgoGetHeuristic,                                              \
      (zr_blas_handle handle, zr_blas_product product, zr_blas_layout a, zr_blas_layout b,         \
       zr_blas_layout c, zr_blas_layout d, zr_blas_wishes wishes, int asked,                       \
       zr_blas_choice choices[], int *found))                                                      \
    X(zr_blas_status, cublasLtMatmul,                                                              \
      (zr_blas_handle handle, zr_blas_product product, const void *alpha, const void *a,           \
       zr_blas_layout a_layout, const void *b, zr_blas_layout b_layout, const void *beta,          \
       const void *c, zr_blas_layout c_layout, void *d, zr_blas_layout d_layout,                   \
       const zr_blas_algorithm *algorithm, void *workspace, size_t workspace_bytes,                \
       zr_cuda_stream stream))

#define ZR_BLAS_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct zr_blas {
    ZR_BLAS_FUNCTIONS(ZR_BLAS_MEMBER)
} zr_blas;
#undef ZR_BLAS_MEMBER

#endif
