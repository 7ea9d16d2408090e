// Operations as values. An operation is a kind, a shape and operands:
//
//   zr_run(queue, zr_op_norm_forward(&norm, x, NULL, NULL, gamma, beta, y, mean, rstd));
//
// The ten op headers declare the kinds of a family, one macro each:
//
//   #define ZR_OPERANDS_norm_forward(AT)
//       AT(x, const void *, ZR_READ, s->stream, s->rows * s->width) ...
//
// that is: an operand's name, its C type, whether it is read or written, the type in which it is
// stored, and its extent in elements as a function of the shape, s. An operand that is NULL is
// neither read nor written, and counts no bytes; comments say which ones may be. From these
// declarations follow the constructors (zr_op_KIND), the prototypes of the kernels of every
// backend, what a recording notes, and what is checked in a debug build. Nothing that changes from
// step to step is part of an operation's value: it lies in memory (zr_step_values,
// zr_update_values, factors), so that an operation may be kept and run again in another step.
#ifndef ZR_COMPUTE_OP_H
#define ZR_COMPUTE_OP_H

#include "base/recorder.h"
#include "compute/attention_ops.h"
#include "compute/block_ops.h"
#include "compute/element_ops.h"
#include "compute/factored_ops.h"
#include "compute/graph_ops.h"
#include "compute/magnitude_ops.h"
#include "compute/optimizer_ops.h"
#include "compute/product_ops.h"
#include "compute/row_ops.h"
#include "compute/tree_ops.h"

// OP(kind, shape, activity, flops, bytes): shape: the shape is a zr_SHAPE; activity: what a
// recording counts the operation as; flops; bytes: those that it moves beyond its counted operands.
#define ZR_OPS(OP)                                                                                 \
    ZR_PRODUCT_OPS(OP)                                                                             \
    ZR_ROW_OPS(OP)                                                                                 \
    ZR_ATTENTION_OPS(OP)                                                                           \
    ZR_ELEMENT_OPS(OP)                                                                             \
    ZR_GRAPH_OPS(OP)                                                                               \
    ZR_MAGNITUDE_OPS(OP)                                                                           \
    ZR_OPTIMIZER_OPS(OP)                                                                           \
    ZR_FACTORED_OPS(OP)                                                                            \
    ZR_BLOCK_OPS(OP)                                                                               \
    ZR_TREE_OPS(OP)

#define ZR_OP_KIND(kind, ...) ZR_OP_##kind,
typedef enum zr_op_kind { ZR_OPS(ZR_OP_KIND) ZR_OP_KINDS } zr_op_kind;

#define ZR_OPERAND_FIELD(name, type, access, storage, elements) type name;
#define ZR_OP_OPERANDS(kind, ...)                                                                  \
    struct {                                                                                       \
        ZR_OPERANDS_##kind(ZR_OPERAND_FIELD)                                                       \
    } kind;
enum { ZR_MOST_OPERANDS = 10 };

typedef struct zr_op {
    zr_op_kind kind;
    union {
        zr_product product;
        zr_scale_codes scale_codes;
        zr_weight_rows weight_rows;
        zr_neighbours neighbours;
        zr_magnitude magnitude;
        zr_column_scaling column_scaling;
        zr_norm norm;
        zr_loss loss;
        zr_matrix matrix;
        zr_attention attention;
        zr_rotary rotary;
        zr_elements elements;
        zr_sum sum;
        zr_conversion conversion;
        zr_scaling scaling;
        zr_weighted weighted;
        zr_dropout dropout;
        zr_embedding embedding;
        zr_bytes bytes;
        zr_id_range id_range;
        zr_row_sum row_sum;
        zr_square_parts square_parts;
        zr_strided strided;
        zr_update update;
        zr_squares squares;
        zr_factored factored;
        zr_blocks blocks;
        zr_tree tree;
    } shape;
    union {
        ZR_OPS(ZR_OP_OPERANDS)
        void *each[ZR_MOST_OPERANDS]; // in the order of their declaration
    } at;
} zr_op;

#define ZR_OPERAND_PARAMETER(name, type, access, storage, elements) , type name
#define ZR_OPERAND_NAME(name, type, access, storage, elements) name,
#define ZR_OP_CONSTRUCTOR(kind_, shape_, ...)                                                      \
    static inline zr_op zr_op_##kind_(                                                             \
        const zr_##shape_ *shape ZR_OPERANDS_##kind_(ZR_OPERAND_PARAMETER))                        \
    {                                                                                              \
        return (zr_op){.kind = ZR_OP_##kind_,                                                      \
                       .shape.shape_ = *shape,                                                     \
                       .at.kind_ = {ZR_OPERANDS_##kind_(ZR_OPERAND_NAME)}};                        \
    }
ZR_OPS(ZR_OP_CONSTRUCTOR)
#undef ZR_OP_CONSTRUCTOR

// Returns the update of a range.
static inline zr_op zr_op_update_of(const zr_update *update, const zr_update_values *values,
                                    int64_t n, const zr_range_states *at)
{
    zr_update shape = *update;
    shape.n = n;
    shape.gradient = at->gradient_dtype;
    shape.parameters = at->parameters_dtype;
    shape.states = at->states_dtype;
    return zr_op_update(&shape, values, at->master, at->state0, at->state1, at->scales0,
                        at->scales1, at->gradient, at->parameters);
}

typedef struct zr_operand { // of an operation
    const char *name;
    const void *at;     // NULL if the operation does not have it
    unsigned access;    // zr_access
    zero_dtype storage; // the type of its elements
    int64_t elements;   // from `at` on; of scratch, the backend says how many bytes
} zr_operand;

const char *zr_op_kind_name(zr_op_kind kind); // "norm_forward"
zr_activity zr_op_activity(zr_op_kind kind);  // what a recording counts it as
int64_t zr_op_flops(const zr_op *op);         // 0 except for products and attention
// Returns the bytes that the operation has to move: those of its operands as they are stored, read
// and written once, without what is small beside them (ZR_AUX).
int64_t zr_op_bytes(const zr_op *op);
// Lists the operands; returns their number.
int zr_op_operands(const zr_op *op, zr_operand out[ZR_MOST_OPERANDS]);

#endif
