// The ranges of a model's tensors that a rank owns, as savers and loaders get them, and the code
// that these share.
#ifndef ZR_FORMATS_WEIGHT_VIEW_H
#define ZR_FORMATS_WEIGHT_VIEW_H

#include "memory/direct.h"
#include "formats/rectangle.h"
#include "formats/safetensors.h"
#include "comm/communicator.h"

// A rectangle of the elements of one tensor lies at `data`, row after row without gaps.
typedef struct zr_weight_range {
    const zero_tensor_desc *tensor;
    zr_rectangle at;
    void *data;
    zero_dtype dtype; // in memory: F32, BF16 or F16
} zr_weight_range;

typedef zero_status (*zr_range_use)(void *user, const zr_weight_range *range, zero_error *error);

// The ranges of a model's tensors that this rank writes or, in a view that is loaded, reads. A
// range that several ranks hold is written by one of them, and read by each.
typedef struct zr_weight_view {
    // (tensor_count) The whole model's tensors, in the same order on every rank.
    const zero_tensor_desc *const *tensors;
    int tensor_count;
    const bool *in_codes; // (tensor_count) of bytes (ZERO_CODES); NULL: none is
    int64_t elements;     // of all ranges of this rank
    int parts;            // in how many parts `each` takes them
    // Calls `use` with each range of a part in turn. The data is valid during the call; with
    // `changed`, data that the call writes there is kept.
    zero_status (*each)(void *user, int part, bool changed, zr_range_use use, void *use_user,
                        zero_error *error);
    // Takes the same ranges in the same order without their data (NULL). This slot is NULL in a
    // view that is only written to files.
    zero_status (*outline)(void *user, int part, zr_range_use use, void *use_user,
                           zero_error *error);
    void *user;
} zr_weight_view;

// Takes all parts.
zero_status zr_view_each(const zr_weight_view *view, bool changed, zr_range_use use, void *user,
                         zero_error *error);
// Returns the place of a tensor in the view's list. Ranges follow each other, so the search begins
// at `last`, the place of the last one.
int zr_view_find(const zr_weight_view *view, const zero_tensor_desc *tensor, int last);

// Checks that a file's tensor has the shape of the model's. found_dims is -1 if the file lacks it.
// ZERO_ERR_DATA with found and expected. `path` is the file, or the directory without it.
zero_status zr_view_check_shape(const char *path, const zero_tensor_desc *wanted, int found_dims,
                                const int64_t *found_shape, zero_error *error);
// Collective. The ranks' ranges together must cover the model, because a file with holes would look
// whole. `what` and `path` name what is written.
zero_status zr_view_check_coverage(zero_comm *comm, const zr_weight_view *view, const char *what,
                                   const char *path, zero_error *error);

// A file to which a view is written; all ranks have the same one.
typedef struct zr_view_file {
    const zr_weight_view *view;
    zero_dtype dtype; // of its tensors
    zr_st_layout layout;
    int last; // place of the tensor that was written last
} zr_view_file;

#define ZR_VIEW_EXTENT ((int64_t)1 << 20)  // bytes written at once
#define ZR_VIEW_BLOCK (2 * ZR_VIEW_EXTENT) // bytes of the block in which types are converted

// A rectangle of a tensor's elements, in the file's type.
typedef struct zr_view_extent {
    int tensor; // place in the view's list
    zr_rectangle at;
    zr_direct_extent place; // in the file
    const void *data;
} zr_view_extent;
typedef zero_status (*zr_extent_write)(void *user, const zr_view_extent *extent, zero_error *error);

// `prefix` ("transformer." or "") is put before every name. Free *out whatever this returns.
zero_status zr_view_file_create(const zr_weight_view *view, zero_dtype dtype, const char *prefix,
                                zr_view_file *out, zero_error *error);
void zr_view_file_free(zr_view_file *file); // a zeroed one is allowed
// Rank 0 calls it with the file open for writing: allocates the space and writes the header.
zero_status zr_view_file_begin(const zr_view_file *file, int fd, const char *path,
                               zero_error *error);
// Writes a range of the view in extents of at most ZR_VIEW_EXTENT bytes in fp32, converted in the
// block where types differ.
zero_status zr_view_file_write(zr_view_file *file, const zr_weight_range *range, char *block,
                               zr_extent_write write, void *user, zero_error *error);

#endif
