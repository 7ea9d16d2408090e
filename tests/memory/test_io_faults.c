// The I/O engine when the disk or the kernel fails: what is tried again, what is not, and what the
// messages say.
#include "io_harness.h"

#include "base/clock.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define PAGE ((int64_t)ZR_IO_ALIGN)
#define PAGES 32

static kind uring = {.threads_only = false}, threads = {.threads_only = true};

typedef struct script {               // what happens to system calls
    atomic_int transfers, enters;     // so far
    int fail_at, reason;              // transfer number fail_at (from 1) gives reason
    int again_of_eight;               // transfers of eight that give EINTR or EAGAIN
    int again_for;                    // number of first transfers that give EAGAIN
    bool shorten;                     // at random
    int sleep_at;                     // transfer number sleep_at takes
    double seconds;                   // so long
    atomic_bool stalled;              // transfers do not end
    int busy_of_eight;                // calls of io_uring_enter of eight that give EBUSY or EAGAIN
    int enter_fails_at, enter_reason; // from this call on
    int64_t damage_at;    // a byte of the scratch that arrives changed; -1 if there is none
    pthread_mutex_t lock; // of what follows
    uint64_t random;
    int64_t order[PAGES]; // places, as transfers began
    int ordered;
} script;

static uint64_t roll(script *play, uint64_t sides)
{
    pthread_mutex_lock(&play->lock);
    uint64_t rolled = draw(&play->random) % sides;
    pthread_mutex_unlock(&play->lock);
    return rolled;
}

static void note_place(script *play, int64_t place)
{
    pthread_mutex_lock(&play->lock);
    if (play->ordered < PAGES)
        play->order[play->ordered++] = place;
    pthread_mutex_unlock(&play->lock);
}

static int64_t play_transfer(void *user, bool write, int64_t place, int64_t bytes)
{
    script *play = user;
    int number = atomic_fetch_add(&play->transfers, 1) + 1;
    note_place(play, place);
    while (atomic_load(&play->stalled))
        zr_sleep_seconds(1e-3);
    if (number == play->sleep_at)
        zr_sleep_seconds(play->seconds);
    if (number <= play->again_for)
        return -EAGAIN;
    if (play->fail_at && number == play->fail_at)
        return -play->reason;
    if (play->again_of_eight && roll(play, 8) < (uint64_t)play->again_of_eight)
        return roll(play, 2) ? -EINTR : -EAGAIN;
    return play->shorten && roll(play, 2) ? 1 + (int64_t)roll(play, (uint64_t)bytes) : bytes;
}

static int play_enter(void *user)
{
    script *play = user;
    int number = atomic_fetch_add(&play->enters, 1) + 1;
    if (play->enter_fails_at && number >= play->enter_fails_at)
        return play->enter_reason;
    return roll(play, 8) < (uint64_t)play->busy_of_eight ? roll(play, 2) ? EBUSY : EAGAIN : 0;
}

static void play_arrived(void *user, int64_t place, int64_t bytes, char *data)
{
    script *play = user;
    if (play->damage_at >= place && play->damage_at < place + bytes)
        data[play->damage_at - place] ^= 0x10;
}

static int refuse_setup(void *user) { return EPERM; }

typedef struct stage {
    script play;
    zr_io_faults faults;
    vessel v;
} stage;

// The vector: PAGES extents of a page each, unless `blocks`: then 4 of a block.
static void open_stage(stage *s, const kind *kind, bool blocks, zr_io_options options)
{
    s->play.random = 1234567;
    s->play.damage_at = -1;
    pthread_mutex_init(&s->play.lock, NULL);
    s->faults = (zr_io_faults){
        .user = &s->play, .enter = play_enter, .transfer = play_transfer, .arrived = play_arrived};
    options.faults = &s->faults;
    options.overlap_events = true;
    shape shape = blocks ? (struct shape){0} : (struct shape){.block = PAGE, .bytes = PAGES * PAGE};
    OPEN_OR_SKIP(&s->v, shape, options, kind);
}

static void close_stage(stage *s)
{
    vessel_close(&s->v);
    pthread_mutex_destroy(&s->play.lock);
}

static void restart(stage *s)
{
    atomic_store(&s->play.transfers, 0);
    s->play.ordered = 0;
}

static int written_count(const stage *s)
{
    int count = 0;
    for (int i = 0; i < s->v.extents.count; i++)
        count += s->v.extents.written[i];
    return count;
}

static void a_failed_write_is_named(void **state)
{
    static const int reasons[] = {EIO, ENOSPC};
    for (int i = 0; i < ZR_COUNT(reasons); i++) {
        stage s = {.play = {.fail_at = 5, .reason = reasons[i]}};
        zero_error error = {0};
        char expected[300];
        open_stage(&s, *state, false, (zr_io_options){.queue_depth = 1});
        assert_int_equal(transfer_all(&s.v, true, &error), ZERO_ERR_IO);
        snprintf(expected, sizeof expected, "writing 4096 bytes at 16384 of %s: %s",
                 s.v.scratch.names[0], strerror(reasons[i]));
        assert_string_equal(error.message, expected);
        assert_int_equal(written_count(&s), 4);
        assert_int_equal(atomic_load(&s.play.transfers), 5); // the rest was not begun
        assert_int_equal(zr_io_counted(s.v.io).written, 4 * PAGE);
        write_all(&s.v);
        read_all_back(&s.v);
        close_stage(&s);
    }
}

static void a_failed_read_is_named_and_ends_alone(void **state)
{
    stage s = {0};
    zero_error error = {0};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 4});
    write_all(&s.v);
    restart(&s);
    s.play.fail_at = 3;
    s.play.reason = EIO;
    zr_io_request first = request_for(&s.v, false, 0, PAGES / 2),
                  second = request_for(&s.v, false, PAGES / 2, PAGES / 2);
    memset(s.v.buffer, 0x33, (size_t)s.v.bytes);
    start_ok(&s.v, &first);
    start_ok(&s.v, &second);
    wait_ok(&s.v, &second);
    assert_int_equal(zr_io_wait(s.v.io, &first, &error), ZERO_ERR_IO);
    assert_contains(error.message, "reading 4096 bytes at ");
    assert_contains(error.message, ": Input/output error");
    assert_int_equal(first.unfinished, 0);
    assert_memory_equal(s.v.buffer + s.v.bytes / 2, s.v.expected + s.v.bytes / 2,
                        (size_t)s.v.bytes / 2);
    read_all_back(&s.v);
    close_stage(&s);
}

// A write that fails keeps the old checksum: the extent is read as it was, if the disk still has
// it.
static void a_failed_write_changes_no_mark(void **state)
{
    stage s = {0};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 8});
    write_all(&s.v);
    restart(&s);
    s.play.fail_at = 1;
    s.play.reason = EIO;
    zr_io_request one = request_for(&s.v, true, 7, 1);
    memset(s.v.buffer, 0x44, (size_t)s.v.bytes);
    start_ok(&s.v, &one);
    assert_int_equal(zr_io_wait(s.v.io, &one, NULL), ZERO_ERR_IO);
    read_all_back(&s.v);
    close_stage(&s);
}

static void short_transfers_are_continued(void **state)
{
    for (int blocks = 0; blocks < 2; blocks++) {
        stage s = {.play = {.shorten = true}};
        open_stage(&s, *state, blocks, (zr_io_options){.queue_depth = 4});
        write_all(&s.v);
        read_all_back(&s.v);
        close_stage(&s);
    }
}

static void interruptions_are_ridden_out(void **state)
{
    for (int blocks = 0; blocks < 2; blocks++) {
        stage s = {.play = {.again_of_eight = 5, .shorten = true}};
        open_stage(&s, *state, blocks, (zr_io_options){.queue_depth = 4, .timeout = 20});
        write_all(&s.v);
        read_all_back(&s.v);
        restart(&s);
        s.play.again_for = 60;
        write_all(&s.v);
        read_all_back(&s.v);
        close_stage(&s);
    }
}

static void interruptions_without_end_are_a_failure(void **state)
{
    stage s = {.play = {.again_for = 1 << 30}};
    zero_error error = {0};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 4, .timeout = 0.4});
    assert_int_equal(transfer_all(&s.v, true, &error), ZERO_ERR_IO);
    assert_contains(error.message, "Resource temporarily unavailable, for 0.");
    close_stage(&s);
}

static void a_slow_transfer_is_waited_for(void **state)
{
    stage s = {.play = {.sleep_at = 3, .seconds = 1.0}};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 2, .timeout = 10});
    double before = zr_clock_seconds();
    write_all(&s.v);
    assert_true(zr_clock_seconds() - before >= 1.0);
    read_all_back(&s.v);
    close_stage(&s);
}

static void a_disk_that_stalls_is_said(void **state)
{
    stage s = {.play = {.stalled = true}};
    zero_error error = {0};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 2, .timeout = 0.1});
    zr_io_request request = request_for(&s.v, true, 0, PAGES);
    start_ok(&s.v, &request);
    assert_int_equal(zr_io_wait(s.v.io, &request, &error), ZERO_ERR_TIMEOUT);
    assert_contains(error.message, "writing 4096 bytes at 0 of ");
    assert_contains(error.message, s.v.scratch.names[0]);
    assert_contains(error.message, "0.1");
    assert_true(request.started);
    zr_io_request later = request_for(&s.v, false, 0, 1);
    start_ok(&s.v, &later);
    assert_int_equal(zr_io_wait(s.v.io, &later, &error), ZERO_ERR_TIMEOUT);
    assert_contains(error.message, "not begun");
    atomic_store(&s.play.stalled, false);
    wait_ok(&s.v, &request);
    wait_ok(&s.v, &later);
    close_stage(&s);
}

static void *let_go(void *argument)
{
    zr_sleep_seconds(0.1);
    atomic_store((atomic_bool *)argument, false);
    return NULL;
}

static void the_end_waits_for_what_is_under_way(void **state)
{
    stage s = {.play = {.stalled = true}};
    pthread_t other;
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 2});
    zr_io_request request = request_for(&s.v, true, 0, PAGES);
    start_ok(&s.v, &request);
    while (!atomic_load(&s.play.transfers))
        zr_sleep_seconds(1e-3);
    assert_int_equal(pthread_create(&other, NULL, let_go, &s.play.stalled), 0);
    zr_io_destroy(s.v.io);
    s.v.io = NULL;
    assert_false(atomic_load(&s.play.stalled));
    assert_int_equal(request.unfinished, 0);
    assert_true(atomic_load(&s.play.transfers) < PAGES);
    pthread_join(other, NULL);
    close_stage(&s);
}

static void requests_begin_in_their_order(void **state)
{
    stage s = {.play = {.stalled = true}};
    static const int begins[] = {20, 0, 8}, counts[] = {12, 8, 12};
    zr_io_request requests[3];
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 1});
    for (int i = 0; i < 3; i++) {
        requests[i] = request_for(&s.v, true, begins[i], counts[i]);
        start_ok(&s.v, &requests[i]);
    }
    atomic_store(&s.play.stalled, false);
    for (int i = 0; i < 3; i++)
        wait_ok(&s.v, &requests[i]);
    assert_int_equal(s.play.ordered, PAGES);
    for (int i = 0, at = 0; i < 3; i++)
        for (int k = 0; k < counts[i]; k++)
            assert_int_equal(s.play.order[at++], (begins[i] + k) * PAGE);
    close_stage(&s);
}

static void a_kernel_that_is_busy_is_asked_again(void **state)
{
    stage s = {.play = {.busy_of_eight = 6}};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 4, .timeout = 20});
    write_all(&s.v);
    read_all_back(&s.v);
    assert_true(((kind *)*state)->threads_only || atomic_load(&s.play.enters) > 0);
    close_stage(&s);
}

static void a_kernel_that_is_busy_for_good_is_a_failure(void **state)
{
    stage s = {.play = {.busy_of_eight = 8}};
    zero_error error = {0};
    open_stage(&s, *state, false, (zr_io_options){.queue_depth = 4, .timeout = 0.4});
    if (!((kind *)*state)->threads_only) {
        assert_int_equal(transfer_all(&s.v, true, &error), ZERO_ERR_IO);
        assert_contains(error.message, "writing 4096 bytes at ");
        assert_true(strstr(error.message, "busy") || strstr(error.message, "unavailable"));
    }
    close_stage(&s);
}

static void a_kernel_that_refuses_later_is_a_failure(void **state)
{
    if (((kind *)*state)->threads_only)
        return;
    for (int at = 1; at < 6; at++) {
        stage s = {.play = {.enter_fails_at = at, .enter_reason = EPERM}};
        zero_error error = {0};
        open_stage(&s, *state, false, (zr_io_options){.queue_depth = 4, .timeout = 20});
        for (int again = 0; again < 3; again++) {
            assert_int_equal(transfer_all(&s.v, true, &error), ZERO_ERR_IO);
            assert_contains(error.message, ": Operation not permitted");
        }
        close_stage(&s);
    }
}

static void threads_stand_in_for_io_uring(void **state)
{
    vessel v;
    kind any = {.either = true};
    zr_io_faults faults = {.setup = refuse_setup};
    OPEN_OR_SKIP(&v, (shape){0}, (zr_io_options){.faults = &faults, .queue_depth = 2, .lanes = 2},
                 &any);
    assert_contains(zr_io_description(v.io), "4 threads with pread and pwrite (");
    write_all(&v);
    read_all_back(&v);
    vessel_close(&v);
}

static void damage_is_found(void **state)
{
    stage s = {0};
    zero_error error = {0};
    char page[ZR_IO_ALIGN * 2],
        *aligned = page + (ZR_IO_ALIGN - (uintptr_t)page % ZR_IO_ALIGN) % ZR_IO_ALIGN;
    open_stage(&s, *state, false, (zr_io_options){0});
    write_all(&s.v);
    s.play.damage_at = 9 * PAGE + 17;
    assert_int_equal(transfer_all(&s.v, false, &error), ZERO_ERR_IO);
    assert_contains(error.message, "reading 4096 bytes at 36864 of ");
    assert_contains(error.message, ": its checksum is ");
    assert_contains(error.message, ": what is on the disk is damaged");
    s.play.damage_at = -1;
    read_all_back(&s.v);
    memcpy(aligned, s.v.expected + 30 * PAGE, (size_t)PAGE);
    aligned[4095] ^= 1;
    assert_int_equal(pwrite(s.v.scratch.fds[0], aligned, (size_t)PAGE, 30 * PAGE), PAGE);
    assert_int_equal(transfer_all(&s.v, false, &error), ZERO_ERR_IO);
    assert_contains(error.message, "reading 4096 bytes at 122880 of ");
    close_stage(&s);
}

static void a_file_that_ends_is_said(void **state)
{
    static const int64_t ends[] = {5 * PAGE, 5 * PAGE + 100};
    for (int i = 0; i < ZR_COUNT(ends); i++) {
        stage s = {0};
        zero_error error = {0};
        open_stage(&s, *state, false, (zr_io_options){.queue_depth = 1, .timeout = 20});
        write_all(&s.v);
        assert_int_equal(ftruncate(s.v.scratch.fds[0], ends[i]), 0);
        assert_int_equal(transfer_all(&s.v, false, &error), ZERO_ERR_IO);
        assert_contains(error.message, "reading 4096 bytes at 20480 of ");
        assert_contains(error.message, i ? "only 100 bytes" : "the file ends at 20480");
        close_stage(&s);
    }
}

#define BOTH(test)                                                                                 \
    {.name = #test " (io_uring)", .test_func = test, .initial_state = &uring},                     \
    {                                                                                              \
        .name = #test " (threads)", .test_func = test, .initial_state = &threads                   \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(a_failed_write_is_named),
        BOTH(a_failed_read_is_named_and_ends_alone),
        BOTH(a_failed_write_changes_no_mark),
        BOTH(short_transfers_are_continued),
        BOTH(interruptions_are_ridden_out),
        BOTH(interruptions_without_end_are_a_failure),
        BOTH(a_slow_transfer_is_waited_for),
        BOTH(a_disk_that_stalls_is_said),
        BOTH(the_end_waits_for_what_is_under_way),
        BOTH(requests_begin_in_their_order),
        BOTH(a_kernel_that_is_busy_is_asked_again),
        BOTH(a_kernel_that_is_busy_for_good_is_a_failure),
        BOTH(a_kernel_that_refuses_later_is_a_failure),
        BOTH(damage_is_found),
        BOTH(a_file_that_ends_is_said),
        cmocka_unit_test(threads_stand_in_for_io_uring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
