// What zr_pipeline_times_measure says of a pipeline whose units sleep.
#include "setup/initialize.h"
#include "sleepers.h"
#include "report/pipeline_times.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { STAGES = 2, MICRO_BATCHES = 4, WINDOW = 3, SHORT = 1000000, LONG = 20000000 }; // nanoseconds

#define CONFIG                                                                                     \
    "{\"gradient_accumulation_steps\": 4, \"gradient_clipping\": 0, \"libzero\": {\"pipeline\": "  \
    "{\"flush_every\": 3}}}"

typedef struct rank {
    const sleepers *model;
    const char *schedule;
    zero_comm *comm;
    zero_engine *engine;
    zr_pipeline_times times;
    zero_status status;
    zero_error error;
} rank;

static zero_status one_step(void *user, zero_error *error)
{
    rank *r = user;
    zero_step_info infos[WINDOW];
    zero_tensors batches[WINDOW * MICRO_BATCHES] = {0};
    if (zero_window(r->engine) == 1)
        return sleepers_step(r->engine, MICRO_BATCHES, error);
    return zero_train_window(r->engine, batches, WINDOW, infos, error);
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &r->model->model,
                                  .comm = r->comm,
                                  .config_text = CONFIG,
                                  .shape = {.batch = 1, .seq = 1},
                                  .threads = 1};
    const zr_trial trial = {
        .parallel = {.pipeline = STAGES, .schedule = r->schedule, .split = "0,1"}};
    r->status = zr_initialize(&options, &trial, &r->engine, &r->error);
    if (r->status == ZERO_OK)
        r->status =
            zr_pipeline_times_measure(r->comm, r->engine, 2, one_step, r, &r->times, &r->error);
    zero_destroy(r->engine);
    return NULL;
}

static void run(const char *schedule, rank *ranks)
{
    static sleepers model;
    static const long naps[STAGES] = {SHORT, LONG};
    zero_comm *comms[STAGES];
    pthread_t threads[STAGES];
    zero_error error = {0};
    sleepers_make(&model, STAGES, naps);
    assert_int_equal(zero_comm_threads(STAGES, NULL, comms, &error), ZERO_OK);
    for (int r = 0; r < STAGES; r++) {
        ranks[r] = (rank){.model = &model, .schedule = schedule, .comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < STAGES; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < STAGES; r++) {
        if (ranks[r].status != ZERO_OK)
            fail_msg("%s: %s", schedule, ranks[r].error.message);
        zero_comm_destroy(comms[r]);
    }
}

// An action takes at least as long as it sleeps, and what a pipeline stage waits for the other one,
// many times longer, counts as no action's time.
static void expect_times(const zr_pipeline_times *times, bool weights)
{
    const zr_chunk_cost *first = &times->cost[0], *last = &times->cost[1];
    double nap = LONG * 1e-9, parts = weights ? 1 : 2;
    assert_int_equal(times->chunks, STAGES);
    assert_true(first->act[ZR_ACT_FORWARD] >= SHORT * 1e-9);
    assert_true(first->act[ZR_ACT_BACKWARD] >= parts * SHORT * 1e-9);
    assert_true(last->act[ZR_ACT_FORWARD] >= nap);
    assert_true(last->act[ZR_ACT_BACKWARD] >= parts * nap);
    assert_true(weights ? last->act[ZR_ACT_WEIGHT] >= nap : last->act[ZR_ACT_WEIGHT] == 0);
    assert_true(first->act[ZR_ACT_FORWARD] < nap && first->act[ZR_ACT_BACKWARD] < nap);
    // The last stage works without a pause; the first one waits, which is most of its time.
    assert_true(times->step >= 3 * MICRO_BATCHES * nap);
    assert_true(times->simulated >= 3 * MICRO_BATCHES * nap);
    assert_true(times->bubble > 0.3 && times->bubble < 0.7);
    assert_true(times->simulated_bubble > 0.3 && times->simulated_bubble < 0.7);
    assert_true(times->update < nap);
}

static void waits_are_no_part_of_an_action(void **state)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1"};
    for (int i = 0; i < 3; i++) {
        static rank ranks[STAGES];
        run(schedules[i], ranks);
        for (int r = 0; r < STAGES; r++) {
            expect_times(&ranks[r].times, i == 2);
            zr_pipeline_times_free(&ranks[r].times);
        }
    }
}

// Of a window all times are of one of its steps, and the simulated window has the updates.
static void a_window_is_divided_by_its_steps(void **state)
{
    static const char *const schedules[] = {"2bw", "pipedream"};
    double nap = LONG * 1e-9, work = 3 * MICRO_BATCHES * nap;
    for (int i = 0; i < 2; i++) {
        static rank ranks[STAGES];
        run(schedules[i], ranks);
        for (int r = 0; r < STAGES; r++) {
            zr_pipeline_times *times = &ranks[r].times;
            expect_times(times, false);
            assert_true(times->step < 2 * work && times->simulated < 2 * work);
            assert_true(times->update > 0);
            assert_true(times->update ==
                        fmax(times->cost[0].act[ZR_ACT_UPDATE], times->cost[1].act[ZR_ACT_UPDATE]));
            assert_true((times->cost[1].act[ZR_ACT_NORM] > 0) == (i == 0));
            zr_pipeline_times_free(times);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_no_part_of_an_action),
        cmocka_unit_test(a_window_is_divided_by_its_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
