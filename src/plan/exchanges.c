#include "plan/exchanges.h"

#include "base/traffic.h"
#include "model/pipeline_stage_cut.h"
#include "plan/plan_parts.h"

zero_comm_op zr_exchange_op(zero_exchange_kind kind)
{
    switch (kind) {
    case ZERO_EXCHANGE_SUM: return ZERO_COMM_all_reduce;
    case ZERO_EXCHANGE_SCATTER: return ZERO_COMM_reduce_scatter;
    default: return ZERO_COMM_all_gather;
    }
}

int64_t zr_exchange_fetched(zero_exchange_kind kind, int ranks, int64_t elements, zero_dtype dtype)
{
    int64_t others = (ranks - 1) * elements * (int64_t)zero_dtype_bytes(dtype);
    return kind == ZERO_EXCHANGE_SUM ? 2 * others : others;
}

zero_status zr_model_replicas(const zero_model *model, int tensor_ranks, int *out,
                              zero_error *error)
{
    model = zr_pipeline_stage_origin(model); // all pipeline stages make the same groups
    *out = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++) {
            int replicas = model->units[u].flat_params[p].replicas;
            if (replicas <= 1 || replicas >= tensor_ranks)
                continue;
            if (*out && *out != replicas)
                return zr_fail(
                    error, ZERO_ERR_USAGE,
                    "model %s: %d tensor ranks share flat parameter %d of unit \"%s\", and %d "
                    "share another one; the number has to be the same",
                    model->name, replicas, p, model->units[u].name, *out);
            *out = replicas;
        }
    return ZERO_OK;
}

static int ranks_of_exchange(const zr_plan *plan, const zero_exchange *exchange)
{
    return exchange->replicas ? exchange->replicas : plan->tensor_ranks;
}

static void add_exchange_traffic(const zr_plan *plan, const zero_exchange *exchange, int slot,
                                 int ranks, zr_pass_traffic *pass)
{
    zero_comm_op op = zr_exchange_op(exchange->kind);
    zr_traffic_plan *to = ranks == plan->tensor_ranks ? &pass->tensor : &pass->replicas;
    int64_t bytes = zr_exchange_fetched(exchange->kind, ranks, exchange->elements, exchange->dtype);
    for (int i = 0; i < exchange->calls; i++)
        to->hash = zr_message_fold(to->hash, op, slot, exchange->elements);
    to->messages += exchange->calls;
    to->calls[op] += exchange->calls;
    to->bytes[op] += exchange->calls * bytes;
    pass->exchanges.calls[exchange->purpose][exchange->kind] += exchange->calls;
    pass->exchanges.bytes[exchange->purpose][exchange->kind] += exchange->calls * bytes;
}

zr_pass_traffic zr_traffic_none(void)
{
    const zr_traffic_plan none = {.hash = ZR_MESSAGE_SEED};
    return (zr_pass_traffic){.data = none, .tensor = none, .replicas = none, .pipeline = none};
}

static bool is_made_by(const zero_exchange *exchange, zr_call call)
{
    switch (call) {
    case ZR_CALL_BACKWARD:
    case ZR_CALL_BOTH: return exchange->backward;
    case ZR_CALL_INPUT: return exchange->backward && !exchange->in_weight;
    case ZR_CALL_WEIGHT: return exchange->backward && exchange->in_weight;
    default: return !exchange->backward;
    }
}

void zr_exchanges_fold(const zr_plan *plan, const zero_unit_sizes *sizes, zr_call call,
                       zr_pass_traffic *to)
{
    for (int i = 0; i < sizes->exchange_count; i++) {
        const zero_exchange *exchange = &sizes->exchanges[i];
        int ranks = ranks_of_exchange(plan, exchange);
        if (plan->tensor_ranks > 1 && ranks > 1 && is_made_by(exchange, call))
            add_exchange_traffic(plan, exchange, exchange->kind, ranks, to);
    }
}

zero_exchange zr_join_exchange(const zr_plan *plan, const zr_instruction *join)
{
    bool link = join->slot.kind == ZR_SLOT_LINK;
    int64_t share = join->bytes / ((link ? plan->tensor_ranks : plan->checkpoint_shares) - 1);
    return (zero_exchange){.kind = ZERO_EXCHANGE_GATHER,
                           .elements = share / (int64_t)sizeof(float),
                           .dtype = ZERO_F32,
                           .calls = 1,
                           .purpose =
                               link ? ZERO_EXCHANGE_FOR_boundaries : ZERO_EXCHANGE_FOR_checkpoints};
}

void zr_join_fold(const zr_plan *plan, const zr_instruction *join, zr_pass_traffic *to)
{
    const zero_exchange exchange = zr_join_exchange(plan, join);
    add_exchange_traffic(plan, &exchange, ZR_EXCHANGE_JOIN, plan->tensor_ranks, to);
}

static void fold_calls(const zr_plan *plan, const zr_pass *pass, int unit, zr_pass_traffic *to)
{
    for (int n = 0; n < pass->count; n++) {
        const zr_instruction *i = &pass->at[n];
        if (i->code == ZR_CALL && i->unit == unit)
            zr_exchanges_fold(plan, &plan->units[unit].sizes, (zr_call)i->what, to);
    }
}

void zr_exchanges_of_unit(const zr_plan *plan, int unit, zr_pass_traffic *to)
{
    for (int kind = 0; kind < ZR_PASSES; kind++)
        if (zr_pass_is_of_micro_batch(kind))
            fold_calls(plan, &plan->program.passes[kind], unit, to);
}

// Adds a pass in one group, `times` times.
static void add_traffic(const zr_traffic_plan *pass, int64_t times, zr_traffic_plan *sum)
{
    sum->coded += times * pass->coded;
    sum->messages += times * pass->messages;
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++) {
        sum->calls[op] += times * pass->calls[op];
        sum->bytes[op] += times * pass->bytes[op];
    }
}

static void add_exchange_table(const zr_exchange_table *pass, int64_t times, zr_exchange_table *sum)
{
    for (int p = 0; p < ZERO_EXCHANGE_PURPOSE_COUNT; p++)
        for (int k = 0; k < ZR_EXCHANGE_KINDS; k++) {
            sum->calls[p][k] += times * pass->calls[p][k];
            sum->bytes[p][k] += times * pass->bytes[p][k];
        }
}

int64_t zr_pass_times(const zr_plan *plan, int kind)
{
    bool ends_step = kind >= ZR_PASS_BOUNDARY && kind < ZR_PASS_COUNT;
    return zr_pass_is_of_micro_batch(kind) ? plan->settings.accumulation : ends_step;
}

// Returns the bytes of flat parameters that stay gathered, which a step's first micro-batch alone
// gathers.
static int64_t kept_bytes(const zr_pass *pass)
{
    int64_t bytes = 0;
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++)
        bytes += i->code == ZR_GATHER && i->when == ZR_OUTDATED ? i->bytes : 0;
    return bytes;
}

static void add_pass_traffic(const zr_plan *plan, int kind, int64_t times, zr_pass_traffic *sum)
{
    const zr_pass_traffic *pass = &plan->traffic[kind];
    add_traffic(&pass->data, times, &sum->data);
    add_traffic(&pass->tensor, times, &sum->tensor);
    add_traffic(&pass->replicas, times, &sum->replicas);
    add_traffic(&pass->pipeline, times, &sum->pipeline);
    add_exchange_table(&pass->exchanges, times, &sum->exchanges);
}

zr_pass_traffic zr_traffic_of_micro_batch(const zr_plan *plan)
{
    zr_pass_traffic sum = {0};
    for (int kind = 0; kind < ZR_PASSES; kind++)
        if (zr_pass_is_of_micro_batch(kind))
            add_pass_traffic(plan, kind, 1, &sum);
    return sum;
}

zr_pass_traffic zr_traffic_of_step(const zr_plan *plan)
{
    zr_pass_traffic sum = {0};
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        int64_t times = zr_pass_times(plan, kind);
        if (times == 0)
            continue;
        add_pass_traffic(plan, kind, times, &sum);
        sum.data.bytes[ZERO_COMM_all_gather] -=
            (times - 1) * kept_bytes(&plan->program.passes[kind]);
    }
    return sum;
}

int64_t zr_exchanged_bytes(const zr_plan *plan)
{
    const zr_pass_traffic step = zr_traffic_of_step(plan);
    int64_t bytes = 0;
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++)
        bytes += step.tensor.bytes[op] + step.replicas.bytes[op];
    return bytes;
}

static bool can_be_exchanged(const zero_exchange *exchange)
{
    bool known = exchange->kind >= ZERO_EXCHANGE_SUM && exchange->kind <= ZERO_EXCHANGE_GATHER;
    bool half = exchange->dtype == ZERO_BF16 || exchange->dtype == ZERO_F16;
    return known &&
           (exchange->dtype == ZERO_F32 || (half && exchange->kind == ZERO_EXCHANGE_GATHER));
}

// Checks an exchange, and notes how much of the windows it needs.
static zero_status check_exchange(zr_plan *plan, const zero_unit *unit,
                                  const zero_unit_sizes *sizes, int i, zero_error *error)
{
    const zero_exchange *exchange = &sizes->exchanges[i];
    int ranks = ranks_of_exchange(plan, exchange);
    int64_t bytes = ranks * (int64_t)zero_dtype_bytes(exchange->dtype);
    const char *why = NULL;
    if (!can_be_exchanged(exchange))
        why = "sums are of fp32, and fp32, bf16 or fp16 are gathered";
    else if ((unsigned)exchange->purpose >= ZERO_EXCHANGE_PURPOSE_COUNT)
        why = "its purpose is no zero_exchange_purpose";
    else if (ranks != 1 && ranks != plan->tensor_ranks && ranks != plan->replicas)
        why = "no flat parameter is held by that many tensor ranks";
    else if (exchange->elements < 0 || exchange->calls < 0 ||
             __builtin_mul_overflow(bytes, exchange->elements, &bytes) ||
             (uint64_t)bytes > sizes->exchange_bytes)
        why = "its operand is larger than the exchange_bytes of its sizes";
    if (why)
        return zr_fail(error, ZERO_ERR_USAGE, "planning unit \"%s\": its exchange %d: %s",
                       unit->name, i, why);
    if (ranks == plan->replicas)
        plan->shared_exchange_bytes =
            ZR_MAX(plan->shared_exchange_bytes, ZR_ROUND_UP(bytes, ZR_ACTIVATION_ALIGN));
    return ZERO_OK;
}

zero_status zr_plan_exchanges(zr_plan *plan, const zero_unit *unit, const zero_unit_sizes *sizes,
                              zero_error *error)
{
    if (sizes->exchange_count < 0 || sizes->exchange_count > ZERO_MAX_EXCHANGES)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning unit \"%s\": %d exchanges with other tensor ranks (at most %d)",
                       unit->name, sizes->exchange_count, ZERO_MAX_EXCHANGES);
    if (plan->tensor_ranks == 1)
        return ZERO_OK;
    if (sizes->exchange_bytes > (size_t)ZR_MOST_BYTES)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning unit \"%s\": it exchanges more bytes than can be addressed",
                       unit->name);
    for (int i = 0; i < sizes->exchange_count; i++)
        ZERO_TRY(check_exchange(plan, unit, sizes, i, error));
    int64_t bytes = ZR_ROUND_UP((int64_t)sizes->exchange_bytes, ZR_ACTIVATION_ALIGN);
    plan->exchange_bytes = ZR_MAX(plan->exchange_bytes, bytes);
    return ZERO_OK;
}
