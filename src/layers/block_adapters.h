// What the slices of a block that is cut sum for their linears' adapters: in backward, gradients of
// tensors that slices have whole; and, with magnitudes, the squares of norms (magnitude.h) of the
// branches' weights, whose columns are cut. Of any other block these do nothing.
#ifndef ZR_LAYERS_BLOCK_ADAPTERS_H
#define ZR_LAYERS_BLOCK_ADAPTERS_H

#include "layers/block.h"

// Cut out the parts and sums of gradients, which only the part of backward uses that computes
// gradients of tensors; and the squares, which are kept from forward to backward.
void zr_block_carve_adapters(zr_block *block, zr_carver *work);
void zr_block_carve_squares(zr_block *block, zr_carver *carver);
// Sums the parts of the gradients in a half over this rank's slices, all of which have been
// computed.
void zr_block_sum_adapters(zr_block *block, int half);
// Collective among tensor ranks: computes the squares of a half's branch, before its products. The
// place of exchanges has no other values by then.
zero_status zr_block_sum_squares(zr_block *block, int half);
size_t zr_block_squares_place_bytes(const zr_block *block);
void zr_block_list_squares(const zr_block *block, int half, zero_unit_sizes *sizes);

#endif
