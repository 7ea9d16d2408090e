// The names of collective operations, as files and messages have them.
#ifndef ZR_BASE_OP_NAMES_H
#define ZR_BASE_OP_NAMES_H

#include <zero/traffic.h>

const char *zr_op_name(zero_comm_op op); // "all_reduce"

#endif
