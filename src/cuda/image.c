// Images of kernels: from the cache, or by NVRTC.
#include "cuda/image.h"

zero_status zr_cuda_image_make(const char *file, int capability, zr_cuda_image *out, char *warning,
                               zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "no image of %s", file);
}
