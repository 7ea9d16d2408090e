#include "base/recorder.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>

typedef struct activity {
    const char *name, *text;
    zr_track track;
} activity;

static const activity activities[] = {
#define ACTIVITY(name, text, track) [ZR_ACTIVITY_##name] = {#name, text, ZR_TRACK_##track},
    ZR_ACTIVITIES(ACTIVITY)
#undef ACTIVITY
};

const char *zr_activity_name(zr_activity what) { return activities[what].name; }

const char *zr_activity_text(zr_activity what) { return activities[what].text; }

zr_track zr_activity_track(zr_activity what) { return activities[what].track; }

zero_status zr_recorder_create(int64_t capacity, zr_recorder **out, zero_error *error)
{
    size_t bytes = sizeof **out + (size_t)capacity * sizeof(zr_record);
    *out = zr_alloc(bytes, error);
    if (!*out)
        return ZERO_ERR_MEMORY;
    memset((*out)->records, 0xff, (size_t)capacity * sizeof(zr_record));
    (*out)->capacity = capacity;
    atomic_flag_clear(&(*out)->appending);
    (*out)->unit = -1;
    return ZERO_OK;
}

void zr_recorder_destroy(zr_recorder *recorder) { zr_free(recorder); }

// Spins: the lock is held for a few instructions only, so waiting in the kernel is not worth it.
static void lock_for_append(zr_recorder *recorder)
{
    while (atomic_flag_test_and_set_explicit(&recorder->appending, memory_order_acquire))
        continue;
}

static void unlock_after_append(zr_recorder *recorder)
{
    atomic_flag_clear_explicit(&recorder->appending, memory_order_release);
}

void zr_recorder_clear(zr_recorder *recorder)
{
    lock_for_append(recorder);
    recorder->count = recorder->dropped = 0;
    unlock_after_append(recorder);
}

int64_t zr_recorder_begin(const zr_recorder *recorder)
{
    return recorder ? zr_clock_nanoseconds() : 0;
}

static void append_record(zr_recorder *recorder, const zr_record *record)
{
    lock_for_append(recorder);
    int64_t at = recorder->count;
    if (at == recorder->capacity)
        recorder->dropped++;
    else
        recorder->records[at] = *record;
    recorder->count = ZR_MIN(at + 1, recorder->capacity);
    unlock_after_append(recorder);
}

void zr_recorder_add(zr_recorder *recorder, zr_activity what, int64_t begin, int64_t bytes,
                     int64_t flops, int32_t slot)
{
    if (recorder)
        append_record(recorder, &(zr_record){.begin = begin,
                                             .end = zr_clock_nanoseconds(),
                                             .bytes = bytes,
                                             .flops = flops,
                                             .unit = recorder->unit,
                                             .slot = slot,
                                             .what = what});
}

void zr_recorder_add_overlapped(zr_recorder *recorder, zr_activity what, int64_t begin, int64_t end,
                                int64_t bytes)
{
    if (recorder)
        append_record(
            recorder,
            &(zr_record){
                .begin = begin, .end = end, .bytes = bytes, .unit = -1, .slot = -1, .what = what});
}

bool zr_activity_is_overlapped(zr_activity what)
{
    return what == ZR_ACTIVITY_disk_read || what == ZR_ACTIVITY_disk_write ||
           what == ZR_ACTIVITY_delayed_update;
}

bool zr_recorder_is_within(const zr_recorder *recorder, int64_t i, const zr_record *around)
{
    return zr_activity_is_overlapped(recorder->records[i].what) ||
           recorder->records[i].begin >= around->begin;
}

// Waits inside of a record ended before it did, so they stand right before it.
int64_t zr_recorder_own_time(const zr_recorder *recorder, int64_t first, int64_t i)
{
    const zr_record *record = &recorder->records[i];
    int64_t own = record->end - record->begin;
    if (record->what == ZR_ACTIVITY_wait || zr_activity_track(record->what) != ZR_TRACK_COMM)
        return own;
    for (int64_t k = i - 1; k >= first && zr_recorder_is_within(recorder, k, record); k--)
        if (recorder->records[k].what == ZR_ACTIVITY_wait)
            own -= recorder->records[k].end - recorder->records[k].begin;
    return own;
}

void zr_recorder_sum(const zr_recorder *recorder, int64_t first,
                     zr_activity_sum sums[ZR_ACTIVITY_COUNT])
{
    memset(sums, 0, sizeof *sums * ZR_ACTIVITY_COUNT);
    for (int64_t i = first; i < recorder->count; i++) {
        const zr_record *record = &recorder->records[i];
        zr_activity_sum *sum = &sums[record->what];
        sum->calls++;
        sum->nanoseconds += zr_recorder_own_time(recorder, first, i);
        sum->bytes += record->bytes;
        sum->flops += record->flops;
    }
}
