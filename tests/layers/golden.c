#include "golden.h"
#include "base/file.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MOST 8192 // elements of a tensor

void golden_open(golden *file, const char *path)
{
    *file = (golden){.path = path, .prefix = ""};
    assert_int_equal(zr_file_read(path, 1 << 22, &file->data, &file->bytes, NULL), ZERO_OK);
}

void golden_close(golden *file) { zr_free(file->data); }

typedef struct entry { // a record of a file
    const char *name, *data;
    size_t length; // of the name
    int64_t elements;
} entry;

// Moves *at past the next record; false: there is none.
static bool next_record(const golden *file, const char **at, entry *out)
{
    const char *end = file->data + file->bytes;
    char *dimension;
    if (*at >= end)
        return false;
    *out = (entry){.name = *at + 4, .length = strcspn(*at + 4, " "), .elements = 1};
    out->data = memchr(*at, '\n', (size_t)(end - *at));
    assert_non_null(out->data++);
    for (dimension = (char *)out->name + out->length; *dimension != '\n';)
        out->elements *= strtoll(dimension, &dimension, 10);
    *at = out->data + 4 * out->elements;
    return true;
}

static const void *record(const golden *file, const char *wanted, int64_t *count)
{
    char name[160];
    const char *at = file->data;
    snprintf(name, sizeof name, "%s%s", file->prefix, wanted);
    for (entry e; next_record(file, &at, &e);)
        if (strlen(name) == e.length && memcmp(e.name, name, e.length) == 0) {
            *count = e.elements;
            return e.data;
        }
    fail_msg("%s has no record \"%s\"", file->path, name);
    return NULL;
}

// Counts the elements of all records whose names begin so.
static int64_t elements_of_all(const golden *file, const char *beginning)
{
    char name[160];
    const char *at = file->data;
    int64_t count = 0;
    snprintf(name, sizeof name, "%s%s", file->prefix, beginning);
    for (entry e; next_record(file, &at, &e);)
        if (e.length >= strlen(name) && memcmp(e.name, name, strlen(name)) == 0)
            count += e.elements;
    return count;
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

// Reads the adapters that the model has, as --lora says them, if the file has that record.
static void read_adapters(const golden *file, zr_lm_config *config)
{
    char text[ZR_LORA_TEXT] = "";
    int32_t characters[ZR_LORA_TEXT];
    zero_error error;
    int64_t count = elements_of_all(file, "lora") ? golden_elements(file, "lora") : 0;
    assert_true(count < ZR_LORA_TEXT);
    if (count)
        golden_copy(file, "lora", characters, count);
    for (int64_t i = 0; i < count; i++)
        text[i] = (char)characters[i];
    if (zr_lora_parse(count ? text : NULL, file->prefix, config, &config->lora, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

zr_lm_config golden_config(const golden *file)
{
    char path[] = "/tmp/zero-golden-XXXXXX";
    zr_lm_config config;
    zero_error error;
    int64_t count = golden_elements(file, "config");
    int32_t *bytes = malloc((size_t)count * sizeof *bytes);
    FILE *out = fdopen(mkstemp(path), "w");
    assert_true(bytes && out);
    golden_copy(file, "config", bytes, count);
    for (int64_t i = 0; i < count; i++)
        fputc(bytes[i], out);
    assert_int_equal(fclose(out), 0);
    zero_status status = zr_lm_config_read(path, &config, &error);
    unlink(path);
    free(bytes);
    if (status != ZERO_OK)
        fail_msg("%s%s", file->prefix, error.message);
    read_adapters(file, &config);
    config.documents = elements_of_all(file, "positions");
    return config;
}

// gradient: NULL if the tensor is frozen.
typedef void (*tensor_take)(void *user, const zero_tensor_desc *tensor, float *parameter,
                            float *gradient);

static void each_tensor(harness *net, tensor_take take, void *user)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++) {
            const zero_flat_param_desc *of = &net->model->units[u].flat_params[p];
            for (int t = 0; t < of->tensor_count; t++) {
                int64_t first = net->offset[u][p][t];
                take(user, &of->tensors[t], net->parameters + first,
                     of->kind == ZERO_FROZEN ? NULL : net->gradients + first);
            }
        }
}

// Copies what a tensor of the network has of the record "KIND" + its name (the whole's, if it is a
// part of one). Returns the largest absolute value of the whole record.
static double copy_part(const golden *file, const char *kind, const zero_tensor_desc *tensor,
                        float *out)
{
    char key[128];
    float whole[MOST];
    double most = 0;
    int64_t count = zr_tensor_desc_elements(tensor), elements;
    zr_rectangle at;
    snprintf(key, sizeof key, "%s%s", kind, tensor->tile.whole ? tensor->tile.whole : tensor->name);
    elements = golden_elements(file, key);
    assert_true(elements <= MOST);
    assert_true(tensor->tile.whole || elements == count);
    golden_copy(file, key, whole, elements);
    for (int64_t done = 0, n; done < count; done += n) {
        n = zr_tile_rectangle(tensor, done, count - done, &at);
        for (int64_t i = 0; i < n; i++)
            out[done + i] = whole[at.first + i / at.width * at.stride + i % at.width];
    }
    for (int64_t i = 0; i < elements; i++)
        most = fmax(most, fabs((double)whole[i]));
    return most;
}

static void load(void *user, const zero_tensor_desc *tensor, float *parameter, float *gradient)
{
    copy_part(user, "", tensor, parameter);
}

void golden_load(const golden *file, harness *net)
{
    each_tensor(net, load, (void *)file);
    golden_copy(file, "tokens", net->tokens, 14);
    golden_copy(file, "targets", net->targets, 14);
    if (net->positions)
        golden_copy(file, "positions", net->positions, 14);
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
    int64_t compared; // elements
} comparison;

static void compare(void *user, const zero_tensor_desc *tensor, float *parameter, float *gradient)
{
    comparison *c = user;
    float expected[MOST];
    int64_t count = zr_tensor_desc_elements(tensor);
    if (!gradient)
        return;
    double most = copy_part(c->file, "grad.", tensor, expected), difference = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)gradient[i] - expected[i]);
        if (!(d <= difference)) // NaN stays
            difference = d;
    }
    if (!(difference <= c->tolerance * most))
        fail_msg("%s gradient of %s on %s %s: relative error %.3g", c->file->prefix, tensor->name,
                 c->net->queue->backend->name, c->net->queue->backend->path(), difference / most);
    c->compared += count;
}

void golden_assert_gradients(const golden *file, harness *net, double tolerance)
{
    comparison c = {file, net, tolerance, 0};
    each_tensor(net, compare, &c);
    assert_int_equal(c.compared, elements_of_all(file, "grad."));
}

// sums of squares over all gradients
typedef struct distance {
    const golden *file;
    const char *kind;
    double ours, autocast, size;
} distance;

static void measure(void *user, const zero_tensor_desc *tensor, float *parameter, float *gradient)
{
    distance *d = user;
    char kind[16];
    float exact[MOST], autocast[MOST];
    if (!gradient)
        return;
    snprintf(kind, sizeof kind, "%s.grad.", d->kind);
    copy_part(d->file, "grad.", tensor, exact);
    copy_part(d->file, kind, tensor, autocast);
    for (int64_t i = 0; i < zr_tensor_desc_elements(tensor); i++) {
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
