// Linear layers and layer norms over one unit's parameters: each has the handles of the tensors
// that it reads, and whose gradients it writes. For a tensor that does not train nothing is
// computed.
#ifndef ZR_LAYERS_LINEAR_H
#define ZR_LAYERS_LINEAR_H

#include "compute/product_ops.h"
#include "layers/layout.h"
#include "model/tensor_handle.h"

typedef struct zr_linear { // y(rows, out) = x(rows, in) W(in, out) + b(out)
    zero_dtype dtype;      // of all of these
    // gelu(x) in x's place: x and dx are before gelu, whose output is never stored. Not with
    // outputs_first
    bool gelu;
    // W lies as (out, in), torch's Linear, and tiles are of its rows; else as (in, out), Hugging
    // Face's Conv1D, of its columns
    bool outputs_first;
    int64_t rows, in, out;
    const zr_tensor_handle *weight; // tiled: by outputs
    const zr_tensor_handle *bias;   // may be of no tensor; never tiled
} zr_linear;

// scratch: of zr_linear_scratch.
zero_status zr_linear_forward(zero_context *context, const zr_linear *linear, const void *x,
                              void *y, void *scratch);
// Gradients of weight and bias, then dx(rows, in) = dy W^T [* gelu'(x)]. dx may be x unless gelu.
zero_status zr_linear_backward(zero_context *context, const zr_linear *linear, const void *x,
                               const void *dy, void *dx, void *scratch);
// As above where several linears read one x: dx is fp32, set or, where `add`, added to. Not with
// gelu.
zero_status zr_linear_backward_sum(zero_context *context, const zr_linear *linear, const void *x,
                                   const void *dy, float *dx, bool add, void *scratch);
size_t zr_linear_scratch(const zr_linear *linear, int threads);
// Appends the products of forward and, where `training`, of backward, and what that reads.
void zr_linear_products(const zr_linear *linear, bool training, zero_unit_sizes *sizes);
void zr_product_append(zero_unit_sizes *sizes, const zr_product *product, int calls);

typedef struct zr_norm_layer { // LayerNorm; RMSNorm, without mean and bias, where `rms`
    zr_norm norm;
    bool rms;
    const zr_tensor_handle *gain, *bias; // bias: not looked at where `rms`
} zr_norm_layer;

// mean, rstd (rows) or NULL
void zr_norm_forward(zero_context *context, const zr_norm_layer *layer, const void *x, void *y,
                     float *mean, float *rstd);
// sum = x + branch and y = its norm; sum may be x.
void zr_norm_residual_forward(zero_context *context, const zr_norm_layer *layer, const void *x,
                              const void *branch, void *sum, void *y, float *mean, float *rstd);
// dx = [past +] gradient of the norm's input; past may be dx or NULL
void zr_norm_backward(zero_context *context, const zr_norm_layer *layer, const void *dy,
                      const void *x, const float *mean, const float *rstd, const void *past,
                      void *dx, void *scratch);
// Notes that backward reads its tensors: it has the norm's output made again.
void zr_norm_read_in_backward(const zr_norm_layer *layer, zero_unit_sizes *sizes);

#endif
