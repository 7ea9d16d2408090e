// Counts the bytes that move between tiers, where they move, and adds up what the plan has for
// them. Both are compared when nothing is under way, at the end of a step or of an evaluation
// (contract 5).
#include "engine/buffers.h"
#include "engine/engine_internal.h"

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
    if (engine->update_overlaps)
        return;
    engine->offload.before = traffic_so_far(engine);
    engine->offload.expected = (zr_moved){0};
}

static void expect_moves(zero_engine *engine, const zr_moved *planned)
{
    zr_moved *sum = &engine->offload.expected;
    sum->to_host += planned->to_host;
    sum->to_device += planned->to_device;
    sum->nvme_read += planned->nvme_read;
    sum->nvme_written += planned->nvme_written;
}

static void expect_gathers(zero_engine *engine, const zr_moved *planned, bool outdated)
{
    expect_moves(engine, planned);
    if (outdated)
        expect_moves(engine, &engine->plan->moves.kept);
}

void zr_tier_traffic_expect_evaluation(zero_engine *engine, bool outdated)
{
    expect_gathers(engine, &engine->plan->moves.forward, outdated);
}

void zr_tier_traffic_expect_micro_batch(zero_engine *engine, bool outdated)
{
    const zr_moves *moves = &engine->plan->moves;
    expect_gathers(engine, &moves->micro_batch, outdated);
    for (int i = zr_grads_sum_slots(engine).adds; i > 0; i--)
        expect_moves(engine, &moves->earlier_sum);
}

void zr_tier_traffic_expect_update(zero_engine *engine, int walk, bool first)
{
    const zr_moves *moves = &engine->plan->moves;
    expect_moves(engine, &moves->update[walk]);
    if (first && walk == 0)
        expect_moves(engine, &(zr_moved){.nvme_read = -moves->update_first_unread});
}

void zr_tier_traffic_expect_copy(zero_engine *engine)
{
    expect_moves(engine, &engine->plan->moves.copy);
}

zero_status zr_tier_traffic_check(zero_engine *engine, zero_error *error)
{
    if (engine->update_overlaps)
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
                           engine->grid.world->rank, (long long)engine->step,
                           (long long)moved[i].counted, moved[i].what, (long long)moved[i].planned);
    return ZERO_OK;
}

void zero_io_report(const zero_engine *engine, zero_io *out)
{
    if (out)
        *out = !engine                   ? (zero_io){0}
               : engine->update_overlaps ? engine->offload.before
                                         : traffic_so_far(engine);
}
