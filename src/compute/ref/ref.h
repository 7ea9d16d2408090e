// The tables of the reference backend, one a file. Plain C, one thread, sums in double: slow, short, and the oracle of the tests.
#ifndef ZR_COMPUTE_REF_H
#define ZR_COMPUTE_REF_H

#include "compute/compute.h"

extern const zr_product_ops zr_ref_product_ops;
extern const zr_row_ops zr_ref_row_ops;
extern const zr_attention_ops zr_ref_attention_ops;
extern const zr_element_ops zr_ref_element_ops;
extern const zr_optimizer_ops zr_ref_optimizer_ops;

#endif
