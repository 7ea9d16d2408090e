// An update: what it does to each shard slice of this rank's elements, whichever thread walks over
// them (group_walk.c); and the norms that it needs: sums of squares in exact accumulators, so that
// the order in which ranks add does not matter.
#ifndef ZR_ENGINE_UPDATE_H
#define ZR_ENGINE_UPDATE_H

#include "base/numbers.h"
#include "engine/engine_api.h"

typedef struct zr_update_walk { // what an update needs at each shard slice of its walk
    zero_engine *engine;
    zr_queue *only;  // NULL: each shard slice has that of the tier of its states
    zr_queue *queue; // of the current shard slice
    zr_update update;
    const zr_update_values *values;
    double weight_decay;
    // What it does with each part of a tensor, where user is this walk; NULL: nothing.
    zr_part_fn part;
    zr_span span;                  // of the current shard slice, elements of the flat parameter
    const zr_range_states *states; // of that shard slice
    bool copies;                   // the kernels of this walk write parameters
    bool makes;                    // it makes parameters of each shard slice's new master
    // What it does with a shard slice after its parts; NULL: nothing.
    void (*slice)(const struct zr_update_walk *walk, int flat_param);
} zr_update_walk;

// One of the walks of an update.
typedef struct zr_update_step {
    // Of parts, and of shard slices; NULL: nothing.
    zr_part_fn part;
    void (*slice)(const zr_update_walk *walk, int flat_param);
    // What the ranks do after the walk; NULL: nothing. Collective.
    zero_status (*end)(zero_engine *engine, zero_error *error);
} zr_update_step;
// Returns the walks of an optimizer's update, in the order of zr_plan_walks.
const zr_update_step *zr_update_steps(const zr_settings *settings);

// Returns the states of the current shard slice from an element of the flat parameter on.
zr_range_states zr_update_states_from(const zr_update_walk *walk, int64_t element);
// A zr_part_fn: the elementwise update.
void zr_update_elements(void *walk, const zr_plan_tensor *tensor, int64_t first, int64_t count);
// Adds the new weights of a range to their average, where there is one.
void zr_update_average(zr_update_walk *walk, int64_t count, const zr_range_states *at);

// Returns the squares by tensor that an update needs: of weights, or of directions.
zr_exact *zr_update_squares(const zero_engine *engine, bool directions);
// Finds those elements of the walk's shard slice that this rank adds to sums over the tensor: at
// every stage, each element is added on the rank that owns its shard and counts the flat
// parameter. Returns false if there are none.
bool zr_update_counted_span(const zr_update_walk *walk, int flat_param, zr_span *out);

// Returns the kernel of an optimizer's update; LAMB's first walk is AdamW's, and so is Muon's of
// what is no matrix. Adafactor's walks have kernels of their own.
zr_update_kind zr_optimizer_update_kind(zr_optimizer_kind optimizer);
// Describes the next update, and sets its values, which it reads until it ends. only: the
// queue of the thread that will make it; NULL: the rank's own thread makes it.
zr_update_walk zr_update_describe(zero_engine *engine, zr_queue *only, zr_update_values *values);
// A zr_shard_slice_fn that updates one shard slice. walk: a zr_update_walk.
zero_status zr_update_shard_slice(void *walk, zero_engine *engine,
                                  const zr_shard_slice *shard_slice, const zr_range_states *states,
                                  zero_error *error);

// Collective with LAMB and Adafactor, whose later walks need sums by tensor: makes the next update.
zero_status zr_update_groups(zero_engine *engine, zero_error *error);

// gradients.c
// At the beginning of a step or of a window: forgets what rounding has lost so far, where it is due
// or the loss scale has changed.
void zr_carries_begin_step(zero_engine *engine);
// Adds the squares of a span of a flat parameter to `sums`, one sum a tensor (sums[tensor number])
// or all in sums[0]. values: from the span's first element on, of `dtype`.
void zr_norm_add_squares(zero_engine *engine, zr_queue *queue, int flat_param, zr_span span,
                         zero_dtype dtype, const void *values, zr_exact *sums, bool by_tensor);
// Collective: adds up numbers (count) of `words` int64 each over the ranks of `comm`, as many in a
// message as it has room for.
zero_status zr_sum_words(zero_comm *comm, void *numbers, int64_t count, int64_t words,
                         zero_error *error);
// Collective: adds up numbers (count) of `words` int64 each over the ranks that make a step
// together: all, or, where a schedule is asynchronous, those of this pipeline stage.
zero_status zr_words_all_reduce(zero_engine *engine, void *numbers, int64_t count, int64_t words,
                                zero_error *error);
// Collective: adds up the sums (count) of all ranks, or, where a schedule is asynchronous, of those
// of this pipeline stage, because other stages are at other steps.
zero_status zr_norm_all_reduce(zero_engine *engine, zr_exact *sums, int count, zero_error *error);

// delayed.c
// A delayed update, which overlaps the step after it (ZeRO-Offload section 5.2, one-step delayed
// parameter update). From its first step N on:
//
//   step N       forward, backward with P(N-1) | no update          P: parameters, U(i): the update
//   step N+1     forward, backward with P(N-1) | publish P(N)       by the gradient of step i
//   meanwhile    U(N) ....................     |
//   step N+2     forward, backward with P(N)   | publish P(N+1)
//   meanwhile    U(N+1) ..................     |
//
// The master is a second copy of the parameters: U(i) changes the master while units read P(i-1),
// and publishing rounds it into the parameters. There is only one copy of the gradients: U(i) walks
// from the last group to the first, as backward does, and a sum of the next step goes into a shard
// only when U(i) is done with the shard's group. The thread that updates waits for no other rank,
// because the rank's own thread makes all exchanges.
typedef struct zr_delayed zr_delayed; // NULL if the configuration does not delay updates

zero_status zr_delayed_create(zero_engine *engine, zero_error *error);
void zr_delayed_destroy(zr_delayed *delayed); // waits for an update that is under way

// At the end of a step: begins the update by the gradient of this step.
zero_status zr_delayed_begin(zero_engine *engine, zero_error *error);
// AWAIT of a group, before a sum goes into the own shard of a flat parameter: waits until the
// update is done with that shard's group and all groups after it; for group -1, until it has ended.
// Returns at once if no update is under way.
zero_status zr_delayed_await_group(zero_engine *engine, const zr_instruction *i, zero_error *error);
// Waits until the update has ended: then the master is P(i). Returns at once if no update is under
// way. Not collective.
zero_status zr_delayed_join(zero_engine *engine, zero_error *error);
// Called by the rank's thread: changes the recorder. When it returns, the update's thread no longer
// uses the old one.
void zr_delayed_record(zero_engine *engine, zr_recorder *recorder);

#endif
