// Exchanges are waited for at once, because a unit needs their results before it goes on. Operands
// lie in a window on the communicator of the tensor ranks. Those that share a flat parameter, if
// they are only some, have a communicator and a window of their own, through which operands are
// copied.

#include "engine/interpret.h"
#include "plan/exchanges.h"

#include <stddef.h>

// Exchanges operands that lie in a slot of the window, `offset` bytes from its begin: the shares of
// all ranks, one after another.
static zero_status exchange_operands(zr_window *window, int slot, int64_t offset,
                                     const zero_exchange *e, zero_error *error)
{
    zr_handle handle;
    zero_comm_op op = zr_exchange_op(e->kind);
    int64_t share = e->elements * (int64_t)zero_dtype_bytes(e->dtype);
    if (e->kind == ZERO_EXCHANGE_SUM)
        return zr_comm_all_reduce(window, slot, offset, e->elements, error);
    // The sum replaces this rank's own contribution to its share, which only this rank reads.
    const zr_sum_target own = {.data = window->mine + offset + window->comm->rank * share,
                               .dtype = e->dtype,
                               .stride = e->elements};
    ZERO_TRY(zr_comm_start(window, op, slot, offset, e->elements, e->dtype,
                           op == ZERO_COMM_reduce_scatter ? &own : NULL, &handle, error));
    ZERO_TRY(zr_comm_wait(&handle, error));
    return zr_comm_quiesce(window, slot, error);
}

static zero_status check_operands(const zr_tensor_exchange *t, const zero_context *context,
                                  int64_t offset, int ranks, int64_t bytes)
{
    const zr_window *shared = t->shared && t->shared->comm ? t->shared : NULL;
    bool among = ranks == t->units.size || (shared && ranks == shared->comm->size);
    if (!among)
        return zr_fail(context->error, ZERO_ERR_INTERNAL,
                       "unit \"%s\": an exchange among %d of %d tensor ranks was not planned",
                       context->unit->name, ranks, t->units.size);
    int64_t room = ranks == t->units.size ? t->units.bytes : shared->bytes;
    if (offset < 0 || bytes < 0 || bytes > room || offset > t->units.bytes - bytes)
        return zr_fail(context->error, ZERO_ERR_INTERNAL,
                       "unit \"%s\": an exchange of %lld bytes at %lld does not lie in the %lld "
                       "bytes that were planned",
                       context->unit->name, (long long)bytes, (long long)offset,
                       (long long)t->units.bytes);
    return ZERO_OK;
}

static zero_status run_tensor_exchange(const struct zr_exchanger *self, const zero_context *context,
                                       zero_exchange_kind kind, int replicas, int64_t offset,
                                       int64_t elements, zero_dtype dtype)
{
    zr_tensor_exchange *t =
        (zr_tensor_exchange *)((char *)self - offsetof(zr_tensor_exchange, units));
    const zero_exchange e = {.kind = kind, .elements = elements, .dtype = dtype};
    int ranks = replicas ? replicas : self->size;
    if (ranks == 1)
        return ZERO_OK;
    int64_t bytes = ranks * elements * (int64_t)zero_dtype_bytes(dtype);
    ZERO_TRY(check_operands(t, context, offset, ranks, bytes));
    const zr_bytes all = {bytes};
    int64_t begin = zr_recorder_begin(t->engine->recorder);
    if (ranks == self->size) {
        ZERO_TRY(exchange_operands(t->window, (int)kind, offset, &e, context->error));
    } else {
        zr_engine_run_aside(t->engine, zr_op_copy(&all, t->window->mine + offset, t->shared->mine));
        ZERO_TRY(exchange_operands(t->shared, (int)kind, 0, &e, context->error));
        zr_engine_run_aside(t->engine, zr_op_copy(&all, t->shared->mine, t->window->mine + offset));
    }
    zr_recorder_add(t->engine->recorder, ZR_ACTIVITY_exchange, begin,
                    zr_exchange_fetched(kind, ranks, elements, dtype), 0, -1);
    return ZERO_OK;
}

// Takes the rank's own share from the buffer to the window, and all ranks' shares from there back.
zero_status zr_execute_join(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_window *window = engine->exchange.window;
    zr_queue *queue = engine->queue;
    const zero_exchange e = zr_join_exchange(engine->plan, i);
    int64_t share = e.elements * (int64_t)zero_dtype_bytes(e.dtype);
    bool link = i->slot.kind == ZR_SLOT_LINK;
    int64_t own = link ? engine->plan->links[i->slot.index].first : i->from.first - i->place.first;
    char *whole = link ? zr_engine_slot_at(engine, i->slot.index) : zr_buffer_at(engine, i->place);
    int64_t begin = zr_recorder_begin(engine->recorder);
    zr_run(queue, zr_op_copy(&(zr_bytes){share}, whole + own, window->mine + own));
    ZERO_TRY(exchange_operands(window, ZR_EXCHANGE_JOIN, 0, &e, error));
    zr_run(queue, zr_op_copy(&(zr_bytes){share + i->bytes}, window->mine, whole));
    zr_recorder_add(engine->recorder, ZR_ACTIVITY_exchange, begin, i->bytes, 0, -1);
    return ZERO_OK;
}

// What units of a tensor rank see, with a window for their operands.
static void begin_exchanges(zr_window *window, zr_tensor_exchange *out)
{
    out->window = window;
    out->units = (struct zr_exchanger){.rank = window->comm->rank,
                                       .size = window->comm->size,
                                       .window = window->mine,
                                       .bytes = window->bytes,
                                       .run = run_tensor_exchange};
}

zero_status zr_tensor_exchange_open(zero_engine *engine, int64_t bytes, zr_tensor_exchange *out,
                                    zero_error *error)
{
    *out = (zr_tensor_exchange){.engine = engine, .differing = -1};
    if (engine->plan->spaces[ZR_SPACE_EXCHANGE].kind == ZR_SPACE_NONE)
        return ZERO_OK;
    ZERO_TRY(zr_exchange_window_create(engine->grid.tensor, bytes, &out->opened, error));
    begin_exchanges(&out->opened, out);
    return ZERO_OK;
}

void zr_tensor_exchange_begin(zero_engine *engine)
{
    engine->exchange = (zr_tensor_exchange){.engine = engine, .differing = -1};
    if (engine->plan->spaces[ZR_SPACE_EXCHANGE].kind == ZR_SPACE_NONE)
        return;
    begin_exchanges(&engine->spaces[ZR_SPACE_EXCHANGE].window, &engine->exchange);
    engine->exchange.shared = &engine->spaces[ZR_SPACE_SHARED_EXCHANGE].window;
    engine->view.context.exchanger = &engine->exchange.units;
}

void zr_tensor_exchange_expect(zero_engine *engine, const zero_unit_sizes *sizes)
{
    zr_exchanges_fold(engine->plan, sizes, ZR_CALL_FORWARD, &engine->expected);
}

zr_pass_traffic zr_tensor_exchange_so_far(const zero_engine *engine)
{
    const zr_grid *grid = &engine->grid;
    return (zr_pass_traffic){.tensor.hash = grid->tensor ? grid->tensor->message_hash : 0,
                             .replicas.hash = grid->replicas ? grid->replicas->message_hash : 0};
}

void zr_tensor_exchange_note(zero_engine *engine, const zr_instruction *call,
                             const zr_pass_traffic *before)
{
    zr_tensor_exchange *t = &engine->exchange;
    if (!t->units.run || t->differing >= 0)
        return;
    zr_pass_traffic listed = *before;
    zr_exchanges_fold(engine->plan, &engine->plan->units[call->unit].sizes, (zr_call)call->what,
                      &listed);
    const zr_pass_traffic now = zr_tensor_exchange_so_far(engine);
    if (now.tensor.hash != listed.tensor.hash || now.replicas.hash != listed.replicas.hash)
        t->differing = call->unit;
}
