// At the end of every pass, the messages that were sent are compared with those of the plan
// (contract 8).
#include "engine/step.h"

#include <stdio.h>

// Explains where a user's unit lists what it exchanges with other tensor ranks, and names the unit
// whose exchanges differ, if it is known. It is not known in visits, which have their own shapes.
static void describe_exchange_fault(const zero_engine *engine, char *text, size_t size)
{
    int unit = engine->exchange.differing;
    if (unit >= 0)
        snprintf(text, size,
                 "; unit \"%s\" has exchanged other things than its zero_unit_sizes.exchanges list",
                 engine->plan->model->units[unit].name);
    else
        snprintf(
            text, size,
            "; zero_unit_sizes.exchanges lists what a unit exchanges, as each zero_tensor_sum");
}

// Checks that the messages sent in one group since the pass began are the ones planned.
static zero_status check_group(const zero_engine *engine, zr_pass_kind kind, const zero_comm *comm,
                               const zr_traffic_plan *plan, zero_error *error)
{
    char why[256] = "";
    bool same = comm->message_count == plan->messages &&
                (plan->messages == 0 || comm->message_hash == plan->hash);
    if (same)
        return ZERO_OK;
    if (comm != engine->grid.data && comm != engine->grid.pipeline)
        describe_exchange_fault(engine, why, sizeof why);
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "rank %d, step %lld, %s%s%s: %lld messages with hash %016llx were sent, the "
                   "plan has %lld with %016llx%s",
                   engine->grid.world->rank, (long long)engine->step, zr_pass_name(kind),
                   comm->group ? ", among ranks of group " : "", comm->group ? comm->group : "",
                   (long long)comm->message_count, (unsigned long long)comm->message_hash,
                   (long long)plan->messages, (unsigned long long)plan->hash, why);
}

zero_status zr_step_check_pass(zero_engine *engine, zr_pass_kind kind,
                               const zr_pass_traffic *exchanged, zero_error *error)
{
    const zr_grid *grid = &engine->grid;
    ZERO_TRY(check_group(engine, kind, grid->data, &engine->plan->traffic[kind].data, error));
    if (grid->tensor)
        ZERO_TRY(check_group(engine, kind, grid->tensor, &exchanged->tensor, error));
    if (grid->replicas)
        ZERO_TRY(check_group(engine, kind, grid->replicas, &exchanged->replicas, error));
    if (grid->pipeline)
        ZERO_TRY(check_group(engine, kind, grid->pipeline, &exchanged->pipeline, error));
    zr_grid_hash_reset(grid);
    return ZERO_OK;
}

zero_status zr_step_check_messages(zero_engine *engine, zr_pass_kind kind, zero_error *error)
{
    return zr_step_check_pass(engine, kind, &engine->plan->traffic[kind], error);
}
