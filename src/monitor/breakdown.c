// Writes what a step's time was spent on, and what memory is held for, in one line each.
#include "monitor/breakdown.h"

static double milliseconds(int64_t nanoseconds) { return (double)nanoseconds * 1e-6; }

static void add_inside_step(zr_step_times *times, zr_activity what, int64_t own)
{
    if (what == ZR_ACTIVITY_square_sum || what == ZR_ACTIVITY_all_reduce)
        times->norm += own;
    else if (what == ZR_ACTIVITY_optimizer)
        times->update += own;
    else if (what == ZR_ACTIVITY_all_gather)
        times->gather += own;
}

static void add_phase(const zr_recorder *recorder, int64_t first, int64_t phase,
                      zr_step_times *times)
{
    zr_activity name = recorder->records[phase].what;
    int64_t *sum = name == ZR_ACTIVITY_forward ? &times->forward
                   : name == ZR_ACTIVITY_step  ? &times->step
                                               : &times->backward;
    *sum += recorder->records[phase].end - recorder->records[phase].begin;
    for (int64_t i = zr_records_inside(recorder, first, phase); i < phase; i++) {
        zr_activity what = recorder->records[i].what;
        int64_t own = zr_recorder_own_time(recorder, first, i);
        if (what == ZR_ACTIVITY_wait)
            times->wait += own;
        else if (name == ZR_ACTIVITY_step)
            add_inside_step(times, what, own);
        else if (what == ZR_ACTIVITY_reduce_scatter)
            times->reduce += own;
    }
}

zr_step_times zr_step_times_of(const zr_recorder *recorder, int64_t first)
{
    zr_step_times times = {0};
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (int64_t i = first; i < recorder->count; i++) {
        const zr_record *record = &recorder->records[i];
        if (zr_activity_track(record->what) != ZR_TRACK_PHASE)
            continue;
        add_phase(recorder, first, i, &times);
        begin = ZR_MIN(begin, record->begin);
        end = ZR_MAX(end, record->end);
    }
    times.total = end > begin ? end - begin : 0;
    return times;
}

void zr_breakdown_time(int64_t step, int64_t last, const char *of, const zr_step_times *times,
                       zr_buffer *out)
{
    if (last > step)
        zr_buffer_printf(out, "steps %lld to %lld", (long long)step, (long long)last);
    else
        zr_buffer_printf(out, "step %lld", (long long)step);
    zr_buffer_printf(
        out,
        "%s: %.2f ms; forward %.2f, backward %.2f (reduce %.2f), step %.2f "
        "(norm %.2f, update %.2f, gather %.2f); waiting for other ranks %.2f\n",
        of, milliseconds(times->total), milliseconds(times->forward), milliseconds(times->backward),
        milliseconds(times->reduce), milliseconds(times->step), milliseconds(times->norm),
        milliseconds(times->update), milliseconds(times->gather), milliseconds(times->wait));
}

static const char *const categories[ZERO_MEM_COUNT] = {
#define CATEGORY(name) [ZERO_MEM_##name] = #name,
    ZERO_MEMORY_CATEGORIES(CATEGORY)
#undef CATEGORY
};

void zr_breakdown_memory(int64_t step, const char *of, const zero_memory *memory, int64_t resident,
                         zr_buffer *out)
{
    int64_t planned = 0, held = 0;
    if (step > 0)
        zr_buffer_printf(out, "step %lld%s, ", (long long)step, of);
    else
        zr_buffer_printf(out, "at start%s, ", of);
    zr_buffer_printf(out, "planned/held MB:");
    for (int c = 0; c < ZERO_MEM_COUNT; c++) {
        int64_t plan = memory->planned[ZERO_TIER_device][c] + memory->planned[ZERO_TIER_host][c];
        int64_t hold = memory->held[ZERO_TIER_device][c] + memory->held[ZERO_TIER_host][c];
        planned += plan;
        held += hold;
        if (plan || hold)
            zr_buffer_printf(out, " %s %.2f/%.2f,", categories[c], (double)plan * 1e-6,
                             (double)hold * 1e-6);
    }
    zr_buffer_printf(out, " total %.2f/%.2f; resident at most %.2f\n", (double)planned * 1e-6,
                     (double)held * 1e-6, (double)resident * 1e-6);
}
