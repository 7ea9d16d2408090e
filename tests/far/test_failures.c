// What a training on the far device says when something fails: memory that cannot be reserved, an
// operation, a rank that stops at a word. Each rank ends with one message that names rank, step and
// operation, none waits for the deadline where it need not, and nothing is left over.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "comm/local_control.h"
#include "far_training.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zero/grid.h>

enum { MOST_RANKS = 16, EACH = 10, WORDS = 12 };

static bool runs_all;

typedef struct outcome {
    harness_failure ranks[MOST_RANKS];
    far_report report;
    int failed;
} outcome;

static void train(const harness_case *c, const far_options *options, outcome *out)
{
    static harness_result got;
    harness_case run = *c;
    *out = (outcome){0};
    run.backend = "far";
    far_begin(options);
    harness_try(&run, &got, out->ranks);
    far_end(&out->report);
    assert_string_equal(out->report.first, "");
    assert_int_equal(out->report.allocations, 0);
    for (int r = 0; r < MOST_RANKS; r++)
        out->failed += out->ranks[r].status != ZERO_OK;
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words))
        count++;
    return count;
}

static void assert_says(const outcome *o, int rank, const char *words)
{
    if (count_of(o->ranks[rank].error.message, words) != 1)
        fail_msg("rank %d: %s: \"%s\" does not say \"%s\" once", rank,
                 zero_status_name(o->ranks[rank].status), o->ranks[rank].error.message, words);
}

// ---- memory ----

// Each rank's own message; or that of the rank whose reserve has failed, in another rank's.
static void check_reserve(const outcome *o, int ranks, int64_t n)
{
    char words[80];
    snprintf(words, sizeof words, ": reserve %lld fails, as the test asked", (long long)n);
    assert_int_equal(o->failed, ranks);
    int own = 0;
    for (int r = 0; r < ranks; r++) {
        assert_says(o, r, words);
        assert_says(o, r, "cannot reserve ");
        assert_true(o->ranks[r].status == ZERO_ERR_MEMORY || o->ranks[r].status == ZERO_ERR_PEER);
        own += o->ranks[r].status == ZERO_ERR_MEMORY;
        if (o->ranks[r].status == ZERO_ERR_PEER)
            assert_says(o, r, r ? ": rank 0 gave up at step 0: " : ": rank 1 gave up at step 0: ");
    }
    assert_true(own > 0);
}

static void each_reserve_fails_in_turn(void **state)
{
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int stage = runs_all ? 0 : 3; stage <= 3; stage++) {
            harness_case run = far_case_at(&far_plain_cases[1], stage, ranks);
            outcome o = {.failed = 1};
            int64_t n = 0;
            run.steps = 1;
            while (o.failed) {
                train(&run, &(far_options){.order = FAR_LAZY, .fail_reserve = ++n}, &o);
                if (o.failed)
                    check_reserve(&o, ranks, n);
            }
            assert_true(n > 10 * ranks);
        }
}

// ---- operations ----

// The rank whose operation has failed says where the failure came to it; the others, that this rank
// gave up.
static void check_operation(const outcome *o, int ranks, int64_t n)
{
    char words[80], begin[16];
    snprintf(words, sizeof words, ", the one that runs as number %lld, fails, as the test asked",
             (long long)n);
    assert_int_equal(o->failed, ranks);
    for (int r = 0; r < ranks; r++) {
        const char *message = o->ranks[r].error.message;
        snprintf(begin, sizeof begin, "rank %d, ", r);
        assert_says(o, r, words);
        assert_says(o, r, ": operation ");
        assert_true(o->ranks[r].status == ZERO_ERR_INTERNAL || o->ranks[r].status == ZERO_ERR_PEER);
        if (strncmp(message, begin, strlen(begin)) != 0 || !strstr(message, ", step "))
            fail_msg("\"%s\" names no rank and step", message);
        if (o->ranks[r].status == ZERO_ERR_PEER)
            assert_says(o, r, " gave up at step ");
    }
}

static void each_tenth_operation_fails_in_turn(void **state)
{
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int stage = runs_all ? 0 : 3; stage <= 3; stage++) {
            const harness_case run = far_case_at(&far_plain_cases[1], stage, ranks);
            int64_t executed = 1, failures = 0;
            for (int64_t n = 1; n <= executed; n += EACH) {
                outcome o;
                train(&run, &(far_options){.order = FAR_LAZY, .fail_row = n}, &o);
                executed = o.report.executed;
                if (executed < n)
                    break;
                check_operation(&o, ranks, n);
                failures++;
                executed = INT64_MAX;
            }
            assert_true(failures > 60 * ranks);
        }
}

// ---- a rank that stops ----

static struct {
    atomic_int stops_at, posts; // of rank 1
    atomic_bool gave_up;        // nobody noticed
} stopping;

void __real_zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value);
void __wrap_zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value);

// Waits until another rank has noticed.
static void stop(const zr_local *local)
{
    enum { NAP = 5000, NAPS = 4000 }; // microseconds; 20 seconds
    zr_local_failure failure;
    for (int i = 0; i < NAPS; i++, usleep(NAP))
        if (zr_local_failure_read(local->control, &failure))
            return;
    stopping.gave_up = true;
}

void __wrap_zr_local_post(const zr_local *local, _Atomic uint64_t *word, uint64_t value)
{
    if (local->rank == 1 && atomic_fetch_add(&stopping.posts, 1) + 1 == stopping.stops_at)
        stop(local);
    __real_zr_local_post(local, word, value);
}

static void open_with_a_short_deadline(zero_comm **comms)
{
    zero_error error = {0};
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 0.5};
    assert_int_equal(zero_comm_threads(2, &options, comms, &error), ZERO_OK);
}

static void stop_at(const harness_case *run, int n, outcome *out)
{
    stopping.stops_at = n;
    stopping.posts = 0;
    stopping.gave_up = false;
    train(run, &(far_options){.order = FAR_LAZY}, out);
    if (stopping.gave_up)
        fail_msg("word %d: nobody noticed", n);
}

static void check_stop(const outcome *o, int n)
{
    const char *message = o->ranks[0].error.message;
    if (o->ranks[0].status != ZERO_ERR_TIMEOUT)
        fail_msg("word %d: %d ranks fail, rank 0 with %s: \"%s\"", n, o->failed,
                 zero_status_name(o->ranks[0].status), message);
    if (strncmp(message, "rank 0, ", 8) != 0 || !strstr(message, ", step "))
        fail_msg("word %d: \"%s\" names no rank and step", n, message);
    assert_says(o, 0, ": rank 1 (alive) made no progress for 0.5 s; it was last seen at step ");
    if (o->failed == 2) // else it had nothing left to wait for
        assert_says(o, 1, "rank 1 (alive) made no progress for 0.5 s; it was last seen at step ");
}

static void a_rank_stops_at_each_word(void **state)
{
    harness_case run = far_case_at(&far_plain_cases[1], 3, 2);
    outcome o;
    run.open = open_with_a_short_deadline;
    run.steps = 2;
    stop_at(&run, 0, &o);
    assert_int_equal(o.failed, 0);
    int words = stopping.posts, between = runs_all ? 1 : words / WORDS;
    assert_true(between > 0);
    for (int n = 1; n <= words; n += between) {
        stop_at(&run, n, &o);
        check_stop(&o, n);
    }
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_reserve_fails_in_turn),
                                       cmocka_unit_test(each_tenth_operation_fails_in_turn),
                                       cmocka_unit_test(a_rank_stops_at_each_word)};
    runs_all = far_runs_all(count, arguments);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
