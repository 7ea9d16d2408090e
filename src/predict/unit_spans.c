// A record is written when it ends, so what is inside a phase or a collective is written before it.
#include "predict/measured_steps.h"

int64_t zr_records_inside(const zr_recorder *recorder, int64_t first, int64_t i)
{
    int64_t k = i;
    while (k > first && zr_recorder_is_within(recorder, k - 1, &recorder->records[i]))
        k--;
    return k;
}

int64_t zr_records_skip_first_waits(const zr_recorder *recorder, int64_t first, int64_t i,
                                    int64_t *begin)
{
    const zr_record *phase = &recorder->records[i];
    int64_t k = zr_records_inside(recorder, first, i);
    *begin = phase->begin;
    for (; phase->slot >= 0 && k < i; k++) {
        const zr_record *record = &recorder->records[k];
        if (record->what == ZR_ACTIVITY_wait)
            *begin = record->end;
        else if (!zr_activity_is_overlapped(record->what))
            break;
    }
    return k;
}

static void take_phase(const zr_recorder *recorder, int64_t from, int64_t phase,
                       zr_unit_span_take take, void *user)
{
    for (int64_t i = from; i < phase;) {
        const zr_record *record = &recorder->records[i];
        if (zr_activity_is_overlapped(record->what)) {
            i++;
            continue;
        }
        zr_unit_span span = {
            .phase = recorder->records[phase].what, .unit = record->unit, .begin = record->begin};
        for (; i < phase && (zr_activity_is_overlapped(recorder->records[i].what) ||
                             recorder->records[i].unit == span.unit);
             i++) {
            record = &recorder->records[i];
            if (zr_activity_is_overlapped(record->what))
                continue;
            // A collective is written after the waits inside it, so its start comes before theirs.
            span.begin = ZR_MIN(span.begin, record->begin);
            span.end = record->end;
            span.flops += record->flops;
        }
        if (span.unit >= 0)
            take(user, &span);
    }
}

void zr_for_unit_spans(const zr_recorder *recorder, int64_t first, zr_unit_span_take take,
                       void *user)
{
    int64_t begin;
    for (int64_t i = first; i < recorder->count; i++)
        if (zr_activity_track(recorder->records[i].what) == ZR_TRACK_PHASE)
            take_phase(recorder, zr_records_skip_first_waits(recorder, first, i, &begin), i, take,
                       user);
}
