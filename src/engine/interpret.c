// Runs the plan's program: each instruction by one function of a few lines. The plan has decided
// what runs and in which order; the caller of a pass says which conditions (zr_when) hold in it.
#include "engine/interpret.h"

static const zr_execute execute[ZR_CODE_COUNT] = {
    [ZR_GATHER] = zr_execute_gather,
    [ZR_REDUCE] = zr_execute_reduce,
    [ZR_SCALARS] = zr_execute_scalars,
    [ZR_FETCH] = zr_execute_fetch,
    [ZR_STORE] = zr_execute_store,
    [ZR_AWAIT] = zr_execute_await,
    [ZR_RELEASE] = zr_execute_release,
    [ZR_PUBLISH] = zr_execute_publish,
    [ZR_BIND] = zr_execute_bind,
    [ZR_UNBIND] = zr_execute_unbind,
    [ZR_OPEN] = zr_execute_open,
    [ZR_ROUND] = zr_execute_round,
    [ZR_SQUARES] = zr_execute_squares,
    [ZR_CALL] = zr_execute_call,
    [ZR_UPDATE] = zr_execute_update,
    [ZR_JOIN] = zr_execute_join,
    [ZR_RECEIVE] = zr_execute_receive,
    [ZR_TAKE] = zr_execute_take,
    [ZR_SEND] = zr_execute_send,
    [ZR_GIVE] = zr_execute_give,
    [ZR_TIED_WEIGHT] = zr_execute_tied_weight,
};

static zero_status run_next_instruction(zero_engine *engine, zero_error *error)
{
    zr_cursor *cursor = &engine->cursor;
    const zr_instruction *next = &cursor->pass->at[cursor->at++];
    if (!(cursor->holds >> next->when & 1))
        return ZERO_OK;
    if (engine->recorder)
        engine->recorder->unit = next->unit;
    return execute[next->code](engine, next, error);
}

zero_status zr_program_run_until(zero_engine *engine, int end, zero_error *error)
{
    while (engine->cursor.at < end)
        ZERO_TRY(run_next_instruction(engine, error));
    return ZERO_OK;
}

void zr_program_begin(zero_engine *engine, zr_pass_kind kind, uint32_t holds)
{
    const zr_pass *pass = &engine->plan->program.passes[kind];
    engine->cursor = (zr_cursor){
        .pass = pass, .holds = holds | 1u << ZR_ALWAYS, .bytes_in = -1, .bytes_out = -1};
    engine->exchange.differing = -1;
    zr_comm_progress(engine->grid.world, engine->step);
}

zero_status zr_program_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds,
                                zero_error *error)
{
    zr_program_begin(engine, kind, holds);
    return zr_program_run_until(engine, engine->cursor.pass->count, error);
}

// Returns the next instruction of the current body after which the unit goes on; NULL if there is
// no other.
static const zr_instruction *next_mark(const zr_cursor *cursor)
{
    for (int at = cursor->at; at < cursor->body_end; at++)
        if (cursor->pass->at[at].mark)
            return &cursor->pass->at[at];
    return NULL;
}

static zero_status out_of_order(zero_engine *engine, int flat_param, const char *call)
{
    const zero_context *context = &engine->context;
    const zr_instruction *next = next_mark(&engine->cursor);
    bool begins = next && next->mark == ZR_BEGUN;
    return zr_fail(context->error, ZERO_ERR_USAGE,
                   "unit \"%s\": %s of flat parameter %d, out of the order in which streamed ones "
                   "come (next: %s)",
                   context->unit->name, call, flat_param,
                   begins ? engine->plan->flat_params[next->stream].name : "none");
}

zero_status zr_program_run_to_mark(zero_engine *engine, zr_mark mark, int flat_param,
                                   const char *call)
{
    zr_cursor *cursor = &engine->cursor;
    const zr_unit_plan *unit = &engine->plan->units[engine->unit];
    const zr_instruction *next = next_mark(cursor);
    bool in_order = next && next->mark == mark && flat_param >= 0 &&
                    flat_param < unit->flat_param_count &&
                    next->stream == unit->flat_params[flat_param];
    if (!in_order)
        return out_of_order(engine, flat_param, call);
    return zr_program_run_until(engine, (int)(next - cursor->pass->at) + 1, engine->context.error);
}

// Calls one of the unit's own functions, as training does, with the boundaries that it reads and
// writes.
static zero_status call_function(zero_engine *engine, zr_call what, int unit)
{
    zero_context *context = &engine->context;
    const zero_unit_ops *ops = context->unit->ops;
    zero_tensors in = zr_engine_input(engine, unit), out, d_in;
    switch (what) {
    case ZR_CALL_FORWARD:
        out = zr_engine_boundary(engine, unit);
        return ops->forward(context, &in, &out);
    case ZR_CALL_AGAIN:
        out = zr_engine_boundary_again(engine, unit);
        return ops->forward(context, &in, &out);
    case ZR_CALL_BACKWARD:
        out = zr_engine_boundary_gradient(engine, unit);
        d_in = zr_engine_input_gradient(engine, unit);
        return ops->backward(context, &in, &out, &d_in);
    case ZR_CALL_INPUT:
        out = zr_engine_boundary_gradient(engine, unit);
        d_in = zr_engine_input_gradient(engine, unit);
        return ops->backward_input(context, &in, &out, &d_in);
    case ZR_CALL_WEIGHT: return ops->backward_weight(context, &in);
    default:
        d_in = zr_engine_input_gradient(engine, unit);
        return ops->forward_backward(context, &in, &d_in);
    }
}

static zero_status call_unit_function(zero_engine *engine, const zr_instruction *i)
{
    const zr_exchanged before = zr_tensor_exchange_so_far(engine);
    ZERO_TRY(call_function(engine, (zr_call)i->what, i->unit));
    zr_tensor_exchange_note(engine, i, &before);
    return ZERO_OK;
}

zero_status zr_execute_call(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_cursor *cursor = &engine->cursor;
    cursor->body_end = cursor->at + i->body;
    zr_comm_progress(engine->grid.world, engine->step);
    zr_engine_context(engine, i->unit, error);
    if (cursor->visit)
        ZERO_TRY(cursor->visit(cursor->user, &engine->context, error));
    else
        ZERO_TRY(call_unit_function(engine, i));
    ZERO_TRY(zr_queue_check(engine->queue, error));
    if (cursor->at != cursor->body_end)
        return out_of_order(engine, -1, "the end of its call instead");
    return ZERO_OK;
}
