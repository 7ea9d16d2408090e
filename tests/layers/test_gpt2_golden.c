// GPT-2 against PyTorch's GPT2LMHeadModel: gpt2_golden.bin, written by tests/oracle/gpt2.py, has weights, a batch, loss,
// logits and every gradient. Relative errors, per tensor max|a-b|/max|b|, stay below 1e-5 on every backend.
#include "harness.h"
#include "base/file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TOLERANCE 1e-5

static char *golden;
static size_t golden_bytes;

static int setup(void **state)
{
    return zr_file_read(ZERO_GOLDEN_FILE, 1 << 20, &golden, &golden_bytes, NULL) == ZERO_OK ? 0 : -1;
}

static int teardown(void **state)
{
    zr_free(golden);
    return 0;
}

// The record of that name: a line "f32|i32 NAME DIMENSIONS...\n", then the elements.
static const void *record(const char *name, int64_t *count)
{
    const char *end = golden + golden_bytes;
    for (const char *at = golden; at < end;) {
        char *dimension = NULL;
        size_t length = strcspn(at + 4, " ");
        const char *data = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(data++);
        *count = 1;
        for (dimension = (char *)at + 4 + length; *dimension != '\n';)
            *count *= strtoll(dimension, &dimension, 10);
        if (strlen(name) == length && memcmp(at + 4, name, length) == 0)
            return data;
        at = data + 4 * *count;
    }
    fail_msg("%s has no record \"%s\"", ZERO_GOLDEN_FILE, name);
    return NULL;
}

static void record_copy(const char *name, void *to, int64_t elements)
{
    int64_t count;
    const void *from = record(name, &count);
    assert_int_equal(count, elements);
    memcpy(to, from, 4 * (size_t)count);
}

typedef void (*tensor_visit)(harness *net, const char *name, float *parameter, float *gradient, int64_t elements);

static void each_tensor(harness *net, tensor_visit visit)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].piece_count; p++)
            for (int t = 0; t < net->model->units[u].pieces[p].tensor_count; t++) {
                float *gradient;
                int64_t elements;
                const char *name = net->model->units[u].pieces[p].tensors[t].name;
                float *parameter = harness_tensor(net, name, &gradient, &elements);
                visit(net, name, parameter, gradient, elements);
            }
}

static void load(harness *net, const char *name, float *parameter, float *gradient, int64_t elements)
{
    record_copy(name, parameter, elements);
}

static void compare(harness *net, const char *name, float *parameter, float *gradient, int64_t elements)
{
    char key[64];
    float expected[4096];
    assert_true(elements <= ZR_COUNT(expected));
    snprintf(key, sizeof(key), "grad.%s", name);
    record_copy(key, expected, elements);
    double error = harness_error(gradient, expected, elements);
    if (!(error < TOLERANCE))
        fail_msg("gradient of %s on %s %s: relative error %.3g", name, net->queue->backend->name,
                 net->queue->backend->path(), error);
}

static void golden_network_in(harness *net, const zr_backend *backend, zero_dtype dtype)
{
    const zero_gpt2_config config = harness_tiny();
    harness_create(net, &config, backend, (zero_shape){.batch = 2, .seq = 7, .threads = 2, .dtype = dtype});
    each_tensor(net, load);
    record_copy("tokens", net->tokens, 14);
    record_copy("targets", net->targets, 14);
}

static void golden_network(harness *net, const zr_backend *backend)
{
    golden_network_in(net, backend, ZERO_F32);
}

static void assert_loss(double loss)
{
    float expected;
    record_copy("loss", &expected, 1);
    if (!(fabs(loss / (double)expected - 1) < TOLERANCE))
        fail_msg("loss %.9g instead of %.9g", loss, (double)expected);
}

static void loss_and_gradients(void **state)
{
    int run = 0;
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        if (!harness_offered(*backend))
            continue;
        golden_network(&net, *backend);
        assert_loss(harness_forward(&net, false));
        for (int fused = 0; fused < 2; fused++) {
            harness_forget(&net);
            assert_loss(harness_forward(&net, true));
            net.loss = NAN;
            harness_backward(&net, fused);
            assert_loss(net.loss);
            each_tensor(&net, compare);
        }
        harness_destroy(&net);
        run++;
    }
    assert_true(run > 0);
}

typedef struct distance { double ours, autocast, size; const char *kind; } distance; // sums of squares over all gradients

static distance measured;

static void measure(harness *net, const char *name, float *parameter, float *gradient, int64_t elements)
{
    char key[64];
    float exact[4096], autocast[4096];
    assert_true(elements <= ZR_COUNT(exact));
    snprintf(key, sizeof(key), "grad.%s", name);
    record_copy(key, exact, elements);
    snprintf(key, sizeof(key), "%s.grad.%s", measured.kind, name);
    record_copy(key, autocast, elements);
    for (int64_t i = 0; i < elements; i++) {
        measured.ours += ((double)gradient[i] - exact[i]) * ((double)gradient[i] - exact[i]);
        measured.autocast += ((double)autocast[i] - exact[i]) * ((double)autocast[i] - exact[i]);
        measured.size += (double)exact[i] * exact[i];
    }
}

// Mixed precision errs as PyTorch's autocast does, which keeps weights and the residual stream in fp32: by no more than its
// error and a fifth, over all gradients together.
static void mixed_precision_errs_like_autocast(void **state)
{
    static const struct { zero_dtype dtype; const char *kind; } kinds[] = {{ZERO_BF16, "bf16"}, {ZERO_F16, "fp16"}};
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++)
        for (int k = 0; k < ZR_COUNT(kinds) && harness_offered(*backend); k++) {
            harness net;
            golden_network_in(&net, *backend, kinds[k].dtype);
            measured = (distance){.kind = kinds[k].kind};
            harness_forward(&net, true);
            harness_backward(&net, true);
            each_tensor(&net, measure);
            double ours = sqrt(measured.ours / measured.size), autocast = sqrt(measured.autocast / measured.size);
            printf("%s on %s %s: relative error of the gradient %.3g, autocast %.3g\n", kinds[k].kind, (*backend)->name, (*backend)->path(), ours, autocast);
            if (!(ours <= 1.2 * autocast))
                fail_msg("%s on %s %s: relative error of the gradient %.3g, autocast %.3g", kinds[k].kind, (*backend)->name, (*backend)->path(), ours, autocast);
            harness_destroy(&net);
        }
}

static void decode_sequence(harness *net, const int32_t *tokens, int64_t length, float *logits)
{
    const zr_lm_config *config = zr_lm_config_of(net->model);
    zr_decode_cache cache = {.capacity = length};
    size_t bytes = zr_lm_decode_cache_bytes(config, length);
    cache.k = aligned_alloc(64, ZR_ROUND_UP(bytes, (size_t)64));
    cache.v = aligned_alloc(64, ZR_ROUND_UP(bytes, (size_t)64));
    assert_true(cache.k && cache.v);
    for (int64_t i = 0; i < length; i++) {
        float stream[2][16] __attribute__((aligned(64)));
        for (int u = 0; u < net->model->unit_count; u++) {
            zero_context context;
            harness_context(net, u, false, &context);
            bool last = u == net->model->unit_count - 1;
            zero_status status = zr_lm_decode(&context, &cache, tokens[i], stream[u % 2],
                                                last ? logits + i * config->gpt2.vocab_size : stream[(u + 1) % 2]);
            assert_int_equal(status, ZERO_OK);
        }
        assert_int_equal(cache.length, i + 1);
    }
    free(cache.k);
    free(cache.v);
}

static void decoded_logits(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        float expected[2 * 7 * 29], found[2 * 7 * 29];
        if (!harness_offered(*backend))
            continue;
        golden_network(&net, *backend);
        record_copy("logits", expected, ZR_COUNT(expected));
        for (int sample = 0; sample < 2; sample++)
            decode_sequence(&net, net.tokens + 7 * sample, 7, found + sample * 7 * 29);
        double error = harness_error(found, expected, ZR_COUNT(expected));
        if (!(error < TOLERANCE))
            fail_msg("logits on %s %s: relative error %.3g", net.queue->backend->name, net.queue->backend->path(), error);
        harness_destroy(&net);
    }
}

// Targets that count one row only make the loss that row's -log softmax: the forward pass's logits, up to a constant a row.
static void forward_and_decode_agree(void **state)
{
    for (const zr_backend *const *backend = zr_backends(); *backend; backend++) {
        harness net;
        float logits[7 * 29];
        if (!harness_offered(*backend))
            continue;
        golden_network(&net, *backend);
        decode_sequence(&net, net.tokens + 7, 7, logits);
        for (int row = 0; row < 7; row++) {
            double sum = 0;
            for (int id = 0; id < 29; id++)
                sum += exp((double)logits[row * 29 + id]);
            for (int id = 0; id < 29; id++) {
                for (int i = 0; i < 14; i++)
                    net.targets[i] = i == 7 + row ? id : -1;
                double expected = log(sum) - (double)logits[row * 29 + id];
                assert_true(fabs(harness_forward(&net, false) - expected) < 1e-5 * fmax(1, fabs(expected)));
            }
        }
        harness_destroy(&net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loss_and_gradients), cmocka_unit_test(mixed_precision_errs_like_autocast),
        cmocka_unit_test(decoded_logits),
        cmocka_unit_test(forward_and_decode_agree),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
