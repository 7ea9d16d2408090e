// Weights to and from a Hugging Face directory, shard by shard: nobody gathers, each rank reads and
// writes its own ranges.
#ifndef ZR_CHECKPOINT_WEIGHT_FILES_H
#define ZR_CHECKPOINT_WEIGHT_FILES_H

#include "checkpoint/weight_view.h"

// Collective. Writes `path` durably, in fp32: rank 0 creates the temporary file at its full size,
// every rank writes its ranges and fsyncs, then rank 0 renames. A failure anywhere is returned by
// every rank and leaves no file, or the one that was there before (only when the directory's own
// fsync fails is the new one there, whole).
zero_status zr_weights_save(zero_comm *comm, const char *path, const char *prefix,
                            const zr_weight_view *view, zero_error *error);

typedef struct zr_weights_how {
    uint64_t seed; // of the places at which ranks compare the files that they see
    // tensors that the model has no place for are left out, with a warning; false: refused
    bool ignored;
    // the name of a head that is tied: left out without a word; NULL: none
    const char *tied_head;
    const zero_logger *logger; // of the warning; NULL: dropped
} zr_weights_how;
// Collective. Fills the ranges, one after another. Missing tensors, shapes that differ and tensors
// that are not used are ZERO_ERR_DATA with name, found and expected.
zero_status zr_weights_load(zero_comm *comm, const char *directory, const zr_weight_view *view,
                            const zr_weights_how *how, zero_error *error);
// Not collective: names up to ten tensors that are neither the model's nor buffers of old exports
// (zr_tensor_is_buffer).
zero_status zr_weights_check_unused(const zr_st_set *set, const zr_weight_view *view,
                                    const zr_weights_how *how, zero_error *error);

#endif
