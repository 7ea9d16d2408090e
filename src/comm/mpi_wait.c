// Messages under MPI: posting them, waiting with a deadline, and the notes (signs of life, a rank
// that gives up) that accompany them.
//
// A sign of life of any rank puts the deadline off, because across machines it is unknown which
// rank waits for which. A gap between two polls that is far longer than a poll means that this
// process was itself stopped, and does not count.
#define _GNU_SOURCE
#include "comm/mpi_rank.h"
#include "comm/operations.h"

#include "base/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#define POLLS 64 // between looks at the clock and the notes
#define STOPPED_SECONDS 1.0
#define YIELD_AFTER 0.001 // seconds of waiting
#define SLEEP_AFTER 0.02
#define SLEEP_SECONDS 0.0001
#define BEAT_SECONDS 5.0  // or an eighth of the timeout
#define ABORT_SECONDS 1.0 // that a rank that gives up waits for its notes to leave
#define TAG_DATA 1

typedef struct patience {
    double last, waited, stalled;
    int64_t heard;  // notes of the job
    bool wait_sent; // it has sent the others the rank for which it waits
} patience;

zero_status zr_mpi_check(zero_comm *comm, int code, const char *doing, zero_error *error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS)
        return ZERO_OK;
    MPI_Error_string(code, text, &length);
    char where[ZERO_MESSAGE_BYTES];
    zr_comm_where(comm, doing, NULL, where, sizeof where);
    return zr_fail(error, ZERO_ERR_PEER, "%s: MPI says: %s", where, text);
}

// Tests requests one after the other, in place of MPI_Testall: with MPICH's header, gcc believes
// that statuses to be ignored are written.
static int test_all(MPI_Request *requests, int count, bool *done, MPI_Status *last)
{
    int code = MPI_SUCCESS, gone = 1;
    for (int i = 0; i < count && gone && code == MPI_SUCCESS; i++)
        code = MPI_Test(&requests[i], &gone, last);
    *done = gone && code == MPI_SUCCESS;
    return code;
}

// Finds room for a request. Only an operation that has failed leaves requests behind, and with them
// too little room for the next one.
static zero_status reserve_request(zero_comm *comm, zr_mpi_batch *batch, int peer,
                                   const char *doing, MPI_Request **out, zero_error *error)
{
    if (batch->count >= 2 * comm->size) {
        char where[ZERO_MESSAGE_BYTES];
        zr_comm_where(comm, doing, NULL, where, sizeof where);
        return zr_fail(error, ZERO_ERR_PEER, "%s: an operation before it has failed", where);
    }
    batch->peers[batch->count] = peer;
    *out = &batch->requests[batch->count++];
    return ZERO_OK;
}

zero_status zr_mpi_isend(zero_comm *comm, zr_mpi_batch *batch, const void *data, int64_t bytes,
                         int to, zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    MPI_Request *request = NULL;
    ZERO_TRY(reserve_request(comm, batch, to, "sending", &request, error));
    pthread_mutex_lock(&mpi->job->lock);
    int code = MPI_Isend(data, (int)bytes, MPI_BYTE, to, TAG_DATA, mpi->data, request);
    pthread_mutex_unlock(&mpi->job->lock);
    return zr_mpi_check(comm, code, "sending", error);
}

zero_status zr_mpi_irecv(zero_comm *comm, zr_mpi_batch *batch, void *data, int64_t bytes, int from,
                         zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    MPI_Request *request = NULL;
    ZERO_TRY(reserve_request(comm, batch, from, "receiving", &request, error));
    pthread_mutex_lock(&mpi->job->lock);
    int code = MPI_Irecv(data, (int)bytes, MPI_BYTE, from, TAG_DATA, mpi->data, request);
    pthread_mutex_unlock(&mpi->job->lock);
    return zr_mpi_check(comm, code, "receiving", error);
}

// Keeps the first abort. Called with the lock.
static void keep_abort(zr_mpi_job *job, const zr_mpi_note *note)
{
    if (!job->aborted)
        job->abort = *note;
    job->aborted = true;
}

void zr_mpi_receive_notes(zr_mpi_job *job)
{
    MPI_Status status;
    zr_mpi_note note;
    int arrived = 1;
    while (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, job->notes, &arrived, &status) == MPI_SUCCESS &&
           arrived) {
        if (MPI_Recv(&note, (int)sizeof note, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
                     job->notes, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        job->steps[status.MPI_SOURCE] = note.step;
        job->works[status.MPI_SOURCE] = note.work;
        job->waits[status.MPI_SOURCE] = note.kind == ZR_MPI_WAIT ? note.rank : -1;
        job->heard += note.kind != ZR_MPI_WAIT;
        if (note.kind == ZR_MPI_ABORT)
            keep_abort(job, &note);
    }
}

// Returns the rank whose message is not complete.
static int find_late(const zr_mpi_batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        int complete = 0;
        if (batch->requests[i] != MPI_REQUEST_NULL &&
            MPI_Request_get_status(batch->requests[i], &complete, MPI_STATUS_IGNORE) ==
                MPI_SUCCESS &&
            !complete)
            return batch->peers[i];
    }
    return batch->peers[0];
}

static zero_status fail_at(zero_comm *comm, zero_status status, const char *doing, const char *slot,
                           const char *what, zero_error *error)
{
    char where[ZERO_MESSAGE_BYTES];
    zr_comm_where(comm, doing, slot, where, sizeof where);
    return zr_fail(error, status, "%s: %s", where, what);
}

static void send_note(zr_mpi_job *job, const zr_mpi_note *note, size_t bytes, MPI_Request *requests,
                      int self, int size)
{
    for (int r = 0; r < size; r++)
        if (r != self && MPI_Isend(note, (int)bytes, MPI_BYTE, r, note->kind, job->notes,
                                   &requests[r]) != MPI_SUCCESS)
            requests[r] = MPI_REQUEST_NULL;
}

bool zr_mpi_beats_gone(zero_comm *comm)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    bool gone;
    MPI_Status last;
    return test_all(job->beats, comm->size, &gone, &last) == MPI_SUCCESS && gone;
}

bool zr_mpi_is_done(zero_comm *comm, zr_mpi_batch *batch)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    bool done;
    pthread_mutex_lock(&job->lock);
    int code = test_all(batch->requests, batch->count, &done, &batch->last);
    pthread_mutex_unlock(&job->lock);
    return code == MPI_SUCCESS && done;
}

// Returns the rank at the end of the chain of ranks that wait for each other, as far as their notes
// have come; in a circle, `late` itself.
static int find_culprit(const zr_mpi_job *job, int late, int own, int ranks)
{
    int culprit = late;
    for (int i = 0; i < ranks && job->waits[culprit] >= 0; i++)
        culprit = job->waits[culprit];
    return job->waits[culprit] < 0 && culprit != own ? culprit : late;
}

// Sends the others, once in a wait, the rank for which this one waits. Called with the lock.
static void send_wait_note(zero_comm *comm, patience *patience, int late)
{
    const zero_comm *whole = comm->job;
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    if (patience->wait_sent || patience->stalled < comm->timeout / 2 ||
        !zr_mpi_beats_gone(comm->job))
        return;
    patience->wait_sent = true;
    job->beat =
        (zr_mpi_note){.kind = ZR_MPI_WAIT, .rank = late, .step = whole->step, .work = whole->work};
    send_note(job, &job->beat, offsetof(zr_mpi_note, text), job->beats, whole->rank, whole->size);
}

static zero_status check_progress(zero_comm *comm, const zr_mpi_batch *batch, patience *patience,
                                  const char *doing, const char *slot, zero_error *error)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    char text[256], work[ZR_WORK_TEXT];
    double now = zr_clock_seconds(), gap = now - patience->last;
    patience->last = now;
    patience->waited += gap;
    patience->stalled += gap < STOPPED_SECONDS ? gap : 0;
    pthread_mutex_lock(&job->lock);
    zr_mpi_receive_notes(job);
    int late = zr_comm_job_rank(comm, find_late(batch));
    int culprit = find_culprit(job, late, comm->job->rank, comm->job->size);
    int64_t heard = job->heard, step = job->steps[culprit];
    zr_work_text(job->works[culprit], work);
    send_wait_note(comm, patience, late);
    bool aborted = job->aborted;
    pthread_mutex_unlock(&job->lock);
    if (aborted) {
        job->failed = true;
        return fail_at(comm, ZERO_ERR_PEER, doing, slot, job->abort.text,
                       error); // the text stays as it is
    }
    if (heard != patience->heard) {
        patience->stalled = 0;
        patience->wait_sent = false;
    }
    patience->heard = heard;
    if (patience->stalled >= comm->timeout) {
        snprintf(text, sizeof text,
                 "rank %d made no progress for %g s; it was last heard of at step %lld%s", culprit,
                 comm->timeout, (long long)step, work);
        return fail_at(comm, ZERO_ERR_TIMEOUT, doing, slot, text, error);
    }
    if (patience->waited > SLEEP_AFTER)
        zr_sleep_seconds(SLEEP_SECONDS);
    else if (patience->waited > YIELD_AFTER)
        sched_yield();
    return ZERO_OK;
}

zero_status zr_mpi_await(zero_comm *comm, zr_mpi_batch *batch, const char *doing, const char *slot,
                         zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    patience patience = {.last = zr_clock_seconds()};
    int64_t begin = zr_recorder_begin(zr_wait_recorder(comm));
    for (int64_t polls = 1;; polls++) {
        bool done;
        pthread_mutex_lock(&mpi->job->lock);
        int code = test_all(batch->requests, batch->count, &done, &batch->last);
        pthread_mutex_unlock(&mpi->job->lock);
        ZERO_TRY(zr_mpi_check(comm, code, doing, error));
        if (done) {
            batch->count = 0;
            zr_recorder_add(zr_wait_recorder(comm), ZR_ACTIVITY_wait, begin, 0, 0, -1);
            return ZERO_OK;
        }
        if (polls % POLLS == 0 || patience.waited > SLEEP_AFTER)
            ZERO_TRY(check_progress(comm, batch, &patience, doing, slot, error));
    }
}

static bool await_beats(zero_comm *comm, double seconds)
{
    double start = zr_clock_seconds();
    while (!zr_mpi_beats_gone(comm)) {
        if (zr_clock_seconds() - start > seconds)
            return false;
        zr_sleep_seconds(SLEEP_SECONDS);
    }
    return true;
}

static void send_beat(zero_comm *comm, double now)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    if (!zr_mpi_beats_gone(comm))
        return;
    job->beat_at = now;
    job->beat = (zr_mpi_note){
        .kind = ZR_MPI_BEAT, .rank = comm->rank, .step = comm->step, .work = comm->work};
    send_note(job, &job->beat, offsetof(zr_mpi_note, text), job->beats, comm->rank, comm->size);
}

void zr_mpi_progress(zero_comm *comm)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    double now = zr_clock_seconds();
    bool due = now - job->beat_at >= ZR_MIN(BEAT_SECONDS, comm->timeout / 8);
    if (job->failed || (!due && job->channels == 0))
        return;
    pthread_mutex_lock(&job->lock);
    if (due)
        send_beat(comm, now);
    // Messages of channels go on while this rank computes, because MPI moves them when it is
    // called.
    if (job->channels > 0)
        zr_mpi_receive_notes(job);
    pthread_mutex_unlock(&job->lock);
}

// Sends a failure to all ranks. This is not MPI_Abort, because the library never ends a process:
// every rank gets the note and ends its wait, and the program exits as it wants to, without
// MPI_Finalize; the launcher then ends the processes that are left.
static void send_abort(zero_comm *comm, const char *message)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    zr_mpi_note note = {
        .kind = ZR_MPI_ABORT, .rank = comm->rank, .step = comm->step, .work = comm->work};
    char work[ZR_WORK_TEXT];
    zr_work_text(comm->work, work);
    snprintf(note.text, sizeof note.text, "rank %d gave up at step %lld%s: %.900s", comm->rank,
             (long long)comm->step, work, message);
    keep_abort(job, &note);
    if (!await_beats(comm, ABORT_SECONDS))
        return;
    job->beat = note;
    send_note(job, &job->beat, sizeof job->beat, job->beats, comm->rank, comm->size);
    await_beats(comm, ABORT_SECONDS);
}

void zr_mpi_abort(zero_comm *comm, const char *message)
{
    zr_mpi_job *job = ((zr_mpi *)comm->impl)->job;
    if (atomic_exchange(&job->failed, true))
        return;
    pthread_mutex_lock(&job->lock);
    send_abort(comm, message);
    pthread_mutex_unlock(&job->lock);
}
