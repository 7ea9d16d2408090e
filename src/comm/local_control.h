// The memory that the ranks of one machine share, and what the files of local_*.c tell each other.
// Private to them.
//
//   memfd (processes) or anonymous mapping (threads):
//   [zr_control | records (N) | sent (N,N) | taken (N,N) | small (N,2,64K) | mail (N,2,32K)]
//   [window] [window] ...
//
// Every word is written by one rank and read by all. A rank publishes a word with a release store
// and then rings its own doorbell; a rank that waits for a word of rank p sleeps on p's doorbell.
// No word ever decreases, so a wait is "word >= target".
#ifndef ZR_COMM_LOCAL_CONTROL_H
#define ZR_COMM_LOCAL_CONTROL_H

#include "comm/communicator.h"
#include "comm/local.h"
#include "comm/local_process.h"
#include "comm/window.h"

#include <sched.h>
#include <stdatomic.h>

#define ZR_LINE 64
#define ZR_PAGE 4096
#define ZR_MAIL_BYTES 32768
#define ZR_WINDOWS 64 // that exist at one time
// A parent alone knows how a rank ended, and gets this many looks to tell it.
#define ZR_GONE_LOOKS 10
#define ZR_SLICE 0.1 // seconds of sleep between looks at whether the others live

enum { ZR_RANK_ABSENT, ZR_RANK_JOINED, ZR_RANK_LEFT };
// The state of a thread that waits for no other rank. ZR_WITHOUT_WORK: it cannot go on before its
// rank's other thread does.
enum { ZR_AT_WORK = -1, ZR_WITHOUT_WORK = -2 };
enum { ZR_FAILURE_NONE, ZR_FAILURE_CLAIMED, ZR_FAILURE_WRITTEN };

typedef struct zr_rank_record {
    _Alignas(ZR_LINE) _Atomic uint32_t bell; // rung after each publication; also a sign of life
    _Atomic uint32_t waiters;
    _Alignas(ZR_LINE) _Atomic uint64_t posted; // rounds of small operations: (round, check)
    _Alignas(ZR_LINE) _Atomic uint64_t heartbeat;
    _Atomic int64_t step, need;
    // The rank that each thread waits for, or ZR_AT_WORK or ZR_WITHOUT_WORK; written by that
    // thread.
    _Atomic int32_t waiting_on[ZR_RANK_THREADS];
    _Alignas(ZR_LINE) _Atomic int32_t state;
    zr_process process;
    cpu_set_t cpus;                // on which the rank may run
    char note[ZERO_MESSAGE_BYTES]; // why it could not do its part of a collective allocation
} zr_rank_record;

typedef struct zr_window_entry { // rank 0 writes it before the ranks agree
    _Atomic int32_t users;
    int64_t offset; // in the memfd
    char *base;     // used by threads
} zr_window_entry;

struct zr_control {
    uint64_t magic;
    int32_t ranks;
    int32_t threads;
    int64_t bytes;         // of this area
    zr_process parent;     // which supervises; pid 0: there is none
    _Atomic int32_t users; // threads: communicators that still map this
    int64_t end;           // of the memfd; used by rank 0
    _Atomic int32_t failure_state;
    zr_local_failure failure;
    zr_window_entry windows[ZR_WINDOWS];
    zr_rank_record records[];
};

typedef struct zr_local { // what one rank knows
    zr_control *control;
    zr_rank_record *record; // its own
    int rank;
    int memfd;       // -1: threads
    bool spin;       // every rank has a core of its own
    uint64_t round;  // number of small operations so far
    int64_t windows; // created so far
    int64_t mails;   // number of chunks sent so far, to any rank
    // The rank for which each of the two buffers was last filled.
    struct {
        int to;
        uint64_t count;
    } mail[2];
    int next_looked_at[ZR_RANK_THREADS]; // by each thread while it waits
} zr_local;

// local_control.c
int64_t zr_local_control_bytes(int ranks);
void zr_local_control_init(zr_control *control, int ranks, bool threads);
zero_status zr_local_memfd_create(int ranks, int *memfd, zr_control **control, zero_error *error);
zero_status zr_local_control_map(int memfd, zr_control **out, zero_error *error);
void zr_local_control_unmap(zr_control *control);
_Atomic uint64_t *zr_local_sent(zr_control *control, int from, int to);
_Atomic uint64_t *zr_local_taken(zr_control *control, int from, int to);
char *zr_local_small(zr_control *control, int rank, int parity);
char *zr_local_mail(zr_control *control, int rank, int buffer);
// Commits pages of the memfd, which grows to hold them, so that touching them when they are mapped
// raises no signal.
zero_status zr_local_commit(int memfd, int64_t offset, int64_t bytes, zero_error *error);
// Keeps the first failure of the job and wakes everyone.
void zr_local_fail(zr_control *control, const zr_local_failure *failure);
bool zr_local_failure_read(const zr_control *control, zr_local_failure *out);
void zr_local_ring(zr_control *control, int rank);
void zr_local_ring_all(zr_control *control);

// local_wait.c
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

// local_join.c
zero_status zr_local_hand_over(const zr_launch *launch, double timeout, int *memfd,
                               zr_control **control, zero_error *error);

#endif
