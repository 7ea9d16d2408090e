#include "blocks_portable.h"

#include "base/blocks.h"
#include "base/dtype.h"
#include "base/errors.h"

#include <math.h>
#include <string.h>

#undef __x86_64__
#undef __SSE2__
#define zr_narrow_blocks narrow_blocks_portable
#define zr_widen_blocks widen_blocks_portable
#define zr_widen_block_range widen_block_range_portable
#include "comm/blocks.c"
