// The numbers of GPT-NeoX's tensors, in the order of its design.
#ifndef ZR_MODEL_NEOX_MODEL_H
#define ZR_MODEL_NEOX_MODEL_H

#include "model/lm_table.h"

enum zr_neox_block_tensor { // each is a weight, and its bias is the next number
    ZR_NEOX_NORM1,
    ZR_NEOX_QKV = 2,
    ZR_NEOX_DENSE = 4,
    ZR_NEOX_NORM2 = 6,
    ZR_NEOX_FC = 8,
    ZR_NEOX_PROJ = 10
};

#endif
