// What the public functions promise besides the bits: the order of calls, non-finite gradients,
// evaluation, and reading and writing tensors.
#include "harness.h"
#include "base/alloc.h"
#include "base/file.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct fixture {
    zero_model *model;
    zero_comm *comm;
    zero_engine *engine;
    zero_error error;
    int32_t tokens[16], targets[16];
    zero_tensors batch;
} fixture;

static float dropout; // of the models that are made

static zero_status create_model(int heads, zero_model **out, zero_error *error)
{
    zero_gpt2_config gpt2;
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = HARNESS_VOCAB;
    gpt2.n_positions = HARNESS_SEQ;
    gpt2.n_embd = 8;
    gpt2.n_head = heads;
    gpt2.n_layer = 1;
    gpt2.resid_pdrop = gpt2.embd_pdrop = gpt2.attn_pdrop = dropout;
    return zero_gpt2_create(&gpt2, out, error);
}

static void open_engine(fixture *f, const char *config)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(create_model(2, &f->model, &f->error), ZERO_OK);
    assert_int_equal(zero_comm_self(&f->comm, &f->error), ZERO_OK);
    zero_options options = {.struct_size = sizeof options,
                            .model = f->model,
                            .comm = f->comm,
                            .config_text = config,
                            .shape = {.batch = 2, .seq = HARNESS_SEQ},
                            .seed = 3,
                            .backend = "ref"};
    assert_int_equal(zero_initialize(&options, &f->engine, &f->error), ZERO_OK);
    harness_batch(0, 0, 2, f->tokens, f->targets);
    f->batch = harness_tensors(2, f->tokens, f->targets);
}

static void close_engine(fixture *f)
{
    zero_destroy(f->engine);
    zero_comm_destroy(f->comm);
    zero_gpt2_destroy(f->model);
}

static zero_status one_step(fixture *f, zero_step_info *info)
{
    double loss;
    assert_int_equal(zero_forward(f->engine, &f->batch, &loss, &f->error), ZERO_OK);
    assert_int_equal(zero_backward(f->engine, &f->error), ZERO_OK);
    return zero_step(f->engine, info, &f->error);
}

static void test_order_of_calls(void **state)
{
    fixture f;
    zero_step_info info;
    double loss;
    open_engine(&f, NULL);
    assert_int_equal(zero_backward(f.engine, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_step(f.engine, &info, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_forward(f.engine, &f.batch, &loss, &f.error), ZERO_OK);
    assert_int_equal(zero_forward(f.engine, &f.batch, &loss, &f.error), ZERO_ERR_USAGE);
    assert_non_null(strstr(f.error.message, "zero_step"));
    assert_int_equal(zero_evaluate(f.engine, &f.batch, &loss, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_backward(f.engine, &f.error), ZERO_OK);
    assert_int_equal(zero_step(f.engine, &info, &f.error), ZERO_OK);
    assert_true(info.updated && info.step == 1);
    close_engine(&f);
}

static void test_accumulation_boundary(void **state)
{
    fixture f;
    zero_step_info info;
    open_engine(&f, "{\"gradient_accumulation_steps\": 2}");
    assert_int_equal(one_step(&f, &info), ZERO_OK);
    assert_true(!info.updated && info.step == 0);
    assert_int_equal(one_step(&f, &info), ZERO_OK);
    assert_true(info.updated && info.step == 1 && info.samples == 4);
    close_engine(&f);
}

static void read_bias(fixture *f, float *out)
{
    assert_int_equal(zero_read_parameter(f->engine, "h.0.mlp.c_fc.bias", out, 32, &f->error),
                     ZERO_OK);
}

// A gradient that is not finite changes nothing.
static void test_nonfinite_skips(void **state)
{
    fixture f;
    zero_step_info info;
    float before[32], after[32], norms[8], bad[8] = {NAN};
    open_engine(&f, NULL);
    read_bias(&f, before);
    assert_int_equal(zero_read_parameter(f.engine, "ln_f.weight", norms, 8, &f.error), ZERO_OK);
    assert_int_equal(zero_write_parameter(f.engine, "ln_f.weight", bad, 8, &f.error), ZERO_OK);
    assert_int_equal(one_step(&f, &info), ZERO_OK);
    assert_true(info.skipped && !info.updated && !isfinite(info.grad_norm));
    read_bias(&f, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(zero_write_parameter(f.engine, "ln_f.weight", norms, 8, &f.error), ZERO_OK);
    assert_int_equal(one_step(&f, &info), ZERO_OK);
    assert_true(!info.skipped && info.updated && isfinite(info.grad_norm));
    close_engine(&f);
}

static void test_evaluation_changes_nothing(void **state)
{
    fixture f;
    float before[32], after[32];
    double a, b;
    open_engine(&f, NULL);
    read_bias(&f, before);
    assert_int_equal(zero_evaluate(f.engine, &f.batch, &a, &f.error), ZERO_OK);
    assert_int_equal(zero_evaluate(f.engine, &f.batch, &b, &f.error), ZERO_OK);
    read_bias(&f, after);
    assert_true(a == b && isfinite(a));
    assert_memory_equal(before, after, sizeof before);
    zero_tensors large = f.batch;
    large.at[0].shape[0] = 3;
    assert_int_equal(zero_evaluate(f.engine, &large, &a, &f.error), ZERO_ERR_USAGE);
    close_engine(&f);
}

// A call that comes between forward and backward is refused, and the step goes on as if it had not
// been made.
static void test_refused_calls_change_nothing(void **state)
{
    fixture f;
    zero_step_info plain, disturbed;
    float zeros[8] = {0};
    int32_t other[HARNESS_SEQ] = {0};
    zero_tensors small = harness_tensors(1, other, other);
    double loss;
    open_engine(&f, NULL);
    assert_int_equal(one_step(&f, &plain), ZERO_OK);
    close_engine(&f);
    open_engine(&f, NULL);
    assert_int_equal(zero_forward(f.engine, &f.batch, &loss, &f.error), ZERO_OK);
    assert_int_equal(zero_evaluate(f.engine, &small, &loss, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_write_parameter(f.engine, "ln_f.weight", zeros, 8, &f.error),
                     ZERO_ERR_USAGE);
    assert_int_equal(zero_load_weights(f.engine, "/nowhere", &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_backward(f.engine, &f.error), ZERO_OK);
    assert_int_equal(zero_step(f.engine, NULL, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_step(f.engine, &disturbed, &f.error), ZERO_OK);
    assert_memory_equal(&plain, &disturbed, sizeof plain);
    close_engine(&f);
}

static void test_missing_arguments(void **state)
{
    fixture f;
    zero_tensors none = {0};
    double loss;
    float x[8];
    open_engine(&f, NULL);
    assert_int_equal(zero_forward(f.engine, NULL, &loss, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_forward(f.engine, &f.batch, NULL, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_evaluate(f.engine, &none, &loss, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_evaluate(f.engine, &f.batch, NULL, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_read_parameter(f.engine, NULL, x, 8, &f.error), ZERO_ERR_USAGE);
    assert_int_equal(zero_read_parameter(f.engine, "ln_f.weight", NULL, 8, &f.error),
                     ZERO_ERR_USAGE);
    close_engine(&f);
}

// A second engine on the same communicator starts its counts at 0.
static void test_traffic_is_of_this_engine(void **state)
{
    fixture f;
    zero_step_info info;
    zero_traffic first, second;
    open_engine(&f, NULL);
    assert_int_equal(one_step(&f, &info), ZERO_OK);
    zero_traffic_report(f.engine, &first);
    assert_true(first.calls[ZERO_COMM_reduce_scatter] > 0);
    zero_destroy(f.engine);
    zero_options options = {.struct_size = sizeof options,
                            .model = f.model,
                            .comm = f.comm,
                            .shape = {.batch = 2, .seq = HARNESS_SEQ},
                            .backend = "ref"};
    assert_int_equal(zero_initialize(&options, &f.engine, &f.error), ZERO_OK);
    zero_traffic_report(f.engine, &second);
    assert_int_equal(second.calls[ZERO_COMM_reduce_scatter], 0);
    close_engine(&f);
}

static void test_no_barrier_in_a_step(void **state)
{
    for (int stage = 0; stage <= 3; stage++) {
        fixture f;
        zero_step_info info;
        zero_traffic before, after;
        char config[64];
        snprintf(config, sizeof config, "{\"zero_optimization\": {\"stage\": %d}}", stage);
        open_engine(&f, config);
        zero_traffic_report(f.engine, &before);
        assert_int_equal(one_step(&f, &info), ZERO_OK);
        zero_traffic_report(f.engine, &after);
        assert_true(info.updated);
        assert_int_equal(zero_traffic_between(&before, &after).calls[ZERO_COMM_barrier], 0);
        close_engine(&f);
    }
}

static void test_tensor_names(void **state)
{
    fixture f;
    float x[32];
    open_engine(&f, NULL);
    assert_int_equal(zero_read_parameter(f.engine, "h.7.mlp.c_fc.bias", x, 32, &f.error),
                     ZERO_ERR_USAGE);
    assert_non_null(strstr(f.error.message, "h.7.mlp.c_fc.bias"));
    assert_int_equal(zero_read_parameter(f.engine, "h.0.mlp.c_fc.bias", x, 31, &f.error),
                     ZERO_ERR_USAGE);
    close_engine(&f);
}

// The gradient that the engine reports is the derivative of the loss that it reports.
static void test_gradient_is_derivative(void **state)
{
    fixture f;
    zero_step_info info;
    float bias[32], gradient[32];
    double up, down, h = 1e-2;
    open_engine(&f, "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0}}}");
    read_bias(&f, bias);
    assert_int_equal(one_step(&f, &info), ZERO_OK);
    assert_int_equal(zero_read_gradient(f.engine, "h.0.mlp.c_fc.bias", gradient, 32, &f.error),
                     ZERO_OK);
    for (int i = 0; i < 32; i += 5) {
        float old = bias[i];
        bias[i] = old + (float)h;
        assert_int_equal(zero_write_parameter(f.engine, "h.0.mlp.c_fc.bias", bias, 32, &f.error),
                         ZERO_OK);
        assert_int_equal(zero_evaluate(f.engine, &f.batch, &up, &f.error), ZERO_OK);
        bias[i] = old - (float)h;
        assert_int_equal(zero_write_parameter(f.engine, "h.0.mlp.c_fc.bias", bias, 32, &f.error),
                         ZERO_OK);
        assert_int_equal(zero_evaluate(f.engine, &f.batch, &down, &f.error), ZERO_OK);
        bias[i] = old;
        assert_true(fabs((up - down) / (2 * h) - gradient[i]) < 2e-5);
    }
    close_engine(&f);
}

// Whatever a step has done before; weights do not change.
static void test_evaluation_drops_nothing(void **state)
{
    double losses[2];
    zero_step_info info;
    for (int d = 0; d < 2; d++) {
        fixture f;
        dropout = d ? 0.5f : 0;
        open_engine(&f, "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0}}}");
        assert_int_equal(one_step(&f, &info), ZERO_OK);
        assert_int_equal(zero_evaluate(f.engine, &f.batch, &losses[d], &f.error), ZERO_OK);
        assert_true((info.loss == losses[d]) == !d);
        close_engine(&f);
    }
    dropout = 0;
    assert_true(losses[0] == losses[1]);
}

typedef struct half {
    zero_comm *comm;
    const zero_model *model;
    zero_status status;
    zero_error error;
} half;

static void *step_until_failure(void *argument)
{
    half *self = argument;
    zero_engine *engine = NULL;
    zero_options options = {.struct_size = sizeof options,
                            .model = self->model,
                            .comm = self->comm,
                            .config_text = "{\"zero_optimization\": {\"stage\": 2}}",
                            .shape = {.batch = 1, .seq = HARNESS_SEQ},
                            .backend = "ref"};
    int32_t tokens[HARNESS_SEQ] = {0}, targets[HARNESS_SEQ] = {0};
    zero_tensors batch = harness_tensors(1, tokens, targets);
    self->status = zero_initialize(&options, &engine, &self->error);
    // rank 1 has a token that does not exist
    tokens[3] = zero_comm_rank(self->comm) == 1 ? HARNESS_VOCAB : 0;
    for (int s = 0; s < 3 && self->status == ZERO_OK; s++) {
        zero_step_info info;
        double loss;
        self->status = zero_forward(engine, &batch, &loss, &self->error);
        if (self->status == ZERO_OK)
            self->status = zero_backward(engine, &self->error);
        if (self->status == ZERO_OK)
            self->status = zero_step(engine, &info, &self->error);
    }
    zero_destroy(engine);
    return NULL;
}

// One rank fails in its own arithmetic: the other ends too, with the first one's message, and does
// not wait for the deadline.
static void test_no_rank_is_left_behind(void **state)
{
    fixture f;
    half ranks[2] = {{0}};
    zero_comm *comms[2];
    pthread_t threads[2];
    open_engine(&f, NULL);
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 100};
    assert_int_equal(zero_comm_threads(2, &options, comms, &f.error), ZERO_OK);
    for (int r = 0; r < 2; r++) {
        ranks[r] = (half){.comm = comms[r], .model = f.model};
        assert_int_equal(pthread_create(&threads[r], NULL, step_until_failure, &ranks[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    assert_int_equal(ranks[1].status, ZERO_ERR_DATA);
    assert_int_equal(ranks[0].status, ZERO_ERR_PEER);
    assert_non_null(strstr(ranks[0].error.message, "rank 1"));
    for (int r = 0; r < 2; r++)
        zero_comm_destroy(comms[r]);
    close_engine(&f);
}

enum { SAME, OTHER_RATE, OTHER_SEED, OTHER_MODEL, OTHER_CHECKPOINT, BAD_OPTIONS };

static char directory[] = "/tmp/zero-contract-XXXXXX"; // of the checkpoints

// of rank 1: what differs, which allocation fails (0: none)
typedef struct maker {
    half of;
    int what;
    int64_t failing;
} maker;

// Two checkpoints, one parameter apart, of which rank 1 loads the second.
static zero_status load_another(zero_engine *engine, bool second, zero_error *error)
{
    char paths[2][sizeof directory + 8];
    float zeros[8] = {0};
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d", directory, i);
        ZERO_TRY(zero_save_checkpoint(engine, paths[i], error));
        ZERO_TRY(zero_write_parameter(engine, "ln_f.weight", zeros, 8, error));
    }
    return zero_load_checkpoint(engine, paths[second], error);
}

static void *make_engine(void *argument)
{
    maker *self = argument;
    bool second = zero_comm_rank(self->of.comm) == 1;
    zero_engine *engine = NULL;
    zero_model *other = NULL;
    zero_options options = {
        .struct_size = sizeof options,
        .model = self->of.model,
        .comm = self->of.comm,
        .shape = {.batch = 1, .seq = HARNESS_SEQ},
        .backend = "ref",
        .config_text = "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.01}}}"};
    if (second && self->what == OTHER_RATE)
        options.config_text = "{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.02}}}";
    options.seed = second && self->what == OTHER_SEED;
    options.config_path = second && self->what == BAD_OPTIONS ? "both.json" : NULL;
    // tensors of the same shapes
    if (second && self->what == OTHER_MODEL && create_model(4, &other, &self->of.error) == ZERO_OK)
        options.model = other;
    int64_t before = zr_alloc_count();
    zr_alloc_fail_at(second ? self->failing : 0);
    self->of.status = zero_initialize(&options, &engine, &self->of.error);
    zr_alloc_fail_at(0);
    self->failing = zr_alloc_count() - before;
    if (self->of.status == ZERO_OK && self->what == OTHER_CHECKPOINT)
        self->of.status = load_another(engine, second, &self->of.error);
    zero_destroy(engine);
    zero_gpt2_destroy(other);
    return NULL;
}

static void make_engines(const zero_model *model, int what, int64_t failing, maker out[2])
{
    zero_comm *comms[2];
    pthread_t threads[2];
    zero_error error;
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 100};
    assert_int_equal(zero_comm_threads(2, &options, comms, &error), ZERO_OK);
    for (int r = 0; r < 2; r++) {
        out[r] =
            (maker){.of = {.comm = comms[r], .model = model}, .what = what, .failing = failing};
        assert_int_equal(pthread_create(&threads[r], NULL, make_engine, &out[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < 2; r++)
        zero_comm_destroy(comms[r]);
}

// Ranks that would drift apart are refused before the first step; what is wrong on one rank is told
// by all at once.
static void test_ranks_must_agree(void **state)
{
    static const char *const words[] = {
        [OTHER_RATE] =
            "rank 1 has another configuration than rank 0: \"optimizer.params.lr\" (0.02)",
        [OTHER_SEED] = "\"options.seed\" (1)",
        [OTHER_MODEL] = "rank 1 has another model than rank 0: \"n_head\" (4)",
        [OTHER_CHECKPOINT] = "rank 1 has another checkpoint than rank 0: \"",
        [BAD_OPTIONS] = "config_path",
    };
    fixture f;
    maker ranks[2];
    assert_non_null(mkdtemp(directory));
    open_engine(&f, NULL);
    for (int what = OTHER_RATE; what <= BAD_OPTIONS; what++) {
        make_engines(f.model, what, 0, ranks);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(ranks[r].of.status, ZERO_ERR_USAGE);
            assert_non_null(strstr(ranks[r].of.error.message, words[what]));
        }
    }
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
    close_engine(&f);
}

// Whichever allocation of one rank fails, the other does not wait for the deadline.
static void test_memory_of_one_rank(void **state)
{
    fixture f;
    maker ranks[2];
    open_engine(&f, NULL);
    make_engines(f.model, SAME, 0, ranks);
    int64_t count = ranks[1].failing;
    for (int64_t nth = 1; nth <= count; nth++) {
        make_engines(f.model, SAME, nth, ranks);
        assert_true((ranks[0].of.status == ZERO_OK) == (ranks[1].of.status == ZERO_OK));
        assert_int_not_equal(ranks[0].of.status, ZERO_ERR_TIMEOUT);
    }
    close_engine(&f);
}

static void test_options(void **state)
{
    zero_error error = {0};
    zero_engine *engine = NULL;
    zero_options options = {.struct_size = 3};
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_USAGE);
    options.struct_size = sizeof options;
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_ERR_USAGE);
    assert_int_equal(zero_initialize(NULL, &engine, &error), ZERO_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_of_calls),
                                       cmocka_unit_test(test_accumulation_boundary),
                                       cmocka_unit_test(test_nonfinite_skips),
                                       cmocka_unit_test(test_evaluation_changes_nothing),
                                       cmocka_unit_test(test_refused_calls_change_nothing),
                                       cmocka_unit_test(test_missing_arguments),
                                       cmocka_unit_test(test_traffic_is_of_this_engine),
                                       cmocka_unit_test(test_no_barrier_in_a_step),
                                       cmocka_unit_test(test_tensor_names),
                                       cmocka_unit_test(test_ranks_must_agree),
                                       cmocka_unit_test(test_memory_of_one_rank),
                                       cmocka_unit_test(test_gradient_is_derivative),
                                       cmocka_unit_test(test_evaluation_drops_nothing),
                                       cmocka_unit_test(test_no_rank_is_left_behind),
                                       cmocka_unit_test(test_options)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
