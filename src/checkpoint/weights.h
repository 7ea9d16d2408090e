// Weights to and from a Hugging Face directory, shard by shard: nobody gathers, each rank reads and writes its own ranges.
#ifndef ZR_CHECKPOINT_WEIGHTS_H
#define ZR_CHECKPOINT_WEIGHTS_H

#include "checkpoint/safetensors.h"
#include "comm/comm.h"

typedef struct zr_weight_range { // elements [first, first+count) of one tensor lie at data
    const zero_tensor_desc *tensor;
    int64_t first, count;
    void *data;
    zero_dtype dtype; // in memory: F32, BF16 or F16; files hold fp32
} zr_weight_range;

typedef zero_status (*zr_range_use)(void *user, const zr_weight_range *range, zero_error *error);

typedef struct zr_weight_view { // the ranges that this rank owns, of every tensor of the model that is to be saved
    const zero_tensor_desc *const *tensors; // (tensor_count) the whole model's, the same order on every rank
    int tensor_count;
    int64_t elements; // of this rank's ranges together
    int parts;        // in which `visit` takes them
    // Calls `use` with each range of a part in turn; data is there during the call, and where `changed` what the call writes there is kept.
    zero_status (*visit)(void *user, int part, bool changed, zr_range_use use, void *use_user, zero_error *error);
    // The same elements in the same order, without their data (NULL); of a view that is only written: NULL.
    zero_status (*outline)(void *user, int part, zr_range_use use, void *use_user, zero_error *error);
    void *user;
} zr_weight_view;

zero_status zr_view_visit(const zr_weight_view *view, bool changed, zr_range_use use, void *user, zero_error *error); // all parts

// Collective. Writes `path` durably: rank 0 creates the temporary file at its full size, every rank pwrites its ranges and
// fsyncs, then rank 0 renames. A failure anywhere is returned by every rank and leaves no file, or the one that was there
// before (only when the directory's own fsync fails is the new one there, whole).
zero_status zr_weights_save(zero_comm *comm, const char *path, const char *prefix, const zr_weight_view *view, zero_error *error);
// Collective. Fills the ranges, one after another. Missing tensors and shapes that differ are ZERO_ERR_DATA with name, found and expected.
zero_status zr_weights_load(zero_comm *comm, const char *directory, const zr_weight_view *view, zero_error *error);

#endif
