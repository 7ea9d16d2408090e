// Adafactor's work on stretches of a matrix (arXiv 1804.04235, as torch.optim.Adafactor does it):
// squares of gradients averaged by rows and by columns, and updates divided by the roots of what
// these averages say. compute.h states what holds for all operations, op.h how they are declared.
#ifndef ZR_COMPUTE_FACTORED_OPS_H
#define ZR_COMPUTE_FACTORED_OPS_H

#include "compute/optimizer_ops.h"

// Elements [first, first + count) of a matrix, or of columns of one, as they lie in memory: rows
// of `width` elements. A row of the matrix has `parts` of these, whose columns begin `stride`
// apart; `first` counts from the beginning of a row of the matrix:
//
//   row 0 of the matrix   [ row 0 ]......[ row 1 ]......     parts: 2
//   row 1 of the matrix   [ row 2 ]......[ row 3 ]......
//
// A vector is one row, whose own average is not kept.
typedef struct zr_factored {
    zero_dtype gradient, parameters; // the types of these
    int64_t width, stride, parts;
    int64_t first, count;
    int64_t place; // of the first element, in a vector that is cut into chunks of ZR_SQUARES_CHUNK
} zr_factored;

// What these operations read that changes from step to step.
typedef struct zr_factored_values {
    float gradient_scale; // the gradient is read as g * gradient_scale
    float most;           // 1 / the root of the least average
    float keep, step;     // of the tensor: master = keep * master - step * direction
    double coarse, fine;  // powers of two: the units of sums of squares
} zr_factored_values;

// Elements that follow each other in memory and in a row of the matrix.
typedef struct zr_factored_piece {
    int64_t row, column, count;
} zr_factored_piece;

// Returns the piece that begins at an element and ends before `end`, both counted from s->first.
static inline zr_factored_piece zr_factored_piece_at(const zr_factored *s, int64_t at, int64_t end)
{
    int64_t from = s->first + at, row = from / s->width, column = from - row * s->width,
            left = s->width - column;
    return (zr_factored_piece){.row = row / s->parts,
                               .column = row % s->parts * s->stride + column,
                               .count = end - at < left ? end - at : left};
}

// Return how many rows and columns of the matrix the elements may lie in.
static inline int64_t zr_factored_rows(const zr_factored *s)
{
    int64_t row = s->width * s->parts;
    return (s->first + s->count + row - 1) / row;
}
static inline int64_t zr_factored_columns(const zr_factored *s)
{
    return (s->parts - 1) * s->stride + s->width;
}

// Returns the chunks of the vector in which the elements lie, as they are cut at `place`.
static inline zr_squares zr_factored_chunks(const zr_factored *s)
{
    return (zr_squares){.dtype = ZERO_F32, .first = s->place, .count = s->count};
}
static inline int64_t zr_factored_sums(const zr_factored *s)
{
    const zr_squares chunks = zr_factored_chunks(s);
    return zr_squares_parts(&chunks);
}

// Adds the square of each element to the sums of its row and its column. A sum is two integers, of
// which the first counts values->coarse, and the second values->fine of what rounding to coarse
// leaves. So sums are the same in any order, as long as all squares together are at most 2^51
// coarse, and 2^51 fine are at least coarse times the addends of a sum.
#define ZR_OPERANDS_factor_sums(AT)                                                                \
    AT(values, const zr_factored_values *, ZR_HOST, ZERO_U8, sizeof(zr_factored_values))           \
    AT(gradient, const void *, ZR_READ, s->gradient, s->count)                                     \
    AT(rows, int64_t *, ZR_BOTH | ZR_AUX, ZERO_I64, 2 * zr_factored_rows(s))                       \
    AT(columns, int64_t *, ZR_BOTH | ZR_AUX, ZERO_I64, 2 * zr_factored_columns(s))

// The direction of an element is g * min(rows[its row] * columns[its column], values->most); rows
// and columns have reciprocals of roots. rows: NULL for a vector. Sums the squares of directions of
// each chunk in double, in one fixed order. sums (chunks).
#define ZR_OPERANDS_factored_squares(AT)                                                           \
    AT(values, const zr_factored_values *, ZR_HOST, ZERO_U8, sizeof(zr_factored_values))           \
    AT(gradient, const void *, ZR_READ, s->gradient, s->count)                                     \
    AT(rows, const float *, ZR_READ | ZR_AUX, ZERO_F32, zr_factored_rows(s))                       \
    AT(columns, const float *, ZR_READ | ZR_AUX, ZERO_F32, zr_factored_columns(s))                 \
    AT(sums, double *, ZR_WRITTEN | ZR_AUX, ZERO_F64, zr_factored_sums(s))

// master = values->keep * master - values->step * direction, and the master's 16-bit copy.
#define ZR_OPERANDS_factored_update(AT)                                                            \
    AT(values, const zr_factored_values *, ZR_HOST, ZERO_U8, sizeof(zr_factored_values))           \
    AT(master, float *, ZR_BOTH, ZERO_F32, s->count)                                               \
    AT(gradient, const void *, ZR_READ, s->gradient, s->count)                                     \
    AT(rows, const float *, ZR_READ | ZR_AUX, ZERO_F32, zr_factored_rows(s))                       \
    AT(columns, const float *, ZR_READ | ZR_AUX, ZERO_F32, zr_factored_columns(s))                 \
    AT(parameters, void *, ZR_WRITTEN, s->parameters, s->count)

#define ZR_FACTORED_OPS(OP)                                                                        \
    OP(factor_sums, factored, optimizer, 0, 0)                                                     \
    OP(factored_squares, factored, optimizer, 0, 0)                                                \
    OP(factored_update, factored, optimizer, 0, 0)

#endif
