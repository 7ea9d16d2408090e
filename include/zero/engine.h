// The engine: initialize, forward, backward, step, as DeepSpeed's users know them.
//
//   zero_initialize(&options, &engine, &error);            all ranks
//   for each micro-batch:
//       zero_forward(engine, &batch, &loss, &error);        this rank's micro-batch
//       zero_backward(engine, &error);
//       zero_step(engine, &info, &error);                   acts at the accumulation boundary
//   zero_destroy(engine);
//
// Between steps: before a step's first zero_forward, and after the zero_step that ends it.
// Functions that are for between steps only answer ZERO_ERR_USAGE inside of a step, also between
// the micro-batches of an accumulation, and change nothing. So do those that change states, or save
// a checkpoint, while a checkpoint is being written (from zero_begin_checkpoint to
// zero_end_checkpoint).
//
// A communicator has one engine at a time, since it counts that engine's messages: a second
// zero_initialize on it, and whatever makes an engine of its own there (zero_train, zero_eval,
// zero_verify, zero_bench), answers ZERO_ERR_USAGE until zero_destroy. Several engines of a process
// have a communicator each.
//
// Threading: an engine belongs to one thread. Every function here is collective (all ranks of the
// communicator call it, in the same order) unless it says otherwise. After an error only
// zero_destroy may be called, unless it was the ZERO_ERR_USAGE of a call out of order or with wrong
// arguments.
#ifndef ZERO_ENGINE_H
#define ZERO_ENGINE_H

#include <zero/comm.h>
#include <zero/memory.h>
#include <zero/model.h>
#include <zero/traffic.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_engine zero_engine;

typedef struct zero_options {
    size_t struct_size;      // sizeof(zero_options)
    const zero_model *model; // outlives the engine
    zero_comm *comm;         // outlives the engine; has one at a time
    const char *config_path; // a DeepSpeed JSON file, or NULL
    const char *config_text; // or its text, or NULL: all defaults
    // of a micro-batch; batch 0: from the configuration; larger ones are refused, eval may use
    // smaller
    zero_shape shape;
    int threads;   // OpenMP threads of this rank; 0: 1
    uint64_t seed; // of weights, dropout and data order
    // "cpu": the best path of this processor; "cpu:portable", "cpu:avx2", "cpu:avx512",
    // "cpu:avx512_bf16", "cpu:amx": that one; "ref": plain C, slow; NULL: cpu. Of an engine, not of
    // the process. One that is not offered here: ZERO_ERR_USAGE
    const char *backend;
    // updates of the run: what "auto" in a schedule needs, and how far its beta1 is checked; 0:
    // unknown
    int64_t total_steps;
    zero_logger logger;
    // 1: no gradients and no optimizer are reserved; only zero_evaluate and the readers of weights
    // may be called
    int inference;
    // names, with commas, of what zero_load_checkpoint lets differ in the model: "dropout"; NULL:
    // nothing
    const char *allow_change;
} zero_options;

typedef struct zero_step_info {
    int64_t step; // steps made so far, skipped ones included
    int updated;  // 0: inside an accumulation
    // mean over the targets of the step, all micro-batches and ranks; 0 where it has none
    double loss;
    double lr;         // used by this update
    double grad_norm;  // of the unscaled gradient, before clipping
    int skipped;       // the gradient was not finite: no state was changed
    int64_t samples;   // of the step, all ranks
    double loss_scale; // by which fp16 multiplied this step's loss; 0 in other precisions
} zero_step_info;

// Collective. Ranks whose seed, seq, configuration (key by key) or model (field by field, of one of
// the library's own) is not rank 0's are refused, with the key and both values: ZERO_ERR_USAGE on
// every rank.
ZERO_API zero_status zero_initialize(const zero_options *options, zero_engine **out,
                                     zero_error *error);
// Mean loss of this rank's micro-batch. batch: as the first and last unit expect it (GPT-2: tokens
// (B,T) int32, targets (B,T) int32).
ZERO_API zero_status zero_forward(zero_engine *engine, const zero_tensors *batch, double *loss,
                                  zero_error *error);
ZERO_API zero_status zero_backward(zero_engine *engine, zero_error *error);
ZERO_API zero_status zero_step(zero_engine *engine, zero_step_info *info, zero_error *error);
// Where updates are delayed ("libzero": {"delayed_update": ...}, ZeRO-Offload section 5.2), the
// update of a step goes on beside the next one, and the units read parameters without it until that
// one has ended. This waits for it and gives it to them: the next step computes with all updates so
// far. What reads, saves or writes weights has them all without it; an evaluation, only after it. A
// training ends with it. Nothing where no update is under way. Collective, between steps only.
ZERO_API zero_status zero_finish_update(zero_engine *engine, zero_error *error);
// Forward only, no dropout; a batch of at most the engine's shape. Between steps only: what comes
// and goes for it is a step's own.
ZERO_API zero_status zero_evaluate(zero_engine *engine, const zero_tensors *batch, double *loss,
                                   zero_error *error);

// The number g of the micro-batch that the next zero_forward on this rank takes, and the step it
// belongs to; either may be NULL. Not collective.
ZERO_API void zero_position(const zero_engine *engine, int64_t *step, int64_t *micro_batch);
ZERO_API int64_t zero_accumulation(const zero_engine *engine);
ZERO_API int64_t zero_parameter_count(const zero_engine *engine);

// Copies one tensor of the model, whole, in fp32 (the master weights), to every rank. `elements`
// must be the tensor's size. Between steps only.
ZERO_API zero_status zero_read_parameter(zero_engine *engine, const char *name, float *out,
                                         int64_t elements, zero_error *error);
// The accumulated gradient of the last completed zero_step (before clipping, divided by the loss
// scale), likewise; for tests and for the curious.
ZERO_API zero_status zero_read_gradient(zero_engine *engine, const char *name, float *out,
                                        int64_t elements, zero_error *error);
// Replaces a tensor; every rank passes the same values. Between steps only, and not while a
// checkpoint is being written.
ZERO_API zero_status zero_write_parameter(zero_engine *engine, const char *name, const float *in,
                                          int64_t elements, zero_error *error);

ZERO_API void zero_destroy(zero_engine *engine); // not collective; NULL is allowed

#ifdef __cplusplus
}
#endif
#include <zero/checkpoint.h>
#include <zero/weights.h>

#endif
