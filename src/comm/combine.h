// How small all-reduces combine the ranks' operands, in the order of ranks, on every communicator.
#ifndef ZR_COMM_COMBINE_H
#define ZR_COMM_COMBINE_H

#include "comm/communicator.h"

// Sets total(count) = total `how` operand. A NaN in either one remains. dtype: F32, F64 or I64.
void zr_comm_combine(void *total, const void *operand, int64_t count, zero_dtype dtype,
                     zr_reduction how);

#endif
