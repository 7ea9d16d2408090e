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

static int64_t held_bytes(const zr_plan *plan, int u)
{
    bool split = plan->units[u].split;
    return split ? ZR_ROUND_UP((int64_t)plan->units[u].sizes.held_bytes, ZR_ACTIVATION_ALIGN) : 0;
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

// Returns the number of a chunk's units that are in segments: without the model's last unit.
static int units_in_segments(const zr_plan *plan, const zr_chunk_plan *chunk)
{
    return chunk->end_unit - chunk->first_unit - zr_chunk_is_last(plan, chunk);
}

// Returns the chunk of a segment; of segment_count, the last chunk.
static const zr_chunk_plan *chunk_of_segment(const zr_plan *plan, int segment)
{
    int c = plan->chunk_count - 1;
    while (plan->chunks[c].first_segment > segment ||
           (c > 0 && plan->chunks[c].segments == 0 && segment < plan->segment_count))
        c--;
    return &plan->chunks[c];
}

int zr_plan_segment_first(const zr_plan *plan, int segment)
{
    const zr_chunk_plan *chunk = chunk_of_segment(plan, segment);
    int units = units_in_segments(plan, chunk);
    if (chunk->segments == 0)
        return chunk->first_unit;
    return chunk->first_unit +
           (int)((int64_t)(segment - chunk->first_segment) * units / chunk->segments);
}

static void cut_segments(zr_plan *plan)
{
    for (int s = 0; s < plan->segment_count; s++)
        for (int u = zr_plan_segment_first(plan, s); u < zr_plan_segment_first(plan, s + 1); u++)
            plan->units[u].segment = s;
    if (zr_chunk_is_last(plan, &plan->chunks[plan->chunk_count - 1]))
        plan->units[plan->unit_count - 1].segment = plan->segment_count; // the last unit
}

// Divides the requested number of segments among the chunks in proportion to their units; or cuts
// each chunk into segments of checkpoint_interval units.
static void count_segments(zr_plan *plan, int64_t requested)
{
    int64_t units = zr_pipeline_stage_origin(plan->model)->unit_count - 1;
    int64_t interval = plan->pipeline ? plan->pipeline->checkpoint_interval : 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        zr_chunk_plan *chunk = &plan->chunks[c];
        int here = units_in_segments(plan, chunk);
        int64_t share = units > 0 ? (requested * here + units - 1) / units : 0;
        if (interval > 0)
            share = (here + interval - 1) / interval;
        chunk->first_segment = plan->segment_count;
        chunk->segments = (int)ZR_MIN(share, here);
        plan->segment_count += chunk->segments;
    }
}

bool zr_plan_ends_segment(const zr_plan *plan, int unit)
{
    bool alone = plan->units[unit].segment == plan->segment_count; // the last unit
    if (plan->segment_count == 0 || alone)
        return false;
    return unit + 1 == plan->unit_count ||
           plan->units[unit + 1].segment != plan->units[unit].segment;
}

// Without a pipeline, backward of the last segment follows its forward. In a pipeline the forward
// of other micro-batches comes in between.
bool zr_plan_computes_again(const zr_plan *plan, int segment)
{
    return segment < plan->segment_count - (plan->pipeline ? 0 : 1);
}

// Says whether an activation checkpoint enters the segment: the batch does not, nor does what has
// come through a link.
static bool has_checkpoint(const zr_plan *plan, int segment)
{
    return segment > 0 && segment < plan->segment_count &&
           chunk_of_segment(plan, segment)->first_segment < segment;
}

// Returns the unit whose boundary is the activation checkpoint of a segment that has one.
static int unit_before(const zr_plan *plan, int segment)
{
    return zr_plan_segment_first(plan, segment) - 1;
}

// Without a pipeline the last activation checkpoint is used at once, so on the device a single one
// stays where it is.
static bool boundaries_travel(const zr_plan *plan)
{
    bool used_later =
        plan->pipeline ? plan->segment_count > plan->chunk_count : plan->segment_count > 2;
    bool divided = plan->checkpoint_shares > 1 && used_later;
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
    if (!has_checkpoint(plan, segment) || !zr_plan_computes_again(plan, segment) ||
        !boundaries_travel(plan))
        return 0;
    return share_bytes(plan, segment);
}

// Gives each activation checkpoint its own place, one after another.
static void place_boundaries(zr_plan *plan)
{
    int64_t at = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        zr_chunk_plan *chunk = &plan->chunks[c];
        chunk->kept_first = at;
        for (int s = chunk->first_segment + 1; s < chunk->first_segment + chunk->segments; s++) {
            int before = unit_before(plan, s);
            plan->units[before].out_kept = true;
            plan->units[before].out_first = chunk->kept_first + chunk->kept_bytes;
            chunk->kept_bytes += out_bytes(plan, before);
        }
        at += chunk->buffers.sets * chunk->kept_bytes;
    }
    plan->activation_checkpoint_buffer_bytes = at;
}

// Places activation checkpoints that travel: they go through two buffers, in turn.
static void place_travelling_boundaries(zr_plan *plan)
{
    int64_t buffer = 0;
    for (int s = 1; s < plan->segment_count; s++)
        if (has_checkpoint(plan, s))
            buffer = ZR_MAX(buffer, plan->checkpoint_shares * share_bytes(plan, s));
    for (int s = 1; s < plan->segment_count; s++) {
        if (!has_checkpoint(plan, s))
            continue;
        zr_unit_plan *before = &plan->units[unit_before(plan, s)];
        before->out_kept = true;
        before->out_first = (s % 2) * buffer;
    }
    plan->activation_checkpoint_buffer_bytes = 2 * buffer;
    if (plan->checkpoint_shares > 1) // shares are brought together through this window
        plan->exchange_bytes = ZR_MAX(plan->exchange_bytes, buffer);
}

// Says whether the boundary that a unit writes goes to another chunk, and lies in a slot of a link.
static bool leaves_chunk(const zr_plan *plan, int u)
{
    return plan->pipeline && u + 1 == zr_plan_chunk_of(plan, u)->end_unit;
}

// Places what units [first, end) save and the boundaries between them, from byte `used` on. Returns
// the end.
static int64_t place_units(zr_plan *plan, int first, int end, int64_t used)
{
    for (int u = first; u < end; u++) {
        zr_unit_plan *unit = &plan->units[u];
        unit->saved_first = used;
        used += saved_bytes(plan, u);
        if (unit->out_kept || unit->out_in_set || leaves_chunk(plan, u))
            continue;
        unit->out_first = used;
        used += out_bytes(plan, u);
    }
    return used;
}

// Places the area that all segments share, from byte `first` on. Returns its end.
static int64_t place_area(zr_plan *plan, int64_t first)
{
    int64_t end = first;
    for (int s = 0; s < plan->segment_count; s++)
        end = ZR_MAX(end, place_units(plan, zr_plan_segment_first(plan, s),
                                      zr_plan_segment_first(plan, s + 1), first));
    return end;
}

// Places the area, and after it what the last unit saves.
static void place_segments(zr_plan *plan)
{
    int last = plan->unit_count - 1;
    plan->units[last].saved_first = place_area(plan, 0);
    plan->activation_bytes = plan->units[last].saved_first + saved_bytes(plan, last);
}

static void count_kept(zr_plan *plan)
{
    for (int c = 0; c < plan->chunk_count; c++) {
        zr_chunk_plan *chunk = &plan->chunks[c];
        chunk->stored_first = plan->activation_checkpoint_bytes;
        for (int s = chunk->first_segment; s < chunk->first_segment + chunk->segments; s++)
            chunk->stored_bytes += zr_activation_checkpoint_bytes(plan, s);
        plan->activation_checkpoint_bytes += chunk->buffers.sets * chunk->stored_bytes;
    }
}

// Places, in the sets of a chunk, what units keep from a forward until its backward in a pipeline;
// where segments are computed again, only the boundary that enters the model's last unit. Then a
// last unit that does both in one call needs no set either.
static int64_t place_sets(zr_plan *plan, zr_chunk_plan *chunk, int64_t first)
{
    chunk->set_first = first;
    for (int u = chunk->first_unit; u < chunk->end_unit; u++) {
        zr_unit_plan *unit = &plan->units[u];
        bool last = u + 1 == chunk->end_unit,
             before_last = u + 1 == plan->unit_count - 1 && zr_chunk_is_last(plan, chunk);
        bool again = plan->segment_count > 0 && unit->segment < plan->segment_count;
        unit->in_set = !unit->fused && !again;
        unit->out_in_set = !last && (!again || before_last);
        if (unit->in_set) {
            unit->saved_first = first + chunk->set_bytes;
            unit->held_first = unit->saved_first + saved_bytes(plan, u);
            chunk->set_bytes += saved_bytes(plan, u) + held_bytes(plan, u);
        }
        if (unit->out_in_set) {
            unit->out_first = first + chunk->set_bytes;
            chunk->set_bytes += out_bytes(plan, u);
        }
    }
    return first + chunk->buffers.sets * chunk->set_bytes;
}

// Places the activations of a pipeline: the sets of each chunk, and after them an area for what is
// used within one action alone.
static void place_pipeline(zr_plan *plan)
{
    int64_t at = 0;
    for (int c = 0; c < plan->chunk_count; c++)
        at = place_sets(plan, &plan->chunks[c], at);
    plan->activation_bytes = at;
    for (int u = 0; u < plan->unit_count; u++)
        if (plan->units[u].fused) {
            plan->units[u].saved_first = at;
            plan->activation_bytes = at + saved_bytes(plan, u);
        }
    plan->activation_bytes = ZR_MAX(plan->activation_bytes, place_area(plan, at));
}

void zr_plan_activations(zr_plan *plan)
{
    int64_t requested = plan->settings.activation_checkpoints;
    for (int u = 0; u < plan->unit_count; u++)
        plan->boundary_bytes = ZR_MAX(plan->boundary_bytes, out_bytes(plan, u));
    if (plan->settings.inference) {
        place_in_turn(plan);
        return;
    }
    count_segments(plan, requested);
    if (plan->segment_count > 0) {
        cut_segments(plan);
        if (boundaries_travel(plan))
            place_travelling_boundaries(plan);
        else
            place_boundaries(plan);
        count_kept(plan);
    }
    if (plan->pipeline)
        place_pipeline(plan);
    else if (plan->segment_count > 0)
        place_segments(plan);
    else
        plan->activation_bytes = place_units(plan, 0, plan->unit_count, 0);
    for (int i = 0; i < 2; i++, plan->activation_bytes += plan->boundary_bytes)
        plan->boundary_first[i] = plan->activation_bytes;
}
