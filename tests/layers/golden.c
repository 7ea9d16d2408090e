#include "golden.h"
#include "base/file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MOST 4096 // elements of a tensor

void golden_open(golden *file, const char *path)
{
    *file = (golden){.path = path, .prefix = ""};
    assert_int_equal(zr_file_read(path, 1 << 22, &file->data, &file->bytes, NULL), ZERO_OK);
}

void golden_close(golden *file) { zr_free(file->data); }

static const void *record(const golden *file, const char *wanted, int64_t *count)
{
    char name[128];
    const char *end = file->data + file->bytes;
    snprintf(name, sizeof name, "%s%s", file->prefix, wanted);
    for (const char *at = file->data; at < end;) {
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
    fail_msg("%s has no record \"%s\"", file->path, name);
    return NULL;
}

int64_t golden_elements(const golden *file, const char *name)
{
    int64_t count;
    record(file, name, &count);
    return count;
}

void golden_copy(const golden *file, const char *name, void *to, int64_t elements)
{
    int64_t count;
    const void *from = record(file, name, &count);
    assert_int_equal(count, elements);
    memcpy(to, from, 4 * (size_t)count);
}

typedef void (*tensor_take)(void *user, const char *name, float *parameter, float *gradient,
                            int64_t elements);

static void each_tensor(harness *net, tensor_take take, void *user)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].piece_count; p++)
            for (int t = 0; t < net->model->units[u].pieces[p].tensor_count; t++) {
                float *gradient;
                int64_t elements;
                const char *name = net->model->units[u].pieces[p].tensors[t].name;
                float *parameter = harness_tensor(net, name, &gradient, &elements);
                take(user, name, parameter, gradient, elements);
            }
}

static void load(void *user, const char *name, float *parameter, float *gradient, int64_t elements)
{
    golden_copy(user, name, parameter, elements);
}

void golden_load(const golden *file, harness *net)
{
    each_tensor(net, load, (void *)file);
    golden_copy(file, "tokens", net->tokens, 14);
    golden_copy(file, "targets", net->targets, 14);
}

void golden_assert_loss(const golden *file, double loss, double tolerance)
{
    float expected;
    golden_copy(file, "loss", &expected, 1);
    if (!(fabs(loss / (double)expected - 1) < tolerance))
        fail_msg("%s loss %.9g instead of %.9g", file->prefix, loss, (double)expected);
}

typedef struct comparison {
    const golden *file;
    harness *net;
    double tolerance;
} comparison;

static void compare(void *user, const char *name, float *parameter, float *gradient,
                    int64_t elements)
{
    const comparison *c = user;
    char key[96];
    float expected[MOST];
    assert_true(elements <= MOST);
    snprintf(key, sizeof(key), "grad.%s", name);
    golden_copy(c->file, key, expected, elements);
    double error = harness_error(gradient, expected, elements);
    if (!(error < c->tolerance))
        fail_msg("%s gradient of %s on %s %s: relative error %.3g", c->file->prefix, name,
                 c->net->queue->backend->name, c->net->queue->backend->path(), error);
}

void golden_assert_gradients(const golden *file, harness *net, double tolerance)
{
    comparison c = {file, net, tolerance};
    each_tensor(net, compare, &c);
}

// sums of squares over all gradients
typedef struct distance {
    const golden *file;
    const char *kind;
    double ours, autocast, size;
} distance;

static void measure(void *user, const char *name, float *parameter, float *gradient,
                    int64_t elements)
{
    distance *d = user;
    char key[96];
    float exact[MOST], autocast[MOST];
    assert_true(elements <= MOST);
    snprintf(key, sizeof(key), "grad.%s", name);
    golden_copy(d->file, key, exact, elements);
    snprintf(key, sizeof(key), "%s.grad.%s", d->kind, name);
    golden_copy(d->file, key, autocast, elements);
    for (int64_t i = 0; i < elements; i++) {
        d->ours += ((double)gradient[i] - exact[i]) * ((double)gradient[i] - exact[i]);
        d->autocast += ((double)autocast[i] - exact[i]) * ((double)autocast[i] - exact[i]);
        d->size += (double)exact[i] * exact[i];
    }
}

void golden_assert_like_autocast(const golden *file, harness *net, const char *kind, double factor)
{
    distance measured = {.file = file, .kind = kind};
    const zr_backend *backend = net->queue->backend;
    each_tensor(net, measure, &measured);
    double ours = sqrt(measured.ours / measured.size),
           autocast = sqrt(measured.autocast / measured.size);
    printf("%s%s on %s %s: relative error of the gradient %.3g, autocast %.3g\n", file->prefix,
           kind, backend->name, backend->path(), ours, autocast);
    if (!(ours <= factor * autocast))
        fail_msg("%s%s on %s %s: relative error of the gradient %.3g, autocast %.3g", file->prefix,
                 kind, backend->name, backend->path(), ours, autocast);
}

static void *buffer_of(size_t bytes)
{
    void *buffer = aligned_alloc(64, ZR_ROUND_UP(bytes + 1, (size_t)64));
    assert_non_null(buffer);
    return buffer;
}

typedef struct decoding { // of golden_decode
    harness *net;
    zr_decode_cache cache;
    void *workspace, *stream[2];
    float *picked; // logits of a step
} decoding;

// Exactly what zr_lm_decode_sizes asks for.
static void decoding_open(harness *net, int64_t sequences, int64_t length, int64_t rows,
                          decoding *d)
{
    const zr_lm_config *config = zr_lm_config_of(net->model);
    const zr_lm_shape shape = zr_lm_shape_of(config);
    const zr_decode_limits limits = {.dtype = net->shape.dtype,
                                     .threads = net->queue->threads,
                                     .rows = rows,
                                     .wanted = rows,
                                     .capacity = length};
    size_t workspace = 0, cache = zr_lm_decode_cache_bytes(net->model, sequences, length);
    for (int u = 0; u < net->model->unit_count; u++) {
        zero_unit_sizes sizes;
        assert_int_equal(zr_lm_decode_sizes(&net->model->units[u], &limits, &sizes), ZERO_OK);
        workspace = ZR_MAX(workspace, sizes.workspace_bytes);
    }
    *d = (decoding){.net = net,
                    .cache = {.sequences = sequences,
                              .capacity = length,
                              .k = buffer_of(cache),
                              .v = buffer_of(cache)},
                    .workspace = buffer_of(workspace)};
    for (int i = 0; i < 2; i++)
        d->stream[i] = buffer_of(sizeof(float) * (size_t)(rows * shape.width));
    d->picked = buffer_of(sizeof(float) * (size_t)(rows * shape.vocab));
}

static void decoding_close(decoding *d)
{
    void *buffers[] = {d->cache.k, d->cache.v, d->workspace, d->stream[0], d->stream[1], d->picked};
    for (int i = 0; i < ZR_COUNT(buffers); i++)
        free(buffers[i]);
}

static void decode_step(decoding *d, const zr_decode_step *step)
{
    for (int u = 0; u < d->net->model->unit_count; u++) {
        zero_context context;
        harness_context(d->net, u, false, &context);
        context.workspace = d->workspace;
        bool last = u == d->net->model->unit_count - 1;
        assert_int_equal(zr_lm_decode(&context, &d->cache, step, d->stream[u % 2],
                                      last ? (void *)d->picked : d->stream[(u + 1) % 2]),
                         ZERO_OK);
    }
}

void golden_decode(harness *net, const int32_t *tokens, int64_t sequences, int64_t length,
                   int64_t cut, bool last, float *logits)
{
    enum { SEQUENCES = 2, ROWS = 32 };
    int64_t vocab = zr_lm_shape_of(zr_lm_config_of(net->model)).vocab, done[SEQUENCES] = {0};
    decoding d;
    assert_true(sequences <= SEQUENCES && sequences * length <= ROWS);
    decoding_open(net, sequences, length, sequences * length, &d);
    for (;;) {
        zr_attention_run runs[SEQUENCES];
        int32_t ids[ROWS];
        int64_t wanted[ROWS], place[ROWS]; // place: in logits
        zr_decode_step step = {.runs = runs, .tokens = ids, .wanted = wanted};
        for (int64_t s = sequences - 1; s >= 0; s--) { // not in the order of the cache
            int64_t rows = ZR_MIN(cut + s, length - done[s]);
            for (int64_t i = 0; i < rows; i++, step.rows++) {
                int64_t at = s * length + done[s] + i;
                ids[step.rows] = tokens[at];
                if (last && i + 1 < rows)
                    continue;
                place[step.wanted_count] = at;
                wanted[step.wanted_count++] = step.rows;
            }
            if (rows)
                runs[step.run_count++] =
                    (zr_attention_run){.sequence = s, .first = done[s], .rows = rows};
            done[s] += rows;
        }
        if (!step.rows)
            break;
        decode_step(&d, &step);
        for (int64_t i = 0; i < step.wanted_count; i++)
            memcpy(logits + place[i] * vocab, d.picked + i * vocab, sizeof(float) * (size_t)vocab);
    }
    decoding_close(&d);
}

void golden_assert_decoded(const golden *file, harness *net, double tolerance)
{
    int64_t count = golden_elements(file, "logits");
    float expected[MOST], found[MOST];
    assert_true(count <= MOST);
    golden_copy(file, "logits", expected, count);
    for (int64_t cut = 1; cut <= 7; cut += 2) {
        memcpy(found, expected, sizeof(float) * (size_t)count);
        golden_decode(net, net->tokens, 2, 7, cut, cut == 3, found);
        double error = harness_error(found, expected, count);
        if (!(error < tolerance))
            fail_msg("%s logits on %s %s, %lld positions at once: relative error %.3g",
                     file->prefix, net->queue->backend->name, net->queue->backend->path(),
                     (long long)cut, error);
    }
}
