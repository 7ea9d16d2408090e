// An update beside the next step (ZeRO-Offload section 5.2): nothing changes before it starts; from
// then on every gradient is one update old; and the bits depend neither on the tier of the states,
// nor on how long the update takes, nor on what is read between two steps.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "harness.h"
#include "engine/engine_api.h"
#include "memory/scratch.h"
#include "../sanitizers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zero/comm.h>

static const char *const devices[] = {"none", "cpu", "nvme"};
static const char *const precisions[] = {
    "\"bf16\": {\"enabled\": false}", "\"bf16\": {\"enabled\": true}",
    "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 20, \"hysteresis\": 1}"};

static void run(harness_case c, int optimizer, int parameters, int precision, int start,
                harness_result *out)
{
    char tiers[512], text[256];
    snprintf(
        tiers, sizeof tiers,
        "\"offload_optimizer\": {\"device\": \"%s\", \"nvme_path\": \"%s\"}, \"offload_param\": "
        "{\"device\": \"%s\", \"nvme_path\": \"%s\"}, \"sub_group_size\": 2048, "
        "\"stage3_param_persistence_threshold\": 0",
        devices[optimizer], harness_scratch(), devices[parameters], harness_scratch());
    snprintf(text, sizeof text,
             start ? "%s, \"libzero\": {\"delayed_update\": {\"start_step\": %d}}" : "%s",
             precisions[precision], start);
    c.tiers = tiers;
    c.precision = text;
    harness_run(&c, out);
}

static void nothing_changes_before_it_starts(void **state)
{
    static harness_result ordinary, other;
    for (int stage = 1; stage <= 3; stage++)
        for (int device = 1; device <= 2; device++)
            for (int precision = SANITIZED; precision < (SANITIZED ? 2 : 3); precision++) {
                harness_case c = {.stage = stage, .ranks = 2, .accumulation = 1, .batch = 2};
                run(c, device, 0, precision, 0, &ordinary);
                run(c, device, 0, precision, HARNESS_STEPS + 1, &other);
                assert_true(harness_equal(&ordinary, &other));
                // step 3 computes with what step 2 has left, step 4 is the first that does not
                run(c, device, 0, precision, 3, &other);
                assert_memory_equal(ordinary.loss, other.loss, 3 * sizeof *ordinary.loss);
                if (precision < 2)
                    assert_true(ordinary.loss[3] != other.loss[3]);
            }
}

static void same_bits_wherever_states_lie(void **state)
{
    static harness_result reference, other;
    for (int precision = SANITIZED; precision < (SANITIZED ? 2 : 3); precision++)
        for (int k = 1; k <= 3; k += 2)
            for (int ranks = SANITIZED ? 2 : 1; ranks <= 2; ranks++) {
                harness_case c = {
                    .stage = 1, .ranks = ranks, .accumulation = k, .batch = 2, .clipping = 0.5};
                run(c, 1, 0, precision, 2, &reference);
                for (c.stage = 1; c.stage <= 3; c.stage++)
                    for (int optimizer = 1; optimizer <= 2; optimizer++)
                        for (int parameters = 0; parameters <= (c.stage == 3 ? 2 : 0);
                             parameters++) {
                            run(c, optimizer, parameters, precision, 2, &other);
                            if (!harness_equal(&reference, &other))
                                fail_msg("stage %d, %d ranks, K %d, policy %d, optimizer on %s, "
                                         "parameters on %s: other bits",
                                         c.stage, ranks, k, precision, devices[optimizer],
                                         devices[parameters]);
                            assert_int_equal(reference.skipped, other.skipped);
                        }
            }
}

typedef struct trainee {
    zero_model *model;
    zero_comm *comm;
    zero_engine *engine;
} trainee;

static zero_error error;
static int64_t tensor_elems[64];
static const char *tensor_names[64];
static int tensor_count;

static void must(zero_status status)
{
    if (status != ZERO_OK)
        fail_msg("%s: %s", zero_status_name(status), error.message);
}

static void list_tensors(const zero_model *model)
{
    tensor_count = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &model->units[u].flat_params[p].tensors[t];
                bool known = false;
                for (int k = 0; k < tensor_count; k++)
                    known |= !strcmp(tensor_names[k], tensor->name);
                if (known)
                    continue;
                tensor_names[tensor_count] = tensor->name;
                tensor_elems[tensor_count] = 1;
                for (int d = 0; d < tensor->dims; d++)
                    tensor_elems[tensor_count] *= tensor->shape[d];
                tensor_count++;
            }
}

static trainee begin(const char *zero, const char *libzero)
{
    trainee t;
    char config[1024];
    zero_gpt2_config gpt2;
    zero_gpt2_defaults(&gpt2);
    gpt2.vocab_size = HARNESS_VOCAB;
    gpt2.n_positions = HARNESS_SEQ;
    gpt2.n_embd = 16;
    gpt2.n_head = gpt2.n_layer = 2;
    gpt2.resid_pdrop = gpt2.embd_pdrop = gpt2.attn_pdrop = 0;
    must(zero_gpt2_create(&gpt2, &t.model, &error));
    must(zero_comm_self(&t.comm, &error));
    snprintf(config, sizeof config,
             "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_clipping\": 0, "
             "\"zero_optimization\": {%s}, \"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": "
             "0.5}}, \"libzero\": {\"dtype\": \"fp32\"%s}}",
             zero, libzero);
    zero_options options = {.struct_size = sizeof options,
                            .model = t.model,
                            .comm = t.comm,
                            .config_text = config,
                            .shape = {.batch = 2, .seq = HARNESS_SEQ},
                            .threads = 1,
                            .seed = 7,
                            .backend = "ref"};
    must(zero_initialize(&options, &t.engine, &error));
    list_tensors(t.model);
    return t;
}

static void end(trainee *t)
{
    zero_destroy(t->engine);
    zero_comm_destroy(t->comm);
    zero_gpt2_destroy(t->model);
}

#define OFFLOADED "\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}"
#define DELAYED ", \"delayed_update\": {\"start_step\": 3}"

static double step_on(trainee *t, int64_t step)
{
    int32_t tokens[2 * HARNESS_SEQ], targets[2 * HARNESS_SEQ];
    double loss;
    zero_step_info info;
    harness_batch(step, 0, 2, tokens, targets);
    zero_tensors batch = harness_tensors(2, tokens, targets);
    must(zero_forward(t->engine, &batch, &loss, &error));
    must(zero_backward(t->engine, &error));
    must(zero_step(t->engine, &info, &error));
    return info.loss;
}

static double evaluate(trainee *t)
{
    int32_t tokens[2 * HARNESS_SEQ], targets[2 * HARNESS_SEQ];
    double loss;
    harness_batch(999, 0, 2, tokens, targets);
    zero_tensors batch = harness_tensors(2, tokens, targets);
    must(zero_evaluate(t->engine, &batch, &loss, &error));
    return loss;
}

typedef zero_status (*tensor_reader)(zero_engine *engine, const char *name, float *out,
                                     int64_t elements, zero_error *error);

static void read_all(trainee *t, tensor_reader read, float *out)
{
    for (int i = 0; i < tensor_count; out += tensor_elems[i++])
        must(read(t->engine, tensor_names[i], out, tensor_elems[i], &error));
}

static void write_all(trainee *t, const float *in)
{
    for (int i = 0; i < tensor_count; in += tensor_elems[i++])
        must(zero_write_parameter(t->engine, tensor_names[i], in, tensor_elems[i], &error));
}

static int64_t count_all(void)
{
    int64_t count = 0;
    for (int i = 0; i < tensor_count; i++)
        count += tensor_elems[i];
    return count;
}

static double farthest(const float *a, const float *b, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

enum { STEPS = 8, START = 3 };

// The recursion of the paper by hand: an ordinary engine is asked for the gradient at the
// parameters that the step should have seen.
static void every_gradient_is_one_update_old(void **state)
{
    trainee delayed = begin(OFFLOADED, DELAYED), oracle = begin("\"stage\": 0", "");
    int64_t n = count_all();
    float *newest = malloc((size_t)n * sizeof(float)), *seen = malloc((size_t)n * sizeof(float)),
          *gradient = malloc((size_t)n * sizeof(float)), *got = malloc((size_t)n * sizeof(float));
    read_all(&oracle, zero_read_parameter, newest);
    for (int s = 0; s < STEPS; s++) {
        if (s + 1 <= START) // ordinary steps, and the first whose update is delayed
            memcpy(seen, newest, (size_t)n * sizeof(float));
        write_all(&oracle, seen);
        double loss = step_on(&oracle, s);
        read_all(&oracle, zero_read_gradient, gradient);
        // of the next step: all updates before this one
        memcpy(seen, newest, (size_t)n * sizeof(float));
        for (int64_t i = 0; i < n; i++)
            newest[i] -= 0.5f * gradient[i];
        assert_true(fabs(step_on(&delayed, s) - loss) < 1e-6);
    }
    read_all(&delayed, zero_read_parameter, got);
    assert_true(farthest(got, newest, n) < 1e-6 && farthest(got, seen, n) > 1e-3);

    write_all(&oracle, seen); // units go on with what they have, until they are given the rest
    assert_true(fabs(evaluate(&delayed) - evaluate(&oracle)) < 1e-6);
    write_all(&oracle, got);
    must(zero_finish_update(delayed.engine, &error));
    assert_true(evaluate(&delayed) == evaluate(&oracle));
    // and the next step sees them all
    assert_true(fabs(step_on(&delayed, STEPS) - step_on(&oracle, STEPS)) < 1e-6);
    must(zero_finish_update(oracle.engine, &error));
    free(got);
    free(gradient);
    free(seen);
    free(newest);
    end(&oracle);
    end(&delayed);
}

static void who_looks_between_steps_changes_nothing(void **state)
{
    for (int nvme = 0; nvme < 2; nvme++) {
        char tiers[256];
        snprintf(tiers, sizeof tiers,
                 "\"stage\": 3, \"sub_group_size\": 2048, \"offload_optimizer\": {\"device\": "
                 "\"%s\", \"nvme_path\": \"%s\"}",
                 devices[1 + nvme], harness_scratch());
        trainee watched = begin(tiers, DELAYED), alone = begin(tiers, DELAYED);
        float *values = malloc((size_t)count_all() * sizeof *values),
              *same = malloc((size_t)count_all() * sizeof *values);
        for (int s = 0; s < STEPS; s++) {
            assert_true(step_on(&watched, s) == step_on(&alone, s));
            if (s % 2)
                evaluate(&watched);
            read_all(&watched, s % 3 ? zero_read_parameter : zero_read_gradient, values);
            if (s == 4)
                evaluate(&watched);
        }
        read_all(&watched, zero_read_parameter, values);
        read_all(&alone, zero_read_parameter, same);
        assert_memory_equal(values, same, (size_t)count_all() * sizeof *values);
        free(same);
        free(values);
        end(&watched);
        end(&alone);
    }
}

static int64_t slow(void *user, bool write, int64_t place, int64_t bytes)
{
    usleep(2000);
    return bytes;
}

static int64_t fail_late(void *user, bool write, int64_t place, int64_t bytes)
{
    _Atomic int64_t *left = user;
    return --*left < 0 ? -EIO : bytes;
}

#define NVME                                                                                       \
    "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\"}, \"sub_group_size\": "   \
    "2048"
#define FROM_ONE                                                                                   \
    "\"bf16\": {\"enabled\": true}, \"libzero\": {\"delayed_update\": {\"start_step\": 1}}"

static void backward_waits_for_a_slow_update(void **state)
{
    static harness_result quick, late;
    char tiers[256];
    snprintf(tiers, sizeof tiers,
             "\"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": \"%s\", "
             "\"pipeline_read\": false}, \"sub_group_size\": 512",
             harness_scratch());
    harness_case c = {.stage = 2,
                      .ranks = 2,
                      .accumulation = 1,
                      .batch = 2,
                      .tiers = tiers,
                      .precision = FROM_ONE};
    harness_run(&c, &quick);
    c.faults = &(zr_io_faults){.transfer = slow, .overwrite = true};
    harness_run(&c, &late);
    assert_true(harness_equal(&quick, &late));
}

static void an_update_that_fails_ends_the_run(void **state)
{
    static const int64_t after[] = {0, 20, 60, 150};
    static harness_result r;
    char tiers[256];
    snprintf(tiers, sizeof tiers, NVME, harness_scratch());
    for (int i = 0; i < (int)(sizeof after / sizeof *after); i++) {
        harness_failure ranks[2];
        int named = 0;
        _Atomic int64_t left = after[i];
        const zr_io_faults faults = {.user = &left, .transfer = fail_late};
        harness_try(&(harness_case){.stage = 2,
                                    .ranks = 2,
                                    .accumulation = 1,
                                    .batch = 2,
                                    .tiers = tiers,
                                    .precision = FROM_ONE,
                                    .faults = &faults},
                    &r, ranks);
        for (int rank = 0; rank < 2; rank++) {
            assert_int_not_equal(ranks[rank].status, ZERO_OK);
            named += ranks[rank].status == ZERO_ERR_IO &&
                     strstr(ranks[rank].error.message, "Input/output error") != NULL;
        }
        assert_true(named > 0);
    }
}

// Written weights are at once those that units read, though the update before them was not.
static void written_weights_are_not_stale(void **state)
{
    trainee t = begin(OFFLOADED, DELAYED);
    float *weights = malloc(sizeof *weights * (size_t)count_all());
    bool stale = false;
    for (int64_t step = 0; step < 4; step++)
        step_on(&t, step);
    must(zr_engine_join_delayed_update(t.engine, &stale, &error));
    assert_true(stale);
    read_all(&t, zero_read_parameter, weights);
    write_all(&t, weights);
    must(zr_engine_join_delayed_update(t.engine, &stale, &error));
    assert_false(stale);
    free(weights);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_weights_are_not_stale),
        cmocka_unit_test(nothing_changes_before_it_starts),
        cmocka_unit_test(same_bits_wherever_states_lie),
        cmocka_unit_test(every_gradient_is_one_update_old),
        cmocka_unit_test(who_looks_between_steps_changes_nothing),
        cmocka_unit_test(backward_waits_for_a_slow_update),
        cmocka_unit_test(an_update_that_fails_ends_the_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
