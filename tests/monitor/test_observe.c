// What an observed engine records and reports: nothing that was not asked for, the steps that were,
// no evaluation between them; a room for records that grows; and only the first rank reports.
#include "base/alloc.h"
#include "monitor/observe.h"
#include <zero/gpt2.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 1, SEQ = 4, MOST_LINES = 400, RANKS = 2 };

typedef struct said { // what a logger was told
    char lines[MOST_LINES][512];
    int count;
} said;

static void say(void *user, zero_log_level level, const char *message)
{
    said *said = user;
    if (said->count < MOST_LINES)
        snprintf(said->lines[said->count++], sizeof said->lines[0], "%s", message);
}

static int lines_with(const said *said, const char *words)
{
    int count = 0;
    for (int i = 0; i < said->count; i++)
        count += strstr(said->lines[i], words) != NULL;
    return count;
}

typedef struct fixture {
    zero_model *model;
    zero_engine *engine;
    said said;
} fixture;

static void must(zero_status status, const zero_error *error)
{
    if (status != ZERO_OK) {
        fprintf(stderr, "%s\n", error->message);
        abort();
    }
}

static void begin(fixture *f, zero_comm *comm, const char *config)
{
    zero_gpt2_config gpt2;
    zero_error error = {0};
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = 11;
    gpt2.n_positions = SEQ;
    gpt2.n_embd = 8;
    gpt2.n_head = gpt2.n_layer = 2;
    must(zero_gpt2_create(&gpt2, &f->model, &error), &error);
    zero_options options = {.struct_size = sizeof options,
                            .model = f->model,
                            .comm = comm,
                            .config_text = config,
                            .shape = {.batch = BATCH, .seq = SEQ},
                            .threads = 1,
                            .backend = "ref",
                            .logger = {.write = say, .user = &f->said}};
    must(zero_initialize(&options, &f->engine, &error), &error);
}

static void end(fixture *f)
{
    zero_destroy(f->engine);
    zero_gpt2_destroy(f->model);
}

static zero_tensors batch_of(int32_t *tokens)
{
    for (int i = 0; i < 2 * SEQ; i++)
        tokens[i] = i % 11;
    return (zero_tensors){
        .count = 2,
        .at = {{.data = tokens, .dtype = ZERO_I32, .dims = 2, .shape = {BATCH, SEQ}},
               {.data = tokens + SEQ, .dtype = ZERO_I32, .dims = 2, .shape = {BATCH, SEQ}}}};
}

static void step(zero_engine *engine, int steps)
{
    int32_t tokens[2 * SEQ];
    zero_tensors batch = batch_of(tokens);
    zero_step_info info;
    zero_error error = {0};
    double loss;
    for (int64_t i = 0; i < steps * zero_accumulation(engine); i++) {
        must(zero_forward(engine, &batch, &loss, &error), &error);
        must(zero_backward(engine, &error), &error);
        must(zero_step(engine, &info, &error), &error);
    }
}

static zero_comm *alone(void)
{
    zero_comm *comm;
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    return comm;
}

static int phases(const zr_recorder *recorder)
{
    int count = 0;
    for (int64_t i = 0; i < recorder->count; i++)
        count += zr_activity_track(recorder->records[i].what) == ZR_TRACK_PHASE;
    return count;
}

static void test_nothing_asked(void **state)
{
    fixture f = {0};
    zero_comm *comm = alone();
    zr_observation *observation = (zr_observation *)&f;
    begin(&f, comm, "{\"wall_clock_breakdown\": false}");
    assert_int_equal(zr_observe(f.engine, NULL, (zr_step_range){0}, NULL, &observation, NULL),
                     ZERO_OK);
    assert_null(observation);
    f.said.count = 0;
    const zr_backend *backend = zr_engine_queue(f.engine)->backend;
    int64_t allocations = zr_alloc_count();
    step(f.engine, 3);
    assert_int_equal(zr_alloc_count(), allocations);
    assert_true(zr_engine_queue(f.engine)->backend == backend && !comm->recorder);
    end(&f);
    assert_int_equal(f.said.count, 0);
    zero_comm_destroy(comm);
}

static void test_which_steps_are_printed(void **state)
{
    static const struct {
        const char *key;
        int times;
    } rows[] = {
        {"", 10 + 9 + 1}, {"\"steps_per_print\": 50, ", 4}, {"\"steps_per_print\": 1, ", 210}};
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        fixture *f = calloc(1, sizeof *f);
        char config[128];
        zero_comm *comm = alone();
        snprintf(config, sizeof config,
                 "{%s\"wall_clock_breakdown\": true, \"gradient_accumulation_steps\": 2}",
                 rows[i].key);
        begin(f, comm, config);
        step(f->engine, 210);
        assert_int_equal(lines_with(&f->said, "time     step "), rows[i].times);
        assert_int_equal(lines_with(&f->said, "time     step 100: "), 1);
        end(f);
        zero_comm_destroy(comm);
        free(f);
    }
}

static void test_evaluations_are_not_recorded(void **state)
{
    fixture f = {0};
    zero_comm *comm = alone();
    zr_observation *observation;
    int32_t tokens[2 * SEQ];
    zero_tensors batch = batch_of(tokens);
    double loss;
    begin(&f, comm, "{\"gradient_accumulation_steps\": 2}");
    assert_int_equal(
        zr_observe(f.engine, &(zero_logger){0}, (zr_step_range){2, 3}, NULL, &observation, NULL),
        ZERO_OK);
    step(f.engine, 1);
    int64_t one = zr_observation_kept(observation)->count;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(zero_evaluate(f.engine, &batch, &loss, NULL), ZERO_OK);
        step(f.engine, 1);
        assert_int_equal(zero_evaluate(f.engine, &batch, &loss, NULL), ZERO_OK);
    }
    const zr_recorder *kept = zr_observation_kept(observation);
    assert_int_equal(kept->count, 2 * one); // of steps 2 and 3; the first, of warm-up, is gone
    assert_int_equal(phases(kept), 2 * (2 + 2 + 1));
    assert_string_equal(zr_observation_units(observation)[1], "h.0");
    step(f.engine, 1);
    assert_int_equal(kept->count, 2 * one); // a step that nobody asked for
    end(&f);
    zero_comm_destroy(comm);
}

static void test_room_grows(void **state)
{
    fixture f = {0};
    zero_comm *comm = alone();
    zr_observation *observation;
    begin(&f, comm, "{}");
    assert_int_equal(zr_observe(f.engine, &(zero_logger){.write = say, .user = &f.said},
                                (zr_step_range){1, 2}, NULL, &observation, NULL),
                     ZERO_OK);
    ((zr_recorder *)zr_observation_kept(observation))->capacity = 10;
    step(f.engine, 1);
    assert_int_equal(lines_with(&f.said, "records found no room"), 1);
    const zr_recorder *kept = zr_observation_kept(observation);
    assert_true(kept->count == 10 && kept->capacity > 20 && phases(kept) == 0 &&
                kept->records[0].what == ZR_ACTIVITY_embedding);
    step(f.engine, 1);
    assert_true(kept->dropped == 0 && phases(kept) == 3); // of the second step: whole
    assert_int_equal(lines_with(&f.said, "records found no room"), 1);
    end(&f);
    zero_comm_destroy(comm);
}

static void test_no_memory(void **state)
{
    fixture f = {0};
    zero_comm *comm = alone();
    zr_observation *observation;
    begin(&f, comm, "{}");
    for (int64_t nth = 1;; nth++) {
        zr_alloc_fail_at(nth);
        zero_status status = zr_observe(f.engine, &(zero_logger){0}, (zr_step_range){1, 1}, NULL,
                                        &observation, NULL);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK)
            break;
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_true(!observation && nth < 10);
    }
    step(f.engine, 1);
    assert_int_equal(phases(zr_observation_kept(observation)), 3);
    end(&f);
    zero_comm_destroy(comm);
}

static const char *const everything =
    "{\"wall_clock_breakdown\": true, \"memory_breakdown\": true, \"flops_profiler\": "
    "{\"enabled\": true, \"profile_step\": 2},"
    " \"comms_logger\": {\"enabled\": true, \"verbose\": true}, \"zero_optimization\": {\"stage\": "
    "2}}";

static void *observed_rank(void *argument)
{
    zero_comm *comm = argument;
    fixture *f = calloc(1, sizeof *f);
    zero_error error = {0};
    begin(f, comm, everything);
    step(f->engine, 2);
    must(zero_comm_barrier(comm, &error), &error);
    end(f);
    return f;
}

static void test_only_rank_0_speaks(void **state)
{
    zero_comm *comms[RANKS];
    pthread_t threads[RANKS];
    void *results[RANKS];
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 30};
    assert_int_equal(zero_comm_threads(RANKS, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, observed_rank, comms[r]), 0);
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], &results[r]);
    const said *first = &((fixture *)results[0])->said, *second = &((fixture *)results[1])->said;
    assert_int_equal(lines_with(first, "time     step "), 2);
    assert_int_equal(lines_with(first, "memory   at start, planned/held MB: parameters"), 1);
    assert_int_equal(lines_with(first, "memory   step "), 2);
    assert_int_equal(lines_with(first, "flops    step 2 of rank 0 of 2"), 1);
    assert_int_equal(lines_with(first, "flops    h.1 "), 1);
    assert_int_equal(lines_with(first, "comm     messages of 2 steps"), 1);
    for (int i = 0; i < second->count; i++)
        assert_true(!strstr(second->lines[i], "planned/held") &&
                    strncmp(second->lines[i], "time ", 5) && strncmp(second->lines[i], "comm ", 5));
    for (int r = 0; r < RANKS; r++) {
        free(results[r]);
        zero_comm_destroy(comms[r]);
    }
}

static void test_output_that_cannot_be_written(void **state)
{
    fixture f = {0};
    zero_comm *comm = alone();
    zero_error error = {0};
    begin(&f, comm, "{}");
    zero_options options = {.struct_size = sizeof options,
                            .model = f.model,
                            .comm = comm,
                            .shape = {.batch = BATCH, .seq = SEQ},
                            .threads = 1,
                            .backend = "ref",
                            .config_text = "{\"flops_profiler\": {\"enabled\": true, "
                                           "\"output_file\": \"/proc/nowhere/flops.txt\"}}"};
    zero_destroy(f.engine); // the communicator has one at a time
    f.engine = NULL;
    zero_engine *engine = (zero_engine *)&f;
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/nowhere/flops.txt"));
    assert_null(engine);
    end(&f);
    zero_comm_destroy(comm);
}

typedef struct diary { // of several observers of one engine
    char text[256];
} diary;

typedef struct writer {
    diary *diary;
    char name;
    bool refuses;
} writer;

static void note(writer *w, const char *what)
{
    size_t used = strlen(w->diary->text);
    snprintf(w->diary->text + used, sizeof w->diary->text - used, "%c %s, ", w->name, what);
}

static zero_status note_begun(void *user, zero_engine *engine, zero_error *error)
{
    note(user, "begun");
    return ZERO_OK;
}

static zero_status note_done(void *user, zero_engine *engine, const zero_step_info *info,
                             zero_error *error)
{
    writer *w = user;
    note(w, "done");
    return w->refuses ? zr_fail(error, ZERO_ERR_IO, "refused") : ZERO_OK;
}

static void note_destroyed(void *user, zero_engine *engine) { note(user, "gone"); }

static void observe_as(zero_engine *engine, writer *w)
{
    const zr_observer observer = {
        .step_begun = note_begun, .step_done = note_done, .destroy = note_destroyed, .user = w};
    zero_error error = {0};
    must(zr_engine_observe(engine, &observer, &error), &error);
}

static void test_several_observers(void **state)
{
    fixture f = {0};
    diary diary = {0};
    writer a = {&diary, 'a'}, b = {&diary, 'b'};
    zero_comm *comm = alone();
    // the first
    begin(&f, comm, "{\"wall_clock_breakdown\": true, \"gradient_accumulation_steps\": 2}");
    observe_as(f.engine, &a);
    observe_as(f.engine, &b);
    step(f.engine, 1);
    assert_string_equal(diary.text, "a begun, b begun, a done, b done, ");
    assert_int_equal(lines_with(&f.said, "time     step 1: "), 1);
    end(&f); // what came last goes first
    assert_string_equal(diary.text, "a begun, b begun, a done, b done, b gone, a gone, ");
    zero_comm_destroy(comm);
}

static void test_an_observer_that_fails_ends_the_step(void **state)
{
    fixture f = {0};
    diary diary = {0};
    writer a = {&diary, 'a', true}, b = {&diary, 'b'};
    zero_comm *comm = alone();
    int32_t tokens[2 * SEQ];
    zero_tensors batch = batch_of(tokens);
    zero_step_info info;
    double loss;
    begin(&f, comm, "{}");
    observe_as(f.engine, &a);
    observe_as(f.engine, &b);
    assert_int_equal(zero_forward(f.engine, &batch, &loss, NULL), ZERO_OK);
    assert_int_equal(zero_backward(f.engine, NULL), ZERO_OK);
    assert_int_equal(zero_step(f.engine, &info, NULL), ZERO_ERR_IO);
    assert_string_equal(diary.text, "a begun, b begun, a done, ");
    end(&f);
    zero_comm_destroy(comm);
}

static void test_one_observer_too_many(void **state)
{
    fixture f = {0};
    diary diary = {0};
    writer a = {&diary, 'a'};
    zero_comm *comm = alone();
    zero_error error = {0};
    zr_observation *observation;
    begin(&f, comm, "{}");
    for (int i = 0; i < ZR_MOST_OBSERVERS; i++)
        observe_as(f.engine, &a);
    assert_int_equal(zr_engine_observe(f.engine, &(zr_observer){0}, &error), ZERO_ERR_LIMIT);
    assert_non_null(strstr(error.message, "at most 4 observers"));
    assert_int_equal(
        zr_observe(f.engine, &(zero_logger){0}, (zr_step_range){1, 1}, NULL, &observation, &error),
        ZERO_ERR_LIMIT);
    assert_null(observation);
    end(&f);
    zero_comm_destroy(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_asked),
        cmocka_unit_test(test_which_steps_are_printed),
        cmocka_unit_test(test_evaluations_are_not_recorded),
        cmocka_unit_test(test_room_grows),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_only_rank_0_speaks),
        cmocka_unit_test(test_output_that_cannot_be_written),
        cmocka_unit_test(test_several_observers),
        cmocka_unit_test(test_an_observer_that_fails_ends_the_step),
        cmocka_unit_test(test_one_observer_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
