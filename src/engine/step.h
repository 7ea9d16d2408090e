// What the files of the training step and of evaluation share (step.c, train_batch.c, evaluate.c,
// pass_messages.c).
#ifndef ZR_ENGINE_STEP_H
#define ZR_ENGINE_STEP_H

#include "engine/engine_internal.h"

// Ends the waits of the other ranks when this one has failed, because they would wait for it in
// vain. Returns `status`.
zero_status zr_step_end_waits(zero_engine *engine, zero_status status, const zero_error *error);
// Says that something that the caller has to give is NULL or empty.
zero_status zr_step_missing(const char *call, const char *what, zero_error *error);
// Ends the record of a phase that began at `begin`.
void zr_step_end_phase(zero_engine *engine, zr_activity what, int64_t begin);
// Says whether the pass that begins gathers kept flat parameters: it does if the weights have
// changed since they were last gathered.
bool zr_step_begin_gathers(zero_engine *engine);

// Begins the sums of a step, before its first micro-batch.
void zr_step_begin_sums(zero_engine *engine);
// Makes engine->micro_batch the one that units compute; *loss is where the last unit writes.
void zr_step_set_micro_batch(zero_engine *engine, const zero_tensors *batch, double *loss);
// Returns what holds (zr_when) in the passes of engine->micro_batch. stale: kept flat parameters
// are gathered.
uint32_t zr_step_holds(const zero_engine *engine, bool outdated);
// Adds the micro-batch's loss after backward, because only then the last unit has said how many
// targets count.
zero_status zr_step_add_loss(zero_engine *engine, zero_error *error);
// Tell observers that a step has begun.
zero_status zr_step_tell_begun(zero_engine *engine, zero_error *error);
// Describes the step that engine->sums are of. *factor is what summed gradients have to be divided
// by to be the mean's: the loss scale, times the share of positions that are targets, where the
// mean is over targets.
void zr_step_describe(const zero_engine *engine, zero_step_info *info, double *factor);
// Around an update: describes its step, and what the update multiplies by; counts it.
zero_status zr_step_begin_update(zero_engine *engine, zero_step_info *info, zero_error *error);
zero_status zr_step_end_update(zero_engine *engine, const zero_step_info *info, zero_error *error);
// Ends steps that are complete: counts them, and tells observers.
zero_status zr_step_end(zero_engine *engine, zero_step_info *infos, int64_t count,
                        zero_error *error);
// Makes the update, after the step's last micro-batch, and tells observers that the step is done.
zero_status zr_step_complete(zero_engine *engine, zero_step_info *info, zero_error *error);

// pass_messages.c: check, at the end of a pass, the messages of every group; `exchanged` are those
// of tensor ranks and of pipeline stages if the plan does not know them.
zero_status zr_step_check_pass(zero_engine *engine, zr_pass_kind kind,
                               const zr_pass_traffic *exchanged, zero_error *error);
zero_status zr_step_check_messages(zero_engine *engine, zr_pass_kind kind, zero_error *error);

// pipeline_work.c: tell the other ranks of a pipeline what this one begins. chunk -1: nothing,
// until the next micro-batch; micro_batch -1: an evaluation.
void zr_step_begin_work(zero_engine *engine, int chunk, int micro_batch);
// Says, after what went wrong on this rank itself, what it was at ("forward of micro-batch 2").
// Returns `status`.
zero_status zr_step_say_work(const zero_engine *engine, int chunk, const char *what,
                             zero_status status, zero_error *error);

#endif
