// Functions that are only allowed between steps are refused everywhere else, and change nothing
// there: inside a micro-batch, inside an accumulation, while a checkpoint is being written, and on
// an engine that has failed.
#include "../setup/tiny_engine.h"

#include "base/errors.h"
#include "base/file.h"
#include <zero/weights.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TWICE "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 2}"

static char directory[64], checkpoint[80], model[80], elsewhere[80];
static int32_t tokens[TINY_BATCH * TINY_SEQ], targets[TINY_BATCH * TINY_SEQ];
static float norm[16];

static zero_tensors batch_of(int64_t number)
{
    zero_tensors batch = {.count = 2};
    int32_t *const data[] = {tokens, targets};
    for (int i = 0; i < TINY_BATCH * TINY_SEQ; i++) {
        tokens[i] = (int32_t)((i * 7 + number * 5) % TINY_VOCABULARY);
        targets[i] = (int32_t)((i * 7 + number * 5 + 3) % TINY_VOCABULARY);
    }
    for (int t = 0; t < 2; t++)
        batch.at[t] = (zero_tensor){
            .data = data[t], .dtype = ZERO_I32, .dims = 2, .shape = {TINY_BATCH, TINY_SEQ}};
    return batch;
}

static zero_status evaluate(zero_engine *e, zero_error *error)
{
    static int32_t ids[2][TINY_SEQ];
    double loss;
    zero_tensors batch = {.count = 2};
    for (int t = 0; t < 2; t++)
        batch.at[t] =
            (zero_tensor){.data = ids[t], .dtype = ZERO_I32, .dims = 2, .shape = {1, TINY_SEQ}};
    return zero_evaluate(e, &batch, &loss, error);
}

static zero_status finish(zero_engine *e, zero_error *error)
{
    return zero_finish_update(e, error);
}
static zero_status read_parameter(zero_engine *e, zero_error *error)
{
    return zero_read_parameter(e, "ln_f.weight", norm, 16, error);
}
static zero_status read_gradient(zero_engine *e, zero_error *error)
{
    return zero_read_gradient(e, "ln_f.weight", norm, 16, error);
}
static zero_status write_parameter(zero_engine *e, zero_error *error)
{
    return zero_write_parameter(e, "ln_f.weight", norm, 16, error);
}
static zero_status save_weights(zero_engine *e, zero_error *error)
{
    return zero_save_weights(e, elsewhere, error);
}
static zero_status load_weights(zero_engine *e, zero_error *error)
{
    return zero_load_weights(e, directory, error);
}
static zero_status load_weights_with(zero_engine *e, zero_error *error)
{
    return zero_load_weights_with(
        e, directory,
        &(zero_load_options){.struct_size = sizeof(zero_load_options), .ignore_unused = 1}, error);
}
static zero_status save_checkpoint(zero_engine *e, zero_error *error)
{
    return zero_save_checkpoint(e, elsewhere, error);
}
static zero_status load_checkpoint(zero_engine *e, zero_error *error)
{
    return zero_load_checkpoint(e, checkpoint, error);
}
static zero_status begin_checkpoint(zero_engine *e, zero_error *error)
{
    zero_checkpoint *saving;
    zero_status status = zero_begin_checkpoint(e, elsewhere, &saving, error);
    assert_true((status == ZERO_OK) == (saving != NULL));
    return status == ZERO_OK ? zero_end_checkpoint(saving, error) : status;
}

static const struct {
    const char *name;
    zero_status (*call)(zero_engine *engine, zero_error *error);
    bool changes;
} calls[] = {
    {"zero_finish_update", finish, false},
    {"zero_evaluate", evaluate, false},
    {"zero_read_parameter", read_parameter, false},
    {"zero_read_gradient", read_gradient, false},
    {"zero_save_weights", save_weights, false},
    {"zero_write_parameter", write_parameter, true},
    {"zero_load_weights", load_weights, true},
    {"zero_load_weights_with", load_weights_with, true},
    {"zero_save_checkpoint", save_checkpoint, true},
    {"zero_load_checkpoint", load_checkpoint, true},
    {"zero_begin_checkpoint", begin_checkpoint, true},
};

static void all_refused(zero_engine *engine, bool changing_ones, const char *words)
{
    for (int c = 0; c < ZR_COUNT(calls); c++) {
        zero_error error = {0};
        if (changing_ones && !calls[c].changes) {
            assert_int_equal(calls[c].call(engine, &error), ZERO_OK);
            continue;
        }
        zero_status status = calls[c].call(engine, &error);
        if (status != ZERO_ERR_USAGE || !strstr(error.message, words))
            fail_msg("%s: status %d, \"%s\", not \"%s\"", calls[c].name, status, error.message,
                     words);
    }
    if (!changing_ones)
        assert_false(zr_path_exists(elsewhere));
}

static void micro_batch(const tiny *t, int64_t number, bool disturbed, zero_step_info *info)
{
    zero_error error = {0};
    zero_tensors batch = batch_of(number);
    double loss;
    assert_int_equal(zero_forward(t->engine, &batch, &loss, &error), ZERO_OK);
    if (disturbed)
        all_refused(t->engine, false, "expected after zero_initialize or zero_step");
    assert_int_equal(zero_backward(t->engine, &error), ZERO_OK);
    if (disturbed)
        all_refused(t->engine, false, "expected after zero_initialize or zero_step");
    assert_int_equal(zero_step(t->engine, info, &error), ZERO_OK);
}

// The step has the bits of one that nobody disturbs.
static void inside_of_a_step(void **state)
{
    zero_step_info info[2];
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        tiny t = tiny_create_with(TWICE);
        for (int64_t number = 0; number < 4; number++) {
            micro_batch(&t, number, disturbed, &info[disturbed]);
            if (number % 2 == 0 && disturbed)
                all_refused(t.engine, false,
                            number == 0 ? "inside of step 1, after 1 of its 2 micro-batches"
                                        : "inside of step 2");
        }
        tiny_destroy(&t);
    }
    assert_true(info[0].loss == info[1].loss && info[0].grad_norm == info[1].grad_norm &&
                info[1].updated);
}

// From the states in memory, beside the steps; and at once, where they are on NVMe or under a
// delayed update.
static void while_a_checkpoint_is_written_of(const char *configuration)
{
    tiny t = tiny_create_with(configuration);
    zero_checkpoint *saving;
    zero_step_info info;
    zero_error error;
    char first[96];
    snprintf(first, sizeof first, "%s/first", directory);
    micro_batch(&t, 0, false, &info);
    assert_int_equal(zero_begin_checkpoint(t.engine, first, &saving, &error), ZERO_OK);
    all_refused(t.engine, true, "zero_end_checkpoint comes first");
    micro_batch(&t, 1, false, &info);
    assert_int_equal(zero_end_checkpoint(saving, &error), ZERO_OK);
    for (int c = 0; c < ZR_COUNT(calls); c++) {
        zr_directory_remove(elsewhere, NULL);
        unlink(elsewhere);
        if (calls[c].call(t.engine, &error) != ZERO_OK)
            fail_msg("%s between steps: %s", calls[c].name, error.message);
    }
    zr_directory_remove(elsewhere, NULL);
    tiny_destroy(&t);
}

static void while_a_checkpoint_is_written(void **state)
{
    static const char *const optimizers[] = {
        "",
        ", \"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\", "
        "\"nvme_path\": \"/tmp\"}}",
        ", \"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"cpu\"}}, "
        "\"libzero\": {\"delayed_update\": {\"start_step\": 1}}"};
    for (int i = 0; i < ZR_COUNT(optimizers); i++) {
        char configuration[256];
        snprintf(configuration, sizeof configuration, "{\"train_micro_batch_size_per_gpu\": 2%s}",
                 optimizers[i]);
        while_a_checkpoint_is_written_of(configuration);
    }
}

static void on_an_engine_that_has_failed(void **state)
{
    tiny t = tiny_create();
    zero_tensors batch = batch_of(0);
    zero_error error = {0};
    double loss;
    tokens[3] = TINY_VOCABULARY; // no token
    assert_int_equal(zero_forward(t.engine, &batch, &loss, &error), ZERO_ERR_DATA);
    all_refused(t.engine, false, "this engine has failed before; only zero_destroy may be called");
    tiny_destroy(&t);
}

static int set_up(void **state)
{
    tiny t = tiny_create_with(TWICE);
    strcpy(directory, "/tmp/zero-between-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", directory);
    snprintf(model, sizeof model, "%s/model.safetensors", directory);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", directory);
    assert_int_equal(zero_save_weights(t.engine, model, NULL), ZERO_OK);
    tiny_destroy(&t);
    t = tiny_create();
    assert_int_equal(zero_save_checkpoint(t.engine, checkpoint, NULL), ZERO_OK);
    tiny_destroy(&t);
    return 0;
}

static int tear_down(void **state) { return zr_directory_remove(directory, NULL); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(inside_of_a_step),
                                       cmocka_unit_test(while_a_checkpoint_is_written),
                                       cmocka_unit_test(on_an_engine_that_has_failed)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
