// What zr_pipeline_times_measure says of a pipeline whose units sleep.
#include "setup/initialize.h"
#include "sleepers.h"
#include "tools/pipeline_times.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { STAGES = 2, MICRO_BATCHES = 4, SHORT = 1000000, LONG = 20000000 }; // nanoseconds

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
    return sleepers_step(r->engine, MICRO_BATCHES, error);
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &r->model->model,
                                  .comm = r->comm,
                                  .config_text = "{\"gradient_accumulation_steps\": 4}",
                                  .shape = {.batch = 1, .seq = 1},
                                  .threads = 1};
    const zr_trial trial = {.pipeline = STAGES, .schedule = r->schedule, .split = "0,1"};
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_are_no_part_of_an_action)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
