// The I/O engine, with io_uring and with threads: what is written is read back, with any cuts,
// lanes and directories.
#include "io_harness.h"

#include "base/alloc.h"

#define PAGE ((int64_t)ZR_IO_ALIGN)
#define MOST_REQUESTS 6

static kind uring = {.threads_only = false}, threads = {.threads_only = true};

// Writes or reads a few ranges of extents at once, no two of them with one in common.
static void exercise_once(vessel *v, bool write)
{
    zr_io_request requests[MOST_REQUESTS];
    int count = 0, begin = 0;
    while (count < MOST_REQUESTS && begin < v->extents.count) {
        int length = 1 + (int)(draw(&v->random) % (uint64_t)(v->extents.count - begin));
        int64_t first = v->extents.bounds[begin], bytes = v->extents.bounds[begin + length] - first;
        if (write)
            fill_randomly(&v->random, v->expected + first, bytes);
        if (write)
            memcpy(v->buffer + first, v->expected + first, (size_t)bytes);
        else
            memset(v->buffer + first, 0x77, (size_t)bytes);
        requests[count] = request_for(v, write, begin, length);
        start_ok(v, &requests[count++]);
        begin += length + (int)(draw(&v->random) % 3);
    }
    for (int i = count; i-- > 0;) { // not in the order in which they were started
        int64_t first = v->extents.bounds[requests[i].begin];
        wait_ok(v, &requests[i]);
        if (!write)
            assert_memory_equal(v->buffer + first, v->expected + first,
                                v->extents.bounds[requests[i].begin + requests[i].count] - first);
    }
}

static void exercise(const kind *kind, shape shape, zr_io_options options)
{
    vessel v;
    OPEN_OR_SKIP(&v, shape, options, kind);
    for (int round = 0; round < 4; round++) {
        exercise_once(&v, true);
        exercise_once(&v, false);
    }
    read_all_back(&v);
    vessel_close(&v);
}

static void what_is_written_is_read(void **state)
{
    uint64_t random = 987654321;
    for (int round = 0; round < 12; round++) {
        int64_t block = round % 2 ? BLOCK_BYTES : PAGE, cuts[6] = {0};
        shape shape = {.directories = 1 + round % 3,
                       .block = block,
                       .stripe = block * (int64_t)(1 + draw(&random) % 4)};
        shape.bytes = block * 3 + (int64_t)(draw(&random) % 60) * PAGE;
        shape.place = (int64_t)(draw(&random) % 7) * PAGE;
        for (int i = 1; i < ZR_COUNT(cuts); i++)
            cuts[i] = cuts[i - 1] + (int64_t)(draw(&random) % 50) * PAGE;
        shape.cuts = cuts;
        shape.cut_count = ZR_COUNT(cuts);
        shape.page_cache = round % 5 == 0;
        zr_io_options options = {.lanes = 1 + round % 2,
                                 .queue_depth = 1 + (int)(draw(&random) % 9),
                                 .overlap_events = true};
        exercise(*state, shape, options);
    }
}

static void one_transfer_a_system_call(void **state)
{
    exercise(*state, (shape){.block = 4 * PAGE, .bytes = 100 * PAGE},
             (zr_io_options){.single_submit = true, .overlap_events = true, .lanes = 2});
}

static void one_batch_after_another(void **state)
{
    exercise(*state, (shape){.block = 4 * PAGE, .bytes = 100 * PAGE},
             (zr_io_options){.overlap_events = false});
    exercise(*state, (shape){.block = 4 * PAGE, .bytes = 100 * PAGE},
             (zr_io_options){.single_submit = true, .queue_depth = 3, .lanes = 2});
}

static void many_lanes_share_the_work(void **state)
{
    exercise(*state, (shape){.block = PAGE, .bytes = 300 * PAGE, .directories = 3},
             (zr_io_options){.lanes = 4, .queue_depth = 4, .overlap_events = true});
}

static void what_was_never_written_is_zeros(void **state)
{
    vessel v;
    OPEN_OR_SKIP(&v, (shape){.block = PAGE, .bytes = 8 * PAGE},
                 (zr_io_options){.overlap_events = true}, *state);
    read_all_back(&v); // nothing was expected
    assert_int_equal(zr_io_counted(v.io).read, 0);
    zr_io_request some = request_for(&v, true, 2, 3);
    fill_randomly(&v.random, v.expected + 2 * PAGE, 3 * PAGE);
    memcpy(v.buffer, v.expected, (size_t)v.bytes);
    start_ok(&v, &some);
    wait_ok(&v, &some);
    read_all_back(&v);
    zr_io_counts counts = zr_io_counted(v.io);
    assert_int_equal(counts.read, 3 * PAGE);
    assert_int_equal(counts.written, 3 * PAGE);
    for (int i = 0; i < v.extents.count; i++)
        assert_int_equal(v.extents.written[i], i >= 2 && i < 5);
    vessel_close(&v);
}

static void the_description_is_true(void **state)
{
    kind *kind = *state;
    vessel v;
    zr_io_buffer wrong = {.base = (void *)(uintptr_t)PAGE, .bytes = (size_t)PAGE};
    OPEN_OR_SKIP(&v, (shape){.bytes = PAGE}, (zr_io_options){.queue_depth = 3, .lanes = 2}, kind);
    char expected[200];
    snprintf(expected, sizeof expected, "%s, %s%s",
             kind->threads_only ? "6 threads with pread and pwrite" : "io_uring",
             v.scratch.direct ? "O_DIRECT" : "page cache",
             kind->threads_only ? "" : ", registered buffers");
    if (!strstr(zr_io_description(v.io), "not registered")) // a small RLIMIT_MEMLOCK
        assert_string_equal(zr_io_description(v.io), expected);
    vessel_close(&v);
    OPEN_OR_SKIP(&v, (shape){.page_cache = true},
                 (zr_io_options){.queue_depth = 1, .buffers = &wrong, .buffer_count = 1}, kind);
    assert_string_equal(zr_io_description(v.io),
                        kind->threads_only
                            ? "1 thread with pread and pwrite, page cache"
                            : "io_uring, page cache, buffers not registered (Bad address)");
    write_all(&v);
    read_all_back(&v);
    vessel_close(&v);
}

// Two rings under way in one process, and a vector of each of two scratches in one engine.
static void engines_and_scratches_are_apart(void **state)
{
    vessel a, b;
    OPEN_OR_SKIP(&a, (shape){.block = PAGE, .bytes = 50 * PAGE},
                 (zr_io_options){.overlap_events = true}, *state);
    assert_true(vessel_open(&b, (shape){.block = PAGE, .bytes = 50 * PAGE, .directories = 2},
                            (zr_io_options){.overlap_events = true}, *state));
    b.random = 77;
    write_all(&a);
    write_all(&b);
    read_all_back(&a);
    read_all_back(&b);
    const zr_scratch *scratches[] = {&a.scratch, &b.scratch};
    zr_io_options options = {.block = PAGE,
                             .queue_depth = 4,
                             .lanes = 1,
                             .scratches = scratches,
                             .scratch_count = 2,
                             .overlap_events = true,
                             .threads_only = ((kind *)*state)->threads_only};
    zr_io *both = NULL;
    assert_int_equal(zr_io_create(&options, &both, NULL), ZERO_OK);
    zr_io_request requests[] = {request_for(&a, false, 0, 50), request_for(&b, false, 0, 50)};
    memset(a.buffer, 1, (size_t)a.bytes);
    memset(b.buffer, 1, (size_t)b.bytes);
    for (int i = 0; i < 2; i++)
        assert_int_equal(zr_io_start(both, &requests[i], NULL), ZERO_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(zr_io_wait(both, &requests[i], NULL), ZERO_OK);
    assert_memory_equal(a.buffer, a.expected, (size_t)a.bytes);
    assert_memory_equal(b.buffer, b.expected, (size_t)b.bytes);
    zr_io_destroy(both);
    vessel_close(&a);
    vessel_close(&b);
}

static void wrong_requests_are_refused(void **state)
{
    vessel v;
    zero_error error = {0};
    zr_scratch other = {0};
    OPEN_OR_SKIP(&v, (shape){.block = PAGE, .bytes = 8 * PAGE},
                 (zr_io_options){.overlap_events = true}, *state);
    zr_io_request request = request_for(&v, true, 0, 8);
    wait_ok(&v, &request); // not started
    start_ok(&v, &request);
    assert_int_equal(zr_io_start(v.io, &request, &error), ZERO_ERR_INTERNAL);
    assert_contains(error.message, "under way");
    wait_ok(&v, &request);
    wait_ok(&v, &request);
    request.buffer += 512;
    assert_int_equal(zr_io_start(v.io, &request, &error), ZERO_ERR_INTERNAL);
    assert_contains(error.message, "not aligned");
    request = request_for(&v, true, 3, 6);
    assert_int_equal(zr_io_start(v.io, &request, &error), ZERO_ERR_INTERNAL);
    request = request_for(&v, true, 0, 8);
    v.extents.scratch = &other;
    assert_int_equal(zr_io_start(v.io, &request, &error), ZERO_ERR_INTERNAL);
    v.extents.scratch = &v.scratch;
    request = request_for(&v, false, 8, 0);
    start_ok(&v, &request);
    wait_ok(&v, &request);
    vessel_close(&v);
}

static void wrong_options_are_refused(void **state)
{
    const zr_io_options good = {.block = PAGE,
                                .queue_depth = 2,
                                .lanes = 2,
                                .threads_only = ((kind *)*state)->threads_only};
    zr_io_options wrong[] = {good, good, good, good, good, good, good};
    zero_error error = {0};
    zr_io *io = NULL;
    wrong[0].block = 0;
    wrong[1].block = PAGE + 512;
    wrong[2].block = (int64_t)1 << 31;
    wrong[3].queue_depth = 0;
    wrong[4].lanes = -1;
    wrong[5].timeout = -1;
    wrong[6].queue_depth = 1 << 20;
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        assert_int_equal(zr_io_create(&wrong[i], &io, &error), ZERO_ERR_USAGE);
        assert_null(io);
    }
    zr_io_destroy(NULL);
    for (int nth = 1;; nth++) {
        zr_alloc_fail_at(nth);
        zero_status status = zr_io_create(&good, &io, &error);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK)
            break;
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_null(io);
        assert_true(nth < 50);
    }
    zr_io_destroy(io);
}

// The buffer is free as soon as destroy has returned, whatever the requests were doing.
static void the_end_abandons_what_has_not_begun(void **state)
{
    for (int round = 0; round < 8; round++) {
        vessel v;
        zr_io_request requests[4];
        OPEN_OR_SKIP(&v, (shape){.block = 64 * PAGE, .bytes = 512 * PAGE},
                     (zr_io_options){.queue_depth = 2, .overlap_events = round % 2}, *state);
        for (int i = 0; i < 4; i++) {
            requests[i] = request_for(&v, true, 2 * i, 2);
            start_ok(&v, &requests[i]);
        }
        if (round % 3 == 0)
            wait_ok(&v, &requests[0]);
        zr_io_destroy(v.io);
        v.io = NULL;
        memset(v.buffer, 0, (size_t)v.bytes);
        vessel_close(&v);
    }
}

static void nothing_is_allocated_after_the_start(void **state)
{
    vessel v;
    OPEN_OR_SKIP(&v, (shape){.block = PAGE, .bytes = 64 * PAGE},
                 (zr_io_options){.overlap_events = true}, *state);
    int64_t before = zr_alloc_count();
    write_all(&v);
    read_all_back(&v);
    assert_int_equal(zr_alloc_count(), before);
    vessel_close(&v);
}

#define BOTH(test)                                                                                 \
    {.name = #test " (io_uring)", .test_func = test, .initial_state = &uring},                     \
    {                                                                                              \
        .name = #test " (threads)", .test_func = test, .initial_state = &threads                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(what_is_written_is_read),
        BOTH(one_transfer_a_system_call),
        BOTH(one_batch_after_another),
        BOTH(many_lanes_share_the_work),
        BOTH(what_was_never_written_is_zeros),
        BOTH(the_description_is_true),
        BOTH(engines_and_scratches_are_apart),
        BOTH(wrong_requests_are_refused),
        BOTH(wrong_options_are_refused),
        BOTH(the_end_abandons_what_has_not_begun),
        BOTH(nothing_is_allocated_after_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
