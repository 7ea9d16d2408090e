#include "infer/decoding.h"

#include "base/dtype.h"
#include "base/text.h"
#include "comm/window.h"
#include "compute/compute.h"
#include "engine/engine_api.h"
#include "setup/machine_facts.h"

typedef struct room { // bytes
    size_t cache, stream, logits, tokens, runs, wanted, windows, candidates, workspace, scratch;
    size_t host;     // what callers read and write, of these
    size_t units;    // what units do
    size_t exchange; // of the window that tensor ranks reach
} room;

static bool is_far(const zr_decoding *d)
{
    return zr_device_is_far(zr_engine_queue(d->engine)->device);
}

// Returns the tier of what units read and write.
static zero_tier tier_of_units(const zr_decoding *d)
{
    return is_far(d) ? ZERO_TIER_device : ZERO_TIER_host;
}

static int64_t rows_of_a_step(const zr_decoding_limits *limits)
{
    return limits->chunk + limits->sequences - 1;
}

static zero_status decode_needs(const zr_decoding *d, zr_queue *queue, room *out, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(d->engine);
    const zr_decode_limits limits = {.backend = queue->backend,
                                     .dtype = plan->shape.dtype,
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

static size_t sum_of(const size_t *parts, int count)
{
    size_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += ZR_ROUND_UP(parts[i], ZR_ALIGN);
    return sum;
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
    const size_t far = is_far(d),
                 units[] = {out->cache,     out->cache,   out->stream,       out->stream,
                            out->workspace, out->scratch, far * out->tokens, far * out->logits},
                 host[] = {out->logits, out->tokens,  out->runs,
                           out->wanted, out->windows, out->candidates};
    out->units = sum_of(units, ZR_COUNT(units));
    out->host = sum_of(host, ZR_COUNT(host));
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

static zero_status check_budget(const zr_decoding *d, zero_tier tier, size_t needed, int64_t budget,
                                const char *option, zero_error *error)
{
    int64_t planned = zr_plan_tier_bytes(zr_engine_plan(d->engine), tier);
    char own[ZR_BYTES_TEXT], parameters[ZR_BYTES_TEXT], limit[ZR_BYTES_TEXT];
    if (budget <= 0 || planned + (int64_t)needed <= budget)
        return ZERO_OK;
    zr_bytes_text((double)needed, own);
    zr_bytes_text((double)planned, parameters);
    zr_bytes_text((double)budget, limit);
    return zr_fail(error, ZERO_ERR_LIMIT,
                   "generating %lld at once, of up to %lld tokens each: %s are needed on the %s "
                   "for keys, values and logits, and %s for parameters; its budget is %s (%s)",
                   (long long)d->limits.sequences, (long long)d->limits.capacity, own,
                   zr_tier_name(tier), parameters, limit, option);
}

zero_status zr_decoding_check_memory(zero_engine *engine, const zr_lm_config *config,
                                     const zr_decoding_limits *limits, zero_error *error)
{
    const zr_decoding d = make_decoding(engine, config, limits);
    const zr_offload_config *budgets = &zr_engine_config(engine)->offload;
    size_t needed[ZERO_TIER_COUNT] = {0};
    room room;
    ZERO_TRY(measure_room(&d, &room, error));
    needed[ZERO_TIER_host] = room.host;
    needed[tier_of_units(&d)] += room.units + room.exchange;
    if (is_far(&d))
        ZERO_TRY(check_budget(&d, ZERO_TIER_device, needed[ZERO_TIER_device],
                              budgets->device_memory, "--device-memory", error));
    return check_budget(&d, ZERO_TIER_host, needed[ZERO_TIER_host],
                        budgets->host_memory / zr_local_ranks(zr_engine_comm(engine)),
                        "--host-memory", error);
}

// Reserves both arenas: on the CPU all lies in the one.
static zero_status reserve(zr_decoding *d, const room *room, zero_error *error)
{
    bool far = is_far(d);
    const zr_place device = {zr_engine_queue(d->engine)->device, ZR_MEMORY_DEVICE, ZERO_TIER_device,
                             ZERO_MEM_workspace},
                   host = {device.device, far ? ZR_MEMORY_PINNED : ZR_MEMORY_HOST, ZERO_TIER_host,
                           ZERO_MEM_workspace};
    d->ledger.planned[ZERO_TIER_host][ZERO_MEM_workspace] = (int64_t)room->host;
    d->ledger.planned[tier_of_units(d)][ZERO_MEM_workspace] += (int64_t)room->units;
    d->ledger.planned[tier_of_units(d)][ZERO_MEM_communication] = (int64_t)room->exchange;
    ZERO_TRY(
        zr_arena_create(&d->ledger, &host, room->host + (far ? 0 : room->units), &d->arena, error));
    zero_status status =
        far ? zr_arena_create(&d->ledger, &device, room->units, &d->device, error) : ZERO_OK;
    if (status != ZERO_OK)
        zr_arena_destroy(&d->arena);
    return status;
}

static void lay_out(zr_decoding *d, const room *room)
{
    zr_arena *units = is_far(d) ? &d->device : &d->arena;
    d->cache = (zr_decode_cache){.sequences = d->limits.sequences,
                                 .capacity = d->limits.capacity,
                                 .k = zr_arena_take(units, room->cache),
                                 .v = zr_arena_take(units, room->cache)};
    d->stream[0] = zr_arena_take(units, room->stream);
    d->stream[1] = zr_arena_take(units, room->stream);
    d->logits = zr_arena_take(&d->arena, room->logits);
    d->tokens = zr_arena_take(&d->arena, room->tokens);
    d->runs = zr_arena_take(&d->arena, room->runs);
    d->wanted = zr_arena_take(&d->arena, room->wanted);
    d->windows = zr_arena_take(&d->arena, room->windows);
    d->candidates = zr_arena_take(&d->arena, room->candidates);
    d->workspace = zr_arena_take(units, room->workspace);
    d->scratch = zr_arena_take(units, room->scratch);
    d->scratch_bytes = room->scratch;
    d->ids = is_far(d) ? zr_arena_take(units, room->tokens) : NULL;
    d->written = is_far(d) ? zr_arena_take(units, room->logits) : d->logits;
}

zero_status zr_decoding_open(zero_engine *engine, const zr_lm_config *config,
                             const zr_decoding_limits *limits, zr_decoding *out, zero_error *error)
{
    zr_decoding *d = out;
    room room;
    *d = make_decoding(engine, config, limits);
    ZERO_TRY(measure_room(d, &room, error));
    ZERO_TRY(reserve(d, &room, error));
    lay_out(d, &room);
    zero_status status =
        zr_tensor_exchange_open(engine, (int64_t)room.exchange, &d->exchange, error);
    if (status != ZERO_OK) {
        zr_arena_destroy(&d->arena);
        zr_arena_destroy(&d->device);
        return status;
    }
    zr_ledger_hold(&d->ledger, tier_of_units(d), ZERO_MEM_communication, d->exchange.units.bytes);
    return ZERO_OK;
}

void zr_decoding_close(zr_decoding *decoding)
{
    zr_queue *queue = zr_engine_queue(decoding->engine);
    if (is_far(decoding)) // after a failure, a step may be under way
        zr_mark_finish(zr_queue_mark(queue), zr_engine_comm(decoding->engine)->timeout, NULL);
    zr_ledger_hold(&decoding->ledger, tier_of_units(decoding), ZERO_MEM_communication,
                   -decoding->exchange.units.bytes);
    zr_window_destroy(&decoding->exchange.opened);
    zr_arena_destroy(&decoding->arena);
    zr_arena_destroy(&decoding->device);
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
                          zr_lm_is_head(mine.unit) ? d->written : d->stream[!d->turn]));
    d->turn = !d->turn;
    return ZERO_OK;
}

// Copies between a place of the caller's and one of the queue's, beside what recordings list.
static void move(const zr_decoding *d, const void *from, void *to, int64_t bytes)
{
    zr_queue queue = zr_queue_inside(zr_engine_queue(d->engine));
    if (bytes > 0)
        zr_run(&queue, zr_op_copy(&(zr_bytes){bytes}, from, to));
}

// Brings the logits of a step down, and waits for them.
static zero_status bring_logits(const zr_decoding *d, const zr_decode_step *step, zero_error *error)
{
    move(d, d->written, d->logits,
         step->wanted_count * d->shape.vocab * (int64_t)sizeof *d->logits);
    return zr_comm_finish(zr_engine_comm(d->engine), zr_queue_mark(zr_engine_queue(d->engine)),
                          "generating", NULL, error);
}

zero_status zr_decoding_take_step(zr_decoding *decoding, const zr_decode_step *step,
                                  zero_error *error)
{
    bool far = is_far(decoding);
    zr_decode_step placed = *step;
    placed.ids = decoding->ids;
    decoding->step = &placed;
    decoding->turn = 0;
    if (far)
        move(decoding, step->tokens, decoding->ids, step->rows * (int64_t)sizeof *step->tokens);
    zero_status status = zr_engine_visit_units(decoding->engine, step_unit, decoding, error);
    decoding->step = NULL;
    ZERO_TRY(status);
    if (far)
        ZERO_TRY(bring_logits(decoding, step, error));
    return zr_ledger_check(&decoding->ledger, error);
}
