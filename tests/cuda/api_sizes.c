// Compiles where our structures of cuBLASLt are laid out as those of its headers.
#include <cublasLt.h>
#include <stddef.h>

#include "cublaslt_api.h"

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define SAME_PLACE(ours, theirs)                                                                   \
    _Static_assert(offsetof(zr_blas_choice, ours) ==                                               \
                       offsetof(cublasLtMatmulHeuristicResult_t, theirs),                          \
                   #theirs)

SAME_SIZE(zr_blas_algorithm, cublasLtMatmulAlgo_t);
SAME_SIZE(zr_blas_choice, cublasLtMatmulHeuristicResult_t);
SAME_PLACE(algorithm, algo);
SAME_PLACE(workspace, workspaceSize);
SAME_PLACE(state, state);
SAME_PLACE(waves, wavesCount);
