#include "widen_portable.h"

#include "base/blocks.h"
#include "base/dtype.h"
#include "base/errors.h"

#include <string.h>

#undef __x86_64__
#define zr_widen_blocks widen_blocks_portable
#define zr_widen_block_range widen_block_range_portable
#include "comm/widen_blocks.c"
