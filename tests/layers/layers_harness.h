// A whole model on one rank without an engine: plain arrays behind the accessor and the sink, and
// every buffer of exactly the bytes that `sizes` announces, with a guard behind it. Tests of
// layers/ run networks through it.
#ifndef TEST_LAYERS_LAYERS_HARNESS_H
#define TEST_LAYERS_LAYERS_HARNESS_H

#include "layers/layers.h"
#include "model/gpt2_model.h"
#include "model/unit.h"

#define HARNESS_MAX_UNITS 8
#define HARNESS_MAX_PIECES 64 // of a unit, tiles among them

typedef struct harness_buffer { // 64-byte aligned, guard bytes behind it
    void *data;
    size_t bytes;
} harness_buffer;

typedef struct harness harness;

typedef struct harness_accessor {
    struct zr_accessor base;
    harness *net;
} harness_accessor;
typedef struct harness_sink {
    struct zr_sink base;
    harness *net;
} harness_sink;

struct harness {
    zero_model *model;
    zr_queue *queue;
    zero_shape shape;
    int64_t parameter_count;
    // (parameter_count), tensors one after another, each 64-byte aligned
    float *parameters, *gradients;
    // (parameter_count) what units read where shape.dtype has 16 bits: rounded by each forward
    uint16_t *narrow;
    int64_t offset[HARNESS_MAX_UNITS][HARNESS_MAX_PIECES][ZR_LM_TENSORS];
    // gradient has a contribution
    bool written[HARNESS_MAX_UNITS][HARNESS_MAX_PIECES][ZR_LM_TENSORS];
    int32_t *tokens, *targets; // (batch, seq)
    zero_tensors batch;
    zero_unit_sizes sizes[HARNESS_MAX_UNITS];
    bool in_backward;
    uint32_t read[HARNESS_MAX_UNITS]; // by backward, so far: as zero_unit_sizes.backward_reads
    bool read_streamed[HARNESS_MAX_UNITS];
    zero_tensors boundary[HARNESS_MAX_UNITS + 1]; // boundary[u] arrives at unit u
    harness_buffer stream[HARNESS_MAX_UNITS + 1], saved[HARNESS_MAX_UNITS], workspace, scratch,
        d_out, d_in;
    double loss;
    uint64_t step;
    float loss_factor;
    harness_accessor accessor;
    harness_sink sink;
    zero_error error;
};

// Parameters from the model's own initialiser, widened so that no path is flat; tokens and targets
// pseudo-random.
void harness_create(harness *net, const zero_gpt2_config *config, const zr_backend *backend,
                    zero_shape shape);
void harness_create_of(harness *net, const zr_lm_config *config, const zr_backend *backend,
                       zero_shape shape);
// The same, where some tensors do not train: a unit that asks for the gradient of one of those
// fails.
void harness_create_frozen(harness *net, const zr_lm_config *config, const zr_lm_frozen *frozen,
                           const zr_backend *backend, zero_shape shape);
void harness_destroy(harness *net); // checks the guards
void harness_context(harness *net, int unit, bool training, zero_context *context);
float *harness_tensor(harness *net, const char *name, float **gradient, int64_t *elements);

double harness_forward(harness *net, bool training); // every unit; returns the loss
// After a training forward: gradients of everything. fused: the last unit's forward_backward, else
// its backward.
void harness_backward(harness *net, bool fused);
void harness_forget(harness *net); // gradients become NaN, none is written

// Whether this processor can run the backend: a queue opens.
bool harness_offered(const zr_backend *backend);
zero_gpt2_config harness_tiny(void); // 2 layers, 2 heads, width 16, 29 tokens, 8 positions

// max|a-b| / max|b|
double harness_error(const float *a, const float *b, int64_t count);

// Central differences of `value` along the gradient and along a random direction of x(count),
// against gradient(count).
void harness_check_gradient(const char *what, double (*value)(void *user), void *user, float *x,
                            const float *gradient, int64_t count);

#endif
