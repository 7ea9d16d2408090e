// Times operations while several ranks' worth of threads work at once, as the ranks of a machine
// do: each member is a thread of this process with a queue of its own. Members begin every round of
// a task together, and what the queue records goes into rates.
#ifndef ZR_PREDICT_CONCURRENT_TIMING_H
#define ZR_PREDICT_CONCURRENT_TIMING_H

#include "base/recorder.h"
#include "comm/communicator.h"
#include "compute/compute.h"
#include "predict/rates.h"

typedef struct zr_member {
    int number; // 0 .. members - 1
    zr_queue *queue;
    zero_comm *comm;       // of the members; NULL if nothing is computed
    zr_recorder *recorder; // for what a round times itself
    char *memory;          // (zr_members.bytes) from task to task; NULL if nothing is computed
    bool counts;           // nothing is computed (compute/compute.h): address space suffices
} zr_member;

// What members do in a task. They call each function in the same order; a failure of one of them
// ends the task for all.
typedef struct zr_common_work {
    zero_status (*open)(const void *task, const zr_member *member, void **state, zero_error *error);
    zero_status (*round)(void *state, zero_error *error);
    void (*close)(void *state); // of a state that was opened
} zr_common_work;

typedef struct zr_common_task {
    const zr_common_work *work;
    const void *task;
    double seconds; // about so long, in all of its rounds
    bool messages;  // collectives of the members' communicator are recorded, too
} zr_common_task;

typedef struct zr_members {
    const char *backend; // as zr_queue_open takes it
    int count, threads;  // members; threads of each
    size_t bytes;        // of memory for each, which the tasks use in turn
} zr_members;

// Runs the tasks in turn, each for a few rounds, and adds the usual mean (predict/meter.h) of each
// operation over rounds and members to `rates`. It stands for all members, because equal ones
// differ from each other by chance only, and the largest of each operation would add up to more
// than the largest of their sums. The first round does not count if there is time for another one.
// ZERO_ERR_MEMORY, or what a task returns.
zero_status zr_concurrent_run(const zr_members *members, const zr_common_task *tasks, int count,
                              zr_rates *rates, zero_error *error);
// Finds which operations a round of a task has, without computing: the recorder gets one record of
// each. Not for tasks with messages.
zero_status zr_concurrent_count(const zr_members *members, const zr_common_task *task,
                                zr_recorder *recorder, zero_error *error);

#endif
