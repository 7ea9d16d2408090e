// Masked targets: the loss and the gradient of a step are means over all of its targets, however
// its samples are divided into ranks and micro-batches.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/errors.h"
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 8 };

#define EXACT "\"libzero\": {\"exact_world\": true}"
#define EQUAL_WEIGHTS "\"libzero\": {\"loss_mean\": \"micro_batch\"}"

static harness_result reference, other;

static harness_case cut(int ranks, int accumulation, int stage, const char *precision)
{
    return (harness_case){.stage = stage,
                          .ranks = ranks,
                          .accumulation = accumulation,
                          .batch = SAMPLES / ranks / accumulation,
                          .optimizer = "SGD",
                          .clipping = 0.5,
                          .masked = true,
                          .precision = precision};
}

static void near(double a, double b, double share)
{
    if (!(fabs(a - b) <= share * fabs(a)))
        fail_msg("%.9g and %.9g are more than %g apart", a, b, share);
}

static void agree_but_for_rounding(const harness_result *a, const harness_result *b)
{
    for (int s = 0; s < HARNESS_STEPS; s++) {
        near(a->loss[s], b->loss[s], 2e-6);
        near(a->norm[s], b->norm[s], 2e-5);
    }
    assert_int_equal(a->elems, b->elems);
    for (int64_t i = 0; i < a->elems; i++)
        assert_true(fabsf(a->parameters[i] - b->parameters[i]) <= 1e-6f);
}

static const struct {
    int ranks, accumulation;
} cuts[] = {{1, 8}, {1, 2}, {2, 2}, {4, 1}, {8, 1}};

static void every_cut_is_the_same_step(void **state)
{
    harness_case whole = cut(1, 1, 0, NULL);
    harness_run(&whole, &reference);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        harness_case c = cut(cuts[i].ranks, cuts[i].accumulation, (int)i % 4, NULL);
        harness_run(&c, &other);
        agree_but_for_rounding(&reference, &other);
    }
}

static void with_equal_weights_cuts_differ(void **state)
{
    harness_case whole = cut(1, 1, 0, EQUAL_WEIGHTS), parts = cut(1, 8, 0, EQUAL_WEIGHTS);
    harness_run(&whole, &reference);
    harness_run(&parts, &other);
    assert_true(fabs(reference.loss[0] - other.loss[0]) > 0.05 &&
                fabs(reference.norm[0] - other.norm[0]) > 0.05);
}

static void one_micro_batch_size_has_the_same_bits_in_every_world(void **state)
{
    for (int policy = 0; policy < 2; policy++) {
        const char *precision = policy ? "\"bf16\": {\"enabled\": true}, " EXACT : EXACT;
        harness_case c = cut(1, 8, 0, precision);
        harness_run(&c, &reference);
        for (int ranks = 2; ranks <= 8; ranks *= 2) {
            c = cut(ranks, 8 / ranks, ranks == 2 ? 2 : 3, precision);
            harness_run(&c, &other);
            assert_true(harness_equal(&reference, &other));
        }
    }
}

static void stages_have_the_same_bits(void **state)
{
    harness_case c = cut(2, 2, 0, "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 8}");
    c.optimizer = "AdamW";
    harness_run(&c, &reference);
    for (c.stage = 1; c.stage <= 3; c.stage++) {
        harness_run(&c, &other);
        assert_true(harness_equal(&reference, &other));
    }
}

// ---- one engine, step by step -------------------------------------------------------------------

static void must(zero_status status, const zero_error *error)
{
    if (status != ZERO_OK)
        fail_msg("%s", error->message);
}

static zero_engine *open_engine(const zero_model *model, zero_comm *comm, const char *config,
                                zero_shape shape)
{
    zero_options options = {.struct_size = sizeof options,
                            .model = model,
                            .comm = comm,
                            .config_text = config,
                            .shape = shape,
                            .seed = 7,
                            .backend = "ref"};
    zero_engine *engine;
    zero_error error;
    must(zero_initialize(&options, &engine, &error), &error);
    return engine;
}

// of micro-batches: means, means x targets, targets
typedef struct sums {
    double loss, weighted, targets;
} sums;

static zero_step_info step_by_hand(zero_engine *engine, int kept_most, sums *out)
{
    zero_step_info info = {0};
    zero_error error;
    *out = (sums){0};
    for (int k = 0; k < SAMPLES; k++) {
        int32_t tokens[HARNESS_SEQ], targets[HARNESS_SEQ];
        double loss;
        harness_batch(0, k, 1, tokens, targets);
        int64_t kept = harness_mask(0, k, 1, targets);
        for (int t = kept_most; t < HARNESS_SEQ; t++)
            targets[t] = -1;
        kept = kept < kept_most ? kept : kept_most;
        zero_tensors batch = harness_tensors(1, tokens, targets);
        must(zero_forward(engine, &batch, &loss, &error), &error);
        must(zero_backward(engine, &error), &error);
        must(zero_step(engine, &info, &error), &error);
        *out = (sums){out->loss + loss, out->weighted + loss * (double)kept,
                      out->targets + (double)kept};
    }
    return info;
}

static zero_step_info one_step(const char *libzero, int kept_most, sums *out)
{
    char config[256];
    zero_gpt2_config gpt2;
    zero_model *model;
    zero_comm *comm;
    zero_error error;
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = HARNESS_VOCAB;
    gpt2.n_positions = HARNESS_SEQ;
    gpt2.n_embd = 16;
    gpt2.n_head = gpt2.n_layer = 2;
    snprintf(config, sizeof config, "{\"gradient_accumulation_steps\": %d%s}", SAMPLES, libzero);
    must(zero_gpt2_create(&gpt2, &model, &error), &error);
    must(zero_comm_self(&comm, &error), &error);
    zero_engine *engine =
        open_engine(model, comm, config, (zero_shape){.batch = 1, .seq = HARNESS_SEQ});
    zero_step_info info = step_by_hand(engine, kept_most, out);
    zero_destroy(engine);
    zero_comm_destroy(comm);
    zero_gpt2_destroy(model);
    return info;
}

static void the_reported_loss_is_the_mean_over_targets(void **state)
{
    sums s;
    zero_step_info info = one_step("", HARNESS_SEQ, &s);
    assert_true(s.targets > 0 && s.targets < SAMPLES * HARNESS_SEQ);
    near(info.loss, s.weighted / s.targets, 1e-14);
    info = one_step(", " EQUAL_WEIGHTS, HARNESS_SEQ, &s);
    near(info.loss, s.loss / SAMPLES, 1e-14);
}

static void a_step_without_targets_has_loss_and_gradient_0(void **state)
{
    sums s;
    zero_step_info info = one_step("", 0, &s);
    assert_true(s.targets == 0 && info.loss == 0 && info.grad_norm == 0 && !info.skipped);
}

// ---- a unit of one's own: loss = mean over x that are numbers of (p - x)^2, so that at a rate of
// 1/2 one step takes p to the mean of all x ----

static zero_status own_sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                             zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.backward_reads = 1};
    return ZERO_OK;
}

static int64_t count_numbers(const zero_context *context)
{
    const float *x = context->batch->at[0].data;
    int64_t numbers = 0;
    for (int64_t i = 0; i < context->shape.batch; i++)
        numbers += !isnan(x[i]);
    return numbers;
}

static zero_status own_forward(zero_context *context, const zero_tensors *in,
                               const zero_tensors *out)
{
    const float *x = context->batch->at[0].data, *p = zero_parameter(context, 0, 0);
    int64_t numbers = count_numbers(context);
    double sum = 0;
    for (int64_t i = 0; i < context->shape.batch; i++)
        sum += isnan(x[i]) ? 0 : ((double)p[0] - x[i]) * ((double)p[0] - x[i]);
    *context->loss = sum / (double)numbers; // of none: not a number
    return ZERO_OK;
}

static int64_t lie; // added to the number of targets that is told

static zero_status own_backward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *d_out, const zero_tensors *d_in)
{
    const float *x = context->batch->at[0].data, *p = zero_parameter(context, 0, 0);
    double factor = zero_loss_factor(context, count_numbers(context) + lie), sum = 0;
    int add;
    for (int64_t i = 0; i < context->shape.batch; i++)
        sum += isnan(x[i]) ? 0 : 2 * ((double)p[0] - x[i]);
    float *gradient = zero_gradient(context, 0, 0, &add);
    gradient[0] = (float)(factor * sum);
    return ZERO_OK;
}

static const zero_unit_ops own_ops = {
    .kind = "own", .sizes = own_sizes, .forward = own_forward, .backward = own_backward};
static const zero_tensor_desc own_tensor = {.name = "p",
                                            .dims = 1,
                                            .shape = {1},
                                            .init = ZERO_INIT_CONSTANT,
                                            .init_value = 3,
                                            .tp_axis = -1};
static const zero_flat_param_desc own_flat_param = {ZERO_TRAINABLE, 1, &own_tensor};
static const zero_unit own_unit = {"own", &own_ops, NULL, 1, &own_flat_param, 0, NULL};
static const zero_model own_model = {"own", 1, &own_unit};

enum { OWN_RANKS = 3, OWN_MICRO_BATCHES = 2, OWN_BATCH = 4 };
static const float own_x[OWN_RANKS * OWN_MICRO_BATCHES][OWN_BATCH] = {
    // 11 numbers, whose sum is 55
    {1, NAN, NAN, NAN}, {2, 4, 8, NAN},      {NAN, NAN, NAN, NAN},
    {5, 7, 11, 13},     {NAN, -3, NAN, NAN}, {6, NAN, 1, NAN}};

typedef struct own_rank {
    zero_comm *comm;
    zero_step_info info;
    float p, gradient;
    zero_status status;
    zero_error error;
} own_rank;

static zero_status own_steps(own_rank *rank, zero_engine *engine)
{
    for (int k = 0; k < OWN_MICRO_BATCHES; k++) {
        int64_t step, g;
        double loss;
        zero_position(engine, &step, &g);
        zero_tensors batch = {1, {{(void *)own_x[g], ZERO_F32, 1, {OWN_BATCH}}}};
        zero_status status = zero_forward(engine, &batch, &loss, &rank->error);
        status = status == ZERO_OK ? zero_backward(engine, &rank->error) : status;
        status = status == ZERO_OK ? zero_step(engine, &rank->info, &rank->error) : status;
        if (status != ZERO_OK)
            return status;
    }
    ZERO_TRY(zero_read_gradient(engine, "p", &rank->gradient, 1, &rank->error));
    return zero_read_parameter(engine, "p", &rank->p, 1, &rank->error);
}

static void *own_run(void *argument)
{
    static const char *const config =
        "{\"gradient_accumulation_steps\": 2, \"gradient_clipping\": 0, \"zero_optimization\": "
        "{\"stage\": 2},"
        " \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}}";
    own_rank *rank = argument;
    zero_engine *engine =
        open_engine(&own_model, rank->comm, config, (zero_shape){.batch = OWN_BATCH, .seq = 1});
    rank->status = own_steps(rank, engine);
    zero_destroy(engine);
    return NULL;
}

static void run_own(own_rank ranks[OWN_RANKS])
{
    zero_comm *comms[OWN_RANKS];
    pthread_t threads[OWN_RANKS];
    zero_error error;
    must(zero_comm_threads(OWN_RANKS, NULL, comms, &error), &error);
    for (int r = 0; r < OWN_RANKS; r++) {
        ranks[r] = (own_rank){.comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, own_run, &ranks[r]), 0);
    }
    for (int r = 0; r < OWN_RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < OWN_RANKS; r++)
        zero_comm_destroy(comms[r]);
}

static void a_unit_of_ones_own_tells_its_targets(void **state)
{
    own_rank ranks[OWN_RANKS];
    run_own(ranks);
    for (int r = 0; r < OWN_RANKS; r++) {
        must(ranks[r].status, &ranks[r].error);
        near(5, ranks[r].p, 1e-6); // 55 / 11
        // 2 x (3 - 5): as the update has it, divided by the targets
        near(-4, ranks[r].gradient, 1e-6);
        near((4 + 1 + 1 + 25 + 4 + 16 + 64 + 100 + 36 + 9 + 4) / 11.0, ranks[r].info.loss, 1e-6);
    }
}

static void more_targets_than_positions_are_refused(void **state)
{
    own_rank ranks[OWN_RANKS];
    int said = 0;
    lie = 2;
    run_own(ranks);
    lie = 0;
    for (int r = 0; r < OWN_RANKS; r++) {
        assert_int_not_equal(ranks[r].status, ZERO_OK);
        said += strstr(ranks[r].error.message,
                       "targets were set for a micro-batch of 4 positions") != NULL;
    }
    assert_true(said > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_the_same_step),
        cmocka_unit_test(with_equal_weights_cuts_differ),
        cmocka_unit_test(one_micro_batch_size_has_the_same_bits_in_every_world),
        cmocka_unit_test(stages_have_the_same_bits),
        cmocka_unit_test(the_reported_loss_is_the_mean_over_targets),
        cmocka_unit_test(a_step_without_targets_has_loss_and_gradient_0),
        cmocka_unit_test(a_unit_of_ones_own_tells_its_targets),
        cmocka_unit_test(more_targets_than_positions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
