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

// Oldest first until what is sealed and not reduced fits under the ceiling; `all` at the end of the micro-batch.
static void reduce_oldest(zr_plan *plan, const int *sealed, int sealed_count, int *reduced, int64_t *waiting, int unit, bool all, window *window)
{
    while (*reduced < sealed_count && (all || *waiting > plan->reduce_ceiling)) {
        zr_piece *piece = &plan->pieces[sealed[*reduced]];
        piece->reduced_after = unit;
        *waiting -= piece->padded;
        if (!zr_plan_whole_gradients(plan))
            give_back(window, sealed[*reduced]);
        ++*reduced;
    }
}

static void run_backward(zr_plan *plan, int *sealed, window *window)
{
    int sealed_count = 0, reduced = 0;
    int64_t waiting = 0;
    for (int u = plan->unit_count - 1; u >= 0; u--) {
        for (int p = 0; p < plan->piece_count && !zr_plan_whole_gradients(plan); p++)
            if (plan->pieces[p].first_backward == u)
                take(window, &plan->pieces[p], p);
        for (int p = 0; p < plan->piece_count; p++) {
            if (plan->pieces[p].last_backward != u)
                continue;
            sealed[sealed_count++] = p;
            waiting += plan->pieces[p].padded;
        }
        reduce_oldest(plan, sealed, sealed_count, &reduced, &waiting, u, u == 0, window);
    }
}

// By default the two largest pieces: enough that one is reduced while the next is computed.
static int64_t reduce_ceiling(const zr_plan *plan)
{
    int64_t largest = 0, second = 0;
    for (int p = 0; p < plan->piece_count; p++) {
        int64_t padded = plan->pieces[p].padded;
        if (plan->pieces[p].first_backward < 0)
            continue;
        second = ZR_MAX(second, ZR_MIN(padded, largest));
        largest = ZR_MAX(largest, padded);
    }
    if (zr_plan_whole_gradients(plan))
        return plan->settings.reduce_bucket;
    return ZR_MIN(plan->settings.reduce_bucket, largest + second);
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
    plan->reduce_ceiling = reduce_ceiling(plan);
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
