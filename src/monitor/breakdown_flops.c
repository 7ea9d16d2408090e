// The table of flops_profiler: what each unit computed in one step, and how fast.
//
// The FLOPs are those of products and attention. If a unit's forward computes the gradient too, a
// third of its FLOPs counts as forward's, because the gradient of a layer takes two products for
// each of its own.
#include "monitor/breakdown.h"

#include "base/file.h"

// The time and FLOPs of a unit, summed over micro-batches.
typedef struct turn {
    int64_t nanoseconds, flops;
} turn;

typedef struct unit_turns {
    turn forward, backward;
} unit_turns;

static void add_span(void *user, const zr_unit_span *span)
{
    unit_turns *units = user;
    turn *to = span->phase == ZR_ACTIVITY_forward ? &units[span->unit].forward
                                                  : &units[span->unit].backward;
    to->nanoseconds += span->end - span->begin;
    to->flops += span->flops;
}

typedef struct flops {
    double forward, backward, recomputed;
} flops;

static flops flops_of_unit(const zr_flops_facts *facts, int unit, const unit_turns *turns)
{
    flops found = {.forward = (double)turns->forward.flops,
                   .backward = (double)turns->backward.flops};
    if (facts->units[unit].fused) {
        found.forward /= 3;
        found.backward += 2 * found.forward;
    }
    found.recomputed = facts->recompute_factor * found.forward;
    found.backward += found.recomputed;
    return found;
}

static double gigaflops_per_second(double work, int64_t nanoseconds) // GFLOP/s
{
    return nanoseconds > 0 ? work / (double)nanoseconds : 0;
}

static void append_unit(const zr_flops_facts *facts, int unit, const unit_turns *turns, int64_t all,
                        zr_buffer *out)
{
    const zr_unit_facts *of = &facts->units[unit];
    flops work = flops_of_unit(facts, unit, turns);
    int64_t nanoseconds = turns->forward.nanoseconds + turns->backward.nanoseconds;
    zr_buffer_printf(out, "%-16s %12lld %12.3f ", of->name, (long long)of->parameters,
                     (double)turns->forward.nanoseconds * 1e-6);
    if (of->fused)
        zr_buffer_printf(out, "%12s", "in forward");
    else
        zr_buffer_printf(out, "%12.3f", (double)turns->backward.nanoseconds * 1e-6);
    zr_buffer_printf(out, " %13.4f %14.4f %9.1f %6.1f%%\n", work.forward * 1e-9,
                     work.backward * 1e-9,
                     gigaflops_per_second(work.forward + work.backward, nanoseconds),
                     all > 0 ? 100 * (double)nanoseconds / (double)all : 0);
}

static void append_units(const zr_flops_facts *facts, const unit_turns *turns,
                         const zr_step_times *times, zr_buffer *out)
{
    int64_t all = times->forward + times->backward, outside = all;
    zr_buffer_printf(out, "%-16s %12s %12s %12s %13s %14s %9s %7s\n", "unit", "parameters",
                     "forward ms", "backward ms", "forward GFLOP", "backward GFLOP", "GFLOP/s",
                     "share");
    for (int u = 0; u < facts->unit_count; u++) {
        append_unit(facts, u, &turns[u], all, out);
        outside -= turns[u].forward.nanoseconds + turns[u].backward.nanoseconds;
    }
    zr_buffer_printf(out, "%-16s %12s %25.3f %46.1f%%\n", "between units", "",
                     (double)outside * 1e-6, all > 0 ? 100 * (double)outside / (double)all : 0);
}

// Appends the parameters of the model, and those of the part that this rank computes.
static void append_parameters(const zr_flops_facts *facts, int64_t here, zr_buffer *out)
{
    int64_t whole = ZR_MAX(facts->parameters, here);
    zr_buffer_printf(out, "%lld parameters", (long long)whole);
    if (here < whole)
        zr_buffer_printf(out, ", %lld of them in this rank's part,", (long long)here);
    zr_buffer_printf(out, " in %d units%s", facts->unit_count, facts->of);
}

static void append_sums(const zr_flops_facts *facts, const unit_turns *turns,
                        const zr_step_times *times, zr_buffer *out)
{
    flops all = {0};
    int64_t parameters = 0;
    for (int u = 0; u < facts->unit_count; u++) {
        flops of = flops_of_unit(facts, u, &turns[u]);
        all = (flops){all.forward + of.forward, all.backward + of.backward,
                      all.recomputed + of.recomputed};
        parameters += facts->units[u].parameters;
    }
    double work = all.forward + all.backward;
    bool one = facts->last_step <= facts->step;
    if (one)
        zr_buffer_printf(out, "step %lld", (long long)facts->step);
    else
        zr_buffer_printf(out, "steps %lld to %lld", (long long)facts->step,
                         (long long)facts->last_step);
    zr_buffer_printf(out, " of rank 0 of %d: ", facts->ranks);
    append_parameters(facts, parameters, out);
    zr_buffer_printf(out, "; %.2f ms: forward %.2f, backward %.2f, step %.2f\n",
                     (double)times->total * 1e-6, (double)times->forward * 1e-6,
                     (double)times->backward * 1e-6, (double)times->step * 1e-6);
    zr_buffer_printf(out, "forward %.4f GFLOP, backward %.4f GFLOP", all.forward * 1e-9,
                     all.backward * 1e-9);
    if (facts->recompute_factor > 0)
        zr_buffer_printf(out, " (%.4f of it counted as recomputed)", all.recomputed * 1e-9);
    zr_buffer_printf(out, "; %.1f GFLOP/s in forward and backward, %.1f in the whole %s\n",
                     gigaflops_per_second(work, times->forward + times->backward),
                     gigaflops_per_second(work, times->total), one ? "step" : "time");
}

bool zr_breakdown_flops_is_one(const char *path)
{
    char head[256];
    long long step, last, parameters;
    int ranks;
    return zr_file_head(path, head, sizeof head) &&
           (sscanf(head, "step %lld of rank 0 of %d: %lld parameters", &step, &ranks,
                   &parameters) == 3 ||
            sscanf(head, "steps %lld to %lld of rank 0 of %d: %lld parameters", &step, &last,
                   &ranks, &parameters) == 4);
}

zero_status zr_breakdown_flops(const zr_flops_facts *facts, const zr_recorder *recorder,
                               int64_t first, zr_buffer *out, zero_error *error)
{
    unit_turns *turns = zr_alloc((size_t)ZR_MAX(facts->unit_count, 1) * sizeof *turns, error);
    if (!turns)
        return ZERO_ERR_MEMORY;
    zr_step_times times = zr_step_times_of(recorder, first);
    zr_for_unit_spans(recorder, first, add_span, turns);
    append_sums(facts, turns, &times, out);
    if (facts->detailed)
        append_units(facts, turns, &times, out);
    zr_free(turns);
    return ZERO_OK;
}
