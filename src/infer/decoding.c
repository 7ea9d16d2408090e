#include "infer/decoding.h"

#include "base/dtype.h"
#include "base/text.h"
#include "compute/compute.h"
#include "engine/engine_api.h"
#include "setup/machine_facts.h"

typedef struct room { // bytes
    size_t cache, stream, logits, tokens, runs, wanted, windows, candidates, workspace, scratch;
    size_t total;    // of these
    size_t exchange; // of the window that tensor ranks reach
} room;

static int64_t rows_of_a_step(const zr_decoding_limits *limits)
{
    return limits->chunk + limits->sequences - 1;
}

static zero_status decode_needs(const zr_decoding *d, zr_queue *queue, room *out, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(d->engine);
    const zr_decode_limits limits = {.dtype = plan->shape.dtype,
                                     .threads = queue->threads,
                                     .rows = rows_of_a_step(&d->limits),
                                     .wanted = d->limits.sequences,
                                     .capacity = d->limits.capacity};
    for (int u = 0; u < plan->unit_count; u++) {
        zero_unit_sizes sizes;
        ZERO_TRY(zr_lm_decode_sizes(&plan->model->units[u], &limits, &sizes));
        out->workspace = ZR_MAX(out->workspace, sizes.workspace_bytes);
        out->exchange = ZR_MAX(out->exchange, sizes.exchange_bytes);
        for (int i = 0; i < sizes.product_count; i++) {
            size_t bytes = zr_product_scratch(queue, plan->shape.dtype, &sizes.products[i]);
            out->scratch = ZR_MAX(out->scratch, bytes);
        }
    }
    return ZERO_OK;
}

static zero_status measure_room(const zr_decoding *d, room *out, zero_error *error)
{
    size_t vocabulary = (size_t)d->shape.vocab, sequences = (size_t)d->limits.sequences,
           rows = (size_t)rows_of_a_step(&d->limits);
    *out =
        (room){.cache = zr_lm_decode_cache_bytes(zr_engine_plan(d->engine)->model,
                                                 d->limits.sequences, d->limits.capacity),
               .stream = zero_dtype_bytes(zr_stream_dtype(zr_engine_plan(d->engine)->shape.dtype)) *
                         rows * (size_t)d->shape.width,
               .logits = sequences * vocabulary * sizeof(float),
               .tokens = rows * sizeof(int32_t),
               .runs = sequences * sizeof(zr_attention_run),
               .wanted = sequences * sizeof(int64_t),
               .windows = sequences * (size_t)d->limits.capacity * sizeof(int32_t),
               .candidates = vocabulary * sizeof(zr_candidate)};
    ZERO_TRY(decode_needs(d, zr_engine_queue(d->engine), out, error));
    const size_t parts[] = {out->cache,   out->cache,      out->stream,    out->stream,
                            out->logits,  out->tokens,     out->runs,      out->wanted,
                            out->windows, out->candidates, out->workspace, out->scratch};
    for (int i = 0; i < ZR_COUNT(parts); i++)
        out->total += ZR_ROUND_UP(parts[i], ZR_ALIGN);
    return ZERO_OK;
}

static zr_decoding make_decoding(zero_engine *engine, const zr_lm_config *config,
                                 const zr_decoding_limits *limits)
{
    return (zr_decoding){.engine = engine,
                         .shape = zr_lm_shape_of(config),
                         .limits = *limits,
                         .rows = rows_of_a_step(limits)};
}

zero_status zr_decoding_check_memory(zero_engine *engine, const zr_lm_config *config,
                                     const zr_decoding_limits *limits, zero_error *error)
{
    const zr_decoding d = make_decoding(engine, config, limits);
    int64_t budget =
        zr_engine_config(engine)->offload.host_memory / zr_local_ranks(zr_engine_comm(engine));
    int64_t planned = zr_plan_tier_bytes(zr_engine_plan(engine), ZERO_TIER_host);
    char own[ZR_BYTES_TEXT], parameters[ZR_BYTES_TEXT], limit[ZR_BYTES_TEXT];
    room room;
    ZERO_TRY(measure_room(&d, &room, error));
    size_t needed = room.total + room.exchange;
    if (budget <= 0 || planned + (int64_t)needed <= budget)
        return ZERO_OK;
    zr_bytes_text((double)needed, own);
    zr_bytes_text((double)planned, parameters);
    zr_bytes_text((double)budget, limit);
    return zr_fail(error, ZERO_ERR_LIMIT,
                   "generating %lld at once, of up to %lld tokens each: %s are needed on the host "
                   "for keys, values and logits, and %s for parameters; its budget is %s "
                   "(--host-memory)",
                   (long long)limits->sequences, (long long)limits->capacity, own, parameters,
                   limit);
}

zero_status zr_decoding_open(zero_engine *engine, const zr_lm_config *config,
                             const zr_decoding_limits *limits, zr_decoding *out, zero_error *error)
{
    zr_decoding *d = out;
    room room;
    *d = make_decoding(engine, config, limits);
    ZERO_TRY(measure_room(d, &room, error));
    d->ledger.planned[ZERO_TIER_host][ZERO_MEM_workspace] = (int64_t)room.total;
    d->ledger.planned[ZERO_TIER_host][ZERO_MEM_communication] = (int64_t)room.exchange;
    ZERO_TRY(zr_arena_on_host(&d->ledger, ZERO_TIER_host, ZERO_MEM_workspace, room.total, &d->arena,
                              error));
    d->cache = (zr_decode_cache){.sequences = limits->sequences,
                                 .capacity = limits->capacity,
                                 .k = zr_arena_take(&d->arena, room.cache),
                                 .v = zr_arena_take(&d->arena, room.cache)};
    d->stream[0] = zr_arena_take(&d->arena, room.stream);
    d->stream[1] = zr_arena_take(&d->arena, room.stream);
    d->logits = zr_arena_take(&d->arena, room.logits);
    d->tokens = zr_arena_take(&d->arena, room.tokens);
    d->runs = zr_arena_take(&d->arena, room.runs);
    d->wanted = zr_arena_take(&d->arena, room.wanted);
    d->windows = zr_arena_take(&d->arena, room.windows);
    d->candidates = zr_arena_take(&d->arena, room.candidates);
    d->workspace = zr_arena_take(&d->arena, room.workspace);
    d->scratch = zr_arena_take(&d->arena, room.scratch);
    d->scratch_bytes = room.scratch;
    zero_status status =
        zr_tensor_exchange_open(engine, (int64_t)room.exchange, &d->exchange, error);
    if (status != ZERO_OK) {
        zr_arena_destroy(&d->arena);
        return status;
    }
    zr_ledger_hold(&d->ledger, ZERO_TIER_host, ZERO_MEM_communication, d->exchange.units.bytes);
    return ZERO_OK;
}

void zr_decoding_close(zr_decoding *decoding)
{
    zr_ledger_hold(&decoding->ledger, ZERO_TIER_host, ZERO_MEM_communication,
                   -decoding->exchange.units.bytes);
    zr_window_destroy(&decoding->exchange.opened);
    zr_arena_destroy(&decoding->arena);
}

// Lets a unit exchange with other tensor ranks what the step's size says, and no more.
static void let_exchange(zr_decoding *d, zero_context *context)
{
    zero_unit_sizes sizes;
    if (!d->exchange.units.run) // the model is whole, or all of it is here
        return;
    context->exchanger = &d->exchange.units;
    zr_lm_decode_exchanges(context->unit, d->step->rows, d->step->wanted_count, &sizes);
    zr_tensor_exchange_expect(d->engine, &sizes);
}

static zero_status step_unit(void *user, zero_context *context, zero_error *error)
{
    zr_decoding *d = user;
    zero_context mine = *context;
    zr_queue queue = zr_queue_with_scratch(context->queue, d->scratch, d->scratch_bytes);
    mine.queue = &queue;
    mine.workspace = d->workspace;
    let_exchange(d, &mine);
    mine.shape = (zero_shape){.batch = 1,
                              .seq = d->step->rows,
                              .threads = context->shape.threads,
                              .dtype = context->shape.dtype};
    mine.error = error;
    ZERO_TRY(zr_lm_decode(&mine, &d->cache, d->step, d->stream[d->turn],
                          zr_lm_is_head(mine.unit) ? d->logits : d->stream[!d->turn]));
    d->turn = !d->turn;
    return ZERO_OK;
}

zero_status zr_decoding_take_step(zr_decoding *decoding, const zr_decode_step *step,
                                  zero_error *error)
{
    decoding->step = step;
    decoding->turn = 0;
    ZERO_TRY(zr_engine_visit_units(decoding->engine, step_unit, decoding, error));
    return zr_ledger_check(&decoding->ledger, error);
}
