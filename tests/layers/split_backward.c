#include "base/dtype.h"
#include "base/random.h"
#include "layers/linear.h"
#include "split_backward.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct passed {            // what one backward has computed
    void *d_in[HARNESS_MAX_UNITS]; // NULL: of the first unit
    size_t bytes[HARNESS_MAX_UNITS];
    float *gradients;
} passed;

static void *copy_of(const void *data, size_t bytes)
{
    void *copy = malloc(ZR_MAX(bytes, (size_t)1));
    assert_non_null(copy);
    if (bytes > 0) // a rank without rows has nothing to copy
        memcpy(copy, data, bytes);
    return copy;
}

static float *no_gradient(const struct zr_sink *self, zero_context *context, int flat_param,
                          int tensor, int *add)
{
    fail_msg("%s asks for a gradient of piece %d in its input part", context->unit->name,
             flat_param);
    return NULL;
}

bool split_is_offered(const harness *net, int unit)
{
    return net->model->units[unit].ops->backward_input && net->sizes[unit].held_bytes > 0;
}

static zero_status call_parts(harness *net, zero_context *context, unsigned parts,
                              const zero_tensors *d_out, const zero_tensors *d_in)
{
    static const struct zr_sink refuses = {.gradient = no_gradient};
    const zero_unit_ops *ops = context->unit->ops;
    const zero_tensors *in = &net->boundary[context->unit_index];
    if (parts == ZR_BACKWARD_WHOLE)
        return ops->forward_backward ? ops->forward_backward(context, in, d_in)
                                     : ops->backward(context, in, d_out, d_in);
    context->held = net->held[context->unit_index].data;
    if (parts == ZR_BACKWARD_WEIGHT)
        return ops->backward_weight(context, in);
    context->sink = &refuses;
    return ops->backward_input(context, in, d_out, d_in);
}

static void check_reads(const harness *net, int unit, unsigned parts)
{
    const zero_unit_sizes *sizes = &net->sizes[unit];
    assert_int_equal(net->read[unit] & ~sizes->backward_reads, 0);
    if (parts == ZR_BACKWARD_WEIGHT)
        assert_int_equal(net->read[unit], sizes->weight_reads);
}

// One call of a unit, in a workspace and scratch full of rubbish (harness_context).
static void call(harness *net, const split_watch *watch, int unit, unsigned parts,
                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    const harness_buffer *saved = &net->saved[unit], *in = &net->stream[unit];
    void *was_saved = copy_of(saved->data, saved->bytes), *was_in = copy_of(in->data, in->bytes);
    zero_context context;
    harness_context(net, unit, true, &context);
    memset(net->scratch.data, 0xff, net->scratch.bytes);
    net->read[unit] = 0;
    net->in_backward = true;
    if (watch && watch->begin)
        watch->begin(watch->user, unit, parts);
    if (call_parts(net, &context, parts, d_out, d_in) != ZERO_OK)
        fail_msg("%s: %s", context.unit->name, net->error.message);
    if (watch && watch->end)
        watch->end(watch->user, unit, parts);
    net->in_backward = false;
    check_reads(net, unit, parts);
    assert_memory_equal(saved->data, was_saved, saved->bytes);
    assert_memory_equal(in->data, was_in, in->bytes);
    free(was_saved);
    free(was_in);
}

// Others have contributed to every gradient before.
static void contribute(harness *net)
{
    zr_random_normal(11, 0, net->parameter_count, 0.3f, net->gradients);
    harness_contribute(net);
}

static void run(harness *net, const split_watch *watch, bool split, bool added, passed *out)
{
    zero_tensors d_out = {0}, d_in = {0};
    *out = (passed){0};
    harness_forget(net);
    if (added)
        contribute(net);
    for (int u = net->model->unit_count - 1; u >= 0; u--) {
        unsigned parts = split && split_is_offered(net, u) ? ZR_BACKWARD_INPUT : ZR_BACKWARD_WHOLE;
        d_in = net->boundary[u];
        if (u > 0)
            d_in.at[0].data = net->d_in.data;
        call(net, watch, u, parts, &d_out, &d_in);
        if (u > 0) {
            out->bytes[u] = zr_tensor_bytes(&d_in.at[0]);
            out->d_in[u] = copy_of(d_in.at[0].data, out->bytes[u]);
        }
        memset(net->d_out.data, 0xff, net->d_out.bytes);
        d_out = d_in;
        harness_buffer swap = net->d_out;
        net->d_out = net->d_in;
        net->d_in = swap;
    }
    memset(net->d_out.data, 0xff, net->d_out.bytes);
    for (int u = 0; split && u < net->model->unit_count; u++)
        if (split_is_offered(net, u))
            call(net, watch, u, ZR_BACKWARD_WEIGHT, NULL, NULL);
    out->gradients = copy_of(net->gradients, sizeof(float) * (size_t)net->parameter_count);
}

static void release(passed *p)
{
    for (int u = 0; u < HARNESS_MAX_UNITS; u++)
        free(p->d_in[u]);
    free(p->gradients);
}

static void same_gradients(const harness *net, const passed *whole, const passed *parts, int added)
{
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &net->model->units[u].flat_params[p].tensors[t];
                int64_t first = net->offset[u][p][t];
                if (memcmp(whole->gradients + first, parts->gradients + first,
                           sizeof(float) * (size_t)zr_tensor_desc_elements(tensor)))
                    fail_msg("%s, type %d: the gradient of %s has other bits in two parts, %s",
                             net->queue->backend->path(), (int)net->shape.dtype, tensor->name,
                             added ? "added" : "set");
            }
}

// Checks that `added` is `set` and what others contributed, for every tensor that trains.
static void gradients_add_up(const harness *net, const float *set, const float *added)
{
    float *sum = malloc(sizeof *sum * (size_t)net->parameter_count);
    zr_random_normal(11, 0, net->parameter_count, 0.3f, sum);
    for (int64_t i = 0; i < net->parameter_count; i++)
        sum[i] += set[i];
    for (int u = 0; u < net->model->unit_count; u++)
        for (int p = 0; p < net->model->units[u].flat_param_count; p++)
            for (int t = 0; t < net->model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &net->model->units[u].flat_params[p].tensors[t];
                int64_t first = net->offset[u][p][t], count = zr_tensor_desc_elements(tensor);
                if (count && sum[first] == sum[first] && // else it is frozen
                    !(harness_error(added + first, sum + first, count) < 1e-5))
                    fail_msg("%s, type %d: the gradient of %s is not added to what was there",
                             net->queue->backend->path(), (int)net->shape.dtype, tensor->name);
            }
    free(sum);
}

void split_check(harness *net, const split_watch *watch)
{
    passed whole, parts;
    float *set = NULL;
    for (int added = 0; added < 2; added++) {
        run(net, watch, false, added, &whole);
        if (added)
            gradients_add_up(net, set, whole.gradients);
        else
            set = copy_of(whole.gradients, sizeof *set * (size_t)net->parameter_count);
        run(net, watch, true, added, &parts);
        for (int u = 1; u < net->model->unit_count; u++)
            if (memcmp(whole.d_in[u], parts.d_in[u], whole.bytes[u]))
                fail_msg("%s, type %d: the gradient of what %s reads has other bits in two parts",
                         net->queue->backend->path(), (int)net->shape.dtype,
                         net->model->units[u].name);
        same_gradients(net, &whole, &parts, added);
        release(&whole);
        release(&parts);
    }
    free(set);
    harness_forget(net);
}
