// A whole model on one rank without an engine: plain arrays implement the accessor and the sink,
// and every buffer has exactly the bytes that `sizes` announces, followed by a guard. Tests of
// layers/ run networks in it.
#ifndef TEST_LAYERS_LAYERS_HARNESS_H
#define TEST_LAYERS_LAYERS_HARNESS_H

#include "compute/operand.h"
#include "layers/layers.h"
#include "model/gpt2_model.h"
#include "model/unit.h"

#define HARNESS_SEED 5
#define HARNESS_MAX_UNITS 8
#define HARNESS_MAX_FLAT_PARAMS 64 // of a unit, including tiles and slices

typedef struct harness_buffer { // 64-byte aligned, followed by guard bytes
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
    zero_model *model,
        *whole; // whole: the whole that `model` is a part of; NULL if it is not a part
    zr_queue *queue;
    zero_shape shape;
    int64_t parameter_count;
    // (parameter_count): the tensors one after another, each 64-byte aligned.
    float *parameters, *gradients;
    // (parameter_count): what units read if shape.dtype has 16 bits; each forward rounds it anew.
    uint16_t *narrow;
    int64_t offset[HARNESS_MAX_UNITS][HARNESS_MAX_FLAT_PARAMS][ZR_LM_TENSORS];
    // Which unit was the first to contribute to a gradient, counted from 1: as long as it runs it
    // sets elements, and those after it add to them; 0 if none has contributed.
    uint8_t opened_by[HARNESS_MAX_UNITS][HARNESS_MAX_FLAT_PARAMS][ZR_LM_TENSORS];
    int32_t *tokens, *targets, *positions; // (batch, seq); positions: of documents
    int32_t *roles;                        // (batch, seq); of preferences, as the next two
    float *reference, *losses;
    zero_tensors batch;
    zero_unit_sizes sizes[HARNESS_MAX_UNITS];
    bool in_backward;
    uint32_t read[HARNESS_MAX_UNITS]; // by backward so far, as in zero_unit_sizes.backward_reads
    bool read_streamed[HARNESS_MAX_UNITS];
    zero_tensors boundary[HARNESS_MAX_UNITS + 1]; // boundary[u] arrives at unit u
    harness_buffer stream[HARNESS_MAX_UNITS + 1], saved[HARNESS_MAX_UNITS], held[HARNESS_MAX_UNITS],
        workspace, scratch, d_out, d_in;
    double loss;
    uint64_t step;
    zr_step_values values; // of contexts
    float loss_factor;
    harness_accessor accessor;
    harness_sink sink;
    const struct zr_exchanger *exchanger; // NULL: one rank computes all slices
    zero_error error;
};

// Creates a model whose parameters come from its own initialiser, widened so that no path is flat.
// Tokens and targets are pseudo-random.
void harness_create(harness *net, const zero_gpt2_config *config, const zr_backend *backend,
                    zero_shape shape);
void harness_create_of(harness *net, const zr_lm_config *config, const zr_backend *backend,
                       zero_shape shape);
// The same, with some tensors frozen: a unit that asks for the gradient of such a tensor fails.
void harness_create_frozen(harness *net, const zr_lm_config *config, const zr_lm_frozen *frozen,
                           const zr_backend *backend, zero_shape shape);
// The same for the part of a model that a tensor rank has; its parameters are those of the whole.
void harness_create_part(harness *net, const zr_lm_config *config, const zr_lm_slices *slices,
                         const zr_backend *backend, zero_shape shape);
void harness_destroy(harness *net); // checks the guards
void harness_context(harness *net, int unit, bool training, zero_context *context);
float *harness_tensor(harness *net, const char *name, float **gradient, int64_t *elements);

void harness_narrow(harness *net); // rounds the parameters to the type that units read
double harness_forward(harness *net, bool training); // runs every unit; returns the loss
// Computes all gradients, after a training forward. fused: uses the last unit's forward_backward,
// otherwise its backward.
void harness_backward(harness *net, bool fused);
void harness_forget(harness *net); // sets gradients to NaN, to which none has contributed
// Every gradient has what another unit has contributed: what follows is added.
void harness_contribute(harness *net);

// Whether this processor can run the backend, which means that a queue can be opened.
bool harness_offered(const zr_backend *backend);
zero_gpt2_config harness_tiny(void); // 2 layers, 2 heads, width 16, 29 tokens, 8 positions
// A GPT-NeoX with 2 layers, 8 heads of 4 elements, of which 2 turn, an MLP of 48, 29 tokens, 16
// positions, and a head of its own.
zr_lm_config harness_neox(float dropout);

// max|a-b| / max|b|
double harness_error(const float *a, const float *b, int64_t count);

// Compares gradient(count) with central differences of `value` along the gradient and along a
// random direction of x(count).
void harness_check_gradient(const char *what, double (*value)(void *user), void *user, float *x,
                            const float *gradient, int64_t count);

#endif
