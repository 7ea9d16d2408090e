#include "layers/slices.h"

#include "compute/compute.h"
#include "model/unit.h"

bool zr_lm_is_cut(const zr_lm_unit *unit) { return unit->slices.count > 1; }

// Returns the rows of a rank's share, with padding, if rows are divided.
static int64_t share_rows(const zr_division *stream)
{
    return zr_slices_here(stream->slices) * stream->step;
}

zr_division zr_division_of(const zr_lm_unit *unit, int64_t rows, bool whole)
{
    const zr_lm_slices *slices = &unit->slices;
    zr_division stream = {.slices = slices,
                          .rows = rows,
                          .width = unit->shape.width,
                          .step = zr_slice_row_step(slices, rows),
                          .own = rows,
                          .by_rows = slices->by_rows && !whole};
    if (stream.by_rows) {
        stream.first = ZR_MIN(slices->rank * share_rows(&stream), rows);
        stream.own = ZR_MIN(share_rows(&stream), rows - stream.first);
    }
    return stream;
}

int64_t zr_sum_share(int64_t elements, int ranks)
{
    return zr_spare_floats((elements + ranks - 1) / ranks);
}

// Returns the elements of a rank's share, which is whole rows only if each rank keeps its own rows.
static int64_t share_elements(const zr_division *stream)
{
    return stream->by_rows ? share_rows(stream) * stream->width
                           : zr_sum_share(stream->rows * stream->width, stream->slices->ranks);
}

size_t zr_division_place_bytes(const zr_division *stream)
{
    return sizeof(float) * (size_t)(stream->slices->ranks * share_elements(stream));
}

void *zr_carve_place(zr_carver *carver, const zr_lm_unit *unit, size_t bytes)
{
    return zr_lm_is_cut(unit) && unit->slices.ranks == 1 ? zr_carve(carver, bytes) : NULL;
}

char *zr_exchange_place(const zero_context *context, void *carved)
{
    return carved ? carved : context->exchanger ? context->exchanger->window : NULL;
}

static void add_floats(zr_queue *queue, int64_t elements, float *to, const float *from)
{
    zr_run(queue, zr_op_add(&(zr_sum){.stream = ZERO_F32, .dtype = ZERO_F32, .n = elements}, to,
                            from, to));
}

// Returns the size of the first subtree of `count` summands.
static int first_half(int count)
{
    int half = 1;
    while (2 * half < count)
        half *= 2;
    return half;
}

int64_t zr_spare_floats(int64_t elements) { return ZR_ROUND_UP(elements, (int64_t)16); }

typedef struct adding {
    zero_context *context;
    int64_t elements;
    zr_slice_fn compute;
    void *user;
} adding;

static zero_status sum_slices_pairwise(const adding *a, int first, int count, float *out,
                                       float *spare)
{
    if (count == 1)
        return a->compute(a->user, first, out);
    int half = first_half(count);
    ZERO_TRY(sum_slices_pairwise(a, first, half, out, spare));
    ZERO_TRY(sum_slices_pairwise(a, first + half, count - half, spare,
                                 spare + zr_spare_floats(a->elements)));
    add_floats(a->context->queue, a->elements, out, spare);
    return ZERO_OK;
}

zero_status zr_slices_add(zero_context *context, const zr_lm_slices *slices, int64_t elements,
                          zr_slice_fn compute, void *user, float *out, float *spare)
{
    const adding adding = {context, elements, compute, user};
    return sum_slices_pairwise(&adding, 0, zr_slices_here(slices), out, spare);
}

int zr_slices_spare(const zr_lm_slices *slices)
{
    int levels = 0;
    for (int count = zr_slices_here(slices); count > 1; count = first_half(count))
        levels++;
    return levels;
}

void zr_rows_add(zr_queue *queue, int count, int64_t elements, float *at)
{
    if (count == 1)
        return;
    int half = first_half(count);
    zr_rows_add(queue, half, elements, at);
    zr_rows_add(queue, count - half, elements, at + half * elements);
    add_floats(queue, elements, at, at + half * elements);
}

static zero_exchange reduce_exchange(const zr_division *stream)
{
    return (zero_exchange){.kind = stream->by_rows ? ZERO_EXCHANGE_SCATTER : ZERO_EXCHANGE_SUM,
                           .elements = share_elements(stream),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_sums};
}

static zero_exchange gather_exchange(const zr_division *stream, zero_dtype dtype)
{
    return (zero_exchange){.kind = ZERO_EXCHANGE_GATHER,
                           .elements = share_elements(stream),
                           .dtype = dtype,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_rows};
}

zero_status zr_exchange(zero_context *context, const zero_exchange *exchange, int64_t offset)
{
    const struct zr_exchanger *exchanger = context->exchanger;
    if (!exchanger)
        return ZERO_OK;
    return exchanger->run(exchanger, context, exchange->kind, exchange->replicas, offset,
                          exchange->elements, exchange->dtype);
}

char *zr_division_own(const zr_division *stream, zero_dtype dtype, char *place)
{
    int64_t first = stream->by_rows ? stream->slices->rank * share_elements(stream) : 0;
    return place + first * (int64_t)zero_dtype_bytes(dtype);
}

zero_status zr_division_reduce(zero_context *context, const zr_division *stream, char *place,
                               float **own)
{
    const zero_exchange exchange = reduce_exchange(stream);
    *own = (float *)(void *)zr_division_own(stream, ZERO_F32, place);
    return zr_exchange(context, &exchange, 0);
}

zero_status zr_division_gather(zero_context *context, const zr_division *stream, zero_dtype dtype)
{
    const zero_exchange exchange = gather_exchange(stream, dtype);
    return stream->by_rows ? zr_exchange(context, &exchange, 0) : ZERO_OK;
}

void zr_list_exchange(zero_unit_sizes *sizes, const zr_lm_slices *slices,
                      const zero_exchange *exchange)
{
    if (slices->ranks == 1)
        return;
    assert(sizes->exchange_count < ZERO_MAX_EXCHANGES);
    sizes->exchanges[sizes->exchange_count++] = *exchange;
}

void zr_list_reduce(zero_unit_sizes *sizes, const zr_division *stream, bool backward)
{
    zero_exchange exchange = reduce_exchange(stream);
    exchange.backward = backward;
    zr_list_exchange(sizes, stream->slices, &exchange);
}

void zr_list_gather(zero_unit_sizes *sizes, const zr_division *stream, bool backward,
                    zero_dtype dtype)
{
    zero_exchange exchange = gather_exchange(stream, dtype);
    exchange.backward = backward;
    if (stream->by_rows)
        zr_list_exchange(sizes, stream->slices, &exchange);
}

void zr_list_gather_in_weight(zero_unit_sizes *sizes, const zr_division *stream, zero_dtype dtype)
{
    zero_exchange exchange = gather_exchange(stream, dtype);
    exchange.backward = 1;
    exchange.in_weight = 1;
    if (stream->by_rows)
        zr_list_exchange(sizes, stream->slices, &exchange);
}

bool zr_gains_by_rows(const zr_lm_slices *slices)
{
    return slices->count > 1 && (slices->exact || slices->by_rows);
}

void zr_gains_carve(zr_gains *gains, zr_carver *carver, const zr_tensor_handle *tensor,
                    int64_t elements, bool across)
{
    if (!zr_tensor_exists(tensor) || !tensor->trains)
        return;
    assert(gains->count < ZR_MOST_GAINS);
    gains->at[gains->count++] =
        (zr_gain){tensor, elements, zr_carve_floats(carver, elements), across};
    gains->across += across ? elements : 0;
}

float *zr_gains_sum(const zr_gains *gains, const zr_tensor_handle *tensor)
{
    for (int i = 0; i < gains->count; i++)
        if (gains->at[i].tensor == tensor)
            return gains->at[i].sum;
    return NULL;
}

float *zr_gains_place(zero_context *context, const zr_gains *gains, const zr_tensor_handle *tensor,
                      int *add)
{
    float *sum = zr_gains_sum(gains, tensor);
    *add = 0;
    return sum ? sum : zr_tensor_gradient(context, tensor, 0, add);
}

static zero_exchange gains_exchange(const zr_lm_slices *slices, const zr_gains *gains)
{
    return (zero_exchange){.kind = ZERO_EXCHANGE_SUM,
                           .backward = 1,
                           .elements = zr_sum_share(gains->across, slices->ranks),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose = ZERO_EXCHANGE_FOR_gains,
                           .in_weight = 1};
}

size_t zr_gains_place_bytes(const zr_lm_slices *slices, const zr_gains *gains)
{
    return sizeof(float) * (size_t)(slices->ranks * gains_exchange(slices, gains).elements);
}

void zr_list_gains(zero_unit_sizes *sizes, const zr_lm_slices *slices, const zr_gains *gains)
{
    const zero_exchange exchange = gains_exchange(slices, gains);
    if (gains->across)
        zr_list_exchange(sizes, slices, &exchange);
}

// Copies the gains that are summed across ranks to the place of the exchange, or back.
static void copy_gains(zr_queue *queue, const zr_gains *gains, char *place, bool back)
{
    for (int i = 0; i < gains->count; i++) {
        const zr_gain *gain = &gains->at[i];
        int64_t bytes = gain->elements * (int64_t)sizeof *gain->sum;
        if (!gain->across)
            continue;
        zr_run(queue, zr_op_copy(&(zr_bytes){bytes}, back ? place : (char *)gain->sum,
                                 back ? (char *)gain->sum : place));
        place += bytes;
    }
}

static zero_status sum_gains(zero_context *context, const zr_lm_slices *slices,
                             const zr_gains *gains, char *place)
{
    const zero_exchange exchange = gains_exchange(slices, gains);
    copy_gains(context->queue, gains, place, false);
    ZERO_TRY(zr_exchange(context, &exchange, 0));
    copy_gains(context->queue, gains, place, true);
    return ZERO_OK;
}

zero_status zr_gains_finish(zero_context *context, const zr_lm_slices *slices,
                            const zr_gains *gains, char *place)
{
    zr_queue *queue = context->queue;
    if (gains->across && slices->ranks > 1)
        ZERO_TRY(sum_gains(context, slices, gains, place));
    for (int i = 0; i < gains->count; i++) {
        const zr_gain *gain = &gains->at[i];
        int adds = 0;
        float *gradient = zr_tensor_gradient(context, gain->tensor, 0, &adds);
        if (adds)
            add_floats(queue, gain->elements, gradient, gain->sum);
        else
            zr_run(queue, zr_op_copy(&(zr_bytes){gain->elements * (int64_t)sizeof *gradient},
                                     gain->sum, gradient));
    }
    return ZERO_OK;
}
