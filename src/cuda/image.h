// The kernels as a card runs them: the texts of kernels/, which lie in the library, compiled by
// NVRTC for a capability and kept in the user's cache.
#ifndef ZR_CUDA_IMAGE_H
#define ZR_CUDA_IMAGE_H

#include "base/errors.h"

typedef struct zr_cuda_text { // made by tools/embed; the last has no name
    const char *name;         // without its extension: "elements"
    const char *text;
} zr_cuda_text;
extern const zr_cuda_text zr_cuda_kernel_texts[], zr_cuda_header_texts[];

typedef struct zr_cuda_image {
    char *bytes; // zr_free
    size_t count;
    bool compiled; // now, rather than read from the cache
} zr_cuda_image;

// Makes the image of a file of kernels ("elements") for a capability (90): reads it from the cache,
// where it lies under a hash of text, options, NVRTC's version and capability, or compiles and
// keeps it. A cache that cannot be written, or holds what is damaged, costs time alone: `warning`
// (ZERO_MESSAGE_BYTES) then says so, and is else empty. anew: what was kept is not taken. Files may
// be made in several threads.
zero_status zr_cuda_image_make(const char *file, int capability, bool anew, zr_cuda_image *out,
                               char *warning, zero_error *error);

#endif
