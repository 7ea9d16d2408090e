// How the units of a model that is cut into slices (model/lm_slices.h) work together: sums over
// slices, rows that are divided among ranks, and exchanges with other tensor ranks.
//
// The sum over T slices is one tree, whichever rank computes them: a rank adds up its own slices,
// which are an aligned subtree, and the exchange adds up those of the ranks.
//
//   slices   0   1   2   3        each: fp32, whole rows of the stream
//             \ /     \ /         on a rank, where it has both (zr_slices_add)
//              +       +
//               \     /           between ranks (zr_division_reduce)
//                  +
//
// Operands of exchanges lie at a place: the window that ranks can reach or, if one rank computes
// all slices, a part of the workspace. They are divided into the ranks' shares.
#ifndef ZR_LAYERS_SLICES_H
#define ZR_LAYERS_SLICES_H

#include "layers/layout.h"
#include "model/lm_build.h"

typedef struct zr_division { // how the rows of the residual stream (R, C) are divided
    const zr_lm_slices *slices;
    int64_t rows, width; // R, C
    int64_t step;        // rows of a slice of the rows; the last slices are smaller or empty
    // The rows [first, first + own) that this rank has: those of its slices if slices->by_rows,
    // otherwise all.
    int64_t first, own;
    bool by_rows;
} zr_division;

// whole: every rank has all rows, even under sequence parallelism (steps of generation).
zr_division zr_division_of(const zr_lm_unit *unit, int64_t rows, bool whole);
// Returns the elements of a rank's share of a sum over `ranks` ranks that all of them get: equal
// shares, aligned. The padding after the last element, fewer than 16 floats a rank, is summed too,
// whatever it contains: sums are elementwise, and the padding is never read.
int64_t zr_sum_share(int64_t elements, int ranks);
size_t zr_division_place_bytes(const zr_division *stream); // of a place for (R, C) fp32
bool zr_lm_is_cut(const zr_lm_unit *unit);                 // into more than one slice
// Cuts the place out of the workspace of a unit that is cut; NULL if ranks exchange, because the
// window is then the place. zr_exchange_place returns the place of a call.
void *zr_carve_place(zr_carver *carver, const zr_lm_unit *unit, size_t bytes);
char *zr_exchange_place(const zero_context *context, void *carved);

// Computes slice `slice` of those that this rank has: out(elements) fp32.
typedef zero_status (*zr_slice_fn)(void *user, int slice, float *out);
// out(elements) = the sum over this rank's slices. spare: zr_slices_spare sums, each of
// zr_spare_floats.
zero_status zr_slices_add(zero_context *context, const zr_lm_slices *slices, int64_t elements,
                          zr_slice_fn compute, void *user, float *out, float *spare);
int zr_slices_spare(const zr_lm_slices *slices);
int64_t zr_spare_floats(int64_t elements); // rounded up, so that the next sum is aligned
// at(count, elements): replaces element row 0 by the sum of all rows, as a tree.
void zr_rows_add(zr_queue *queue, int count, int64_t elements, float *at);

// The sums over this rank's slices lie at the place, (R, C) fp32. Returns the rows of the stream
// that this rank has of the sum over all slices, which lie there until the next exchange.
zero_status zr_division_reduce(zero_context *context, const zr_division *stream, char *place,
                               float **own);
// Returns where this rank's rows of type dtype begin in the place.
char *zr_division_own(const zr_division *stream, zero_dtype dtype, char *place);
// This rank's rows lie in the place; afterwards all ranks' rows (R, C) do.
zero_status zr_division_gather(zero_context *context, const zr_division *stream, zero_dtype dtype);
// Note in a unit's sizes that a call makes these exchanges.
void zr_list_reduce(zero_unit_sizes *sizes, const zr_division *stream, bool backward);
void zr_list_gather(zero_unit_sizes *sizes, const zr_division *stream, bool backward,
                    zero_dtype dtype);
// The same as zr_list_gather, of backward_weight where backward is split.
void zr_list_gather_in_weight(zero_unit_sizes *sizes, const zr_division *stream, zero_dtype dtype);
void zr_list_exchange(zero_unit_sizes *sizes, const zr_lm_slices *slices,
                      const zero_exchange *exchange);
// Makes an exchange whose operand begins at byte `offset` of the window; does nothing if one rank
// computes all slices.
zero_status zr_exchange(zero_context *context, const zero_exchange *exchange, int64_t offset);

// Gradients of gains and biases that are sums of parts from slices of rows or heads, or that a
// split backward holds.
typedef struct zr_gain {
    const zr_tensor_handle *tensor;
    int64_t elements;
    float *sum;  // (elements) over what this rank has
    bool across; // other ranks have other parts of the sum
} zr_gain;
enum { ZR_MOST_GAINS = 32 }; // of norms, and of the adapters of a block's linears
typedef struct zr_gains {    // of a unit, in one exchange at the end of its backward
    int count;
    zr_gain at[ZR_MOST_GAINS];
    int64_t across; // elements of those that are summed across ranks
} zr_gains;
// Adds a gain, unless it does not exist or does not train, and cuts its sum out of the carver's
// buffer.
void zr_gains_carve(zr_gains *gains, zr_carver *carver, const zr_tensor_handle *tensor,
                    int64_t elements, bool across);
// Returns whether gains of norms over the stream are sums over slices of its rows.
bool zr_gains_by_rows(const zr_lm_slices *slices);
// Returns the place of a gain's sum; NULL if it does not train.
float *zr_gains_sum(const zr_gains *gains, const zr_tensor_handle *tensor);
// Returns where a layer writes a gain's gradient, or adds to it if *add: the place of its sum, or
// else of the gradient itself; NULL if it does not train.
float *zr_gains_place(zero_context *context, const zr_gains *gains, const zr_tensor_handle *tensor,
                      int *add);
// Sums the gains over the ranks and sets their gradients, or adds to them.
zero_status zr_gains_finish(zero_context *context, const zr_lm_slices *slices,
                            const zr_gains *gains, char *place);
size_t zr_gains_place_bytes(const zr_lm_slices *slices, const zr_gains *gains);
void zr_list_gains(zero_unit_sizes *sizes, const zr_lm_slices *slices, const zr_gains *gains);

#endif
