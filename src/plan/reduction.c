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

typedef struct place { int64_t first, end; int piece; } place; // bytes taken, sorted by first

typedef struct region {
    place *taken; // (count), room for all pieces
    int count;
    int64_t bytes; // that it needs
} region;

static int64_t take(region *region, int number, int64_t bytes)
{
    int64_t at = 0;
    int i = 0;
    while (i < region->count && region->taken[i].first - at < bytes) {
        at = region->taken[i].end;
        i++;
    }
    for (int j = region->count++; j > i; j--)
        region->taken[j] = region->taken[j - 1];
    region->taken[i] = (place){at, at + bytes, number};
    region->bytes = ZR_MAX(region->bytes, at + bytes);
    return at;
}

static void give_back(region *region, int number)
{
    int i = 0;
    while (region->taken[i].piece != number)
        i++;
    for (region->count--; i < region->count; i++)
        region->taken[i] = region->taken[i + 1];
}

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
    region open, window;
    int *sealed;     // (sealed_count) pieces in the order in which they are sealed
    int sealed_count, reduced;
    int64_t waiting; // elements of those not yet reduced
} backward;

static bool collects_apart(const zr_piece *piece)
{
    return piece->gradient_dtype != ZERO_F32;
}

static void take_slot(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    if (!zr_plan_whole_gradients(b->plan))
        piece->grad_first = take(&b->window, number, b->plan->ranks * zr_piece_gradient_shard_bytes(piece));
}

static void open_piece(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    if (collects_apart(piece))
        piece->open_first = take(&b->open, number, piece->padded * (int64_t)sizeof(float));
    else
        take_slot(b, number);
}

static void seal_piece(backward *b, int number)
{
    zr_piece *piece = &b->plan->pieces[number];
    if (collects_apart(piece)) {
        take_slot(b, number);
        give_back(&b->open, number);
    }
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
            give_back(&b->window, number);
    }
}

// In slots, a unit's gradients are reduced while the next unit computes: the least memory that keeps the two overlapped. Whole
// gradients may wait longer, up to the configured bucket.
static void run_backward(backward *b)
{
    zr_plan *plan = b->plan;
    for (int u = plan->unit_count - 1; u >= 0; u--) {
        int before = b->sealed_count;
        for (int p = 0; p < plan->piece_count; p++)
            if (plan->pieces[p].first_backward == u)
                open_piece(b, p);
        for (int p = 0; p < plan->piece_count; p++)
            if (plan->pieces[p].last_backward == u)
                seal_piece(b, p);
        reduce_oldest(b, u, zr_plan_whole_gradients(plan) ? 0 : before);
    }
}

// The own sum lies in the window where it replaces the own contribution: one micro-batch, whole gradients, one type.
static void place_accumulators(zr_plan *plan)
{
    const zr_precision *precision = &plan->settings.precision;
    bool retyped = precision->accumulator != precision->gradients;
    bool own_vector = !zr_plan_whole_gradients(plan) || plan->settings.accumulation > 1 || retyped;
    for (int p = 0; p < plan->piece_count; p++) {
        zr_piece *piece = &plan->pieces[p];
        int64_t size = (int64_t)zero_dtype_bytes(piece->accumulator_dtype);
        if (piece->first_backward < 0)
            continue;
        if (own_vector) {
            piece->accumulator_first = plan->accumulator_bytes;
            plan->accumulator_bytes += piece->shard * size;
        }
        if (plan->settings.stage == 0 && retyped) {
            piece->whole_first = plan->whole_bytes;
            plan->whole_bytes += piece->padded * size;
        }
        if (piece->kind == ZERO_TRAINABLE) {
            piece->state_first = plan->state_elems;
            plan->state_elems += plan->settings.stage == 0 ? piece->padded : piece->shard;
        }
    }
}

zero_status zr_plan_reductions(zr_plan *plan, zero_error *error)
{
    size_t count = (size_t)plan->piece_count;
    backward b = {
        .plan = plan,
        .open.taken = zr_alloc(count * sizeof *b.open.taken, error),
        .window.taken = zr_alloc(count * sizeof *b.window.taken, error),
        .sealed = zr_alloc(count * sizeof *b.sealed, error),
    };
    zero_status status = b.open.taken && b.window.taken && b.sealed ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        if (zr_plan_whole_gradients(plan))
            take_whole(plan);
        run_backward(&b);
        plan->open_bytes = b.open.bytes;
        plan->grad_bytes = ZR_MAX(plan->grad_bytes, b.window.bytes);
        place_accumulators(plan);
    }
    zr_free(b.sealed);
    zr_free(b.window.taken);
    zr_free(b.open.taken);
    return status;
}
