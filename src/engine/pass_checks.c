// Compares what a rank does with the plan: at the end of every pass the messages that it has sent
// (contract 8), and at the end of a step or of an evaluation, when nothing is under way, the bytes
// that have moved between tiers, which are counted where they move (contract 5). A rank that fails
// ends the waits of the others.
#include "engine/step.h"

#include <stdio.h>

zero_status zr_step_end_waits(zero_engine *engine, zero_status status, const zero_error *error)
{
    if (status != ZERO_OK) {
        engine->phase = ZR_FAILED;
        zero_comm_abort(engine->grid.world,
                        error && error->message[0] ? error->message : zero_status_text(status));
    }
    return status;
}

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
                   engine->grid.world->rank, (long long)engine->progress.step, zr_pass_name(kind),
                   comm->group ? ", among ranks of group " : "", comm->group ? comm->group : "",
                   (long long)comm->message_count, (unsigned long long)comm->message_hash,
                   (long long)plan->messages, (unsigned long long)plan->hash, why);
}

zero_status zr_step_check_messages(zero_engine *engine, zr_pass_kind kind,
                                   const zr_pass_traffic *announced, zero_error *error)
{
    const zr_grid *grid = &engine->grid;
    const zr_pass_traffic *plan = &engine->plan->traffic[kind],
                          *units = announced ? announced : plan;
    const zr_traffic_plan *const planned[] = {&plan->data, &units->tensor, &units->replicas,
                                              &units->pipeline};
    for (int i = 0; i < ZR_COUNT(planned); i++)
        if (grid->groups[i])
            ZERO_TRY(check_group(engine, kind, grid->groups[i], planned[i], error));
    zr_grid_hash_reset(grid);
    return ZERO_OK;
}

static zero_io traffic_so_far(const zero_engine *engine)
{
    const zr_offload *offload = &engine->offload;
    zr_io_counts nvme = offload->io ? zr_io_counted(offload->io) : (zr_io_counts){0};
    return (zero_io){.to_host = offload->to_host,
                     .to_device = offload->to_device,
                     .nvme_read = nvme.read,
                     .nvme_written = nvme.written};
}

zero_io zero_io_between(const zero_io *before, const zero_io *after)
{
    static const zero_io none;
    before = before ? before : &none;
    after = after ? after : &none;
    return (zero_io){.to_host = after->to_host - before->to_host,
                     .to_device = after->to_device - before->to_device,
                     .nvme_read = after->nvme_read - before->nvme_read,
                     .nvme_written = after->nvme_written - before->nvme_written};
}

void zr_tier_traffic_begin(zero_engine *engine)
{
    if (engine->update.overlaps)
        return;
    engine->offload.before = traffic_so_far(engine);
    engine->offload.expected = (zr_moved){0};
}

void zr_tier_traffic_expect(zero_engine *engine, const zr_moved *planned)
{
    zr_moved *sum = &engine->offload.expected;
    sum->to_host += planned->to_host;
    sum->to_device += planned->to_device;
    sum->nvme_read += planned->nvme_read;
    sum->nvme_written += planned->nvme_written;
}

void zr_tier_traffic_expect_gathers(zero_engine *engine, const zr_moved *planned, bool outdated)
{
    zr_tier_traffic_expect(engine, planned);
    if (outdated)
        zr_tier_traffic_expect(engine, &engine->plan->moves.kept);
}

void zr_tier_traffic_expect_micro_batch(zero_engine *engine, bool outdated)
{
    const zr_moves *moves = &engine->plan->moves;
    zr_tier_traffic_expect_gathers(engine, &moves->micro_batch, outdated);
    for (int i = zr_grads_sum_slots(engine).adds; i > 0; i--)
        zr_tier_traffic_expect(engine, &moves->earlier_sum);
}

void zr_tier_traffic_expect_update(zero_engine *engine, int walk, bool first)
{
    const zr_moves *moves = &engine->plan->moves;
    zr_tier_traffic_expect(engine, &moves->update[walk]);
    if (first && walk == 0)
        engine->offload.expected.nvme_read -= moves->update_first_unread;
}

zero_status zr_tier_traffic_check(zero_engine *engine, zero_error *error)
{
    if (engine->update.overlaps)
        return ZERO_OK;
    zero_io now = traffic_so_far(engine), added = zero_io_between(&engine->offload.before, &now);
    const zr_moved *expected = &engine->offload.expected;
    const struct {
        const char *what;
        int64_t counted, planned;
    } moved[] = {
        {"moved from device to host", added.to_host, expected->to_host},
        {"moved from host to device", added.to_device, expected->to_device},
        {"read from NVMe", added.nvme_read, expected->nvme_read},
        {"written to NVMe", added.nvme_written, expected->nvme_written},
    };
    for (int i = 0; i < ZR_COUNT(moved); i++)
        if (moved[i].counted != moved[i].planned)
            return zr_fail(error, ZERO_ERR_INTERNAL,
                           "rank %d, step %lld: %lld bytes were %s, the plan has %lld",
                           engine->grid.world->rank, (long long)engine->progress.step,
                           (long long)moved[i].counted, moved[i].what, (long long)moved[i].planned);
    return ZERO_OK;
}

void zero_io_report(const zero_engine *engine, zero_io *out)
{
    if (out)
        *out = !engine                   ? (zero_io){0}
               : engine->update.overlaps ? engine->offload.before
                                         : traffic_so_far(engine);
}
