// One rank on virtual time: it runs passes of its plan's program, and each instruction costs what
// the rates predict; other ranks are not simulated. Next to the rank there are
//
//   comm thread   the thread that exchanges with other data ranks, and the network
//   disk      transfers to and from NVMe, one after another
//   aside     an update that overlaps the next step
//
// What is begun there ends at a time that an AWAIT waits for. Where the machine has no core to
// spare for them, their computing takes the rank's time.
#ifndef ZR_PREDICT_VIRTUAL_RANK_H
#define ZR_PREDICT_VIRTUAL_RANK_H

#include "predict/forecast.h"

typedef struct zr_cost { // seconds
    double seconds;
    double unknown; // of these, in operations that nobody has measured
} zr_cost;

typedef struct zr_call_cost { // of a unit's call
    zr_cost compute, exchange;
} zr_call_cost;

typedef struct zr_begun { // what was begun
    double end;           // when it has ended
    double own;           // seconds that it takes the rank when it is awaited
} zr_begun;

// Walks of an update over the groups: two of the optimizer, and the one that copies the master.
enum { ZR_VIRTUAL_COPY = ZR_MOST_WALKS, ZR_VIRTUAL_WALKS };

typedef struct zr_virtual_rank {
    const zr_forecast_question *question;
    const zr_plan *plan;
    const zr_rates *rates; // NULL: nothing is known
    double factor;         // of their seconds
    bool exact;            // they are of the rank's own setting
    bool spare;            // the machine has a spare core for overlapped work
    uint32_t holds;        // conditions of the pass
    double now, comm_thread, disk;
    double slow_until, speed; // until then the rank gets this part of its cores
    double parts[ZR_TIME_PARTS], unknown;
    zr_call_cost *calls;                 // (units, ZR_OPERATION_CALLS)
    zr_cost *squares;                    // (flat parameters) of the own shard's sum
    zr_cost *walks[ZR_VIRTUAL_WALKS];    // (shard slices)
    zr_begun *begun[ZR_SLOT_KIND_COUNT]; // (slots) by what is awaited; NULL: nothing waits
    double *group_ends, walk_end;        // (groups) of the overlapped update
} zr_virtual_rank;

// Makes the rank of a pipeline stage, at time 0. Close it also after an error. ZERO_ERR_MEMORY.
zero_status zr_virtual_rank_open(const zr_forecast_question *question, int stage,
                                 zr_virtual_rank *out, zero_error *error);
void zr_virtual_rank_close(zr_virtual_rank *rank);
void zr_cost_add(zr_cost *sum, zr_cost more);
// Returns what an operation of the backend or the communicator costs, `times` times.
zr_cost zr_virtual_rank_cost(const zr_virtual_rank *rank, zr_activity what, int64_t bytes,
                             int64_t flops, double times);
// Says whether ranks exchange by messages, not through memory that they share.
static inline bool zr_link_is_there(const zr_link_speed *link)
{
    return link->rates || link->reach.strangers > 0;
}
// Returns the cost of an exchange over a link in which `bytes` come to the rank.
zr_cost zr_virtual_link_cost(const zr_link_speed *link, zr_activity what, double bytes);
// Returns the cost of an exchange of tensor ranks; those on other machines send their part of the
// bytes over the link.
zr_cost zr_virtual_tensor_cost(const zr_link_speed *link, zr_activity what, int64_t bytes);
// Returns whether messages of a pipeline's link leave this machine's shared memory, by the machines
// of its two stages.
bool zr_virtual_link_between(const zr_forecast_question *question, const zr_link *link);
// Let the rank itself work, or wait.
void zr_virtual_rank_spend(zr_virtual_rank *rank, zr_time_part part, zr_cost cost);
void zr_virtual_rank_wait(zr_virtual_rank *rank, zr_time_part part, double until);

// Runs a pass. holds: the conditions that hold in it, by bits.
void zr_virtual_rank_run(zr_virtual_rank *rank, zr_pass_kind kind, uint32_t holds);
// Runs a micro-batch of the step, or a pass of one of its chunks. outdated: the weights have
// changed since the micro-batch before.
void zr_virtual_rank_micro_batch(zr_virtual_rank *rank, zr_pass_kind kind, int64_t micro_batch,
                                 bool outdated);
// Runs the update and publication that end a step. tied weights: of the updates of a shared table's
// owner, how many a late tied copy takes in between.
void zr_virtual_rank_end_step(zr_virtual_rank *rank, int64_t tied_weights);
// Takes these alone.
void zr_virtual_rank_take_tied_weights(zr_virtual_rank *rank, int64_t tied_weights);

// Finds the costs of the walks; zr_virtual_rank_open calls it.
zero_status zr_virtual_walks_find(zr_virtual_rank *rank, zero_error *error);
void zr_virtual_update(zr_virtual_rank *rank, const zr_instruction *update); // UPDATE
// Sums `words` with `others` other ranks in one message.
void zr_virtual_rank_sum_small(zr_virtual_rank *rank, int64_t others, int64_t words);
// The ranks that make a step together add up `words` integers in one message.
void zr_virtual_rank_sum_words(zr_virtual_rank *rank, int64_t words);
// The ranks that make a step together add up `sums` exact sums (base/numbers.h) in one message.
void zr_virtual_rank_sum_exact(zr_virtual_rank *rank, int64_t sums);
// Begins a transfer to or from NVMe; returns when it has ended.
double zr_virtual_disk_begin(zr_virtual_rank *rank, double bytes, double rate);
// Returns the bytes a second that the rank has of a disk's rate; unknown ones are guessed.
double zr_virtual_disk_rate(const zr_virtual_rank *rank, double rate);

// Runs steps of a pipeline's stages, and their lists against each other. `parts` are those of the
// slowest stage, without *bubble; *seconds are those of a step.
zero_status zr_virtual_pipeline_run(const zr_forecast_question *question, double parts[],
                                    double *bubble, double *seconds, double *unknown,
                                    zero_error *error);

#endif
