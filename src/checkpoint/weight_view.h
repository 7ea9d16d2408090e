// What savers and loaders are given: the ranges of a model's tensors that a rank owns; and what
// they have in common.
#ifndef ZR_CHECKPOINT_WEIGHT_VIEW_H
#define ZR_CHECKPOINT_WEIGHT_VIEW_H

#include "checkpoint/safetensors.h"
#include "comm/communicator.h"

typedef struct zr_weight_range { // elements [first, first+count) of one tensor lie at data
    const zero_tensor_desc *tensor;
    int64_t first, count;
    void *data;
    zero_dtype dtype; // in memory: F32, BF16 or F16
} zr_weight_range;

typedef zero_status (*zr_range_use)(void *user, const zr_weight_range *range, zero_error *error);

// the ranges that this rank owns, of every tensor of the model that is to be saved
typedef struct zr_weight_view {
    // (tensor_count) the whole model's, the same order on every rank
    const zero_tensor_desc *const *tensors;
    int tensor_count;
    int64_t elements; // of this rank's ranges together
    int parts;        // in which `visit` takes them
    // Calls `use` with each range of a part in turn; data is there during the call, and where
    // `changed` what the call writes there is kept.
    zero_status (*visit)(void *user, int part, bool changed, zr_range_use use, void *use_user,
                         zero_error *error);
    // The same elements in the same order, without their data (NULL); of a view that is only
    // written: NULL.
    zero_status (*outline)(void *user, int part, zr_range_use use, void *use_user,
                           zero_error *error);
    void *user;
} zr_weight_view;

// all parts
zero_status zr_view_visit(const zr_weight_view *view, bool changed, zr_range_use use, void *user,
                          zero_error *error);
// Place of a tensor that is in the view's list. Ranges follow each other: it is looked for from
// `last`, the place of the last one, on.
int zr_view_find(const zr_weight_view *view, const zero_tensor_desc *tensor, int last);

// Whether a tensor of a file has the shape that the model's has. found_dims -1: the file lacks it.
// ZERO_ERR_DATA with found and expected;
// path: of the file, or of the directory that lacks it.
zero_status zr_view_check_shape(const char *path, const zero_tensor_desc *wanted, int found_dims,
                                const int64_t *found_shape, zero_error *error);
// Collective. The ranks' ranges together must be the model: a file with holes would look whole.
// what, path: of what is written.
zero_status zr_view_check_coverage(zero_comm *comm, const zr_weight_view *view, const char *what,
                                   const char *path, zero_error *error);

typedef struct zr_view_file { // that a view is written to; all ranks have the same
    const zr_weight_view *view;
    zero_dtype dtype; // of its tensors
    zr_st_layout layout;
    int last; // place of the tensor that was written last
} zr_view_file;

#define ZR_VIEW_RUN ((int64_t)1 << 20)  // bytes that are written at once
#define ZR_VIEW_BLOCK (2 * ZR_VIEW_RUN) // bytes of the block that types are converted in

typedef struct zr_view_run { // elements [first, first+count) of a tensor, as the file has them
    int tensor;              // place in the view's list
    int64_t first, count;
    int64_t offset; // in the file
    const void *data;
} zr_view_run;
typedef zero_status (*zr_run_write)(void *user, const zr_view_run *run, zero_error *error);

// prefix: before every name ("transformer." or ""). Closed whatever it answers.
zero_status zr_view_file_create(const zr_weight_view *view, zero_dtype dtype, const char *prefix,
                                zr_view_file *out, zero_error *error);
void zr_view_file_free(zr_view_file *file); // zeroed ones are fine
// Open for writing: takes the space, and writes the header. Rank 0.
zero_status zr_view_file_begin(const zr_view_file *file, int fd, const char *path,
                               zero_error *error);
// A range of the view, run after run of at most ZR_VIEW_RUN bytes in fp32, converted in the block
// where types differ.
zero_status zr_view_file_write(zr_view_file *file, const zr_weight_range *range, char *block,
                               zr_run_write write, void *user, zero_error *error);

#endif
