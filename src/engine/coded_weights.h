// What units read is made from the master. Weights that are read as codes in blocks stand for them
// (the plan's zr_flat_param.weight_bits) and have no master are read and written by the rooms above
// as fp32 numbers, some at a time.
#ifndef ZR_ENGINE_CODED_WEIGHTS_H
#define ZR_ENGINE_CODED_WEIGHTS_H

#include "engine/coded_states.h"

// Makes parameters, as the own shard is kept, from elements of their master: whole blocks, where
// there are blocks.
void zr_make_parameters(zr_queue *queue, const zr_flat_param *flat_param, int64_t count,
                        const void *master, void *parameters);
// Says whether the own shard of a flat parameter is read and written so.
bool zr_is_coded_weight(const zero_engine *engine, int flat_param);
// Between steps: calls the taker for the own shard in portions. If `changed`, the blocks that it
// has changed become codes, or the values of codes; others keep their bits.
zero_status zr_coded_weights_each(zero_engine *engine, int flat_param, bool changed,
                                  const zr_portion_taker *taker, zero_error *error);

#endif
