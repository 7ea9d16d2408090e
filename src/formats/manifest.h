// A checkpoint's manifest: what the directory holds, byte for byte, so that a reader can tell
// whether it is whole.
//
//   DIR/manifest.json     {"format":"libzero checkpoint 1","state":{...},"files":[...],
//                         "hash":"0123456789abcdef"}
//   DIR/NAME.safetensors  one for each vector of the training's state; tensors whole, by the
//                         model's names
//
// An extent is a stretch of elements of one tensor that one rank wrote, [first,count,checksum], or,
// where ranks have slices, a rectangle of them, [first,width,stride,rows,checksum]: `rows` rows of
// `width` elements, each `stride` elements after the one before. It has at most 1 MiB. The extents
// of a tensor are in order of their first elements, and hold each element once. All rectangles of a
// tensor have one stride, which divides its elements, and no row of theirs goes over a multiple of
// it. A checkpoint with a rectangle has the format "libzero checkpoint 2", one without the first.
// Readers read whole extents and compare CRC32Cs, which go over the rows in order. The hash (xxh64)
// covers all bytes before it.
#ifndef ZR_FORMATS_MANIFEST_H
#define ZR_FORMATS_MANIFEST_H

#include "base/alloc.h"
#include "memory/direct.h"
#include "base/json.h"
#include "model/unit.h"

#define ZR_EXTENT_BYTES ((int64_t)1 << 20)
#define ZR_MANIFEST "manifest.json"

typedef struct zr_extent {
    zr_rectangle at; // of the tensor's elements; rows 1: a stretch
    uint32_t checksum;
    int64_t reach; // the largest end of this extent and those before it
} zr_extent;

typedef struct zr_manifest_tensor {
    char *name;
    int dims;
    int64_t shape[ZERO_MAX_DIMS];
    int64_t begin; // offset in the file, in bytes
    int extent_count;
    zr_extent *extents; // (extent_count) in order
} zr_manifest_tensor;

typedef struct zr_manifest_file {
    char *name;       // "weights.safetensors"
    zero_dtype dtype; // of all its tensors
    int64_t bytes;    // of the whole file
    int64_t header_bytes;
    uint32_t header_checksum;
    int tensor_count;
    zr_manifest_tensor *tensors; // (tensor_count)
} zr_manifest_file;

typedef struct zr_manifest {
    // What else belongs to the checkpoint (step, configuration, scaler, ...); an object.
    json_t *state;
    int file_count;
    zr_manifest_file *files; // (file_count)
} zr_manifest;

// The caller checks out->failed.
void zr_manifest_write(const zr_manifest *manifest, zr_buffer *out);
// Reads DIR/manifest.json and checks everything that can be checked without the files.
// ZERO_ERR_DATA with file and field; ZERO_ERR_IO.
zero_status zr_manifest_read(const char *directory, zr_manifest *out, zero_error *error);
void zr_manifest_free(zr_manifest *manifest); // a zeroed one is allowed
// Returns NULL where absent.
const zr_manifest_file *zr_manifest_find(const zr_manifest *manifest, const char *name);

// Returns where an extent lies in its file.
zr_direct_extent zr_manifest_extent_place(const zr_manifest_file *file,
                                          const zr_manifest_tensor *tensor,
                                          const zr_extent *extent);
// Returns the first extent, by its place in the list, that may hold the element or a later one:
// those before it end before the element. Those that begin before the end of what is looked for
// follow it.
int zr_manifest_extent_from(const zr_manifest_tensor *tensor, int64_t element);

// Returns whether the name is one of a checkpoint's files, or of what a killed save has left there.
bool zr_is_checkpoint_file(const char *name);

// From manifest_verify.c. Fails with ZERO_ERR_DATA: some bytes of the file `path`, part of `what`
// (a tensor's name, "the header"), are not those that were written.
zero_status zr_manifest_damaged(const char *path, const char *what, int64_t begin, int64_t bytes,
                                uint32_t found, uint32_t written, zero_error *error);
// Checks every byte of the checkpoint: the manifest, and each file's header, size and extents.
// ZERO_ERR_DATA with file and tensor. `progress`, if not NULL, is called after each extent with the
// bytes that were read.
zero_status zr_manifest_verify(const char *directory, const zr_manifest *manifest,
                               void (*progress)(void *user, int64_t bytes), void *user,
                               zero_error *error);

// The same, but it goes on after a damaged or missing part: it calls `damaged` for each.
zero_status zr_manifest_verify_all(const char *directory, const zr_manifest *manifest,
                                   void (*progress)(void *user, int64_t bytes),
                                   void (*damaged)(void *user, const zero_error *what), void *user,
                                   zero_error *error);

// From extent_cover.c. Checks that the extents of a tensor hold each of its elements once.
//
// There are (count) extents of a tensor of `elements` elements. They are in order of their first
// elements and lie inside of the tensor; all rectangles have one stride, which divides the
// elements, and none of their rows goes over a multiple of it. ZERO_ERR_DATA with file, tensor and
// the first element found that no extent holds, or that two hold; ZERO_ERR_MEMORY.
zero_status zr_extents_check_cover(const char *path, const char *tensor, const zr_extent *extents,
                                   int count, int64_t elements, zero_error *error);

// From state_check.c. Checks the "state" of a manifest: every number from which a training
// continues, and its range.
// ZERO_ERR_DATA with key, value and range of the first number that is missing, of another kind or
// out of range. `where` names the file in the message.
zero_status zr_state_check(const json_t *state, const char *where, zero_error *error);
// Returns the key of row i of the table, such as "step" or "loss_scale.scale"; NULL after the last
// row.
const char *zr_state_check_key(int i);

#endif
