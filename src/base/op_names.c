#include "base/op_names.h"

const char *zr_op_name(zero_comm_op op)
{
    static const char *const names[ZERO_COMM_OP_COUNT] = {
#define NAME(name) [ZERO_COMM_##name] = #name,
        ZERO_COMM_OPS(NAME)
#undef NAME
    };
    return names[op];
}
