// The memory that the ranks of one machine share, and the functions that local_*.c share.
// Private to them.
//
//   memfd (processes) or anonymous mapping (threads):
//   [zr_control | records (N) | the job's group area (local_area.h)]
//   [window] [window] ...
//
// The areas of groups lie in a window of the job. Records, failures and bells are of ranks of the
// job; areas and windows count the ranks of their communicator, and zr_wait.peer is one of those.
// zr_local_await goes from one to the other.
//
// Every word is written by one rank and read by all. A rank publishes a word with a release store
// and then rings its own doorbell; a rank that waits for a word of rank p sleeps on p's doorbell.
// No word ever decreases, so a wait is "word >= target".
#ifndef ZR_COMM_LOCAL_CONTROL_H
#define ZR_COMM_LOCAL_CONTROL_H

#include "comm/comm_ops.h"
#include "comm/local.h"
#include "comm/local_area.h"
#include "comm/window.h"

#include <sched.h>
#include <stdatomic.h>

// Only a parent knows how a rank ended; it has this many looks of a waiting rank to record it.
#define ZR_GONE_LOOKS 10
#define ZR_NAP 0.1 // seconds of sleep between looks at whether the others live

enum { ZR_RANK_ABSENT, ZR_RANK_JOINED, ZR_RANK_LEFT };
// The state of a thread that waits for no other rank. ZR_WITHOUT_WORK: it cannot go on before
// another thread of its rank does.
enum { ZR_AT_WORK = -1, ZR_WITHOUT_WORK = -2 };
// Places of zr_rank_record.waiting_on: the rank's own thread, the comm thread of the job's
// communicator, and those of the groups that exist at one time.
enum { ZR_GROUPS = 8, ZR_FIRST_GROUP = ZR_RANK_THREADS, ZR_WAITING = ZR_RANK_THREADS + ZR_GROUPS };
enum { ZR_FAILURE_NONE, ZR_FAILURE_CLAIMED, ZR_FAILURE_WRITTEN };

// Which process a rank is. Its start tells a process from a later one of the same number.
typedef struct zr_process {
    int32_t pid;
    uint64_t start;      // clock ticks since boot; 0 if unknown
    uint64_t name_space; // of process numbers; processes of another one cannot be looked at
} zr_process;

typedef struct zr_rank_record {
    _Alignas(ZR_LINE) _Atomic uint32_t bell; // rung after each publication; also a sign of life
    _Atomic uint32_t waiters;
    _Alignas(ZR_LINE) _Atomic uint64_t heartbeat;
    _Atomic int64_t step, need;
    _Atomic uint64_t work; // zr_work_pack
    _Atomic int32_t multiple;
    // The rank of the job that each thread waits for, or ZR_AT_WORK or ZR_WITHOUT_WORK; written by
    // that thread.
    _Atomic int32_t waiting_on[ZR_WAITING];
    _Alignas(ZR_LINE) _Atomic int32_t state;
    zr_process process;
    cpu_set_t cpus;                // on which the rank may run
    char note[ZERO_MESSAGE_BYTES]; // why it could not do its part of a collective allocation
} zr_rank_record;

struct zr_control {
    uint64_t magic;
    int32_t ranks;
    int32_t threads;
    int64_t bytes;         // of this, the records and the job's area
    zr_process parent;     // which supervises; pid 0 if there is none
    _Atomic int32_t users; // threads: communicators that still map this
    _Atomic int64_t end;   // of the memfd; moved by rank 0 of each communicator
    _Atomic int32_t failure_state;
    zr_local_failure failure;
    zr_rank_record records[];
};

typedef struct zr_local { // what one rank knows of one communicator
    zr_control *control;
    zr_rank_record *record; // its own
    zr_area *area;          // of this communicator
    zr_window areas;        // of a group: the job's window in which the area lies
    int rank;               // of the job
    int comm_thread;        // the comm thread's place in waiting_on
    uint32_t groups;        // of a job: bit g: this rank's group that has place g in waiting_on
    int memfd;              // -1: threads
    bool spin;              // every rank has a core of its own
    uint64_t round;         // number of small operations so far
    int64_t mails;          // number of chunks sent so far, to any rank
    // The rank for which each of the two buffers was last filled.
    struct {
        int to;
        uint64_t count;
    } mail[2];
    int next_looked_at[ZR_RANK_THREADS]; // by each thread while it waits
} zr_local;

typedef struct zr_local_comm {
    zero_comm comm;
    zr_local local;
} zr_local_comm;

static inline _Atomic int32_t *zr_local_waiting_on(const zr_local *local, zr_rank_thread thread)
{
    return &local->record->waiting_on[thread == ZR_OWN_THREAD ? ZR_OWN_THREAD : local->comm_thread];
}

// local_control.c
int64_t zr_local_control_bytes(int ranks);
void zr_local_control_init(zr_control *control, int ranks, bool threads);
zero_status zr_local_memfd_create(int ranks, int *memfd, zr_control **control, zero_error *error);
zero_status zr_local_control_map(int memfd, zr_control **out, zero_error *error);
void zr_local_control_unmap(zr_control *control);
zr_area *zr_local_job_area(zr_control *control);
// Commits pages of the memfd, which grows to hold them, so that touching them when they are mapped
// raises no signal.
zero_status zr_local_commit(int memfd, int64_t offset, int64_t bytes, zero_error *error);
// Keeps the first failure of the job and wakes everyone.
void zr_local_fail(zr_control *control, const zr_local_failure *failure);
bool zr_local_failure_read(const zr_control *control, zr_local_failure *out);
void zr_local_ring(zr_control *control, int rank);
void zr_local_ring_all(zr_control *control);
static inline void zr_local_ring_own(const zr_local *local)
{
    zr_local_ring(local->control, local->rank);
}

// local_wait.c
// Sets a word that peers wait for, with all that was written before, and wakes them.
void zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value);

typedef struct zr_wait {
    const _Atomic uint64_t *word; // of rank `peer`
    int shift;                    // ready when (*word >> shift) >= target
    uint64_t target;
    int peer;
    zr_rank_thread thread;    // the thread that waits
    const char *doing, *slot; // for messages; slot may be NULL
} zr_wait;
zero_status zr_local_await(zero_comm *comm, const zr_wait *wait, zero_error *error);
// Ends the job with ZERO_ERR_INTERNAL, because the peer has arrived in another operation.
zero_status zr_local_mismatch(zero_comm *comm, const zr_wait *wait, zero_error *error);

// local_mail.c
zero_status zr_local_all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                      zr_reduction how, zero_error *error);
zero_status zr_local_barrier(zero_comm *comm, zero_error *error);
zero_status zr_local_send(zero_comm *comm, const void *data, int64_t bytes, int to,
                          zero_error *error);
zero_status zr_local_recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error);

// local_split.c
zero_status zr_local_split(zero_comm *job, const zr_comm_group *group, zero_comm **out,
                           zero_error *error);
// Frees this rank's communicator of a group, and ends the waits of those that wait for it there.
void zr_local_leave_group(zero_comm *comm);

// local_join.c
zero_status zr_local_hand_over(const zr_launch *launch, double timeout, int *memfd,
                               zr_control **control, zero_error *error);

// local_process.c
typedef struct zr_process_look {
    char state; // 0: gone
    int wait_status;
    bool known; // whether wait_status is known
} zr_process_look;
zr_process zr_process_self(void);
zr_process_look zr_process_look_at(const zr_process *process);
// Describes the failure that the end of `rank` is. wait_status: as waitpid gives it; -1 if unknown.
void zr_local_failure_of_end(zr_control *control, int rank, int wait_status, zr_local_failure *out);

#endif
