// `zero bench comm`: every operation that a training uses, by size, compared with what the memory
// of this machine allows. Where ranks exchange by messages, it teaches how long that takes
// (predict/rates.h).
#include "base/clock.h"
#include "base/numbers.h"
#include "base/traffic.h"
#include "comm/agreement.h"
#include "comm/window.h"
#include "memory/arena.h"
#include "predict/meter.h"
#include "predict/rates.h"
#include "commands/bench_shared.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SLOT = 0 };

// Bytes of the whole operand; over a network there are more of them, because messages of different
// sizes are sent in different ways.
static const int64_t sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20},
                     sizes_of_messages[] = {1 << 10,   4 << 10,   16 << 10,  64 << 10,
                                            128 << 10, 256 << 10, 512 << 10, 1 << 20,
                                            2 << 20,   4 << 20,   16 << 20,  64 << 20};
// Operations that take longer are not measured with larger operands.
static const double LONGEST = 0.2; // seconds

typedef struct comm_work {
    zero_comm *comm;
    zr_window window, shared, of_machine;
    zr_arena arena;
    void *dst;           // (largest shard)
    zero_dtype dtype;    // of the operand and of its sum
    int64_t shard_elems; // for the size that is being measured
    uint64_t version;
    char *from, *to; // private memory, as large as the largest operand
    // What is learnt of the link, of gathers into one copy of a machine last; NULL: nothing is.
    zr_rates *links;
} comm_work;

enum { LINK, LINK_OF_ONE_COPY, LINKS };

static zero_status reduce_scatter(void *user, zero_error *error)
{
    comm_work *w = user;
    zr_handle handle;
    const zr_sum_target to = {.data = w->dst, .dtype = w->dtype};
    ZERO_TRY(zr_comm_start(&w->window, ZERO_COMM_reduce_scatter, SLOT, 0, w->shard_elems, w->dtype,
                           &to, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(&w->window, SLOT, error);
}

static zero_status all_gather(void *user, zero_error *error)
{
    comm_work *w = user;
    zr_handle handle;
    ZERO_TRY(zr_comm_start(&w->window, ZERO_COMM_all_gather, SLOT, 0, w->shard_elems, w->dtype,
                           NULL, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(&w->window, SLOT, error);
}

static zero_status all_reduce(void *user, zero_error *error)
{
    comm_work *w = user;
    return zr_comm_all_reduce(&w->window, SLOT, 0, w->shard_elems, error);
}

// Does what stage 3 does with a mapped flat parameter: its owner publishes it, and all ranks read
// it in place.
static zero_status acquire_mapped(void *user, zero_error *error)
{
    comm_work *w = user;
    const zr_version_ops *versions = w->comm->versions;
    w->version++;
    ZERO_TRY(versions->await_released(&w->shared, SLOT, w->version - 1, error));
    ZERO_TRY(versions->publish(&w->shared, SLOT, w->version, error));
    ZERO_TRY(versions->await_published(&w->shared, SLOT, w->version, error));
    return versions->release(&w->shared, SLOT, w->version, error);
}

// Gathers into memory that the ranks of a machine share, as stage 3 does on several machines.
static zero_status all_gather_once(void *user, zero_error *error)
{
    comm_work *w = user;
    zr_handle handle;
    ZERO_TRY(zr_comm_start_gather(&w->of_machine, SLOT, 0, w->shard_elems, w->dtype, 0, w->dst,
                                  &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(&w->of_machine, SLOT, error);
}

// The sums of scalars that end a step.
static zero_status all_reduce_small(void *user, zero_error *error)
{
    comm_work *w = user;
    return zr_comm_all_reduce_small(w->comm, w->dst, w->shard_elems, ZERO_F32, ZR_SUM, error);
}

static zero_status barrier(void *user, zero_error *error)
{
    return zr_comm_barrier(((comm_work *)user)->comm, error);
}

static zero_status copy_memory(void *user, zero_error *error)
{
    comm_work *w = user;
    memcpy(w->to, w->from, (size_t)sizes[ZR_COUNT(sizes) - 1]);
    return ZERO_OK;
}

static zero_status triad(void *user, zero_error *error)
{
    comm_work *w = user;
    int64_t count = sizes[ZR_COUNT(sizes) - 1] / (2 * (int64_t)sizeof(float));
    const float *from = (const float *)w->from;
    zr_memory_triad((float *)w->to, from, from + count, count, 1);
    return ZERO_OK;
}

static zero_status reserve_operands(comm_work *w, zr_ledger *ledger, zero_error *error)
{
    static const char *const names[] = {"bench"};
    int64_t largest = sizes[ZR_COUNT(sizes) - 1],
            shard = ZR_ROUND_UP(largest / w->comm->size + (int64_t)sizeof(float) * 16, 64);
    ZERO_TRY(zr_window_create(w->comm, ZR_WINDOW_SYMMETRIC, shard * w->comm->size, 1, names,
                              &w->window, error));
    if (w->comm->versions)
        ZERO_TRY(zr_window_create(w->comm, ZR_WINDOW_SHARED, shard * w->comm->size, 1, names,
                                  &w->shared, error));
    if (w->links && w->comm->machine_ranks > 1)
        ZERO_TRY(zr_window_create(w->comm, ZR_WINDOW_MACHINE, shard * w->comm->size, 1, names,
                                  &w->of_machine, error));
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace,
                              (size_t)(2 * largest + shard + 3 * ZR_ALIGN), &w->arena, error));
    w->dst = zr_arena_take(&w->arena, (size_t)shard);
    w->from = zr_arena_take(&w->arena, (size_t)largest);
    w->to = zr_arena_take(&w->arena, (size_t)largest);
    memset(w->window.mine, 0, (size_t)(shard * w->comm->size));
    memset(w->dst, 0, (size_t)shard);
    return ZERO_OK;
}

static zero_status measure_memory(const zr_bench *bench, comm_work *w, zero_error *error)
{
    double largest = (double)sizes[ZR_COUNT(sizes) - 1], ranks = bench->meter.comm->size, seconds;
    ZERO_TRY(zr_meter_time(&bench->meter, copy_memory, w, &seconds, error));
    zr_bench_say(bench, "memory, all ranks at once: copy %.1f GB/s (read + write), ",
                 2 * largest * ranks / seconds * 1e-9);
    ZERO_TRY(zr_meter_time(&bench->meter, triad, w, &seconds, error));
    zr_bench_say(bench, "triad %.1f GB/s (3 streams)\n", 1.5 * largest * ranks / seconds * 1e-9);
    return ZERO_OK;
}

static void size_text(int64_t bytes, char out[static 32])
{
    snprintf(out, 32, bytes >= 1 << 20 ? "%lld MiB" : "%lld KiB",
             (long long)(bytes >= 1 << 20 ? bytes >> 20 : bytes >> 10));
}

// An operation, and as what its seconds are learnt.
typedef struct operation {
    const char *name;
    zr_timed_work work;
    zero_dtype dtype;
    zr_activity what; // ZR_ACTIVITY_COUNT: they are not
    bool one_copy;
} operation;

static zero_comm_op collective_of_activity(zr_activity what)
{
    switch (what) {
    case ZR_ACTIVITY_all_gather: return ZERO_COMM_all_gather;
    case ZR_ACTIVITY_exchange: return ZERO_COMM_all_reduce;
    default: return ZERO_COMM_reduce_scatter; // small sums bring as much
    }
}

// Returns the bytes that come to the rank to which most do: on one machine those of all others.
static int64_t bytes_that_come(const comm_work *w, const operation *o)
{
    const zero_comm *comm = w->comm;
    int others = comm->strangers ? comm->strangers : comm->size - 1,
        gathered = comm->strangers ? comm->fetches : others;
    int64_t shard = w->shard_elems * (int64_t)zero_dtype_bytes(o->dtype);
    return zr_collective_network_bytes(collective_of_activity(o->what), shard, 1, others, gathered);
}

static void learn_link_rate(comm_work *w, const operation *o, double seconds)
{
    if (w->links && o->what != ZR_ACTIVITY_COUNT)
        zr_rates_add(&w->links[o->one_copy ? LINK_OF_ONE_COPY : LINK], o->what,
                     bytes_that_come(w, o), 0, seconds, 1);
}

static zero_status time_call(comm_work *w, const operation *o, double *seconds, zero_error *error)
{
    double begin = zr_clock_seconds();
    ZERO_TRY(o->work(w, error));
    *seconds = zr_clock_seconds() - begin;
    return ZERO_OK;
}

static zero_status agree_on_slowest(const comm_work *w, double *seconds, zero_error *error)
{
    int64_t nanoseconds = (int64_t)(*seconds * 1e9);
    ZERO_TRY(zr_comm_agree_on_largest(w->comm, &nanoseconds, error));
    *seconds = (double)nanoseconds * 1e-9;
    return ZERO_OK;
}

// Times the call in the middle of many, because predictions go on from it for long, and some calls
// are disturbed by other programs.
static zero_status time_middle(const zr_bench *bench, comm_work *w, const operation *o,
                               double *seconds, zero_error *error)
{
    enum { FEWEST = 3, MOST = 256 };
    double times[MOST];
    ZERO_TRY(o->work(w, error)); // connects, and faults pages in
    ZERO_TRY(time_call(w, o, seconds, error));
    ZERO_TRY(agree_on_slowest(w, seconds, error));
    double wanted = bench->meter.seconds / ZR_MAX(*seconds, 1e-9);
    int count = wanted < FEWEST ? FEWEST : wanted > MOST ? MOST : (int)wanted;
    for (int i = 0; i < count; i++)
        ZERO_TRY(time_call(w, o, &times[i], error));
    *seconds = zr_median(times, count);
    return agree_on_slowest(w, seconds, error);
}

// Measures an operation on an operand of `bytes` bytes.
static zero_status measure_size(const zr_bench *bench, comm_work *w, const operation *o,
                                int64_t bytes, double *seconds, zero_error *error)
{
    char size[32];
    w->dtype = o->dtype;
    w->shard_elems = ZR_ROUND_UP(bytes / (int64_t)zero_dtype_bytes(o->dtype) / w->comm->size, 16);
    ZERO_TRY(w->links ? time_middle(bench, w, o, seconds, error)
                      : zr_meter_time(&bench->meter, o->work, w, seconds, error));
    size_text(bytes, size);
    zr_bench_say(bench, "%-19s %8s  %10.2f us  %8.2f GB/s\n", o->name, size, *seconds * 1e6,
                 (double)bytes / *seconds * 1e-9);
    learn_link_rate(w, o, *seconds);
    return ZERO_OK;
}

static zero_status measure_operation(const zr_bench *bench, comm_work *w, const operation *o,
                                     zero_error *error)
{
    const int64_t *all = w->links ? sizes_of_messages : sizes;
    int count = w->links ? ZR_COUNT(sizes_of_messages) : ZR_COUNT(sizes);
    double seconds = 0;
    for (int i = 0; i < count && (!w->links || seconds < LONGEST); i++)
        ZERO_TRY(measure_size(bench, w, o, all[i], &seconds, error));
    return ZERO_OK;
}

// Measures what is done only where ranks exchange by messages.
static zero_status measure_messages(const zr_bench *bench, comm_work *w, zero_error *error)
{
    static const int64_t small[] = {1 << 10, 8 << 10}; // of each rank
    static const operation sums = {.name = "all-reduce, scalars",
                                   .work = all_reduce_small,
                                   .dtype = ZERO_F32,
                                   .what = ZR_ACTIVITY_all_reduce},
                           gathers = {.name = "all-gather, once",
                                      .work = all_gather_once,
                                      .dtype = ZERO_F32,
                                      .what = ZR_ACTIVITY_all_gather,
                                      .one_copy = true};
    double seconds;
    if (w->of_machine.comm)
        ZERO_TRY(measure_operation(bench, w, &gathers, error));
    for (int i = 0; i < ZR_COUNT(small); i++)
        ZERO_TRY(measure_size(bench, w, &sums, small[i] * w->comm->size, &seconds, error));
    return ZERO_OK;
}

static zero_status measure_latency(const zr_bench *bench, comm_work *w, const char *name,
                                   zr_timed_work work, zero_error *error)
{
    double seconds;
    ZERO_TRY(zr_meter_time(&bench->meter, work, w, &seconds, error));
    zr_bench_say(bench, "%-19s %8s  %10.2f us\n", name, "", seconds * 1e6);
    return ZERO_OK;
}

static zero_status measure_all(const zr_bench *bench, comm_work *w, zero_error *error)
{
    static const operation operations[] = {
        {"reduce-scatter", reduce_scatter, ZERO_F32, ZR_ACTIVITY_reduce_scatter, false},
        {"reduce-scatter bf16", reduce_scatter, ZERO_BF16, ZR_ACTIVITY_COUNT, false},
        {"all-gather", all_gather, ZERO_F32, ZR_ACTIVITY_all_gather, false},
        {"all-reduce", all_reduce, ZERO_F32, ZR_ACTIVITY_exchange, false},
    };
    ZERO_TRY(measure_memory(bench, w, error));
    zr_bench_say(bench, "operation               size          time   operand bytes / time\n");
    for (int i = 0; i < ZR_COUNT(operations); i++)
        ZERO_TRY(measure_operation(bench, w, &operations[i], error));
    if (w->links)
        ZERO_TRY(measure_messages(bench, w, error));
    ZERO_TRY(measure_latency(bench, w, "barrier", barrier, error));
    if (w->comm->versions)
        ZERO_TRY(measure_latency(bench, w, "mapped parameters", acquire_mapped, error));
    zr_bench_say(bench,
                 "Mapped parameters of any size are read in place (stage 3 on one machine).\n");
    return ZERO_OK;
}

// Prepares to learn of the link, where ranks exchange by messages.
static zero_status expect_links(comm_work *w, zero_error *error)
{
    const zero_comm *comm = w->comm;
    int together = comm->size, machines = 1;
    if (comm->size == 1 || comm->versions)
        return ZERO_OK;
    if (comm->strangers > 0) {
        together = comm->size - comm->strangers;
        machines = (comm->size + together - 1) / together;
    }
    w->links = zr_alloc(LINKS * sizeof *w->links, error);
    if (!w->links)
        return ZERO_ERR_MEMORY;
    for (int link = 0; link < LINKS; link++)
        w->links[link].setting = zr_link_setting(machines, together, link == LINK_OF_ONE_COPY);
    return ZERO_OK;
}

// Keeps what was learnt, in the book of the first rank's machine.
static void keep_links(const zr_bench *bench, comm_work *w)
{
    if (!w->links || w->comm->rank > 0)
        return;
    for (int link = 0; link < LINKS; link++)
        w->links[link].measured = (int64_t)time(NULL);
    const zr_rate_book found = {.settings = w->links, .count = LINKS};
    zr_rate_book_keep(&found, bench->logger);
    zr_bench_say(bench, "Predictions know how long these take from now on (zero doctor).\n");
}

zero_status zr_bench_comm(const zr_bench *bench, const zero_bench_options *options,
                          zero_error *error)
{
    zr_ledger ledger = {0};
    comm_work work = {.comm = bench->meter.comm};
    zero_status status = expect_links(&work, error);
    if (status == ZERO_OK)
        status = reserve_operands(&work, &ledger, error);
    if (status == ZERO_OK)
        status = measure_all(bench, &work, error);
    if (status == ZERO_OK)
        keep_links(bench, &work);
    zr_free(work.links);
    zr_window_destroy(&work.of_machine);
    zr_arena_destroy(&work.arena);
    zr_window_destroy(&work.shared);
    zr_window_destroy(&work.window);
    return status;
}
