// What a training measures of itself: few steps, divided into parts that add up, usual times of
// operations, and nothing that changes a bit of the training.
#include "base/alloc.h"
#include "monitor/observe.h"
#include <zero/gpt2.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 1, SEQ = 4, ROOM = 64 };

// ---- records made by hand -----------------------------------------------------------------------

static zr_recorder *room(void)
{
    zr_recorder *recorder;
    assert_int_equal(zr_recorder_create(ROOM, &recorder, NULL), ZERO_OK);
    return recorder;
}

// Appends a record from begin to end, in microseconds.
static void put(zr_recorder *recorder, zr_activity what, int64_t begin, int64_t end, int64_t bytes)
{
    recorder->records[recorder->count++] = (zr_record){.begin = begin * 1000,
                                                       .end = end * 1000,
                                                       .bytes = bytes,
                                                       .unit = -1,
                                                       .slot = -1,
                                                       .what = what};
}

// A step of 1,000 microseconds: 600 forward, of which 100 are exchanged, half of that waiting, and
// 20 for NVMe; 400 of update, of which 50 are exchanged.
static void put_step(zr_recorder *recorder, int64_t gelu)
{
    put(recorder, ZR_ACTIVITY_gelu, 0, gelu, 64);
    put(recorder, ZR_ACTIVITY_gelu, 100, 110, 64);
    put(recorder, ZR_ACTIVITY_gelu, 110, 130, 64);
    put(recorder, ZR_ACTIVITY_wait, 200, 250, 0);
    put(recorder, ZR_ACTIVITY_all_gather, 200, 300, 4096);
    put(recorder, ZR_ACTIVITY_disk_wait, 300, 320, 0);
    put(recorder, ZR_ACTIVITY_disk_read, 0, 320, 4096);
    put(recorder, ZR_ACTIVITY_forward, 0, 600, 0);
    put(recorder, ZR_ACTIVITY_all_reduce, 600, 650, 8);
    put(recorder, ZR_ACTIVITY_optimizer, 650, 950, 1 << 20);
    put(recorder, ZR_ACTIVITY_step, 600, 1000, 0);
}

static const zr_rate_sample *sample_of(const zr_measured *m, zr_activity what)
{
    assert_int_equal(m->rates.count[what], 1);
    return &m->rates.at[what][0];
}

static void near(double value, double expected)
{
    if (value < expected * 0.999 || value > expected * 1.001)
        fail_msg("%g, expected %g", value, expected);
}

static zr_measured *begun(int calls)
{
    zr_measured *m = calloc(1, sizeof *m);
    for (int i = 0; i < calls; i++)
        zr_measured_begin(m, 1);
    return m;
}

static void test_parts_add_up(void **state)
{
    zr_measured *m = begun(3);
    zr_recorder *recorder = room();
    put_step(recorder, 60);
    zr_measured_take(m, recorder, 0, 1);
    near(m->seconds[ZR_TIME_COMPUTE], 480e-6);
    near(m->seconds[ZR_TIME_EXCHANGE], 150e-6);
    near(m->waits, 50e-6);
    near(m->seconds[ZR_TIME_UPDATE], 350e-6);
    near(m->seconds[ZR_TIME_DISK], 20e-6);
    assert_true(m->warm && m->steps == 1);
    near(sample_of(m, ZR_ACTIVITY_gelu)->seconds, 15e-6); // of 60, 10 and 20: 60 was interrupted
    assert_int_equal(sample_of(m, ZR_ACTIVITY_gelu)->seen, 3);
    near(zr_measured_interrupted(m), 390. / 360 - 1); // 60 + 10 + 20 + 300 instead of 3 * 20 + 300
    near(sample_of(m, ZR_ACTIVITY_all_gather)->seconds, 50e-6); // without the wait
    near(sample_of(m, ZR_ACTIVITY_forward)->seconds, 390e-6);
    assert_int_equal(sample_of(m, ZR_ACTIVITY_forward)->bytes, 3); // operations
    assert_int_equal(m->rates.count[ZR_ACTIVITY_wait] + m->rates.count[ZR_ACTIVITY_disk_wait] +
                         m->rates.count[ZR_ACTIVITY_disk_read],
                     0);
    zr_recorder_destroy(recorder);
    free(m);
}

static void test_waits_for_the_delayed_update(void **state)
{
    zr_measured *m = begun(3);
    zr_recorder *recorder = room();
    put(recorder, ZR_ACTIVITY_delayed_wait, 0, 30, 0);
    put(recorder, ZR_ACTIVITY_forward, 0, 100, 0);
    zr_measured_take(m, recorder, 0, 1);
    near(m->seconds[ZR_TIME_COMPUTE], 70e-6);
    near(m->seconds[ZR_TIME_UPDATE], 30e-6);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_delayed_wait], 0);
    zr_recorder_destroy(recorder);
    free(m);
}

static void test_gathers_beside_the_rank(void **state)
{
    zr_measured *m = begun(3);
    zr_recorder *recorder = room();
    m->overlaps = true;
    put_step(recorder, 60);
    zr_measured_take(m, recorder, 0, 1);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_all_gather], 0);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_all_reduce], 1);
    zr_recorder_destroy(recorder);
    free(m);
}

// What crosses a network tells of it, with the waits in which it crosses, by the bytes that come
// from other machines; and nothing of memory.
static void test_exchanges_with_other_machines(void **state)
{
    zr_measured *m = begun(3);
    zr_recorder *recorder = room();
    m->across = true;
    put_step(recorder, 60);
    zr_measured_take(m, recorder, 0, 1);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_all_gather], 0);
    assert_int_equal(m->links[0].count[ZR_ACTIVITY_all_gather], 0); // of groups that differ
    m->reach = (zr_reach){.size = 5, .strangers = 3, .fetches = 2};
    zr_measured_take(m, recorder, 0, 1);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_all_gather], 0);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_all_reduce], 0);
    const zr_rate_sample *gather = &m->links[0].at[ZR_ACTIVITY_all_gather][0],
                         *sum = &m->links[0].at[ZR_ACTIVITY_all_reduce][0];
    assert_int_equal(gather->bytes, 2048);
    near(gather->seconds, 100e-6);
    assert_int_equal(sum->bytes, 6);
    near(sum->seconds, 50e-6);
    m->one_copy = true; // then a gather counts the bytes of other machines alone
    zr_measured_take(m, recorder, 0, 1);
    assert_int_equal(m->links[1].at[ZR_ACTIVITY_all_gather][0].bytes, 4096);
    assert_int_equal(m->links[0].count[ZR_ACTIVITY_all_gather], 1);
    zr_recorder_destroy(recorder);
    free(m);
}

// Cold steps count only as long as there are no others, and teach nothing.
static void test_cold_steps(void **state)
{
    zr_measured *m = begun(1);
    zr_recorder *recorder = room();
    put_step(recorder, 60);
    zr_measured_take(m, recorder, 0, 1);
    assert_true(!m->warm && m->steps == 1 && m->taken == 0);
    near(m->seconds[ZR_TIME_COMPUTE], 480e-6);
    for (int what = 0; what < ZR_ACTIVITY_COUNT; what++)
        assert_int_equal(m->rates.count[what], 0);
    for (int i = 0; i < 2; i++)
        zr_measured_begin(m, 1);
    zr_measured_take(m, recorder, 0, 1);
    assert_true(m->warm && m->steps == 1 && m->taken == 1);
    near(m->seconds[ZR_TIME_COMPUTE], 480e-6);
    near(m->waits, 50e-6);
    // A window's first call alone is cold.
    zr_measured *windows = calloc(1, sizeof *windows);
    for (int i = 0; i < 2; i++) {
        zr_measured_begin(windows, 8);
        zr_measured_take(windows, recorder, 0, 8);
        assert_int_equal(windows->steps, 8);
        assert_int_equal(windows->warm, i);
    }
    zr_recorder_destroy(recorder);
    free(windows);
    free(m);
}

static void test_a_step_that_waits_for_a_checkpoint(void **state)
{
    zr_measured *m = begun(3);
    zr_recorder *recorder = room();
    put(recorder, ZR_ACTIVITY_checkpoint_wait, 0, 1, 0);
    put_step(recorder, 60);
    zr_measured_take(m, recorder, 0, 1);
    assert_true(m->steps == 0 && m->taken == 0);
    zr_recorder_destroy(recorder);
    free(m);
}

// Steps 1 to 6, then those whose number is a power of two; where none can be taken, the search
// ends.
static void test_which_steps(void **state)
{
    zr_measured *m = begun(0);
    zr_recorder *recorder = room();
    int wanted = 0;
    put_step(recorder, 60);
    for (int step = 1; step <= 4096; step++) {
        bool wants = zr_measured_begin(m, 1);
        assert_int_equal(wants, step <= 6 || (step >= 16 && !(step & (step - 1))));
        wanted += wants;
        if (wants)
            zr_measured_take(m, recorder, 0, 1);
    }
    assert_int_equal(wanted, 6 + 9);
    zr_measured *skipping = begun(0);
    wanted = 0;
    for (int step = 1; step <= 1000; step++)
        wanted += zr_measured_begin(skipping, 1);
    assert_int_equal(wanted, 100 + 3);
    zr_recorder_destroy(recorder);
    free(skipping);
    free(m);
}

// More kinds of operations than there is room for are no harm.
static void test_many_kinds(void **state)
{
    enum { MANY = 1000 };
    zr_measured *m = begun(3);
    zr_recorder *recorder;
    assert_int_equal(zr_recorder_create(MANY, &recorder, NULL), ZERO_OK);
    for (int i = 0; i < MANY; i++)
        put(recorder, ZR_ACTIVITY_norm, i, i + 1, 8 + i);
    zr_measured_take(m, recorder, 0, 1);
    assert_int_equal(m->rates.count[ZR_ACTIVITY_norm], ZR_RATE_SAMPLES);
    zr_recorder_destroy(recorder);
    free(m);
}

// ---- an engine ----------------------------------------------------------------------------------

static void must(zero_status status, const zero_error *error)
{
    if (status != ZERO_OK) {
        fprintf(stderr, "%s\n", error->message);
        abort();
    }
}

static void nobody(void *user, zero_log_level level, const char *message)
{
    fail_msg("\"%s\" is said", message);
}

static void train(zero_engine *engine, int steps, double losses[])
{
    zero_error error = {0};
    zero_step_info info;
    int32_t tokens[2 * SEQ];
    for (int i = 0; i < 2 * SEQ; i++)
        tokens[i] = i % 11;
    const zero_tensors batch = {
        .count = 2,
        .at = {{.data = tokens, .dtype = ZERO_I32, .dims = 2, .shape = {BATCH, SEQ}},
               {.data = tokens + SEQ, .dtype = ZERO_I32, .dims = 2, .shape = {BATCH, SEQ}}}};
    for (int i = 0; i < steps; i++) {
        must(zero_train_batch(engine, &batch, 1, &info, &error), &error);
        losses[i] = info.loss;
    }
}

// Trains so many steps, measured or not (NULL).
static void run(const char *config, zr_measured *measured, int64_t capacity, int steps,
                double losses[])
{
    zero_gpt2_config gpt2;
    zero_error error = {0};
    zero_model *model;
    zero_engine *engine;
    zero_comm *comm;
    zr_observation *observation;
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = 11;
    gpt2.n_positions = SEQ;
    gpt2.n_embd = 8;
    gpt2.n_head = gpt2.n_layer = 2;
    must(zero_comm_self(&comm, &error), &error);
    must(zero_gpt2_create(&gpt2, &model, &error), &error);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = comm,
                                  .config_text = config,
                                  .shape = {.batch = BATCH, .seq = SEQ},
                                  .threads = 1,
                                  .backend = "ref"};
    must(zero_initialize(&options, &engine, &error), &error);
    must(zr_observe(engine, &(zero_logger){.write = nobody}, (zr_step_range){0}, measured,
                    &observation, &error),
         &error);
    assert_int_equal(observation != NULL, measured != NULL);
    if (capacity)
        ((zr_recorder *)zr_observation_kept(observation))->capacity = capacity;
    train(engine, steps, losses);
    zero_destroy(engine);
    zero_gpt2_destroy(model);
    zero_comm_destroy(comm);
}

static void test_an_engine(void **state)
{
    enum { STEPS = 20 };
    double plain[STEPS], measured[STEPS];
    zr_measured *m = calloc(1, sizeof *m);
    run("{}", NULL, 0, STEPS, plain);
    run("{}", m, 0, STEPS, measured);
    assert_memory_equal(plain, measured, sizeof plain);
    assert_true(m->warm && m->calls == STEPS && m->taken == 5 && m->steps == 5);
    assert_true(m->seconds[ZR_TIME_COMPUTE] > 0 && m->seconds[ZR_TIME_UPDATE] > 0);
    assert_true(m->seconds[ZR_TIME_DISK] == 0);
    assert_true(m->rates.count[ZR_ACTIVITY_product] > 0 &&
                m->rates.count[ZR_ACTIVITY_optimizer] > 0 &&
                m->rates.count[ZR_ACTIVITY_forward] > 0);
    free(m);
}

// A room that is too small grows, and nobody hears of it: nobody has asked for records.
static void test_a_small_room(void **state)
{
    enum { STEPS = 8 };
    double losses[STEPS];
    zr_measured *m = calloc(1, sizeof *m);
    run("{}", m, 4, STEPS, losses);
    assert_true(m->warm && m->taken == 4);
    free(m);
}

// Updates that fp16 skips, because its loss scale is not found yet, are not what a step takes.
static void test_skipped_steps(void **state)
{
    enum { STEPS = 6 };
    double losses[STEPS];
    zr_measured *m = calloc(1, sizeof *m);
    run("{\"fp16\": {\"enabled\": true, \"initial_scale_power\": 40}}", m, 0, STEPS, losses);
    assert_true(m->calls == STEPS && m->steps == 0 && m->taken == 0);
    free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_waits_for_the_delayed_update),
        cmocka_unit_test(test_gathers_beside_the_rank),
        cmocka_unit_test(test_exchanges_with_other_machines),
        cmocka_unit_test(test_cold_steps),
        cmocka_unit_test(test_a_step_that_waits_for_a_checkpoint),
        cmocka_unit_test(test_which_steps),
        cmocka_unit_test(test_many_kinds),
        cmocka_unit_test(test_an_engine),
        cmocka_unit_test(test_a_small_room),
        cmocka_unit_test(test_skipped_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
