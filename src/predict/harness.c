#define _GNU_SOURCE
#include "predict/harness.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/random.h"
#include "compute/compute.h"
#include "layers/layers.h"
#include "layers/layout.h"
#include "memory/arena.h"
#include "model/pipeline_stage_cut.h"
#include "model/unit.h"
#include "plan/exchanges.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <zero/preference.h>

enum { SOME_VALUES = 1 << 14 }; // that are repeated
#define LARGEST_VALUE 0.05f

typedef struct places { // of a unit's operands, cut out of one stretch of memory
    char **parameters;  // (flat parameters)
    float **gradients;  // (flat parameters) NULL: the flat parameter has no gradient
    void *saved, *workspace, *held, *window;
    void *keys, *values, *logits;                  // of a generation
    int32_t *tokens, *targets, *positions, *roles; // (batch, seq)
    float *reference;                              // (batch, seq)
    // What enters and what leaves, and their gradients; the shapes are in the tensors.
    zero_tensors in, out, d_in, d_out;
} places;

struct zr_harness {
    const zr_plan *plan;
    const zr_unit_plan *unit;
    zero_unit_sizes sizes; // of the harness's shape
    places at;
    char *addresses; // (bytes) of address space; NULL: the memory is the caller's
    size_t bytes;
    zr_ledger ledger;
    zr_arena scratch;
    float *values; // (SOME_VALUES)
    zr_queue *queue;
    zr_recorder *recorder;
    const zr_harness_decode_question *decode;
    zero_tensors batch;
    double loss;
    struct zr_loss_weight weight;
    zr_step_values step;
    struct zr_accessor accessor;
    struct zr_sink sink;
    struct zr_exchanger exchanger;
    zero_context context;
};

#define HARNESS_OF(pointer, member) ((zr_harness *)((char *)(pointer)-offsetof(zr_harness, member)))

static const zr_flat_param *flat_param_at(const zr_harness *harness, int flat_param)
{
    return &harness->plan->flat_params[harness->unit->flat_params[flat_param]];
}

static const void *parameter_address(const struct zr_accessor *self, const zero_context *context,
                                     int flat_param, int tensor)
{
    const zr_harness *harness = HARNESS_OF(self, accessor);
    const zr_flat_param *of = flat_param_at(harness, flat_param);
    return harness->at.parameters[flat_param] +
           of->tensors[tensor].first * (int64_t)zero_dtype_bytes(of->dtype);
}

static zero_status pass_flat_param(const struct zr_accessor *self, zero_context *context,
                                   int flat_param)
{
    return ZERO_OK; // streamed flat parameters have places of their own
}

// Says whether the unit adds to what another one has contributed to a gradient.
static bool adds_to(const zr_harness *harness, const zr_flat_param *flat_param)
{
    return flat_param->first_backward != (int)(harness->unit - harness->plan->units);
}

// The first unit to contribute in a backward sets, and later ones add.
static float *gradient_address(const struct zr_sink *self, zero_context *context, int flat_param,
                               int tensor, int *add)
{
    const zr_harness *harness = HARNESS_OF(self, sink);
    const zr_flat_param *of = flat_param_at(harness, flat_param);
    if (!harness->at.gradients[flat_param])
        return NULL;
    *add = adds_to(harness, of);
    return harness->at.gradients[flat_param] + of->tensors[tensor].first;
}

static zero_status record_exchange(const struct zr_exchanger *self, const zero_context *context,
                                   zero_exchange_kind kind, int replicas, int64_t offset,
                                   int64_t elements, zero_dtype dtype)
{
    const zr_harness *harness = HARNESS_OF(self, exchanger);
    int ranks = replicas ? replicas : self->size;
    if (ranks > 1)
        zr_recorder_add(harness->recorder, ZR_ACTIVITY_exchange,
                        zr_recorder_begin(harness->recorder),
                        zr_exchange_fetched(kind, ranks, elements, dtype), 0, -1);
    return ZERO_OK;
}

bool zr_harness_can_call(const zr_plan *plan) { return zr_lm_config_of(plan->model) != NULL; }

// Finds the unit as the whole model describes it, because it may count its borrowed flat
// parameters.
static const zero_unit *unit_of_whole_model(const zr_plan *plan, int unit)
{
    const zero_model *origin = zr_pipeline_stage_origin(plan->model);
    return &origin->units[zr_pipeline_stage_unit(plan->model, unit)];
}

// Finds the unit's sizes and the shapes that enter it. Sizes of our own units follow from the shape
// of the micro-batch alone, so that of the unit before tells what enters.
static zero_status find_sizes(const zr_plan *plan, int unit, const zero_shape *shape,
                              zero_tensors *in, zero_unit_sizes *out)
{
    static const zero_tensors none;
    const zero_unit *of = unit_of_whole_model(plan, unit);
    *in = none;
    if (zr_pipeline_stage_unit(plan->model, unit) > 0) {
        ZERO_TRY(of[-1].ops->sizes(&of[-1], shape, &none, out));
        *in = out->out;
    }
    return of->ops->sizes(of, shape, in, out);
}

zero_status zr_harness_sizes(const zr_plan *plan, int unit, const zero_shape *shape,
                             zero_unit_sizes *out)
{
    zero_tensors in;
    return find_sizes(plan, unit, shape, &in, out);
}

// Finds what a step of a generation needs. What enters is a stream of the same shape as what
// leaves.
static zero_status find_decode_sizes(const zr_plan *plan, int unit, const zero_shape *shape,
                                     const zr_harness_decode_question *decode, zero_tensors *in,
                                     zero_unit_sizes *out)
{
    const zr_decode_limits limits = {.dtype = shape->dtype,
                                     .threads = shape->threads,
                                     .rows = decode->step.rows,
                                     .wanted = decode->step.wanted_count,
                                     .capacity = decode->capacity};
    ZERO_TRY(zr_lm_decode_sizes(unit_of_whole_model(plan, unit), &limits, out));
    *in = out->out;
    return ZERO_OK;
}

static void carve_tensors(zr_carver *carver, const zero_tensors *shapes, zero_tensors *out)
{
    *out = *shapes;
    for (int i = 0; i < out->count; i++)
        out->at[i].data = zr_carve(carver, zr_tensor_bytes(&out->at[i]));
}

static void carve_flat_params(const zr_plan *plan, int unit, zr_carver *carver, places *at)
{
    const zr_unit_plan *of = &plan->units[unit];
    at->parameters = zr_carve(carver, sizeof *at->parameters * (size_t)of->flat_param_count);
    at->gradients = zr_carve(carver, sizeof *at->gradients * (size_t)of->flat_param_count);
    for (int i = 0; i < of->flat_param_count; i++) {
        const zr_flat_param *flat_param = &plan->flat_params[of->flat_params[i]];
        char *parameters = zr_carve_as(carver, flat_param->dtype, flat_param->elems);
        float *gradients =
            flat_param->first_backward >= 0 ? zr_carve_floats(carver, flat_param->elems) : NULL;
        if (!carver->base)
            continue;
        at->parameters[i] = parameters;
        at->gradients[i] = gradients;
    }
}

// Cuts the places of a unit's operands out of the carver's memory; returns their bytes.
static size_t carve_operands(const zr_plan *plan, int unit, const zero_shape *shape,
                             const zero_tensors *in, const zero_unit_sizes *sizes, char *base,
                             places *at)
{
    zr_carver carver = {.base = base};
    size_t ids = sizeof(int32_t) * (size_t)(shape->batch * shape->seq);
    carve_flat_params(plan, unit, &carver, at);
    carve_tensors(&carver, in, &at->in);
    carve_tensors(&carver, in, &at->d_in);
    carve_tensors(&carver, &sizes->out, &at->out);
    carve_tensors(&carver, &sizes->out, &at->d_out);
    at->saved = zr_carve(&carver, sizes->saved_bytes);
    at->workspace = zr_carve(&carver, sizes->workspace_bytes);
    at->held = zr_carve(&carver, sizes->held_bytes);
    at->window = zr_carve(&carver, sizes->exchange_bytes);
    at->tokens = zr_carve(&carver, ids);
    at->targets = zr_carve(&carver, ids);
    at->positions = zr_carve(&carver, ids);
    at->roles = zr_carve(&carver, ids);
    at->reference = zr_carve(&carver, ids);
    return carver.used;
}

// Finds what a generation needs in addition to them.
static size_t lay_out_decode(const zr_plan *plan, const zr_harness_decode_question *decode,
                             char *base, size_t used, places *at)
{
    zr_carver carver = {.base = base, .used = used};
    size_t cache = zr_lm_decode_cache_bytes(plan->model, decode->sequences, decode->capacity);
    int64_t vocab = zr_lm_shape_of(zr_lm_config_of(plan->model)).vocab;
    at->keys = zr_carve(&carver, cache);
    at->values = zr_carve(&carver, cache);
    at->logits = zr_carve(&carver, sizeof(float) * (size_t)(decode->step.wanted_count * vocab));
    return carver.used;
}

int64_t zr_harness_bytes(const zr_plan *plan, int unit, const zero_shape *shape)
{
    zero_unit_sizes sizes;
    zero_tensors in;
    places at;
    if (!zr_harness_can_call(plan) || find_sizes(plan, unit, shape, &in, &sizes) != ZERO_OK)
        return 0;
    return (int64_t)carve_operands(plan, unit, shape, &in, &sizes, NULL, &at);
}

// Repeats some of the values over a tensor: the first ones are converted, the others copied.
static void fill_with_values(const zr_harness *harness, zero_dtype dtype, int64_t elements,
                             char *to)
{
    int64_t width = (int64_t)zero_dtype_bytes(dtype), first = ZR_MIN(SOME_VALUES, elements);
    zr_narrow(dtype, harness->values, first, to);
    for (int64_t at = first; at < elements; at += SOME_VALUES)
        memcpy(to + at * width, to, (size_t)(ZR_MIN(SOME_VALUES, elements - at) * width));
}

static void fill_flat_param(const zr_harness *harness, int flat_param)
{
    const zr_flat_param *of = flat_param_at(harness, flat_param);
    float *gradients = harness->at.gradients[flat_param];
    fill_with_values(harness, of->dtype, of->elems, harness->at.parameters[flat_param]);
    if (gradients && adds_to(harness, of))
        memset(gradients, 0, sizeof *gradients * (size_t)of->elems);
}

static void fill_tensors(const zr_harness *harness, const zero_tensors *tensors)
{
    for (int i = 0; i < tensors->count; i++)
        fill_with_values(harness, tensors->at[i].dtype, zr_tensor_elements(&tensors->at[i]),
                         tensors->at[i].data);
}

static void fill_ids(const zr_harness *harness, const zero_shape *shape, int64_t vocab)
{
    for (int64_t i = 0; i < shape->batch * shape->seq; i++) {
        harness->at.tokens[i] = (int32_t)(zr_philox4x32(1, 0, (uint64_t)i).v[0] % (uint64_t)vocab);
        harness->at.targets[i] = (int32_t)(zr_philox4x32(2, 0, (uint64_t)i).v[0] % (uint64_t)vocab);
    }
}

// Makes each window one document: attention computes no more than that. Of preferences it is a pair
// of completions.
static void fill_documents(const zr_harness *harness, const zero_shape *shape)
{
    bool pairs = zr_lm_config_of(harness->plan->model)->preference.kind && shape->seq > 1;
    int64_t first = pairs ? shape->seq / 2 : shape->seq; // rows of the first document
    for (int64_t i = 0; i < shape->batch * shape->seq; i++) {
        int64_t at = i % shape->seq;
        bool second = at >= first;
        harness->at.positions[i] = (int32_t)(second ? at - first : at);
        harness->at.roles[i] = !pairs   ? ZERO_ROLE_none
                               : second ? ZERO_ROLE_rejected
                                        : ZERO_ROLE_chosen;
        harness->at.reference[i] = 0;
    }
}

static zero_status fill_all(zr_harness *harness, const zero_shape *shape, zero_error *error)
{
    harness->values = zr_alloc(sizeof *harness->values * SOME_VALUES, error);
    if (!harness->values)
        return ZERO_ERR_MEMORY;
    zr_random_uniform(1, 0, SOME_VALUES, LARGEST_VALUE, harness->values);
    for (int i = 0; i < harness->unit->flat_param_count; i++)
        fill_flat_param(harness, i);
    fill_tensors(harness, &harness->at.in);
    fill_ids(harness, shape, zr_lm_shape_of(zr_lm_config_of(harness->plan->model)).vocab);
    return ZERO_OK;
}

static zero_status reserve_scratch(zr_harness *harness, zero_error *error)
{
    size_t most = 0;
    for (int i = 0; i < harness->sizes.product_count; i++) {
        size_t bytes =
            zr_product_scratch(harness->queue, harness->plan->settings.precision.activations,
                               &harness->sizes.products[i]);
        most = ZR_MAX(most, bytes);
    }
    ZERO_TRY(zr_arena_on_host(&harness->ledger, ZERO_TIER_device, ZERO_MEM_workspace, most,
                              &harness->scratch, error));
    harness->queue->scratch = harness->scratch.base;
    harness->queue->scratch_bytes = most;
    return ZERO_OK;
}

static zero_status reserve_addresses(zr_harness *harness, zero_error *error)
{
    void *base = mmap(NULL, harness->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno,
                             "cannot reserve %zu bytes of address space for a unit",
                             harness->bytes);
    harness->addresses = base;
    return ZERO_OK;
}

static zero_status reserve_operands(zr_harness *harness, const zr_harness_question *question,
                                    zero_error *error)
{
    const zr_plan *plan = harness->plan;
    zero_tensors in;
    const zr_harness_decode_question *decode = question->decode;
    zero_status status =
        decode ? find_decode_sizes(plan, question->unit, &question->shape, decode, &in,
                                   &harness->sizes)
               : find_sizes(plan, question->unit, &question->shape, &in, &harness->sizes);
    if (status != ZERO_OK)
        return zr_fail(error, status,
                       "calling unit \"%s\" with micro-batch %lld x %lld: the unit refuses this "
                       "shape",
                       unit_of_whole_model(plan, question->unit)->name,
                       (long long)question->shape.batch, (long long)question->shape.seq);
    harness->bytes = carve_operands(plan, question->unit, &question->shape, &in, &harness->sizes,
                                    NULL, &harness->at);
    size_t unit_bytes = harness->bytes;
    if (decode)
        harness->bytes = lay_out_decode(plan, decode, NULL, unit_bytes, &harness->at);
    bool filled = question->memory == ZR_HARNESS_FILLED;
    if (!filled)
        ZERO_TRY(reserve_addresses(harness, error));
    carve_operands(plan, question->unit, &question->shape, &in, &harness->sizes,
                   filled ? question->base : harness->addresses, &harness->at);
    if (decode)
        lay_out_decode(plan, decode, harness->addresses, unit_bytes, &harness->at);
    fill_documents(harness, &question->shape);
    if (!filled)
        return ZERO_OK;
    ZERO_TRY(reserve_scratch(harness, error));
    return fill_all(harness, &question->shape, error);
}

static zero_tensors batch_tensors_of(const zr_harness *harness, const zero_shape *shape)
{
    const zr_lm_config *config = zr_lm_config_of(harness->plan->model);
    const places *at = &harness->at;
    return (zero_tensors){config->preference.kind ? 5
                          : config->documents     ? 3
                                                  : 2,
                          {{at->tokens, ZERO_I32, 2, {shape->batch, shape->seq}},
                           {at->targets, ZERO_I32, 2, {shape->batch, shape->seq}},
                           {at->positions, ZERO_I32, 2, {shape->batch, shape->seq}},
                           {at->roles, ZERO_I32, 2, {shape->batch, shape->seq}},
                           {at->reference, ZERO_F32, 2, {shape->batch, shape->seq}}}};
}

static void set_up_context(zr_harness *harness, const zr_harness_question *question)
{
    const zr_plan *plan = harness->plan;
    const zero_shape *shape = &question->shape;
    bool exchanges = plan->tensor_ranks > 1 && plan->model->whole;
    harness->batch = batch_tensors_of(harness, shape);
    harness->weight = (struct zr_loss_weight){.positions = shape->batch * shape->seq};
    harness->accessor = (struct zr_accessor){parameter_address, pass_flat_param, pass_flat_param};
    harness->sink = (struct zr_sink){gradient_address};
    harness->exchanger = (struct zr_exchanger){.rank = plan->tensor_rank,
                                               .size = plan->tensor_ranks,
                                               .window = harness->at.window,
                                               .bytes = (int64_t)harness->sizes.exchange_bytes,
                                               .run = record_exchange};
    harness->context = (zero_context){
        .struct_size = sizeof harness->context,
        .unit = unit_of_whole_model(plan, question->unit),
        .unit_index = zr_pipeline_stage_unit(plan->model, question->unit),
        .shape = *shape,
        .threads = harness->queue->threads,
        .loss_factor = 1,
        .batch = &harness->batch,
        .saved = harness->at.saved,
        .workspace = harness->at.workspace,
        .loss = &harness->loss,
        .queue = harness->queue,
        .accessor = &harness->accessor,
        .sink = &harness->sink,
        .weight = &harness->weight,
        .exchanger = exchanges ? &harness->exchanger : NULL,
        .held = harness->at.held,
        .values = &harness->step,
    };
}

zero_status zr_harness_open(const zr_harness_question *question, zr_harness **out,
                            zero_error *error)
{
    *out = NULL;
    if (!zr_harness_can_call(question->plan))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "model \"%s\" is a program's own: what its units compute is known only "
                       "by running it",
                       question->plan->model->name);
    zr_harness *harness = zr_alloc(sizeof *harness, error);
    if (!harness)
        return ZERO_ERR_MEMORY;
    harness->plan = question->plan;
    harness->unit = &harness->plan->units[question->unit];
    harness->queue = question->queue;
    harness->recorder = question->recorder;
    harness->decode = question->decode;
    zero_status status = reserve_operands(harness, question, error);
    if (status != ZERO_OK) {
        zr_harness_close(harness);
        return status;
    }
    set_up_context(harness, question);
    *out = harness;
    return ZERO_OK;
}

static zero_status call_unit_ops(zr_harness *harness, zr_call call)
{
    zero_context *context = &harness->context;
    const zero_unit_ops *ops = context->unit->ops;
    places *at = &harness->at;
    switch (call) {
    case ZR_CALL_FORWARD:
    case ZR_CALL_AGAIN: return ops->forward(context, &at->in, &at->out);
    case ZR_CALL_BACKWARD: return ops->backward(context, &at->in, &at->d_out, &at->d_in);
    case ZR_CALL_INPUT: return ops->backward_input(context, &at->in, &at->d_out, &at->d_in);
    case ZR_CALL_WEIGHT: return ops->backward_weight(context, &at->in);
    default: return ops->forward_backward(context, &at->in, &at->d_in);
    }
}

zero_status zr_harness_call(zr_harness *harness, zr_call call, bool training, zero_error *error)
{
    harness->context.training = training;
    harness->context.error = error;
    ZERO_TRY(call_unit_ops(harness, call));
    return zr_queue_check(harness->queue, error);
}

zero_status zr_harness_decode(zr_harness *harness, zero_error *error)
{
    const zr_decode_cache cache = {.sequences = harness->decode->sequences,
                                   .capacity = harness->decode->capacity,
                                   .k = harness->at.keys,
                                   .v = harness->at.values};
    bool head = zr_lm_is_head(harness->context.unit);
    harness->context.error = error;
    ZERO_TRY(zr_lm_decode(&harness->context, &cache, &harness->decode->step,
                          harness->at.in.at[0].data,
                          head ? harness->at.logits : harness->at.out.at[0].data));
    return zr_queue_check(harness->queue, error);
}

void zr_harness_refill(zr_harness *harness)
{
    if (harness->values)
        fill_tensors(harness, &harness->at.d_out);
}

void zr_harness_close(zr_harness *harness)
{
    if (!harness)
        return;
    if (harness->scratch.base) {
        harness->queue->scratch = NULL;
        harness->queue->scratch_bytes = 0;
    }
    zr_arena_destroy(&harness->scratch);
    if (harness->addresses)
        munmap(harness->addresses, harness->bytes);
    zr_free(harness->values);
    zr_free(harness);
}
