// The one wait of the local communicator: a short spin where every rank has a core, then sleep on
// the peer's doorbell.
//
// A wait ends in four ways: its word arrives; the job has failed; a rank is found dead; or the rank
// on which it depends has given no sign of life for the timeout. Time is counted in naps, short
// sleeps. A nap that took far longer than requested means that this process was itself stopped
// (Ctrl-Z of the whole job), and does not count.
#define _GNU_SOURCE
#include "comm/local_control.h"
#include "comm/operations.h"

#include "base/clock.h"

#include <linux/futex.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define SPIN_SECONDS 50e-6
#define STOPPED_SECONDS 1.0 // after a nap of ZR_NAP this long the process was stopped
#define LOOKS 8             // other ranks looked at in a nap, after those that this one waits for

typedef struct patience { // of one wait; its ranks are of the job
    int peer;             // the rank that is waited for
    int culprit;          // the rank that delays all others, through ranks that wait for each other
    uint64_t pulse;       // its signs of life
    double stalled;       // seconds since the last one
    double unlooked;      // seconds since the last look at processes
    // Looks at a rank that is gone and whose end the parent has not recorded yet.
    int gone;
} patience;

static bool is_ready(const zr_wait *wait)
{
    return atomic_load_explicit(wait->word, memory_order_acquire) >> wait->shift >= wait->target;
}

static void pause_core(void)
{
#if defined(__SSE2__)
    _mm_pause();
#endif
}

static bool spin_until_ready(const zr_wait *wait)
{
    double start = zr_clock_seconds();
    do
        for (int i = 0; i < 64; i++) {
            if (is_ready(wait))
                return true;
            pause_core();
        }
    while (zr_clock_seconds() - start < SPIN_SECONDS);
    return false;
}

// Fails with a message from this rank's view: where it was itself, then what happened to which
// rank.
static zero_status fail_with(zero_comm *comm, const zr_wait *wait, const zr_local_failure *failure,
                             zero_error *error)
{
    char where[ZERO_MESSAGE_BYTES];
    zr_comm_where(comm, wait->doing, wait->slot, where, sizeof where);
    return zr_fail(error, failure->status, "%s: %s", where, failure->message);
}

// Records a failure of the job and fails with the job's first one, which may be another.
static zero_status fail_job(zero_comm *comm, const zr_wait *wait, zr_local_failure *failure,
                            zero_error *error)
{
    zr_control *control = ((zr_local *)comm->impl)->control;
    zr_local_fail(control, failure);
    zr_local_failure_read(control, failure);
    return fail_with(comm, wait, failure, error);
}

static zero_status fail_for_death(zero_comm *comm, const zr_wait *wait, int rank,
                                  const zr_process_look *look, zero_error *error)
{
    zr_control *control = ((zr_local *)comm->impl)->control;
    zr_local_failure failure;
    zr_local_failure_of_end(control, rank, look->known ? look->wait_status : -1, &failure);
    return fail_job(comm, wait, &failure, error);
}

static zero_status fail_for_leaving(zero_comm *comm, const zr_wait *wait, int rank, bool group,
                                    zero_error *error)
{
    zr_local_failure failure = {.rank = rank, .status = ZERO_ERR_PEER};
    char of[64] = "";
    if (group)
        snprintf(of, sizeof of, " of the %s group", comm->group);
    snprintf(failure.message, sizeof failure.message,
             "rank %d has destroyed its communicator%s and will not come", rank, of);
    return fail_job(comm, wait, &failure, error);
}

static zero_status fail_for_parent(zero_comm *comm, const zr_wait *wait, zero_error *error)
{
    zr_local_failure failure = {.rank = -1, .status = ZERO_ERR_PEER};
    snprintf(failure.message, sizeof failure.message,
             "the process that started the ranks has ended");
    return fail_job(comm, wait, &failure, error);
}

typedef struct wait_chain { // a rank, those that it waits for, those that they wait for, ...
    int ranks[ZERO_MAX_RANKS], count;
    bool seen[ZERO_MAX_RANKS];
} wait_chain;

static void add_to_chain(wait_chain *w, int rank)
{
    if (w->seen[rank])
        return;
    w->seen[rank] = true;
    w->ranks[w->count++] = rank;
}

// Finds the rank for which `peer` is late. The peer may itself wait for others, in any group and
// with each of its threads: the first rank of that chain that has a thread at work delays all of
// them. If every thread waits, or seems to while it is about to wake, it is the peer itself.
static int find_culprit(const zr_control *control, int peer, wait_chain *w)
{
    *w = (wait_chain){0};
    add_to_chain(w, peer);
    for (int i = 0; i < w->count; i++)
        for (int t = 0; t < ZR_WAITING; t++) {
            int next = atomic_load_explicit(&control->records[w->ranks[i]].waiting_on[t],
                                            memory_order_relaxed);
            if (next == ZR_AT_WORK)
                return w->ranks[i];
            if (next != ZR_WITHOUT_WORK)
                add_to_chain(w, next);
        }
    return peer;
}

// Finds a stopped rank in the chain from `peer`: it may seem to wait, because it was about to wake
// when it was stopped. If there is none, returns the culprit that find_culprit has found.
static int find_stopped(const zr_control *control, int peer)
{
    wait_chain w;
    int culprit = find_culprit(control, peer, &w);
    for (int i = 0; i < w.count; i++) {
        const zr_rank_record *record = &control->records[w.ranks[i]];
        bool joined = atomic_load_explicit(&record->state, memory_order_acquire) != ZR_RANK_ABSENT;
        if (joined && zr_process_look_at(&record->process).state == 'T')
            return w.ranks[i];
    }
    return culprit;
}

static zero_status fail_for_timeout(zero_comm *comm, const zr_wait *wait, int peer,
                                    zero_error *error)
{
    const zr_control *control = ((zr_local *)comm->impl)->control;
    int culprit = find_stopped(control, peer);
    const zr_rank_record *record = &control->records[culprit];
    char work[ZR_WORK_TEXT];
    bool joined = atomic_load_explicit(&record->state, memory_order_acquire) != ZR_RANK_ABSENT;
    zr_process_look look =
        joined ? zr_process_look_at(&record->process) : (zr_process_look){.state = '?'};
    zr_local_failure failure = {
        .rank = culprit, .status = ZERO_ERR_TIMEOUT, .step = atomic_load(&record->step)};
    zr_work_text(atomic_load(&record->work), work);
    snprintf(failure.message, sizeof failure.message,
             "rank %d (%s) made no progress for %g s; it was last seen at step %lld%s", culprit,
             !joined             ? "has not joined"
             : look.state == 'T' ? "stopped"
                                 : "alive",
             comm->timeout, (long long)failure.step, work);
    return fail_job(comm, wait, &failure, error);
}

// awaited: this rank waits for rank r. Other ranks count as dead only if they surely ended badly.
static bool is_dead(const zr_process_look *look, bool awaited)
{
    bool ended_badly = look->known && look->wait_status != 0;
    return look->state == 0 && (awaited || ended_badly);
}

// Returns whether to wait for the parent, which records how a rank ended a little later.
static bool awaits_parent(const zr_control *control, const zr_process_look *look,
                          patience *patience)
{
    return !look->known && control->parent.pid && ++patience->gone < ZR_GONE_LOOKS;
}

static zero_status look_at_process(zero_comm *comm, const zr_wait *wait, patience *patience, int r,
                                   bool awaited, zero_error *error)
{
    const zr_control *control = ((zr_local *)comm->impl)->control;
    zr_process_look look = zr_process_look_at(&control->records[r].process);
    if (!is_dead(&look, awaited) || (r == patience->peer && is_ready(wait)))
        return ZERO_OK;
    if (awaits_parent(control, &look, patience))
        return ZERO_OK;
    return fail_for_death(comm, wait, r, &look, error);
}

static bool has_left_group(const zero_comm *comm, int rank)
{
    const zr_area *area = ((zr_local *)comm->impl)->area;
    return atomic_load_explicit(&area->ranks[rank].left, memory_order_acquire);
}

static zero_status look_at_rank(zero_comm *comm, const zr_wait *wait, patience *patience, int r,
                                bool awaited, zero_error *error)
{
    const zr_control *control = ((zr_local *)comm->impl)->control;
    int state = atomic_load_explicit(&control->records[r].state, memory_order_acquire);
    if (r == ((zr_local *)comm->impl)->rank || state == ZR_RANK_ABSENT)
        return ZERO_OK;
    if (r == patience->peer && has_left_group(comm, wait->peer))
        return is_ready(wait) ? ZERO_OK : fail_for_leaving(comm, wait, r, true, error);
    if (state == ZR_RANK_LEFT)
        return r != patience->peer || is_ready(wait)
                   ? ZERO_OK
                   : fail_for_leaving(comm, wait, r, false, error);
    if (control->threads)
        return ZERO_OK;
    return look_at_process(comm, wait, patience, r, awaited, error);
}

static zero_status look_at_processes(zero_comm *comm, const zr_wait *wait, patience *patience,
                                     zero_error *error)
{
    zr_local *local = comm->impl;
    const zr_process *parent = &local->control->parent;
    int *next = &local->next_looked_at[wait->thread], ranks = local->control->ranks;
    ZERO_TRY(look_at_rank(comm, wait, patience, patience->peer, true, error));
    ZERO_TRY(look_at_rank(comm, wait, patience, patience->culprit, true, error));
    for (int i = 0; i < ZR_MIN(LOOKS, ranks); i++) {
        ZERO_TRY(look_at_rank(comm, wait, patience, *next, false, error));
        *next = (*next + 1) % ranks;
    }
    if (parent->pid && zr_process_look_at(parent).state == 0)
        return fail_for_parent(comm, wait, error);
    return ZERO_OK;
}

static uint64_t life_signs_of(const zr_rank_record *record)
{
    return atomic_load_explicit(&record->bell, memory_order_relaxed) +
           atomic_load_explicit(&record->heartbeat, memory_order_relaxed);
}

static zero_status check_progress(zero_comm *comm, const zr_wait *wait, patience *patience,
                                  double slept, zero_error *error)
{
    const zr_control *control = ((zr_local *)comm->impl)->control;
    wait_chain chain;
    int culprit = find_culprit(control, patience->peer, &chain);
    uint64_t pulse = life_signs_of(&control->records[culprit]);
    if (slept < STOPPED_SECONDS) {
        patience->stalled += slept;
        patience->unlooked += slept;
    }
    if (culprit != patience->culprit || pulse != patience->pulse) {
        patience->culprit = culprit;
        patience->pulse = pulse;
        patience->stalled = 0;
    }
    if (patience->unlooked >= ZR_NAP * 0.9) {
        patience->unlooked = 0;
        ZERO_TRY(look_at_processes(comm, wait, patience, error));
    }
    return patience->stalled < comm->timeout || is_ready(wait)
               ? ZERO_OK
               : fail_for_timeout(comm, wait, patience->peer, error);
}

static void sleep_on(const zr_control *control, _Atomic uint32_t *bell, uint32_t seen)
{
    struct timespec nap = {.tv_nsec = (long)(ZR_NAP * 1e9)};
    syscall(SYS_futex, bell, control->threads ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT, seen, &nap, NULL,
            0);
}

// Waits as a registered waiter of the peer, so that its next publication rings.
static zero_status await_ringing(zero_comm *comm, const zr_wait *wait, int rank,
                                 zr_rank_record *peer, zero_error *error)
{
    zr_control *control = ((zr_local *)comm->impl)->control;
    patience patience = {.peer = rank, .culprit = -1};
    zr_local_failure failure;
    for (;;) {
        uint32_t seen = atomic_load(&peer->bell);
        bool failed = zr_local_failure_read(control, &failure);
        if (is_ready(wait))
            return ZERO_OK;
        if (failed)
            return fail_with(comm, wait, &failure, error);
        double before = zr_clock_seconds();
        sleep_on(control, &peer->bell, seen);
        ZERO_TRY(check_progress(comm, wait, &patience, zr_clock_seconds() - before, error));
    }
}

void zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    zr_local_ring_own(local);
}

zero_status zr_local_await(zero_comm *comm, const zr_wait *wait, zero_error *error)
{
    zr_local *local = comm->impl;
    if (is_ready(wait))
        return ZERO_OK;
    zr_recorder *recorder = zr_wait_recorder(comm);
    int64_t begin = zr_recorder_begin(recorder);
    if (local->spin && spin_until_ready(wait)) {
        zr_recorder_add(recorder, ZR_ACTIVITY_wait, begin, 0, 0, -1);
        return ZERO_OK;
    }
    int rank = zr_comm_job_rank(comm, wait->peer);
    zr_rank_record *peer = &local->control->records[rank];
    _Atomic int32_t *waiting_on = zr_local_waiting_on(local, wait->thread);
    atomic_store_explicit(waiting_on, rank, memory_order_relaxed);
    atomic_fetch_add(&peer->waiters, 1);
    zero_status status = await_ringing(comm, wait, rank, peer, error);
    atomic_fetch_sub(&peer->waiters, 1);
    atomic_store_explicit(waiting_on, ZR_AT_WORK, memory_order_relaxed);
    zr_recorder_add(recorder, ZR_ACTIVITY_wait, begin, 0, 0, -1);
    return status;
}

zero_status zr_local_mismatch(zero_comm *comm, const zr_wait *wait, zero_error *error)
{
    int peer = zr_comm_job_rank(comm, wait->peer);
    zr_local_failure failure = {.rank = peer, .status = ZERO_ERR_INTERNAL};
    snprintf(failure.message, sizeof failure.message,
             "rank %d runs another operation or another size than rank %d (%s)", peer,
             ((zr_local *)comm->impl)->rank, wait->doing);
    return fail_job(comm, wait, &failure, error);
}
