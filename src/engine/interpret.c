// Runs the plan's program: each instruction by one function of a few lines. The plan has decided
// what runs and in which order; the caller of a pass says which conditions (zr_when) hold in it.
// Instructions of a call's body run from inside of the unit, when it begins or ends a streamed flat
// parameter through its context.
#include "engine/interpret.h"

#include <stddef.h>

static zr_execute execute_call;

enum { VISIT = -1 }; // a call of the visitor, in the place of a zr_call

static zr_execute *const execute[ZR_CODE_COUNT] = {
    [ZR_GATHER] = zr_execute_gather,
    [ZR_REDUCE] = zr_execute_reduce,
    [ZR_SCALARS] = zr_execute_scalars,
    [ZR_FETCH] = zr_execute_transfer,
    [ZR_STORE] = zr_execute_transfer,
    [ZR_AWAIT] = zr_execute_await,
    [ZR_RELEASE] = zr_execute_version,
    [ZR_PUBLISH] = zr_execute_version,
    [ZR_BIND] = zr_execute_bind,
    [ZR_UNBIND] = zr_execute_bind,
    [ZR_OPEN] = zr_execute_open,
    [ZR_ROUND] = zr_execute_round,
    [ZR_SQUARES] = zr_execute_squares,
    [ZR_CALL] = execute_call,
    [ZR_UPDATE] = zr_execute_update,
    [ZR_JOIN] = zr_execute_join,
    [ZR_RECEIVE] = zr_execute_link,
    [ZR_TAKE] = zr_execute_link,
    [ZR_SEND] = zr_execute_link,
    [ZR_GIVE] = zr_execute_link,
    [ZR_TIED_WEIGHT] = zr_execute_tied_weight,
};

zero_status zr_program_run_until(zero_engine *engine, int end, zero_error *error)
{
    zr_cursor *cursor = &engine->cursor;
    while (cursor->at < end) {
        const zr_instruction *next = &cursor->pass->at[cursor->at++];
        if (!(cursor->holds >> next->when & 1))
            continue;
        if (engine->recorder)
            engine->recorder->unit = next->unit;
        ZERO_TRY(execute[next->code](engine, next, error));
    }
    return ZERO_OK;
}

void zr_program_begin(zero_engine *engine, zr_pass_kind kind, uint32_t holds)
{
    const zr_pass *pass = &engine->plan->program.passes[kind];
    engine->cursor = (zr_cursor){
        .pass = pass, .holds = holds | 1u << ZR_ALWAYS, .bytes_in = -1, .bytes_out = -1};
    engine->exchange.differing = -1;
    zr_comm_progress(engine->grid.world, engine->progress.step);
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
    const zero_context *context = &engine->view.context;
    const zr_instruction *next = next_mark(&engine->cursor);
    bool begins = next && next->mark == ZR_BEGUN;
    return zr_fail(context->error, ZERO_ERR_USAGE,
                   "unit \"%s\": %s of flat parameter %d, out of the order in which streamed ones "
                   "come (next: %s)",
                   context->unit->name, call, flat_param,
                   begins ? engine->plan->flat_params[next->stream].name : "none");
}

// Runs, inside of a call, up to the mark of one of the unit's flat parameters. ZERO_ERR_USAGE:
// another mark comes first.
static zero_status run_to_mark(zero_engine *engine, zr_body_mark mark, int flat_param,
                               const char *call)
{
    zr_cursor *cursor = &engine->cursor;
    const zr_unit_plan *unit = &engine->plan->units[engine->now.unit];
    const zr_instruction *next = next_mark(cursor);
    bool in_order = next && next->mark == mark && flat_param >= 0 &&
                    flat_param < unit->flat_param_count &&
                    next->stream == unit->flat_params[flat_param];
    if (!in_order)
        return out_of_order(engine, flat_param, call);
    zr_operands_free(engine); // these instructions are not the unit's
    zero_status status = zr_program_run_until(engine, (int)(next - cursor->pass->at) + 1,
                                              engine->view.context.error);
    zr_operands_reserve(engine, engine->now.unit);
    return status;
}

// Finds the boundaries that a call of training reads and writes. out: of backward, its gradient.
static void find_boundaries(const zero_engine *engine, const zr_instruction *i, zero_tensors *in,
                            zero_tensors *out, zero_tensors *d_in)
{
    bool again = i->what == ZR_CALL_AGAIN, forward = again || i->what == ZR_CALL_FORWARD;
    zr_engine_input(engine, i->unit, in);
    zr_engine_input_gradient(engine, i->unit, d_in);
    if (forward)
        zr_engine_boundary(engine, i->unit, again, out);
    else
        zr_engine_boundary_gradient(engine, i->unit, out);
}

// Calls one of the unit's own functions, or the visitor.
static zero_status execute_call(zero_engine *engine, const zr_instruction *i, zero_error *error)
{
    zr_cursor *cursor = &engine->cursor;
    zero_context *context = &engine->view.context;
    const zr_pass_traffic before = zr_tensor_exchange_so_far(engine);
    zero_tensors in, out, d_in;
    zero_status status;
    cursor->body_end = cursor->at + i->body;
    zr_comm_progress(engine->grid.world, engine->progress.step);
    zr_engine_context(engine, i->unit, error);
    zr_operands_reserve(engine, i->unit);
    find_boundaries(engine, i, &in, &out, &d_in);
    const zero_unit_ops *ops = context->unit->ops;
    switch (cursor->visit ? VISIT : (int)i->what) {
    case VISIT: status = cursor->visit(cursor->user, context, error); break;
    case ZR_CALL_FORWARD:
    case ZR_CALL_AGAIN: status = ops->forward(context, &in, &out); break;
    case ZR_CALL_BOTH: status = ops->forward_backward(context, &in, &d_in); break;
    case ZR_CALL_INPUT: status = ops->backward_input(context, &in, &out, &d_in); break;
    case ZR_CALL_WEIGHT: status = ops->backward_weight(context, &in); break;
    default: status = ops->backward(context, &in, &out, &d_in);
    }
    ZERO_TRY(status);
    if (!cursor->visit)
        zr_tensor_exchange_note(engine, i, &before);
    zr_operands_free(engine);
    ZERO_TRY(zr_queue_check(engine->queue, error));
    if (cursor->at != cursor->body_end)
        return out_of_order(engine, -1, "the end of its call instead");
    return ZERO_OK;
}

#define ENGINE_OF(pointer, member)                                                                 \
    ((zero_engine *)((char *)(pointer)-offsetof(zero_engine, member)))

static const void *parameter(const struct zr_accessor *self, const zero_context *context,
                             int flat_param, int tensor)
{
    zero_engine *engine = ENGINE_OF(self, view.accessor);
    int number = engine->plan->units[engine->now.unit].flat_params[flat_param];
    assert(engine->bound.at[number] &&
           "a unit reads a flat parameter that was not acquired for it");
    return engine->bound.at[number] +
           engine->plan->flat_params[number].tensors[tensor].first *
               (int64_t)zero_dtype_bytes(engine->plan->flat_params[number].dtype);
}

static float *gradient(const struct zr_sink *self, zero_context *context, int flat_param,
                       int tensor, int *add)
{
    zero_engine *engine = ENGINE_OF(self, view.sink);
    int number = engine->plan->units[engine->now.unit].flat_params[flat_param];
    const zr_collecting *collecting = &engine->bound.collecting[number];
    if (!collecting->at) // frozen, or a buffer that another unit owns
        return NULL;
    *add = engine->now.unit != collecting->opened_by;
    return collecting->at + engine->plan->flat_params[number].tensors[tensor].first;
}

static zero_status begin_flat_param(const struct zr_accessor *self, zero_context *context,
                                    int flat_param)
{
    zero_engine *engine = ENGINE_OF(self, view.accessor);
    zr_comm_progress(engine->grid.world, engine->progress.step);
    return run_to_mark(engine, ZR_BEGUN, flat_param, "zero_flat_param_begin");
}

static zero_status end_flat_param(const struct zr_accessor *self, zero_context *context,
                                  int flat_param)
{
    return run_to_mark(ENGINE_OF(self, view.accessor), ZR_ENDED, flat_param, "zero_flat_param_end");
}

void zr_program_serve_units(zr_view *view)
{
    view->accessor = (struct zr_accessor){
        .parameter = parameter, .begin = begin_flat_param, .end = end_flat_param};
    view->sink = (struct zr_sink){.gradient = gradient};
}
