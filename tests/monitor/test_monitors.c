// Monitors of an engine, whatever drives it: what is in their files, when, and on which rank; and
// that a disk that fails does not end a run.
#include "../base/scratch_directory.h"
#include "monitor/observe.h"
#include <zero/gpt2.h>

#include <pthread.h>
#include <unistd.h>

enum { BATCH = 1, SEQ = 4, RANKS = 2 };

typedef struct run {
    zero_model *model;
    zero_engine *engine;
    char said[4096];
} run;

static void say(void *user, zero_log_level level, const char *message)
{
    run *r = user;
    size_t used = strlen(r->said);
    snprintf(r->said + used, sizeof r->said - used, "%d %s\n", (int)level, message);
}

static zero_status begin(run *r, zero_comm *comm, const char *config, zero_error *error)
{
    zero_gpt2_config gpt2;
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = 11;
    gpt2.n_positions = SEQ;
    gpt2.n_embd = 8;
    gpt2.n_head = gpt2.n_layer = 2;
    assert_int_equal(zero_gpt2_create(&gpt2, &r->model, NULL), ZERO_OK);
    zero_options options = {.struct_size = sizeof options,
                            .model = r->model,
                            .comm = comm,
                            .config_text = config,
                            .shape = {.batch = BATCH, .seq = SEQ},
                            .threads = 1,
                            .backend = "ref",
                            .logger = {.write = say, .user = r}};
    r->said[0] = 0;
    return zero_initialize(&options, &r->engine, error);
}

static void end(run *r)
{
    zero_destroy(r->engine);
    zero_gpt2_destroy(r->model);
}

static void step(run *r, int steps)
{
    int32_t tokens[2 * SEQ] = {1, 2, 3, 4, 5, 6, 7, 8};
    zero_tensors batch = {
        .count = 2,
        .at = {{.data = tokens, .dtype = ZERO_I32, .dims = 2, .shape = {BATCH, SEQ}},
               {.data = tokens + SEQ, .dtype = ZERO_I32, .dims = 2, .shape = {BATCH, SEQ}}}};
    zero_step_info info;
    double loss;
    for (int64_t i = 0; i < steps * zero_accumulation(r->engine); i++)
        if (zero_forward(r->engine, &batch, &loss, NULL) || zero_backward(r->engine, NULL) ||
            zero_step(r->engine, &info, NULL))
            abort();
}

static zero_comm *alone(void)
{
    zero_comm *comm;
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    return comm;
}

static char *read_file(scratch *s, const char *name)
{
    char *text;
    size_t length;
    assert_int_equal(zr_file_read(scratch_path(s, name), 1 << 20, &text, &length, NULL), ZERO_OK);
    return text;
}

typedef struct config_text {
    char text[2048];
} config_text;

static config_text config_with(const scratch *s, const char *more)
{
    config_text config;
    snprintf(config.text, sizeof config.text,
             "{\"tensorboard\": {\"enabled\": true, \"output_path\": \"%s\", \"job_name\": "
             "\"tb\"}, \"csv_monitor\": {\"enabled\": true, "
             "\"output_path\": \"%s/deep\", \"job_name\": \"csv\"}, \"optimizer\": {\"type\": "
             "\"AdamW\", \"params\": {\"lr\": 0.5}}%s}",
             s->directory, s->directory, more);
    return config;
}

// The rate that stands next to a number of samples is that of the update after them.
static void test_rates(void **state)
{
    run r = {0};
    zero_comm *comm = alone();
    config_text config = config_with(
        *state,
        ", \"gradient_accumulation_steps\": 2, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": "
        "{\"warmup_num_steps\": 10, \"warmup_max_lr\": 1e-3}}");
    assert_int_equal(begin(&r, comm, config.text, NULL), ZERO_OK);
    assert_int_equal(scratch_entries(scratch_path(*state, "tb")), 0);
    step(&r, 4);
    char *text = read_file(*state, "deep/csv/Train_Samples_lr.csv");
    assert_string_equal(text, "step,lr\r\n2,0.0\r\n4,0.00030102999566398113\r\n6,0."
                              "0004771212547196624\r\n8,0.0006020599913279623\r\n");
    zr_free(text);
    end(&r);
    assert_int_equal(scratch_entries(scratch_path(*state, "deep/csv")), 2); // loss and rate
    assert_int_equal(scratch_entries(scratch_path(*state, "tb")), 1);
    assert_string_equal(r.said, strstr(r.said, "warn") ? "" : r.said);
    zero_comm_destroy(comm);
}

static void test_scale_and_times(void **state)
{
    run r = {0};
    zero_comm *comm = alone();
    assert_int_equal(
        begin(&r, comm,
              config_with(*state, ", \"fp16\": {\"enabled\": true, \"loss_scale_window\": 1, "
                                  "\"initial_scale_power\": 4}, "
                                  "\"flops_profiler\": {\"enabled\": true, \"profile_step\": 2}")
                  .text,
              NULL),
        ZERO_OK);
    step(&r, 3);
    end(&r);
    char *text = read_file(*state, "deep/csv/Train_Samples_loss_scale.csv");
    assert_string_equal(text, "step,loss_scale\r\n1,16.0\r\n2,32.0\r\n3,64.0\r\n");
    zr_free(text);
    text = read_file(*state, "deep/csv/Train_Samples_elapsed_time_ms_backward_inner.csv");
    double times[3];
    assert_int_equal(sscanf(text, "step,elapsed_time_ms_backward_inner 1,%lf 2,%lf 3,%lf",
                            &times[0], &times[1], &times[2]),
                     3);
    // of every step, not of the profiled one alone
    assert_true(times[0] > 0 && times[1] > 0 && times[2] > 0);
    zr_free(text);
    assert_int_equal(scratch_entries(scratch_path(*state, "deep/csv")), 8);
    zero_comm_destroy(comm);
}

static void test_refused_at_the_start(void **state)
{
    run r = {0};
    zero_comm *comm = alone();
    zero_error error = {0};
    scratch_write(*state, "deep", "a file");
    assert_int_equal(begin(&r, comm, config_with(*state, "").text, &error), ZERO_ERR_IO);
    assert_contains(error.message, "csv_monitor: cannot create the directory ");
    assert_null(r.engine);
    end(&r);
    zero_comm_destroy(comm);
}

static int lines_with(const char *said, const char *words)
{
    int count = 0;
    for (const char *at = said; (at = strstr(at, words)); at++)
        count++;
    return count;
}

// The directories go, and come back.
static void test_a_disk_that_fails(void **state)
{
    run r = {0};
    zero_comm *comm = alone();
    assert_int_equal(begin(&r, comm, config_with(*state, "").text, NULL), ZERO_OK);
    assert_int_equal(zr_directory_remove(scratch_path(*state, "tb"), NULL), ZERO_OK);
    assert_int_equal(zr_directory_remove(scratch_path(*state, "deep"), NULL), ZERO_OK);
    step(&r, 3);
    assert_int_equal(lines_with(r.said, "1 tensorboard: cannot open "), 1);
    assert_int_equal(lines_with(r.said, "1 csv_monitor: cannot open "), 1);
    assert_int_equal(lines_with(r.said, "points are missing from 1 samples on; the run goes on"),
                     2);
    assert_int_equal(zr_directory_create(scratch_path(*state, "tb"), NULL), ZERO_OK);
    assert_int_equal(zr_directory_create(scratch_path(*state, "deep/csv"), NULL), ZERO_OK);
    step(&r, 2);
    assert_int_equal(lines_with(r.said, "written again from 4 samples on"), 2);
    end(&r);
    char *text = read_file(*state, "deep/csv/Train_Samples_lr.csv");
    assert_string_equal(text, "step,lr\r\n4,0.5\r\n5,0.5\r\n");
    zr_free(text);
    assert_int_equal(scratch_entries(scratch_path(*state, "tb")), 1);
    zero_comm_destroy(comm);
}

static scratch *shared; // by the ranks of one test

static void *one_rank(void *comm)
{
    run *r = calloc(1, sizeof *r);
    if (begin(r, comm, config_with(shared, ", \"zero_optimization\": {\"stage\": 2}").text, NULL) !=
        ZERO_OK)
        abort();
    step(r, 2);
    zero_comm_barrier(comm, NULL);
    end(r);
    free(r);
    return NULL;
}

static void test_only_rank_0_writes(void **state)
{
    zero_comm *comms[RANKS];
    pthread_t threads[RANKS];
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 30};
    shared = *state;
    assert_int_equal(zero_comm_threads(RANKS, &options, comms, NULL), ZERO_OK);
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, one_rank, comms[i]), 0);
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < RANKS; i++)
        zero_comm_destroy(comms[i]);
    char *text = read_file(*state, "deep/csv/Train_Samples_lr.csv");
    assert_string_equal(text, "step,lr\r\n2,0.5\r\n4,0.5\r\n");
    zr_free(text);
    assert_int_equal(scratch_entries(scratch_path(*state, "tb")), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rates, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_scale_and_times, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_refused_at_the_start, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_a_disk_that_fails, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_only_rank_0_writes, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
