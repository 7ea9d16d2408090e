// The engine: initialize, forward, backward and step, as users of DeepSpeed know them.
//
//   zero_initialize(&options, &engine, &error);            all ranks
//   for each micro-batch:
//       zero_forward(engine, &batch, &loss, &error);        this rank's micro-batch
//       zero_backward(engine, &error);
//       zero_step(engine, &info, &error);                   updates after the last micro-batch
//   zero_destroy(engine);
//
// "Between steps" means before a step's first zero_forward, or after the zero_step that ends it.
// Functions that are only allowed between steps return ZERO_ERR_USAGE inside a step, also between
// the micro-batches of an accumulation, and change nothing. The same holds for functions that
// change states or save a checkpoint while a checkpoint is being written (from
// zero_begin_checkpoint to zero_end_checkpoint).
//
// A communicator serves one engine at a time, because it counts that engine's messages. A second
// zero_initialize on it, or a function that makes an engine of its own there (zero_train,
// zero_eval, zero_verify, zero_bench), returns ZERO_ERR_USAGE until zero_destroy. Several engines
// in a process need a communicator each.
//
// Threading: an engine belongs to one thread. Every function here is collective (all ranks of the
// communicator call it, in the same order) unless its comment says otherwise. After an error only
// zero_destroy may be called, unless the error was ZERO_ERR_USAGE for a call out of order or with
// wrong arguments.
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
    const zero_model *model; // must outlive the engine
    zero_comm *comm;         // must outlive the engine, and serves one engine at a time
    const char *config_path; // a DeepSpeed JSON file, or NULL
    const char *config_text; // or the text of one, or NULL: all defaults
    // The shape of a micro-batch; batch 0 if the configuration sets it. Larger batches are
    // rejected; evaluation may use smaller ones.
    zero_shape shape;
    int threads;   // OpenMP threads of this rank; 0 means 1
    uint64_t seed; // of weights, dropout and data order
    // "cpu": the best path of this processor; "cpu:portable", "cpu:avx2", "cpu:avx512",
    // "cpu:avx512_bf16", "cpu:amx": that path; "ref": plain C, slow; "cuda", "cuda:1": the first
    // and the second card of NVIDIA's (docs/devices.md); NULL: "cpu". It applies to this engine,
    // not to the process. A path or card that this machine does not offer is ZERO_ERR_USAGE, and a
    // card without its libraries ZERO_ERR_UNSUPPORTED.
    const char *backend;
    // Updates of the whole run; 0 if unknown. "auto" in a schedule needs it, and so does
    // libzero.schedule; the schedule's beta1 is checked up to this update.
    int64_t total_steps;
    zero_logger logger;
    // 1: reserves no memory for gradients and optimizer states; only zero_evaluate and functions
    // that read weights may then be called.
    int inference;
    // What may differ between the model and the checkpoint that zero_load_checkpoint reads, as
    // names with commas: "dropout"; NULL if nothing may.
    const char *allow_change;
} zero_options;

typedef struct zero_step_info {
    int64_t step; // steps made so far, including skipped ones
    int updated;  // 0 if the step is not complete: more micro-batches follow
    // Mean over the targets of the step, in all micro-batches on all ranks; 0 if it has none.
    double loss;
    double lr;        // used by this update
    double grad_norm; // of the unscaled gradient, before clipping
    // 1 if the gradient was not finite, and no state was changed; under pipedream, on the pipeline
    // stages whose own gradient was not finite.
    int skipped;
    int64_t samples;   // of the step, on all ranks
    double loss_scale; // factor of this step's loss under fp16; 0 in other precisions
} zero_step_info;

// Creates the engine of this rank. Collective. If the seed, the seq, the configuration (compared
// key by key) or the model (one of the library's own, compared field by field) of a rank differs
// from rank 0's, every rank gets ZERO_ERR_USAGE with the key and both values.
ZERO_API zero_status zero_initialize(const zero_options *options, zero_engine **out,
                                     zero_error *error);
// Computes the mean loss of this rank's micro-batch. `batch` holds what the first and the last unit
// expect (GPT-2: tokens (B,T) int32, targets (B,T) int32).
ZERO_API zero_status zero_forward(zero_engine *engine, const zero_tensors *batch, double *loss,
                                  zero_error *error);
// Computes the gradients of the micro-batch that zero_forward took.
ZERO_API zero_status zero_backward(zero_engine *engine, zero_error *error);
// Ends the micro-batch. After the last one of the step it updates the parameters.
ZERO_API zero_status zero_step(zero_engine *engine, zero_step_info *info, zero_error *error);
// Makes a whole step: forward and backward of all of this rank's micro-batches, and the update.
// `count` is zero_accumulation; batches (count) are in the order of their numbers (zero_position).
// With a pipeline it is the only way to make a step, because several micro-batches are under way at
// once; then only ranks of the first and last pipeline stage read the batches, which are the same
// on both, and others may pass NULL. Without one it does what zero_forward, zero_backward and
// zero_step do. Collective.
ZERO_API zero_status zero_train_batch(zero_engine *engine, const zero_tensors *batches,
                                      int64_t count, zero_step_info *info, zero_error *error);
// Makes `steps` steps, 1 to zero_window, of an asynchronous pipeline (pipedream, 2bw), which drains
// after the last of them: so between two calls a model may be evaluated and saved. batches: (steps
// * zero_accumulation); infos: (steps). zero_train_batch is a window of one step. Under 2bw windows
// of any lengths compute the same; under pipedream a drain changes what later micro-batches read,
// and a stage without a finite gradient skips its update by itself. Collective.
ZERO_API zero_status zero_train_window(zero_engine *engine, const zero_tensors *batches,
                                       int64_t steps, zero_step_info *infos, zero_error *error);
// Returns the most steps of a window (libzero.pipeline.flush_every); 1 in other schedules.
ZERO_API int64_t zero_window(const zero_engine *engine);
// Waits for a delayed update and makes it visible. With delayed updates ("libzero":
// {"delayed_update": ...}, ZeRO-Offload section 5.2) and under 2bw, units read parameters without
// the last update until one more step has ended. After this call the next step computes with all
// updates made so far. Functions that read, save or write weights see all updates without it;
// zero_evaluate does only after it. Call it at the end of a training. Collective, between steps.
ZERO_API zero_status zero_finish_update(zero_engine *engine, zero_error *error);
// Computes the loss by a forward pass without dropout. The batch may be at most as large as the
// engine's shape. Between steps only, because it uses the buffers of a step.
ZERO_API zero_status zero_evaluate(zero_engine *engine, const zero_tensors *batch, double *loss,
                                   zero_error *error);

// Returns the number g of the micro-batch that the next zero_forward on this rank takes, and the
// step that it belongs to; either pointer may be NULL. Not collective.
ZERO_API void zero_position(const zero_engine *engine, int64_t *step, int64_t *micro_batch);
// Return the micro-batches of a step on each rank, and the model's trainable and frozen elements.
// Not collective.
ZERO_API int64_t zero_accumulation(const zero_engine *engine);
ZERO_API int64_t zero_parameter_count(const zero_engine *engine);

// Copies one tensor of the model, whole, in fp32 (the master weights), to every rank. `elements`
// must be the tensor's size. Between steps only.
ZERO_API zero_status zero_read_parameter(zero_engine *engine, const char *name, float *out,
                                         int64_t elements, zero_error *error);
// Copies the accumulated gradient of the last completed zero_step, before clipping and
// divided by the loss scale. It is for tests and for inspection.
ZERO_API zero_status zero_read_gradient(zero_engine *engine, const char *name, float *out,
                                        int64_t elements, zero_error *error);
// Replaces one tensor; every rank passes the same values. Between steps only, and not while a
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
