// Whether the extents of a tensor hold each of its elements once.
#ifndef ZR_FORMATS_EXTENT_COVER_H
#define ZR_FORMATS_EXTENT_COVER_H

#include "formats/manifest.h"

// Checks extents (count) of a tensor of `elements` elements. They are in order of their first
// elements and lie inside of the tensor; all rectangles have one stride, which divides the
// elements, and none of their rows goes over a multiple of it. ZERO_ERR_DATA with file, tensor and
// the first element found that no extent holds, or that two hold; ZERO_ERR_MEMORY.
zero_status zr_extents_check_cover(const char *path, const char *tensor, const zr_extent *extents,
                                   int count, int64_t elements, zero_error *error);

#endif
