// The harness: reserves buffers, runs networks, and compares. See layers_harness.h.
#include "base/dtype.h"
#include "base/random.h"
#include "compute/compute.h"
#include "layers_harness.h"
#include <zero/preference.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GUARD_BYTES 64
#define GUARD 0xa5

static void buffer_reserve(harness_buffer *buffer, size_t bytes)
{
    buffer->bytes = bytes;
    buffer->data = aligned_alloc(64, ZR_ROUND_UP(bytes, (size_t)64) + GUARD_BYTES);
    assert_non_null(buffer->data);
    memset(buffer->data, 0xff, bytes); // NaN: nothing may be read before it is written
    memset((char *)buffer->data + bytes, GUARD, GUARD_BYTES);
}

static void buffer_release(harness_buffer *buffer)
{
    for (size_t i = 0; buffer->data && i < GUARD_BYTES; i++)
        assert_int_equal(((unsigned char *)buffer->data)[buffer->bytes + i], GUARD);
    free(buffer->data);
    *buffer = (harness_buffer){0};
}

static const void *parameter(const struct zr_accessor *self, const zero_context *context,
                             int flat_param, int tensor)
{
    harness *net = ((const harness_accessor *)self)->net;
    zero_flat_param_ref ref = zr_unit_flat_param(net->model, context->unit_index, flat_param);
    if (net->in_backward && zr_flat_param_is_streamed(net->model, ref))
        net->read_streamed[context->unit_index] = true;
    else if (net->in_backward)
        net->read[context->unit_index] |= 1u << flat_param;
    int64_t first = net->offset[ref.unit][ref.flat_param][tensor];
    return net->shape.dtype == ZERO_F32 ? (const void *)(net->parameters + first)
                                        : net->narrow + first;
}

// Everything is always there.
static zero_status come_and_go(const struct zr_accessor *self, zero_context *context,
                               int flat_param)
{
    assert_true(
        zr_flat_param_is_streamed(((const harness_accessor *)self)->net->model,
                                  zr_unit_flat_param(((const harness_accessor *)self)->net->model,
                                                     context->unit_index, flat_param)));
    return ZERO_OK;
}

static float *gradient(const struct zr_sink *self, zero_context *context, int flat_param,
                       int tensor, int *add)
{
    harness *net = ((const harness_sink *)self)->net;
    zero_flat_param_ref ref = zr_unit_flat_param(net->model, context->unit_index, flat_param);
    assert_int_equal(zr_flat_param_desc(net->model, ref)->kind, ZERO_TRAINABLE);
    uint8_t *opened_by = &net->opened_by[ref.unit][ref.flat_param][tensor],
            unit = (uint8_t)(context->unit_index + 1);
    *opened_by = *opened_by ? *opened_by : unit;
    *add = *opened_by != unit;
    return net->gradients + net->offset[ref.unit][ref.flat_param][tensor];
}

static void must(harness *net, zero_status status)
{
    if (status != ZERO_OK)
        fail_msg("%s: %s", zero_status_name(status), net->error.message);
}

static void parameters_reserve(harness *net)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                net->offset[u][p][t] = net->parameter_count;
                net->parameter_count += ZR_ROUND_UP(
                    zr_tensor_desc_elements(&net->model->units[u].flat_params[p].tensors[t]), 16);
            }
    net->parameters = aligned_alloc(64, sizeof(float) * (size_t)net->parameter_count);
    net->gradients = aligned_alloc(64, sizeof(float) * (size_t)net->parameter_count);
    net->narrow =
        aligned_alloc(64, sizeof(uint16_t) * (size_t)ZR_ROUND_UP(net->parameter_count, 32));
    assert_true(net->parameters && net->gradients && net->narrow);
}

// Draws a tensor of the whole model, and takes the part of it that the tensor is.
static void draw(const zero_tensor_desc *tensor, float *out)
{
    int64_t count = zr_tensor_desc_elements(tensor), whole = count;
    const char *name = tensor->tile.whole ? tensor->tile.whole : tensor->name;
    zr_rectangle at;
    if (tensor->tile.whole && count > 0)
        whole = count / tensor->shape[tensor->tile.axis] * tensor->tile.size;
    float *drawn = malloc(sizeof(float) * (size_t)ZR_MAX(whole, 1));
    assert_non_null(drawn);
    zr_random_normal(zr_hash_text(name), 0, whole, 0.3f, drawn);
    for (int64_t done = 0, n; done < count; done += n) {
        n = zr_tile_rectangle(tensor, done, count - done, &at);
        for (int64_t i = 0; i < n; i++)
            out[done + i] = drawn[at.first + i / at.width * at.stride + i % at.width];
    }
    free(drawn);
}

static void parameters_set(harness *net)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &net->model->units[u].flat_params[p].tensors[t];
                float *x = net->parameters + net->offset[u][p][t];
                if (!tensor->tile.whole || net->whole)
                    draw(tensor, x);
                else // a streamed tile is drawn by itself
                    zr_random_normal(zr_hash_text(tensor->name), 0, zr_tensor_desc_elements(tensor),
                                     0.3f, x);
                for (int64_t i = 0;
                     tensor->init == ZERO_INIT_CONSTANT && i < zr_tensor_desc_elements(tensor); i++)
                    x[i] += tensor->init_value;
            }
}

static size_t scratch_of(harness *net, const zero_unit_sizes *sizes)
{
    size_t most = 0;
    for (int i = 0; i < sizes->product_count; i++) {
        const zero_product_shape *shape = &sizes->products[i];
        for (int variant = 0; variant < 12; variant++) {
            const zr_product product = {.dtype = net->shape.dtype,
                                        .out = variant & 1 ? ZERO_F32 : net->shape.dtype,
                                        .m = shape->m,
                                        .n = shape->n,
                                        .k = shape->k,
                                        .trans_a = shape->trans_a,
                                        .trans_b = shape->trans_b,
                                        .gelu_a = variant & 2,
                                        .epilogue = (zr_epilogue)(variant / 4)};
            size_t needed =
                zr_op_scratch(net->queue, zr_op_product(&product, NULL, NULL, NULL, NULL));
            most = ZR_MAX(most, needed);
        }
    }
    return most;
}

static void buffers_reserve(harness *net)
{
    size_t workspace = 0, scratch = 0, stream = 0;
    for (int u = 0; u < net->model->unit_count; u++) {
        zero_unit_sizes *sizes = &net->sizes[u];
        const zero_unit *unit = &net->model->units[u];
        assert_int_equal(unit->ops->sizes(unit, &net->shape, &net->boundary[u], sizes), ZERO_OK);
        workspace = ZR_MAX(workspace, sizes->workspace_bytes);
        scratch = ZR_MAX(scratch, scratch_of(net, sizes));
        buffer_reserve(&net->saved[u], sizes->saved_bytes);
        buffer_reserve(&net->held[u], sizes->held_bytes);
        net->boundary[u + 1] = sizes->out;
        for (int i = 0; i < sizes->out.count; i++) { // GPT-2 has one
            stream = zr_tensor_bytes(&sizes->out.at[i]);
            buffer_reserve(&net->stream[u + 1], stream);
            net->boundary[u + 1].at[i].data = net->stream[u + 1].data;
        }
    }
    buffer_reserve(&net->workspace, workspace);
    buffer_reserve(&net->scratch, scratch);
    buffer_reserve(&net->d_out, stream);
    buffer_reserve(&net->d_in, stream);
    net->queue->scratch = net->scratch.data;
    net->queue->scratch_bytes = net->scratch.bytes;
}

static void *batch_tensor(harness *net, zero_dtype dtype)
{
    int64_t rows = net->shape.batch * net->shape.seq;
    int32_t *data = aligned_alloc(64, ZR_ROUND_UP(sizeof *data * (size_t)rows, (size_t)64));
    assert_non_null(data);
    net->batch.at[net->batch.count++] = (zero_tensor){
        .data = data, .dtype = dtype, .dims = 2, .shape = {net->shape.batch, net->shape.seq}};
    return data;
}

// Each window has two documents: under KTO an example and a mismatched one, else a pair. The rows
// that are left have no role, and the first of each document is prompt.
static void preferences_set(harness *net, bool kto)
{
    int64_t seq = net->shape.seq, half = (seq - 1) / 2;
    net->roles = batch_tensor(net, ZERO_I32);
    net->reference = batch_tensor(net, ZERO_F32);
    net->losses = batch_tensor(net, ZERO_F32);
    for (int64_t i = 0; i < net->shape.batch * seq; i++) {
        int64_t at = i % seq, second = at >= half, in = at - second * half;
        int32_t first = kto && i / seq % 2 ? ZERO_ROLE_rejected : ZERO_ROLE_chosen,
                role = !second ? first
                       : kto   ? ZERO_ROLE_mismatched
                               : ZERO_ROLE_rejected;
        bool left = at >= 2 * half, asks = in == 0 && half > 1;
        net->positions[i] = (int32_t)(left ? at - 2 * half : in);
        net->roles[i] = left ? 0 : !asks ? role : second ? 0 : ZERO_ROLE_prompt;
        net->targets[i] = net->roles[i] ? net->targets[i] : -100;
        net->reference[i] = second ? -3.0f : -3.5f;
    }
}

static void batch_set(harness *net, const zr_lm_config *config)
{
    int64_t rows = net->shape.batch * net->shape.seq;
    uint64_t vocab = (uint64_t)zr_lm_shape_of(config).vocab;
    net->tokens = batch_tensor(net, ZERO_I32);
    net->targets = batch_tensor(net, ZERO_I32);
    net->positions = config->documents ? batch_tensor(net, ZERO_I32) : NULL;
    for (int64_t i = 0; i < rows; i++) {
        zr_philox word = zr_philox4x32(77, 0, (uint64_t)i);
        bool begins = i % net->shape.seq == 0 || word.v[2] % 4 == 0; // a document
        net->tokens[i] = (int32_t)(word.v[0] % vocab);
        net->targets[i] = (int32_t)(word.v[1] % vocab);
        if (net->positions)
            net->positions[i] = begins ? 0 : net->positions[i - 1] + 1;
    }
    if (config->preference.kind)
        preferences_set(net, config->preference.kind == ZR_PREFERENCE_KTO);
}

void harness_create(harness *net, const zero_gpt2_config *config, const zr_backend *backend,
                    zero_shape shape)
{
    const zr_lm_config of = {.kind = ZR_LM_GPT2, .gpt2 = *config};
    harness_create_of(net, &of, backend, shape);
}

void harness_create_of(harness *net, const zr_lm_config *config, const zr_backend *backend,
                       zero_shape shape)
{
    harness_create_frozen(net, config, NULL, backend, shape);
}

static void create(harness *net, const zr_lm_config *config, const zr_backend *backend)
{
    must(net, zr_model_check(net->model, &net->error));
    assert_true(net->model->unit_count <= HARNESS_MAX_UNITS);
    assert_int_equal(zr_queue_open(backend->name, backend->path(), ZR_MAX(net->shape.threads, 1),
                                   &net->queue, &net->error),
                     ZERO_OK);
    parameters_reserve(net);
    parameters_set(net);
    buffers_reserve(net);
    batch_set(net, config);
    harness_forget(net);
}

static void begin(harness *net, zero_shape shape)
{
    *net = (harness){.shape = shape, .loss_factor = 1};
    net->accessor = (harness_accessor){
        .base = {.parameter = parameter, .begin = come_and_go, .end = come_and_go}, .net = net};
    net->sink = (harness_sink){.base.gradient = gradient, .net = net};
}

void harness_create_frozen(harness *net, const zr_lm_config *config, const zr_lm_frozen *frozen,
                           const zr_backend *backend, zero_shape shape)
{
    begin(net, shape);
    must(net, zr_lm_create_frozen(config, frozen, &net->model, &net->error));
    create(net, config, backend);
}

void harness_create_part(harness *net, const zr_lm_config *config, const zr_lm_slices *slices,
                         const zr_backend *backend, zero_shape shape)
{
    begin(net, shape);
    must(net, zr_lm_create(config, &net->whole, &net->error));
    must(net, zr_lm_cut(net->whole, slices, NULL, &net->model, &net->error));
    create(net, config, backend);
}

void harness_destroy(harness *net)
{
    for (int u = 0; u < net->model->unit_count; u++) {
        buffer_release(&net->saved[u]);
        buffer_release(&net->held[u]);
        buffer_release(&net->stream[u]);
    }
    buffer_release(&net->workspace);
    buffer_release(&net->scratch);
    buffer_release(&net->d_out);
    buffer_release(&net->d_in);
    void *const owned[] = {net->parameters, net->narrow, net->gradients, net->tokens, net->targets,
                           net->positions,  net->roles,  net->reference, net->losses};
    for (int i = 0; i < ZR_COUNT(owned); i++)
        free(owned[i]);
    zr_queue_close(net->queue);
    zr_lm_free(net->model);
    zr_lm_free(net->whole);
}

void harness_context(harness *net, int unit, bool training, zero_context *context)
{
    net->values.seed = HARNESS_SEED;
    net->values.step = net->step;
    *context = (zero_context){
        .struct_size = sizeof(*context),
        .unit = &net->model->units[unit],
        .unit_index = unit,
        .shape = net->shape,
        .training = training,
        .threads = net->queue->threads,
        .seed = HARNESS_SEED,
        .step = net->step,
        .micro_batch = 3,
        .loss_factor = net->loss_factor,
        .batch = &net->batch,
        .saved = training ? net->saved[unit].data : NULL,
        .workspace = net->workspace.data,
        .loss = &net->loss,
        .queue = net->queue,
        .values = &net->values,
        .accessor = &net->accessor.base,
        .sink = &net->sink.base,
        .exchanger = net->exchanger,
        .error = &net->error,
    };
    memset(net->workspace.data, 0xff, net->workspace.bytes); // nothing is carried from call to call
}

float *harness_tensor(harness *net, const char *name, float **gradients, int64_t *elements)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &net->model->units[u].flat_params[p].tensors[t];
                if (strcmp(tensor->name, name) != 0)
                    continue;
                *gradients = net->gradients + net->offset[u][p][t];
                *elements = zr_tensor_desc_elements(tensor);
                return net->parameters + net->offset[u][p][t];
            }
    fail_msg("no tensor \"%s\"", name);
    return NULL;
}

void harness_narrow(harness *net)
{
    zr_narrow(net->shape.dtype, net->parameters, net->parameter_count, net->narrow);
}

double harness_forward(harness *net, bool training)
{
    if (net->shape.dtype != ZERO_F32)
        harness_narrow(net);
    for (int u = 0; u < net->model->unit_count; u++) {
        zero_context context;
        harness_context(net, u, training, &context);
        must(net, context.unit->ops->forward(&context, &net->boundary[u], &net->boundary[u + 1]));
    }
    return net->loss;
}

void harness_backward(harness *net, bool fused)
{
    zero_tensors d_out = {0}, d_in = {0};
    net->in_backward = true;
    for (int u = net->model->unit_count - 1; u >= 0; u--) {
        const zero_unit_ops *ops = net->model->units[u].ops;
        zero_context context;
        harness_context(net, u, true, &context);
        d_in = net->boundary[u];
        if (u > 0)
            d_in.at[0].data = net->d_in.data;
        if (fused && ops->forward_backward)
            must(net, ops->forward_backward(&context, &net->boundary[u], &d_in));
        else
            must(net, ops->backward(&context, &net->boundary[u], &d_out, &d_in));
        memset(net->d_out.data, 0xff, net->d_out.bytes);
        d_out = d_in;
        harness_buffer swap = net->d_out;
        net->d_out = net->d_in;
        net->d_in = swap;
    }
    net->in_backward = false;
}

void harness_contribute(harness *net) { memset(net->opened_by, UINT8_MAX, sizeof net->opened_by); }

void harness_forget(harness *net)
{
    memset(net->gradients, 0xff, sizeof(float) * (size_t)net->parameter_count);
    memset(net->opened_by, 0, sizeof(net->opened_by));
}

bool harness_offered(const zr_backend *backend)
{
    zr_queue *queue = NULL;
    bool offered = zr_queue_open(backend->name, backend->path(), 1, &queue, NULL) == ZERO_OK;
    zr_queue_close(queue);
    return offered;
}

zr_lm_config harness_neox(float dropout)
{
    return (zr_lm_config){.kind = ZR_LM_NEOX,
                          .numbers = {.vocab = 29,
                                      .positions = 16,
                                      .width = 32,
                                      .inner = 48,
                                      .layers = 2,
                                      .heads = 8,
                                      .epsilon = 1e-5f,
                                      .deviation = 0.02f,
                                      .residual_dropout = dropout,
                                      .attention_dropout = dropout,
                                      .rotated = 0.5,
                                      .rope = {.theta = 10000}}};
}

zero_gpt2_config harness_tiny(void)
{
    zero_gpt2_config config;
    zero_gpt2_defaults(&config);
    config.vocab_size = 29;
    config.n_positions = 8;
    config.n_embd = 16;
    config.n_layer = 2;
    config.n_head = 2;
    return config;
}

double harness_error(const float *a, const float *b, int64_t count)
{
    double difference = 0, most = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)a[i] - b[i]);
        if (!(d <= difference)) // NaN stays
            difference = d;
        most = fmax(most, fabs((double)b[i]));
    }
    return most > 0 ? difference / most : difference;
}

static double dot(const float *a, const float *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

static double along(double (*value)(void *user), void *user, float *x, const float *kept,
                    const float *direction, float step, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = kept[i] + step * direction[i];
    double result = value(user);
    memcpy(x, kept, sizeof(float) * (size_t)count);
    return result;
}

static void check_direction(const char *what, double (*value)(void *user), void *user, float *x,
                            const float *g, float *direction, int64_t count)
{
    float *kept = malloc(sizeof(float) * (size_t)count);
    assert_non_null(kept);
    memcpy(kept, x, sizeof(float) * (size_t)count);
    float length = (float)sqrt(dot(direction, direction, count)), step = 5e-3f;
    for (int64_t i = 0; i < count; i++)
        direction[i] /= length;
    double expected = dot(g, direction, count), size = sqrt(dot(g, g, count));
    // fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h
    double near = along(value, user, x, kept, direction, step, count) -
                  along(value, user, x, kept, direction, -step, count);
    double far = along(value, user, x, kept, direction, 2 * step, count) -
                 along(value, user, x, kept, direction, -2 * step, count);
    double found = (8 * near - far) / (12 * (double)step);
    free(kept);
    if (!(fabs(found - expected) <= 2e-3 * size + 1e-4))
        fail_msg("%s: difference quotient %.9g, gradient %.9g (of length %.9g)", what, found,
                 expected, size);
}

void harness_check_gradient(const char *what, double (*value)(void *user), void *user, float *x,
                            const float *g, int64_t count)
{
    float *direction = malloc(sizeof(float) * (size_t)count);
    assert_non_null(direction);
    assert_true(dot(g, g, count) > 0);
    memcpy(direction, g, sizeof(float) * (size_t)count);
    check_direction(what, value, user, x, g, direction, count);
    zr_random_normal(zr_hash_text(what), 0, count, 1, direction);
    check_direction(what, value, user, x, g, direction, count);
    free(direction);
}
