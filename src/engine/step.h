// What the files of the training step and of evaluation share (step.c, train_batch.c, evaluate.c,
// pass_checks.c).
#ifndef ZR_ENGINE_STEP_H
#define ZR_ENGINE_STEP_H

#include "engine/engine_internal.h"

// step.c
// Rejects a call whose argument `what` is NULL or empty.
zero_status zr_step_missing(const char *call, const char *what, zero_error *error);
// Rejects a call of training on an engine that was made for inference.
zero_status zr_step_refuse_inference(const zero_engine *engine, const char *call,
                                     zero_error *error);
// Ends the record of a phase that began at `begin`. action: zr_record_action; -1 if it is none.
void zr_step_end_phase(zero_engine *engine, zr_activity what, int64_t begin, int action);
// Says whether the next pass gathers kept flat parameters: it does if the weights have changed
// since they were last gathered.
bool zr_step_begin_gathers(zero_engine *engine);

// Begins the sums of a step, before its first micro-batch.
void zr_step_begin_sums(zero_engine *engine);
// Makes engine->now.micro_batch, of the step that comes `offset` steps after the first of the
// window, the one that units compute; *loss is where the last
// unit's result goes, on a far device by zr_far_bring_loss.
void zr_step_set_micro_batch(zero_engine *engine, int64_t offset, const zero_tensors *batch,
                             double *loss);
// Returns the bits of zr_when that hold in the passes of engine->now.micro_batch. outdated: kept
// flat parameters are gathered.
uint32_t zr_step_holds(const zero_engine *engine, bool outdated);
// Adds the micro-batch's loss, after backward, because the last unit sets the number of targets
// only there.
zero_status zr_step_add_loss(zero_engine *engine, zero_error *error);
// Runs all of a pass, and checks its messages.
zero_status zr_step_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds,
                             zero_error *error);
// Tells observers that a step has begun (info NULL) or is done.
zero_status zr_step_tell(zero_engine *engine, const zero_step_info *info, zero_error *error);
// Describes the step whose sums are in engine->sums. *factor is the divisor that turns summed
// gradients into the mean gradient: the loss scale, times the share of positions that are targets
// if the mean is over targets.
void zr_step_describe(const zero_engine *engine, zero_step_info *info, double *factor);
// Called before and after an update: describe its step and set its learning rate and scale; count
// it.
zero_status zr_step_begin_update(zero_engine *engine, zero_step_info *info, zero_error *error);
zero_status zr_step_end_update(zero_engine *engine, const zero_step_info *info, zero_error *error);
// Ends steps that are complete: counts them, and tells observers.
zero_status zr_step_end(zero_engine *engine, zero_step_info *infos, int64_t count,
                        zero_error *error);
// Makes the update, after the step's last micro-batch, and tells observers that the step is done.
zero_status zr_step_complete(zero_engine *engine, zero_step_info *info, zero_error *error);

// parameters.c
// Collective: lets other ranks read what this rank's shards hold now. holds: bits of zr_when
// (ZR_OVERLAPPED, ZR_REWRITTEN, ZR_CHANGED).
zero_status zr_engine_publish(zero_engine *engine, uint32_t holds, zero_error *error);

// pass_checks.c
// If this rank has failed, ends the waits of the other ranks, which would wait for it in vain.
// Returns `status`.
zero_status zr_step_end_waits(zero_engine *engine, zero_status status, const zero_error *error);
// Checks the messages of every group at the end of a pass. announced: those of
// tensor ranks and pipeline stages; NULL if they are as planned.
zero_status zr_step_check_messages(zero_engine *engine, zr_pass_kind kind,
                                   const zr_pass_traffic *announced, zero_error *error);

// train_batch.c: tells the other ranks of a pipeline what this one begins. chunk: -1 if it waits
// for the next micro-batch; micro_batch: -1 for an evaluation.
void zr_step_begin_work(zero_engine *engine, int chunk, int micro_batch);
// Appends to the message of this rank's own failure what it was doing ("forward of micro-batch 2").
// Returns `status`.
zero_status zr_step_say_work(const zero_engine *engine, int chunk, const char *what,
                             zero_status status, zero_error *error);

// sum_scalars.c
// Returns `hash`, 0 at first, continued over the bytes of a batch.
uint64_t zr_samples_fold(const zero_tensors *batch, uint64_t hash);
// Returns a number whose sum over the tensor ranks and pipeline stages of a data rank is 0 if those
// that read samples read the same in this step. It is sent with the scalars, and sums over data
// ranks do not cancel.
int64_t zr_samples_difference(const zero_engine *engine);
// If that sum over all ranks is not 0, compares the step's hashes. Collective over the job.
// ZERO_ERR_USAGE: they differ; the message names two ranks.
zero_status zr_samples_settle(zero_engine *engine, int64_t difference, zero_error *error);
// Compares `hash` with those of the other tensor ranks. Collective over them. ZERO_ERR_USAGE: they
// differ.
zero_status zr_samples_compare_tensor(zero_engine *engine, uint64_t hash, zero_error *error);
// Describes a difference between the first and the last pipeline stage. Returns ZERO_ERR_USAGE.
zero_status zr_samples_refuse_pipeline_ends(const zero_engine *engine, zero_error *error);

#endif
