// Tensors: their element types, how a model describes its tensors, and tensors as the data that
// units pass on.
#ifndef ZERO_TENSOR_H
#define ZERO_TENSOR_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ZERO_MAX_DIMS 4
#define ZERO_MAX_BOUNDARY 8 // tensors in a boundary or a batch

typedef enum zero_dtype {
    ZERO_F32,
    ZERO_BF16,
    ZERO_F16,
    ZERO_I32,
    ZERO_I64,
    ZERO_F64,
    ZERO_U8
} zero_dtype;
ZERO_API size_t zero_dtype_bytes(zero_dtype dtype);

typedef enum zero_init_kind {
    ZERO_INIT_CONSTANT,
    ZERO_INIT_NORMAL,
    ZERO_INIT_UNIFORM
} zero_init_kind;

// A part of a tensor that is stored separately: [first, first + shape[axis]) along one axis. Where
// the tensor's tp_parts is more than 1, the whole is that many matrices next to each other on the
// axis, and the tile takes [first, first + shape[axis]/tp_parts) of each.
typedef struct zero_tile {
    // The whole tensor's name, in files and for zero_read_parameter; the tile may have the same
    // name. NULL if the tensor is not a tile.
    const char *whole;
    int axis;
    int64_t first, size; // size: that of the whole tensor along the axis
} zero_tile;

typedef struct zero_tensor_desc {
    // Unique in the model. Initial weights depend only on the seed and this name; for a tile, on
    // its whole's name.
    const char *name;
    int dims;
    int64_t shape[ZERO_MAX_DIMS];
    zero_init_kind init;
    // constant: the value; normal: the standard deviation (mean 0); uniform: U(-v, v)
    float init_value;
    // Dimension that tensor parallelism splits; -1 if replicated. It has no effect if a program
    // makes the parts itself (zero_model.whole): `tile` then defines the part.
    int tp_axis;
    // Matrices next to each other on that axis, or on the tile's (c_attn: 3), otherwise 1; the same
    // in the whole and in its tiles.
    int tp_parts;
    // A tile's initial values are those of the same elements of the whole tensor. Tiles that are
    // not streamed may be empty: 0 elements along the axis.
    zero_tile tile;
} zero_tensor_desc;

typedef struct zero_tensor { // dense, row-major
    void *data;
    zero_dtype dtype;
    int dims;
    int64_t shape[ZERO_MAX_DIMS];
} zero_tensor;

typedef struct zero_tensors { // a boundary between units, or a micro-batch
    int count;
    zero_tensor at[ZERO_MAX_BOUNDARY];
} zero_tensors;

struct zero_context; // context.h

// For units of your own model that is split over tensor ranks (grid.h): replaces data(elements),
// fp32, by its sums over the tensor ranks, the same bits on each of them. The unit calls it in
// forward or backward, where its `sizes` list, for each call, a ZERO_EXCHANGE_SUM of ceil(elements
// / P) elements a share (zero_unit_sizes.exchanges), and at least P times as many floats in
// exchange_bytes. With P = 1 it does nothing. ZERO_ERR_USAGE if the planned window is smaller.
ZERO_API zero_status zero_tensor_sum(struct zero_context *context, float *data, int64_t elements);

#ifdef __cplusplus
}
#endif

#endif
