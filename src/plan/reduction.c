// When each piece's gradient is sealed and reduced, and where it lies until then.
//
// Whole gradients (stages 0 and 1): every piece has its place in the window for the whole micro-batch.
// Slots (stages 2 and 3): a piece takes a place before the first backward that contributes to it and gives it back once it is
// reduced; places are found here, first fit, so that the step itself allocates nothing:
//
//   backward of  head   h.3    h.2    h.1    h.0   embedding
//   wte          [==============================================]
//   h.3                 [======|reduced]
//   h.2                        [=======|reduced]                       h.1 lies where h.3 lay
#include "plan/internal.h"

typedef struct place { int64_t first, end; int piece; } place; // taken, sorted by first

typedef struct window {
    place *taken; // (count), room for all pieces
    int count;
    int64_t elems;
} window;

static void take(window *window, zr_piece *piece, int number)
{
    int64_t at = 0;
    int i = 0;
    while (i < window->count && window->taken[i].first - at < piece->padded) {
        at = window->taken[i].end;
        i++;
    }
    for (int j = window->count++; j > i; j--)
        window->taken[j] = window->taken[j - 1];
    window->taken[i] = (place){at, at + piece->padded, number};
    piece->grad_first = at;
    window->elems = ZR_MAX(window->elems, at + piece->padded);
}

static void give_back(window *window, int number)
{
    int i = 0;
    while (window->taken[i].piece != number)
        i++;
    for (window->count--; i < window->count; i++)
        window->taken[i] = window->taken[i + 1];
}

static void take_whole(zr_plan *plan)
{
    for (int p = 0; p < plan->piece_count; p++) {
        zr_piece *piece = &plan->pieces[p];
        if (piece->first_backward < 0)
            continue;
        piece->grad_first = plan->grad_elems;
        plan->grad_elems += piece->padded;
    }
}

typedef struct backlog { // pieces in the order in which they are sealed
    int *sealed;     // (sealed_count)
    int sealed_count, reduced;
    int64_t waiting; // elements of those not yet reduced
} backlog;

// Oldest first: those before `due`, and as many more as the ceiling asks for; all of them after the last unit.
static void reduce_oldest(zr_plan *plan, backlog *log, int unit, int due, window *window)
{
    while (log->reduced < log->sealed_count && (unit == 0 || log->reduced < due || log->waiting > plan->settings.reduce_bucket)) {
        int number = log->sealed[log->reduced++];
        plan->pieces[number].reduced_after = unit;
        log->waiting -= plan->pieces[number].padded;
        if (!zr_plan_whole_gradients(plan))
            give_back(window, number);
    }
}

// In slots, a unit's gradients are reduced while the next unit computes: the least memory that keeps the two overlapped. Whole
// gradients may wait longer, up to the configured bucket.
static void run_backward(zr_plan *plan, int *sealed, window *window)
{
    backlog log = {.sealed = sealed};
    for (int u = plan->unit_count - 1; u >= 0; u--) {
        int before = log.sealed_count;
        for (int p = 0; p < plan->piece_count && !zr_plan_whole_gradients(plan); p++)
            if (plan->pieces[p].first_backward == u)
                take(window, &plan->pieces[p], p);
        for (int p = 0; p < plan->piece_count; p++) {
            if (plan->pieces[p].last_backward != u)
                continue;
            log.sealed[log.sealed_count++] = p;
            log.waiting += plan->pieces[p].padded;
        }
        reduce_oldest(plan, &log, u, zr_plan_whole_gradients(plan) ? 0 : before, window);
    }
}

static void place_accumulators(zr_plan *plan)
{
    bool own_vector = !zr_plan_whole_gradients(plan) || plan->settings.accumulation > 1;
    for (int p = 0; p < plan->piece_count; p++) {
        zr_piece *piece = &plan->pieces[p];
        if (piece->first_backward < 0)
            continue;
        if (own_vector) {
            piece->accumulator_first = plan->accumulator_elems;
            plan->accumulator_elems += piece->shard;
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
    int *sealed = zr_alloc(count * sizeof *sealed, error);
    window window = {.taken = zr_alloc(count * sizeof *window.taken, error)};
    zero_status status = sealed && window.taken ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        if (zr_plan_whole_gradients(plan))
            take_whole(plan);
        run_backward(plan, sealed, &window);
        plan->grad_elems = ZR_MAX(plan->grad_elems, window.elems);
        place_accumulators(plan);
    }
    zr_free(window.taken);
    zr_free(sealed);
    return status;
}
