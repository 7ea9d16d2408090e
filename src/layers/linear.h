// Linear layers and layer norms over one unit's parameters. Each has the handles of the tensors
// that it reads and whose gradients it writes. Nothing is computed for a tensor that does not
// train.
#ifndef ZR_LAYERS_LINEAR_H
#define ZR_LAYERS_LINEAR_H

#include "compute/compute.h"
#include "layers/layout.h"
#include "layers/low_rank.h"
#include "layers/slices.h"
#include "layers/weight_product.h"
#include "model/tensor_handle.h"

// The parts of backward that a call computes: one part in a split backward
// (zero_unit_ops.backward_input and backward_weight), otherwise both.
enum zr_backward_parts {
    ZR_BACKWARD_INPUT = 1,  // gradients of what layers read
    ZR_BACKWARD_WEIGHT = 2, // gradients of tensors
    ZR_BACKWARD_WHOLE = ZR_BACKWARD_INPUT | ZR_BACKWARD_WEIGHT
};

typedef struct zr_linear { // y(rows, out) = x(rows, in) W(in, out) + b(out)
    zero_dtype dtype;      // of all of these
    // gelu(x) takes the place of x: x and dx are before gelu, whose output is never stored. Not
    // together with outputs_first.
    bool gelu;
    // true: W lies as (out, in), like torch's Linear, and its tiles are rows. false: W lies as (in,
    // out), like Hugging Face's Conv1D, and its tiles are columns.
    bool outputs_first;
    int64_t rows, in, out;
    const zr_tensor_handle *weight; // tiled by outputs, unless it is quantised
    zr_quantised_weight quantised;
    const zr_tensor_handle *bias; // its tensor may not exist; never tiled
    // For slices that share a layer. is_lent: another slice of this rank computes the layer.
    // flows_elsewhere: another slice, on any rank, computes the gradient of x.
    bool is_lent, flows_elsewhere;
    zr_low_rank low_rank; // its adapter, if it has one
} zr_linear;

// scratch: (zr_linear_scratch) bytes.
zero_status zr_linear_forward(zero_context *context, const zr_linear *linear, const void *x,
                              void *y, void *scratch);
// Computes the gradients of weight and bias, then dx(rows, in) = dy W^T [* gelu'(x)]; or one part
// of this. dx may be x unless gelu. With tiles, both parts must be computed together. x is unused
// if only dx is computed and there is no gelu; dx is unused if it is not computed.
zero_status zr_linear_backward(zero_context *context, const zr_linear *linear, unsigned parts,
                               const void *x, const void *dy, void *dx, void *scratch);
// The same for several linears that read one x: dx is fp32, and is set or, if `add`, added to. Not
// with gelu.
zero_status zr_linear_backward_sum(zero_context *context, const zr_linear *linear, unsigned parts,
                                   const void *x, const void *dy, float *dx, bool add,
                                   void *scratch);
// For a slice of a layer whose inputs are cut: y(rows, out) = x W, fp32, without the bias, which is
// added to the sum over all slices. Not with tiles.
void zr_linear_forward_sum(zero_context *context, const zr_linear *linear, const void *x, float *y,
                           void *scratch);
// Computes only the gradient of the bias, if it exists and trains.
void zr_linear_backward_bias(zero_context *context, const zr_linear *linear, const void *dy,
                             void *scratch);
size_t zr_linear_scratch(const zr_linear *linear, const zr_backend *backend, int threads);
// Returns the part of this scratch that is zr_weight_multiply's.
void *zr_linear_weight_scratch(const zr_linear *linear, void *scratch);
bool zr_linear_is_tiled(const zr_linear *linear);
bool zr_linear_trains(const zr_linear *linear); // backward computes the gradient of a tensor
// Cuts dy(rows, out) out of the held buffer of a split backward. If none of its tensors trains, it
// is not read later, and `otherwise` is returned.
void *zr_linear_hold(const zr_linear *linear, zr_carver *held, void *otherwise);
// Appends the products of forward and, if `training`, of backward, and notes what backward reads.
// again: an equal layer has appended them already, and only their `calls` grow.
void zr_linear_products(const zr_linear *linear, bool training, bool again, zero_unit_sizes *sizes);
// Lists a product. again: an equal one may have been listed, and only its `calls` then grow.
void zr_product_append(zero_unit_sizes *sizes, const zr_product *product, int calls, bool again);

typedef struct zr_norm_layer {
    zr_norm norm;
    const zr_tensor_handle *gain, *bias; // bias: ignored if it is an RMSNorm
} zr_norm_layer;

typedef struct zr_norm_statistics { // what forward keeps of each row
    float *mean, *rstd;             // (rows), or NULL if not kept; mean: none in RMSNorm
} zr_norm_statistics;

typedef struct zr_norm_gradient { // of a norm's input (rows, C)
    const void *dy, *x;           // dtype; stream
    zr_norm_statistics statistics;
    const void *past; // stream; added to dx, may be dx itself; NULL to add nothing
    void *dx;         // stream
} zr_norm_gradient;

// Computes y, the norm of x or, with a branch, of *sum = x + branch; sum may be x. branch and sum:
// NULL if there is none.
void zr_norm_forward(zero_context *context, const zr_norm_layer *layer, const void *x,
                     const void *branch, void *sum, void *y, zr_norm_statistics statistics);
// Computes dx, and the gradients of gain and bias, of rows that may be divided. Where gains are
// sums over slices of rows (zr_gains_by_rows), the sums over this rank's slices go to `gains`;
// otherwise the gradients do, if `gains` has them. partials: (zr_norm_partials) floats. scratch:
// (zr_scratch_norm) bytes.
void zr_norm_backward(zero_context *context, const zr_norm_layer *layer,
                      const zr_division *division, const zr_norm_gradient *of,
                      const zr_gains *gains, float *partials, void *scratch);
int64_t zr_norm_partials(const zr_norm_layer *layer, const zr_division *division);
// Adds gain and bias to `gains` if they are sums over slices of rows.
void zr_norm_gains_carve(const zr_norm_layer *layer, const zr_division *division, zr_gains *gains,
                         zr_carver *carver);
// Notes that backward reads the norm's tensors, because it recomputes the norm's output.
void zr_norm_read_in_backward(const zr_norm_layer *layer, zero_unit_sizes *sizes);

#endif
