// What goes wrong on one rank of a pipeline ends all others, and every message names that rank, its
// pipeline stage, chunk and micro-batch, once.
#include "pipeline_faults.h"

#include "base/clock.h"

#include "../sanitizers.h"

#include <zero/run.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { LONG = 100 }; // a deadline in seconds, for which nobody may wait

static char *program;

typedef struct told { // by a rank
    zero_status status;
    zero_error error;
} told;

typedef struct rank {
    const fault *fault;
    zero_comm *comm;
    told told;
} rank;

static void *run_rank(void *argument)
{
    rank *self = argument;
    self->told.status = fault_run(self->comm, self->fault, &self->told.error);
    return NULL;
}

static void run_on_threads(const fault *fault, double timeout, told all[FAULT_WORLD])
{
    zero_comm *comms[FAULT_WORLD];
    pthread_t threads[FAULT_WORLD];
    rank ranks[FAULT_WORLD] = {{0}};
    const zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = timeout};
    double begin = zr_clock_seconds();
    assert_int_equal(zero_comm_threads(FAULT_WORLD, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < FAULT_WORLD; r++) {
        ranks[r] = (rank){.fault = fault, .comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < FAULT_WORLD; r++) {
        pthread_join(threads[r], NULL);
        all[r] = ranks[r].told;
    }
    for (int r = 0; r < FAULT_WORLD; r++)
        zero_comm_destroy(comms[r]);
    assert_true(zr_clock_seconds() - begin < LONG / 2);
}

static int count_words(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = strstr(text, words); at; at = strstr(at + 1, words))
        count++;
    return count;
}

static void expect_message(const fault *fault, int r, const char *text, const char *words)
{
    if (!strstr(text, words) || count_words(text, ", pipeline stage") > 1)
        fail_msg("%s, fault %d of rank %d: rank %d says \"%s\", and not once \"%s\"",
                 fault->schedule, fault->kind, fault->rank, r, text, words);
}

// own: what the rank at fault says itself; others: what the others say of it.
static void expect(const fault *fault, const char *own, const char *others)
{
    told all[FAULT_WORLD];
    run_on_threads(fault, LONG, all);
    for (int r = 0; r < FAULT_WORLD; r++) {
        assert_int_not_equal(all[r].status, ZERO_OK);
        expect_message(fault, r, all[r].error.message, r == fault->rank ? own : others);
    }
}

static void everything_is_fine_without_faults(void **state)
{
    static const char *const schedules[] = {"zb-h1", "2bw", "pipedream"};
    told all[FAULT_WORLD];
    for (int i = 0; i < 3; i++) {
        run_on_threads(&(fault){.schedule = schedules[i], .unit = "layers.2"}, LONG, all);
        for (int r = 0; r < FAULT_WORLD; r++)
            if (all[r].status != ZERO_OK)
                fail_msg("%s, rank %d: %s", schedules[i], r, all[r].error.message);
    }
}

// Rank 3 is data rank 1 of pipeline stage 1.
static void expect_of_unit(const char *schedule, fault_kind kind, int chunk, const char *doing)
{
    char own[192], others[256];
    const fault fault = {.kind = kind,
                         .schedule = schedule,
                         .rank = 3,
                         .step = 1,
                         .micro_batch = 2,
                         .unit = chunk ? "layers.4" : "layers.2"};
    snprintf(own, sizeof own, "%s (rank 3, pipeline stage 1 of 3, chunk %d: %s)",
             kind == FAULT_SILENT ? zero_status_text(ZERO_ERR_DATA)
             : chunk              ? "unit layers.4 is broken"
                                  : "unit layers.2 is broken",
             chunk, doing);
    snprintf(others, sizeof others, "rank 3 gave up at step %d: %s",
             kind == FAULT_EVALUATION ? 0 : 1, own);
    expect(&fault, own, others);
}

static void a_unit_that_fails_ends_all(void **state)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "interleaved:2"};
    static const struct {
        fault_kind kind;
        const char *doing;
    } kinds[] = {{FAULT_FORWARD, "forward of micro-batch 2"},
                 {FAULT_BACKWARD, "backward of micro-batch 2"},
                 {FAULT_EVALUATION, "evaluation"}};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            if (!SANITIZED || k == i % 3)
                expect_of_unit(schedules[i], kinds[k].kind, i == 3, kinds[k].doing);
    expect_of_unit("zb-h1", FAULT_WEIGHT, 0, "weight of micro-batch 2");
    expect_of_unit("1f1b", FAULT_SILENT, 0, "forward of micro-batch 2");
}

// A window of two steps has 12 micro-batches: micro-batch 2 of its second step is number 8 there.
static void a_unit_that_fails_in_a_window_ends_all(void **state)
{
    static const char *const schedules[] = {"2bw", "pipedream"};
    static const struct {
        fault_kind kind;
        const char *own;
    } kinds[] = {{FAULT_FORWARD, "unit layers.2 is broken (rank 3, pipeline stage 1 of 3, chunk 0: "
                                 "forward of micro-batch 8)"},
                 {FAULT_BACKWARD,
                  "unit layers.2 is broken (rank 3, pipeline stage 1 of 3, chunk 0: "
                  "backward of micro-batch 8)"},
                 {FAULT_EVALUATION, "unit layers.2 is broken (rank 3, pipeline stage 1 of 3, chunk "
                                    "0: evaluation)"},
                 {FAULT_ABORT, "rank 3 gave up at step 0, pipeline stage 1 of 3, chunk 0, "
                               "micro-batch 8: the program wants no more"}};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < ZR_COUNT(kinds); k++) {
            char others[256];
            const fault fault = {kinds[k].kind, schedules[i], 3, 1, 2, "layers.2"};
            snprintf(others, sizeof others, "%s%s",
                     fault.kind == FAULT_ABORT ? "" : "rank 3 gave up at step 0: ", kinds[k].own);
            if (!SANITIZED || k % 2 == i)
                expect(&fault, kinds[k].own, others);
        }
}

static void a_rank_that_gives_up_ends_all(void **state)
{
    static const char words[] = "rank 3 gave up at step 1, pipeline stage 1 of 3, chunk 0, "
                                "micro-batch 2: the program wants no more";
    const fault fault = {.kind = FAULT_ABORT,
                         .schedule = "1f1b",
                         .rank = 3,
                         .step = 1,
                         .micro_batch = 2,
                         .unit = "layers.2"};
    expect(&fault, words, words);
}

// The rank says what is missing, and goes; the others say that it has gone.
static void a_rank_without_batches_ends_all(void **state)
{
    static const int ranks[] = {1, 4}; // of the first and of the last pipeline stage
    for (int i = 0; i < 2; i++) {
        char words[64];
        const fault fault = {
            .kind = FAULT_NO_BATCHES, .schedule = "1f1b", .rank = ranks[i], .step = 1};
        snprintf(words, sizeof words, "rank %d has destroyed its communicator", ranks[i]);
        expect(&fault, "zero_train_batch: batches is missing", words);
    }
}

static void the_middle_needs_no_batches(void **state)
{
    told all[FAULT_WORLD];
    run_on_threads(&(fault){.kind = FAULT_NO_BATCHES, .schedule = "1f1b", .rank = 2, .step = 1},
                   LONG, all);
    for (int r = 0; r < FAULT_WORLD; r++)
        assert_int_equal(all[r].status, ZERO_OK);
}

static void other_samples(const char *schedule, fault_kind kind, int rank, int step)
{
    told all[FAULT_WORLD];
    char words[128];
    const fault fault = {
        .kind = kind, .schedule = schedule, .rank = rank, .step = step, .micro_batch = 3};
    run_on_threads(&fault, LONG, all);
    snprintf(words, sizeof words,
             "step %d: ranks %d and %d are the first and the last pipeline stage of one model and "
             "have different micro-batches",
             step, rank % FAULT_DATA, 4 + rank % FAULT_DATA);
    assert_int_equal(all[rank].status, ZERO_ERR_USAGE);
    for (int r = 0; r < FAULT_WORLD; r++) {
        assert_int_not_equal(all[r].status, ZERO_OK);
        expect_message(&fault, r, all[r].error.message, words);
    }
}

static void other_samples_are_refused_before_the_update(void **state)
{
    other_samples("zb-h1", FAULT_OTHER_SAMPLES, 1, 1);
    other_samples("zb-h1", FAULT_OTHER_SAMPLES, 4, 1);
    other_samples("zb-h1", FAULT_OTHER_EVALUATED, 0, 1);
    other_samples("zb-h1", FAULT_OTHER_EVALUATED, 5, 1);
}

// A window has made updates by then.
static void other_samples_end_all_at_the_end_of_a_window(void **state)
{
    other_samples("2bw", FAULT_OTHER_SAMPLES, 1, 2);
    other_samples("pipedream", FAULT_OTHER_SAMPLES, 4, 0);
}

// ---- processes ----

static fault fault_of_process(char **arguments)
{
    return (fault){.kind = atoi(arguments[2]),
                   .schedule = arguments[5],
                   .rank = 3,
                   .step = 1,
                   .micro_batch = 2,
                   .unit = "layers.2"};
}

// One rank of a job: "rank KIND TIMEOUT DIRECTORY SCHEDULE". What it tells is in a file of the
// directory.
static int run_process(char **arguments)
{
    const fault fault = fault_of_process(arguments);
    const zero_comm_options options = {.struct_size = sizeof options,
                                       .timeout_seconds = atof(arguments[3])};
    zero_error error = {0};
    zero_comm *comm;
    char path[256];
    if (zero_comm_open(&options, &comm, &error) != ZERO_OK)
        return 1;
    zero_status status = fault_run(comm, &fault, &error);
    snprintf(path, sizeof path, "%s/%d", arguments[4], zero_comm_rank(comm));
    FILE *file = fopen(path, "w");
    if (!file)
        return 1;
    fputs(status == ZERO_OK ? "OK" : error.message, file);
    fclose(file);
    zero_comm_destroy(comm);
    return status == ZERO_OK ? 0 : 65;
}

static void expect_file(const fault *fault, const char *directory, int r, const char *words)
{
    char path[256], text[ZERO_MESSAGE_BYTES + 1] = "";
    snprintf(path, sizeof path, "%s/%d", directory, r);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    unlink(path);
    text[length] = 0;
    expect_message(fault, r, text, words);
}

// words: what the others say, and the supervisor.
static void expect_of_processes(const char *schedule, fault_kind kind, const char *timeout,
                                const char *words)
{
    char directory[] = "/tmp/zero-faults-XXXXXX", number[8];
    snprintf(number, sizeof number, "%d", kind);
    assert_non_null(mkdtemp(directory));
    const char *argv[] = {program, "rank", number, timeout, directory, schedule, NULL};
    const zero_run_options options = {
        .struct_size = sizeof options, .ranks = FAULT_WORLD, .argv = argv};
    const fault fault = {.kind = kind, .schedule = schedule, .rank = 3};
    zero_error error = {0};
    int code = 0;
    double begin = zr_clock_seconds();
    assert_int_not_equal(zero_run(&options, &code, &error), ZERO_OK);
    assert_true(zr_clock_seconds() - begin < LONG / 2);
    expect_message(&fault, -1, error.message, words);
    for (int r = 0; r < FAULT_WORLD; r++)
        if (r != fault.rank)
            expect_file(&fault, directory, r, words);
    rmdir(directory);
}

static void a_process_that_is_killed_ends_all(void **state)
{
    expect_of_processes("1f1b", FAULT_KILL, "100",
                        "rank 3 was killed by signal 9 (Killed) at step 1, pipeline stage 1 of 3, "
                        "chunk 0, micro-batch 2");
    expect_of_processes("1f1b", FAULT_KILL_EVALUATING, "100",
                        "rank 3 was killed by signal 9 (Killed) at step 0, pipeline stage 1 of 3, "
                        "chunk 0");
}

static void a_process_that_is_killed_in_a_window_ends_all(void **state)
{
    static const char words[] =
        "rank 3 was killed by signal 9 (Killed) at step 0, pipeline stage 1 "
        "of 3, chunk 0, micro-batch 8";
    expect_of_processes("2bw", FAULT_KILL, "100", words);
    expect_of_processes("pipedream", FAULT_KILL, "100", words);
}

static void expect_of_stopped(const char *schedule, const char *place)
{
    char words[192];
    snprintf(words, sizeof words,
             "rank 3 (stopped) made no progress for %s s; it was last seen at %s",
             SANITIZED ? "5" : "1.5", place);
    expect_of_processes(schedule, FAULT_STOP, SANITIZED ? "5" : "1.5", words);
}

static void a_process_that_stops_ends_all_at_the_deadline(void **state)
{
    expect_of_stopped("1f1b", "step 1, pipeline stage 1 of 3, chunk 0, micro-batch 2");
    if (!SANITIZED)
        expect_of_stopped("2bw", "step 0, pipeline stage 1 of 3, chunk 0, micro-batch 8");
}

int main(int count, char **arguments)
{
    if (count == 6 && !strcmp(arguments[1], "rank"))
        return run_process(arguments);
    program = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_fine_without_faults),
        cmocka_unit_test(a_unit_that_fails_ends_all),
        cmocka_unit_test(a_unit_that_fails_in_a_window_ends_all),
        cmocka_unit_test(a_rank_that_gives_up_ends_all),
        cmocka_unit_test(a_rank_without_batches_ends_all),
        cmocka_unit_test(the_middle_needs_no_batches),
        cmocka_unit_test(other_samples_are_refused_before_the_update),
        cmocka_unit_test(other_samples_end_all_at_the_end_of_a_window),
        cmocka_unit_test(a_process_that_is_killed_ends_all),
        cmocka_unit_test(a_process_that_is_killed_in_a_window_ends_all),
        cmocka_unit_test(a_process_that_stops_ends_all_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
