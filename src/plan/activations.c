// Where activations lie between forward and backward, and which are computed again instead
// (activation checkpointing).
//
// Without checkpointing, each unit has its own saved buffer and its own boundary. With it, the
// units before the last are cut into segments. Of a segment only its activation checkpoint
// is kept, the boundary that enters it, and all segments share one working area (ZeRO-Infinity
// section 3: activation checkpoints, and activation working memory):
//
//   forward    seg 0 ─> c1 ─> seg 1 ─> c2 ─> seg 2 ─> last unit, forward and backward
//   backward                                 seg 2 (its area still holds what forward saved)
//                             seg 1: forward again from c1, then backward
//              seg 0: the same from the batch
//
// Activation checkpoints on host or NVMe go through two buffers on the device: c_i lies in buffer
// i%2 while it is written, and again while it is read. So do those that tensor ranks divide among
// them (ZeRO-R's P_a), on any tier: each rank keeps a share of the boundary's bytes, and before the
// segment runs again the shares are brought together in the buffer:
//
//   buffer   [ share of rank 0 | share of rank 1 | ... ]      all of c_i, and then padding
#include "base/dtype.h"
#include "plan/plan_parts.h"

int64_t zr_boundary_bytes(const zero_tensors *tensors)
{
    int64_t bytes = 0;
    for (int i = 0; i < tensors->count; i++)
        bytes += ZR_ROUND_UP((int64_t)zr_tensor_bytes(&tensors->at[i]), ZR_ACTIVATION_ALIGN);
    return bytes;
}

static int64_t saved_bytes(const zr_plan *plan, int u)
{
    return ZR_ROUND_UP((int64_t)plan->units[u].sizes.saved_bytes, ZR_ACTIVATION_ALIGN);
}

static int64_t out_bytes(const zr_plan *plan, int u)
{
    return zr_boundary_bytes(&plan->units[u].sizes.out);
}

// Places the activations of inference: one saved buffer, and two boundaries in turn.
static void place_in_turn(zr_plan *plan)
{
    int64_t saved = 0;
    for (int u = 0; u < plan->unit_count; u++)
        saved = ZR_MAX(saved, saved_bytes(plan, u));
    for (int u = 0; u < plan->unit_count; u++)
        plan->units[u].out_first = saved + (u % 2) * plan->boundary_bytes;
    plan->activation_bytes = saved + 2 * plan->boundary_bytes;
}

static void place_all(zr_plan *plan)
{
    int64_t at = 0;
    for (int u = 0; u < plan->unit_count; u++) {
        plan->units[u].saved_first = at;
        at += saved_bytes(plan, u);
        plan->units[u].out_first = at;
        at += out_bytes(plan, u);
    }
    plan->activation_bytes = at;
}

int zr_plan_segment_first(const zr_plan *plan, int segment)
{
    return (int)((int64_t)segment * (plan->unit_count - 1) / plan->segment_count);
}

static void cut_segments(zr_plan *plan)
{
    for (int s = 0; s < plan->segment_count; s++)
        for (int u = zr_plan_segment_first(plan, s); u < zr_plan_segment_first(plan, s + 1); u++)
            plan->units[u].segment = s;
    plan->units[plan->unit_count - 1].segment = plan->segment_count; // the last unit
}

bool zr_plan_ends_segment(const zr_plan *plan, int unit)
{
    return plan->segment_count > 0 && unit < plan->unit_count - 1 &&
           plan->units[unit + 1].segment != plan->units[unit].segment;
}

// Returns the unit whose boundary is the activation checkpoint of a segment after the first.
static int unit_before(const zr_plan *plan, int segment)
{
    return zr_plan_segment_first(plan, segment) - 1;
}

// The last activation checkpoint is used at once, so on the device a single one stays where it is.
static bool boundaries_travel(const zr_plan *plan)
{
    bool divided = plan->checkpoint_shares > 1 && plan->segment_count > 2;
    return divided || plan->settings.activation_checkpoint_tier != ZERO_TIER_device;
}

// Returns the bytes of one rank's share of the boundary that enters a segment. Transfers to other
// tiers are of whole pages.
static int64_t share_bytes(const zr_plan *plan, int segment)
{
    bool stays = plan->settings.activation_checkpoint_tier == ZERO_TIER_device;
    int64_t align = stays ? ZR_ACTIVATION_ALIGN : ZR_IO_PAGE;
    int64_t whole = out_bytes(plan, unit_before(plan, segment)), shares = plan->checkpoint_shares;
    return ZR_ROUND_UP((whole + shares - 1) / shares, align);
}

int64_t zr_activation_checkpoint_bytes(const zr_plan *plan, int segment)
{
    bool used_at_once = segment == plan->segment_count - 1;
    if (segment < 1 || segment >= plan->segment_count || used_at_once || !boundaries_travel(plan))
        return 0;
    return share_bytes(plan, segment);
}

// Gives each activation checkpoint its own place, one after another.
static void place_boundaries(zr_plan *plan)
{
    int64_t at = 0;
    for (int s = 1; s < plan->segment_count; s++) {
        int before = unit_before(plan, s);
        plan->units[before].out_kept = true;
        plan->units[before].out_first = at;
        at += out_bytes(plan, before);
    }
    plan->activation_checkpoint_buffer_bytes = at;
}

// Places activation checkpoints that travel: they go through two buffers, in turn.
static void place_travelling_boundaries(zr_plan *plan)
{
    int64_t buffer = 0;
    for (int s = 1; s < plan->segment_count; s++)
        buffer = ZR_MAX(buffer, plan->checkpoint_shares * share_bytes(plan, s));
    for (int s = 1; s < plan->segment_count; s++) {
        zr_unit_plan *before = &plan->units[unit_before(plan, s)];
        before->out_kept = true;
        before->out_first = (s % 2) * buffer;
    }
    plan->activation_checkpoint_buffer_bytes = 2 * buffer;
    if (plan->checkpoint_shares > 1) // shares are brought together through this window
        plan->exchange_bytes = ZR_MAX(plan->exchange_bytes, buffer);
}

// Places what the units of a segment save and the boundaries between them. Returns the bytes used.
static int64_t place_segment(zr_plan *plan, int segment)
{
    int64_t used = 0;
    for (int u = zr_plan_segment_first(plan, segment); u < zr_plan_segment_first(plan, segment + 1);
         u++) {
        zr_unit_plan *unit = &plan->units[u];
        unit->saved_first = used;
        used += saved_bytes(plan, u);
        if (unit->out_kept)
            continue;
        unit->out_first = used;
        used += out_bytes(plan, u);
    }
    return used;
}

// Places the area that all segments share, and after it what the last unit saves.
static void place_segments(zr_plan *plan)
{
    int last = plan->unit_count - 1;
    int64_t area = 0;
    for (int s = 0; s < plan->segment_count; s++)
        area = ZR_MAX(area, place_segment(plan, s));
    plan->units[last].saved_first = area;
    plan->activation_bytes = area + saved_bytes(plan, last);
}

static void count_kept(zr_plan *plan)
{
    for (int s = 1; s < plan->segment_count; s++)
        plan->activation_checkpoint_bytes += zr_activation_checkpoint_bytes(plan, s);
}

void zr_plan_activations(zr_plan *plan)
{
    int64_t asked = plan->settings.activation_checkpoints;
    for (int u = 0; u < plan->unit_count; u++)
        plan->boundary_bytes = ZR_MAX(plan->boundary_bytes, out_bytes(plan, u));
    if (plan->settings.inference) {
        place_in_turn(plan);
        return;
    }
    plan->segment_count = (int)ZR_MIN(asked, plan->unit_count - 1);
    if (plan->segment_count > 0) {
        cut_segments(plan);
        if (boundaries_travel(plan))
            place_travelling_boundaries(plan);
        else
            place_boundaries(plan);
        place_segments(plan);
        count_kept(plan);
    } else {
        place_all(plan);
    }
    for (int i = 0; i < 2; i++, plan->activation_bytes += plan->boundary_bytes)
        plan->boundary_first[i] = plan->activation_bytes;
}
