#include "comm/comm_ops.h"
#include "comm/window.h"
#include "compute/tree_sum.h"
#include "lazy_comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AHEAD = 1 }; // the rank that runs ahead: of small flat parameters the other one owns most
enum { MOST_WINDOWS = 8, MOST_SLOTS = 256, POISON = 0xff, PAGE = 4096 };

typedef struct slot_words {                            // of one slot, by rank
    uint64_t started[LAZY_RANKS], drained[LAZY_RANKS]; // operations
    uint64_t published[LAZY_RANKS]; // versions; machine windows: gathers whose own shard is there
    uint64_t released[LAZY_RANKS];
} slot_words;

typedef struct lazy_window {
    char *region[LAZY_RANKS]; // one and the same where ranks share it
    slot_words slots[MOST_SLOTS];
} lazy_window;

typedef struct lazy_wait { // what a rank waits for: *word >= target
    const uint64_t *word;
    uint64_t target;
    const char *doing, *slot;
} lazy_wait;

typedef struct lazy_job {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int turn;                           // the rank that runs
    const lazy_wait *waits[LAZY_RANKS]; // NULL: it waits for nothing
    bool gone[LAZY_RANKS];              // it makes no more calls
    int users;
    bool failed;
    char why[ZERO_MESSAGE_BYTES];
    bool shares; // the machine's window is one
    lazy_window *windows[MOST_WINDOWS];
    int window_count[LAZY_RANKS];
    char small[LAZY_RANKS][2][ZR_COMM_SMALL_BYTES];
    uint64_t posted[LAZY_RANKS]; // small operands
    const void *mail;            // what a send has at hand
    uint64_t sent, received;
} lazy_job;

static bool is_ready(const lazy_wait *wait) { return *wait->word >= wait->target; }

static void hand_over(lazy_job *job, int to)
{
    job->turn = to;
    pthread_cond_broadcast(&job->turned);
}

static void await_turn(lazy_job *job, int rank)
{
    while (job->turn != rank && !job->failed)
        pthread_cond_wait(&job->turned, &job->lock);
}

static void fail_all(lazy_job *job, const char *why)
{
    if (!job->failed)
        snprintf(job->why, sizeof job->why, "%s", why);
    job->failed = true;
    pthread_cond_broadcast(&job->turned);
}

// Every call stands between these two. A rank's first one waits until it is its turn.
static lazy_job *enter(zero_comm *comm)
{
    lazy_job *job = comm->impl;
    pthread_mutex_lock(&job->lock);
    await_turn(job, comm->rank);
    return job;
}

static void give_way(const zero_comm *comm)
{
    lazy_job *job = comm->impl;
    if (comm->rank != AHEAD && job->waits[AHEAD] && is_ready(job->waits[AHEAD])) {
        hand_over(job, AHEAD);
        await_turn(job, comm->rank);
    }
}

static zero_status leave(zero_comm *comm, zero_error *error)
{
    lazy_job *job = comm->impl;
    give_way(comm);
    zero_status status =
        job->failed ? zr_fail(error, ZERO_ERR_PEER, "rank %d: %s", comm->rank, job->why) : ZERO_OK;
    pthread_mutex_unlock(&job->lock);
    return status;
}

static void await(zero_comm *comm, const lazy_wait *wait)
{
    lazy_job *job = comm->impl;
    int other = 1 - comm->rank;
    while (!job->failed && !is_ready(wait)) {
        const lazy_wait *others = job->waits[other];
        job->waits[comm->rank] = wait;
        if (job->gone[other] || (others && !is_ready(others))) {
            char why[ZERO_MESSAGE_BYTES];
            snprintf(why, sizeof why, "%s of %s will never end", wait->doing,
                     wait->slot ? wait->slot : "-");
            fail_all(job, why);
        } else {
            hand_over(job, other);
            await_turn(job, comm->rank);
        }
    }
    job->waits[comm->rank] = NULL;
}

static slot_words *words_of(const zr_window *window, int slot)
{
    return &((lazy_window *)window->impl)->slots[slot];
}

static void await_word(const zr_window *window, int slot, const uint64_t *word, uint64_t target,
                       const char *doing)
{
    const lazy_wait wait = {word, target, doing,
                            window->slot_names ? window->slot_names[slot] : NULL};
    await(window->comm, &wait);
}

static void await_both(const zr_window *window, int slot, const uint64_t *words, uint64_t target,
                       const char *doing)
{
    for (int r = 0; r < LAZY_RANKS; r++)
        await_word(window, slot, &words[r], target, doing);
}

static char *make_region(int64_t bytes)
{
    char *region = aligned_alloc(PAGE, (size_t)(bytes + PAGE) / PAGE * PAGE);
    if (!region)
        abort();
    return memset(region, 0, (size_t)bytes);
}

static bool is_one(const lazy_job *job, const zr_window *window)
{
    return window->kind == ZR_WINDOW_SHARED || (window->kind == ZR_WINDOW_MACHINE && job->shares);
}

static lazy_window *make_window(const lazy_job *job, const zr_window *window)
{
    lazy_window *made = calloc(1, sizeof *made);
    if (!made || window->slots > MOST_SLOTS)
        abort();
    made->region[0] = make_region(window->bytes);
    made->region[1] = is_one(job, window) ? made->region[0] : make_region(window->bytes);
    return made;
}

// Windows last as long as the job: a rank that fails may leave another one reading.
static zero_status window_create(zero_comm *comm, zr_window *window, zero_error *error)
{
    lazy_job *job = enter(comm);
    int w = job->window_count[comm->rank]++;
    if (w == MOST_WINDOWS)
        abort();
    if (!job->windows[w])
        job->windows[w] = make_window(job, window);
    window->impl = job->windows[w];
    window->mine = job->windows[w]->region[comm->rank];
    return leave(comm, error);
}

// Engines destroy windows when they make no more calls.
static void window_destroy(zr_window *window)
{
    lazy_job *job = window->comm->impl;
    pthread_mutex_lock(&job->lock);
    job->gone[window->comm->rank] = true;
    hand_over(job, 1 - window->comm->rank);
    pthread_mutex_unlock(&job->lock);
}

static int64_t shard_bytes(const zr_handle *handle)
{
    return handle->shard_elems * (int64_t)zero_dtype_bytes(handle->dtype);
}

static void poison_sum(const zr_handle *handle)
{
    const zr_sum_target *to = &handle->to;
    const char *mine = handle->window->mine, *data = to->data;
    bool in_place = data >= mine && data < mine + handle->window->bytes;
    if (data && !to->adds && !in_place)
        memset(to->data, POISON, (size_t)handle->shard_elems * zero_dtype_bytes(to->dtype));
}

// A region that ranks share is theirs until all of them have started.
static void poison_gathered(const lazy_job *job, const zr_handle *handle, const slot_words *words)
{
    const zr_window *window = handle->window;
    int64_t bytes = shard_bytes(handle);
    bool one = is_one(job, window);
    if (one && words->started[0] != words->started[1])
        return;
    for (int r = 0; r < LAZY_RANKS; r++)
        if (handle->own || r != window->comm->rank)
            memset(window->mine + handle->offset + r * bytes, POISON, (size_t)bytes);
}

static zero_status start(zr_handle *handle, zero_error *error)
{
    zr_window *window = handle->window;
    int rank = window->comm->rank;
    lazy_job *job = enter(window->comm);
    slot_words *words = words_of(window, handle->slot);
    if (words->started[rank] != words->drained[rank])
        fail_all(job, "an exchange is started before the one before it has been awaited");
    handle->sequence = ++words->started[rank];
    if (handle->op == ZERO_COMM_reduce_scatter)
        poison_sum(handle);
    else
        poison_gathered(job, handle, words);
    return leave(window->comm, error);
}

static zero_status reduce_scatter_wait(zr_handle *handle, const zr_sum_target *to,
                                       zero_error *error)
{
    zr_window *window = handle->window;
    int rank = window->comm->rank;
    lazy_job *job = enter(window->comm);
    lazy_window *lazy = window->impl;
    slot_words *words = words_of(window, handle->slot);
    const void *sources[LAZY_RANKS];
    await_both(window, handle->slot, words->started, handle->sequence, "reduce_scatter");
    for (int r = 0; r < LAZY_RANKS; r++)
        sources[r] = lazy->region[r] + handle->offset + rank * shard_bytes(handle);
    if (!job->failed)
        zr_tree_sum(to, handle->dtype, sources, LAZY_RANKS, handle->shard_elems, 1);
    words->drained[rank] = handle->sequence;
    return leave(window->comm, error);
}

// Each puts its own shard into its region, or into the one of all.
static void put_own(const zr_handle *handle, slot_words *words)
{
    zr_window *window = handle->window;
    int64_t bytes = shard_bytes(handle);
    memcpy(window->mine + handle->offset + window->comm->rank * bytes, handle->own, (size_t)bytes);
    words->published[window->comm->rank] = handle->sequence;
    await_both(window, handle->slot, words->published, handle->sequence, "all_gather");
    give_way(window->comm);
}

static zero_status all_gather_wait(zr_handle *handle, zero_error *error)
{
    zr_window *window = handle->window;
    int rank = window->comm->rank, other = 1 - rank;
    lazy_job *job = enter(window->comm);
    const lazy_window *lazy = window->impl;
    slot_words *words = words_of(window, handle->slot);
    int64_t at = handle->offset + other * shard_bytes(handle);
    await_both(window, handle->slot, words->started, handle->sequence, "all_gather");
    if (handle->own && !job->failed)
        put_own(handle, words);
    if (!is_one(job, window) && !job->failed)
        memcpy(lazy->region[rank] + at, lazy->region[other] + at, (size_t)shard_bytes(handle));
    words->drained[rank] = handle->sequence;
    return leave(window->comm, error);
}

static zero_status quiesce(zr_window *window, int slot, zero_error *error)
{
    int rank = window->comm->rank;
    enter(window->comm);
    const slot_words *words = words_of(window, slot);
    await_word(window, slot, &words->drained[1 - rank], words->started[rank], "quiesce");
    return leave(window->comm, error);
}

static zero_status publish(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    enter(window->comm);
    words_of(window, slot)->published[window->comm->rank] = version;
    return leave(window->comm, error);
}

static zero_status await_published(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    enter(window->comm);
    await_both(window, slot, words_of(window, slot)->published, version, "publication");
    return leave(window->comm, error);
}

static zero_status release(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    enter(window->comm);
    words_of(window, slot)->released[window->comm->rank] = version;
    return leave(window->comm, error);
}

static zero_status await_released(zr_window *window, int slot, uint64_t version, zero_error *error)
{
    enter(window->comm);
    await_both(window, slot, words_of(window, slot)->released, version, "release");
    return leave(window->comm, error);
}

// A rank is at most one operand ahead, so two places of each suffice.
static zero_status all_reduce_small(zero_comm *comm, void *data, int64_t count, zero_dtype dtype,
                                    zr_reduction how, zero_error *error)
{
    lazy_job *job = enter(comm);
    size_t bytes = (size_t)count * zero_dtype_bytes(dtype);
    uint64_t turn = ++job->posted[comm->rank];
    memcpy(job->small[comm->rank][turn % 2], data, bytes);
    await(comm, &(lazy_wait){&job->posted[1 - comm->rank], turn, "all_reduce", NULL});
    memcpy(data, job->small[0][turn % 2], bytes);
    zr_comm_combine(data, job->small[1][turn % 2], count, dtype, how);
    return leave(comm, error);
}

static zero_status barrier(zero_comm *comm, zero_error *error)
{
    float nothing = 0;
    return all_reduce_small(comm, &nothing, 1, ZERO_F32, ZR_SUM, error);
}

static zero_status send(zero_comm *comm, const void *data, int64_t bytes, int to, zero_error *error)
{
    lazy_job *job = enter(comm);
    job->mail = data;
    job->sent++;
    await(comm, &(lazy_wait){&job->received, job->sent, "send", NULL});
    return leave(comm, error);
}

static zero_status recv(zero_comm *comm, void *data, int64_t bytes, int from, zero_error *error)
{
    lazy_job *job = enter(comm);
    await(comm, &(lazy_wait){&job->sent, job->received + 1, "recv", NULL});
    if (!job->failed)
        memcpy(data, job->mail, (size_t)bytes);
    job->received++;
    return leave(comm, error);
}

static void abort_job(zero_comm *comm, const char *message)
{
    lazy_job *job = comm->impl;
    pthread_mutex_lock(&job->lock);
    fail_all(job, message);
    pthread_mutex_unlock(&job->lock);
}

static void destroy_window(lazy_window *window)
{
    if (window && window->region[1] != window->region[0])
        free(window->region[1]);
    if (window)
        free(window->region[0]);
    free(window);
}

// After the ranks' threads have ended.
static void destroy(zero_comm *comm)
{
    lazy_job *job = comm->impl;
    free(comm);
    if (--job->users > 0)
        return;
    for (int w = 0; w < MOST_WINDOWS; w++)
        destroy_window(job->windows[w]);
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->turned);
    free(job);
}

static const zr_comm_ops lazy_ops = {
    .name = "lazy",
    .window_create = window_create,
    .window_destroy = window_destroy,
    .reduce_scatter_wait = reduce_scatter_wait,
    .all_gather_wait = all_gather_wait,
    .start = start,
    .quiesce = quiesce,
    .all_reduce_small = all_reduce_small,
    .send = send,
    .recv = recv,
    .barrier = barrier,
    .abort = abort_job,
    .destroy = destroy,
};

static const zr_version_ops lazy_versions = {
    .publish = publish,
    .await_published = await_published,
    .release = release,
    .await_released = await_released,
};

static void open_job(const zr_version_ops *versions, bool shares, zero_comm **comms)
{
    lazy_job *job = calloc(1, sizeof *job);
    if (!job)
        abort();
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->turned, NULL);
    job->users = LAZY_RANKS;
    job->turn = AHEAD;
    job->shares = shares;
    for (int r = 0; r < LAZY_RANKS; r++) {
        comms[r] = calloc(1, sizeof *comms[r]);
        if (!comms[r])
            abort();
        *comms[r] = (zero_comm){.ops = &lazy_ops,
                                .versions = versions,
                                .rank = r,
                                .job = comms[r],
                                .size = LAZY_RANKS,
                                .machine_ranks = shares ? LAZY_RANKS : 0,
                                .impl = job};
    }
}

void lazy_comm_that_maps(zero_comm **comms) { open_job(&lazy_versions, true, comms); }

void lazy_comm_that_shares(zero_comm **comms) { open_job(NULL, true, comms); }

void lazy_comm_apart(zero_comm **comms) { open_job(NULL, false, comms); }
