// When each piece's gradient is sealed and reduced, and where it lies until then.
//
// Whole gradients (stages 0 and 1): every piece has its place in the window for the whole micro-batch.
// Slots (stages 2 and 3): a piece takes a place before its gradient is written and gives it back once it is reduced; places are
// found here, first fit, so that the step itself allocates nothing:
//
//   backward of  head   h.3    h.2    h.1    h.0   embedding
//   wte          [==============================================]
//   h.3                 [======|reduced]
//   h.2                        [=======|reduced]                       h.1 lies where h.3 lay
//
// Where gradients have 16 bits, units add up fp32 in the open arena (slots at every stage) from the first contribution to the
// sealing, and the window's place is taken at the sealing.
#include "plan/internal.h"

#include "base/dtype.h"
#include "plan/region.h"

static void take_whole(zr_plan *plan)
{
    for (int p = 0; p < plan->piece_count; p++) {
        zr_piece *piece = &plan->pieces[p];
        if (piece->first_backward < 0)
            continue;
        piece->grad_first = plan->grad_bytes;
        plan->grad_bytes += plan->ranks * zr_piece_gradient_shard_bytes(piece);
    }
}

typedef struct backward { // as its units run, last first
    zr_plan *plan;
    zr_region open, window, staged;
    int *sealed;     // (sealed_count) pieces in the order in which they are sealed
    int sealed_count, reduced;
    int64_t waiting; // elements of those not yet reduced
} backward;

static bool collects_apart(const zr_piece *piece)
{
    return piece->gradient_dtype != ZERO_F32;
}

static bool accumulates_on_nvme(const zr_piece *piece)
{
    return piece->kind == ZERO_TRAINABLE && piece->state_tier == ZERO_TIER_nvme;
}

// Where the sum collects before it is written to NVMe.
static void take_staged(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    piece->accumulator_first = zr_region_take(&b->staged, number, piece->shard * (int64_t)zero_dtype_bytes(piece->accumulator_dtype));
}

static void take_slot(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    if (!zr_plan_whole_gradients(b->plan))
        piece->grad_first = zr_region_take(&b->window, number, b->plan->ranks * zr_piece_gradient_shard_bytes(piece));
}

static void open_piece(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    if (collects_apart(piece))
        piece->open_first = zr_region_take(&b->open, number, piece->padded * (int64_t)sizeof(float));
    else
        take_slot(b, number);
}

static void seal_piece(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    if (collects_apart(piece)) {
        take_slot(b, number);
        zr_region_give_back(&b->open, number);
    }
    if (accumulates_on_nvme(piece) && piece->fetched_with < 0)
        take_staged(b, number);
    b->sealed[b->sealed_count++] = number;
    b->waiting += piece->padded;
}

// Oldest first: those before `due`, and as many more as the ceiling asks for; all of them after the last unit.
static void reduce_oldest(backward *b, int unit, int due)
{
    while (b->reduced < b->sealed_count && (unit == 0 || b->reduced < due || b->waiting > b->plan->settings.reduce_bucket)) {
        int number = b->sealed[b->reduced++];
        b->plan->pieces[number].reduced_after = unit;
        b->waiting -= b->plan->pieces[number].padded;
        if (!zr_plan_whole_gradients(b->plan))
            zr_region_give_back(&b->window, number);
        if (accumulates_on_nvme(&b->plan->pieces[number]))
            zr_region_give_back(&b->staged, number);
    }
}

// The sum so far of a piece travels while the unit before the one that seals it computes.
static void fetch_sums(backward *b, int unit)
{
    const zr_plan *plan = b->plan;
    for (int p = 0; p < plan->piece_count && plan->settings.accumulation > 1; p++) {
        zr_piece *piece = &plan->pieces[p];
        if (!accumulates_on_nvme(piece) || piece->last_backward < 0 || unit != ZR_MIN(piece->last_backward + 1, plan->unit_count - 1))
            continue;
        piece->fetched_with = unit;
        take_staged(b, p);
    }
}

// In slots, and where sums go on to NVMe, a unit's gradients are reduced while the next unit computes: the least memory that keeps the
// two overlapped. Whole gradients may wait longer, up to the configured bucket.
static void run_backward(backward *b)
{
    zr_plan *plan = b->plan;
    for (int u = plan->unit_count - 1; u >= 0; u--) {
        int before = b->sealed_count;
        fetch_sums(b, u);
        for (int p = 0; p < plan->piece_count; p++)
            if (plan->pieces[p].first_backward == u)
                open_piece(b, p);
        for (int p = 0; p < plan->piece_count; p++)
            if (plan->pieces[p].last_backward == u)
                seal_piece(b, p);
        reduce_oldest(b, u, zr_plan_whole_gradients(plan) && plan->settings.tiering.optimizer != ZERO_TIER_nvme ? 0 : before);
    }
}

// The own sum lies in the window where it replaces the own contribution: one micro-batch, whole gradients, one type.
static void place_accumulators(zr_plan *plan)
{
    const zr_precision *precision = &plan->settings.precision;
    bool retyped = precision->accumulator != precision->gradients;
    bool own_vector = !zr_plan_whole_gradients(plan) || plan->settings.accumulation > 1 || retyped || plan->settings.tiering.optimizer != ZERO_TIER_device;
    for (int p = 0; p < plan->piece_count; p++) {
        zr_piece *piece = &plan->pieces[p];
        int64_t size = (int64_t)zero_dtype_bytes(piece->accumulator_dtype);
        if (piece->first_backward < 0)
            continue;
        if (own_vector && !accumulates_on_nvme(piece)) {
            zero_tier tier = piece->kind == ZERO_TRAINABLE ? piece->state_tier : ZERO_TIER_device;
            piece->accumulator_first = plan->accumulator_bytes[tier];
            plan->accumulator_bytes[tier] += piece->shard * size;
        }
        if (plan->settings.stage == 0 && retyped) {
            piece->whole_first = plan->whole_bytes;
            plan->whole_bytes += piece->padded * size;
        }
        if (piece->kind == ZERO_TRAINABLE) {
            piece->state_first = plan->state_elems[piece->state_tier];
            plan->state_elems[piece->state_tier] += plan->settings.stage == 0 ? piece->padded : piece->shard;
        }
    }
}

static zero_status begin_backward(backward *b, zr_plan *plan, zero_error *error)
{
    b->plan = plan;
    b->sealed = zr_alloc((size_t)plan->piece_count * sizeof *b->sealed, error);
    if (!b->sealed)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_region_begin(&b->open, plan->piece_count, error));
    ZERO_TRY(zr_region_begin(&b->window, plan->piece_count, error));
    return zr_region_begin(&b->staged, plan->piece_count, error);
}

zero_status zr_plan_reductions(zr_plan *plan, zero_error *error)
{
    backward b = {0};
    zero_status status = begin_backward(&b, plan, error);
    if (status == ZERO_OK) {
        if (zr_plan_whole_gradients(plan))
            take_whole(plan);
        run_backward(&b);
        plan->open_bytes = b.open.bytes;
        plan->grad_bytes = ZR_MAX(plan->grad_bytes, b.window.bytes);
        plan->staged_gradient_bytes = b.staged.bytes;
        place_accumulators(plan);
    }
    zr_region_end(&b.staged);
    zr_region_end(&b.window);
    zr_region_end(&b.open);
    zr_free(b.sealed);
    return status;
}
