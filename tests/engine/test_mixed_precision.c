// Mixed precision: stages 0 to 3 give the same bits in every policy; loss scaling has no visible
// effect except that it avoids underflow; and a step that overflows changes nothing on any rank.
#include "harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define BF16 "\"bf16\": {\"enabled\": true}"
#define FP16 "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 10}"

static const char *const policies[] = {
    BF16,
    FP16,
    BF16 ", \"data_types\": {\"grad_accum_dtype\": \"bf16\"}",
    FP16
    ", \"data_types\": {\"grad_accum_dtype\": \"fp32\"}, \"communication_data_type\": \"bf16\"",
    BF16 ", \"communication_data_type\": \"fp32\"",
    "\"communication_data_type\": \"bf16\"",
};

#define POLICIES ((int)(sizeof policies / sizeof *policies))

static void test_stages(void **state)
{
    for (int p = 0; p < POLICIES; p++)
        for (int ranks = p < 2 ? 1 : 3; ranks <= 3; ranks++)
            for (int k = 1; k <= 2; k++)
                harness_stages_agree((harness_case){.ranks = ranks,
                                                    .accumulation = k,
                                                    .batch = 1,
                                                    .clipping = 1,
                                                    .precision = policies[p]});
}

static void test_cpu_backend(void **state)
{
    for (int p = 0; p < POLICIES; p++)
        harness_stages_agree((harness_case){.ranks = 2,
                                            .accumulation = 2,
                                            .batch = 2,
                                            .dropout = 0.1f,
                                            .backend = "cpu",
                                            .precision = policies[p]});
}

static void test_optimizers(void **state)
{
    static const char *const optimizers[] = {"SGD", "Adagrad", "Lion", "LAMB"};
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
        for (int p = 0; p < 2; p++)
            harness_stages_agree((harness_case){.ranks = 3,
                                                .accumulation = 2,
                                                .batch = 1,
                                                .optimizer = optimizers[i],
                                                .precision = policies[p]});
}

// 16-bit runs follow the fp32 one, and are not it. The first step has the same parameters but for
// rounding, by 2^-8 of a number at most in bf16 and 2^-11 in fp16, and sums average such errors: an
// eighth of that is left. Later steps have other parameters.
static void test_near_fp32(void **state)
{
    static const double first[] = {0x1p-8 / 8, 0x1p-11 / 8}, near[] = {5e-3, 2e-4};
    static harness_result exact, rounded;
    harness_case c = {.stage = 2, .ranks = 2, .accumulation = 2, .batch = 4};
    harness_run(&c, &exact);
    for (int p = 0; p < 2; p++) {
        c.precision = policies[p];
        harness_run(&c, &rounded);
        assert_true(rounded.loss[0] != exact.loss[0]);
        assert_true(fabs(rounded.loss[0] - exact.loss[0]) < first[p] * exact.loss[0]);
        assert_true(fabs(rounded.norm[0] - exact.norm[0]) < first[p] * exact.norm[0]);
        for (int s = 0; s < HARNESS_STEPS; s++)
            assert_true(fabs(rounded.loss[s] - exact.loss[s]) < near[p]);
        assert_true(fabs(rounded.evaluated - exact.evaluated) < near[p]);
    }
}

// Powers of two leave a gradient its bits, as long as it neither overflows nor underflows: the
// scale is divided out exactly, and what differs is what underflows. Half of fp16's least number,
// 2^-25, is the most that an element loses, and SGD does not make more of it.
static void test_scale_is_divided_out(void **state)
{
    static harness_result one, other;
    harness_case c = {
        .stage = 1, .ranks = 2, .accumulation = 2, .batch = 2, .clipping = 1, .optimizer = "SGD"};
    c.precision = "\"communication_data_type\": \"fp32\", \"fp16\": {\"enabled\": true, "
                  "\"loss_scale\": 4096}";
    harness_run(&c, &one);
    c.precision = "\"communication_data_type\": \"fp32\", \"fp16\": {\"enabled\": true, "
                  "\"loss_scale\": 32768}";
    harness_run(&c, &other);
    double lost = (double)one.elems * 0x1p-25 / 4096;
    assert_int_equal(one.skipped + other.skipped, 0);
    assert_true(one.loss[0] == other.loss[0]);
    for (int s = 0; s < HARNESS_STEPS; s++) {
        assert_true(fabs(one.loss[s] - other.loss[s]) <= lost);
        assert_true(fabs(one.norm[s] - other.norm[s]) <= lost);
    }
}

typedef struct life {
    double scale[6];
    int skipped[6];
    float before[64], after[64];
} life;

// One rank through six steps with a scale that is far too large at first.
static void live(int stage, const char *fp16, life *out)
{
    zero_gpt2_config gpt2;
    zero_model *model;
    zero_comm *comm;
    zero_engine *engine;
    zero_error error = {0};
    char config[512];
    int32_t tokens[2 * HARNESS_SEQ], targets[2 * HARNESS_SEQ];
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = HARNESS_VOCAB;
    gpt2.n_positions = HARNESS_SEQ;
    gpt2.n_embd = 16;
    gpt2.n_head = 2;
    gpt2.n_layer = 1;
    snprintf(config, sizeof config,
             "{\"zero_optimization\": {\"stage\": %d}, \"gradient_accumulation_steps\": 1, "
             "\"fp16\": %s}",
             stage, fp16);
    assert_int_equal(zero_gpt2_create(&gpt2, &model, &error), ZERO_OK);
    assert_int_equal(zero_comm_self(&comm, &error), ZERO_OK);
    zero_options options = {.struct_size = sizeof options,
                            .model = model,
                            .comm = comm,
                            .config_text = config,
                            .shape = {.batch = 2, .seq = HARNESS_SEQ},
                            .seed = 7,
                            .backend = "ref"};
    assert_int_equal(zero_initialize(&options, &engine, &error), ZERO_OK);
    for (int s = 0; s < 6; s++) {
        double loss;
        zero_step_info info;
        harness_batch(s, 0, 2, tokens, targets);
        zero_tensors batch = harness_tensors(2, tokens, targets);
        assert_int_equal(zero_read_parameter(engine, "h.0.attn.c_attn.bias",
                                             s == 0 ? out->before : out->after, 48, &error),
                         ZERO_OK);
        if (s > 0 && out->skipped[s - 1] && s == 1)
            assert_memory_equal(out->before, out->after, 48 * sizeof(float));
        assert_int_equal(zero_forward(engine, &batch, &loss, &error), ZERO_OK);
        assert_int_equal(zero_backward(engine, &error), ZERO_OK);
        assert_int_equal(zero_step(engine, &info, &error), ZERO_OK);
        out->scale[s] = info.loss_scale;
        out->skipped[s] = info.skipped;
        assert_int_equal(info.updated, !info.skipped);
        assert_int_equal(info.step, s + 1);
        assert_int_equal(isfinite(info.grad_norm) != 0, !info.skipped);
    }
    zero_destroy(engine);
    zero_comm_destroy(comm);
    zero_gpt2_destroy(model);
}

static void test_overflow_skips_and_shrinks(void **state)
{
    for (int stage = 0; stage < 4; stage++) {
        life life = {0};
        live(stage, "{\"enabled\": true, \"initial_scale_power\": 32, \"hysteresis\": 1}", &life);
        assert_true(life.skipped[0] && life.scale[0] == 4294967296.0);
        for (int s = 1; s < 6; s++)
            assert_true(life.scale[s] ==
                        (life.skipped[s - 1] ? life.scale[s - 1] / 2 : life.scale[s - 1]));
    }
}

static void test_static_scale(void **state)
{
    life life = {0};
    live(2, "{\"enabled\": true, \"loss_scale\": 128}", &life);
    for (int s = 0; s < 6; s++)
        assert_true(life.scale[s] == 128 && !life.skipped[s]);
    assert_true(memcmp(life.before, life.after, 48 * sizeof(float)) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stages),
                                       cmocka_unit_test(test_cpu_backend),
                                       cmocka_unit_test(test_optimizers),
                                       cmocka_unit_test(test_near_fp32),
                                       cmocka_unit_test(test_scale_is_divided_out),
                                       cmocka_unit_test(test_overflow_skips_and_shrinks),
                                       cmocka_unit_test(test_static_scale)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
