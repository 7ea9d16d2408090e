// Writes records and turns of units as events. Called by train/train_profile on rank 0.
#include "monitor/trace.h"

#include "base/file.h"
#include "base/json.h"
#include "base/json_writer.h"
#include "monitor/breakdown.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 64 };

typedef struct trace {
    int rank;
    int64_t origin;
    const zr_trace_names *names;
    zr_buffer *out;
} trace;

static const char *const tracks[ZR_TRACK_COUNT] = {
    [ZR_TRACK_PHASE] = "phases",
    [ZR_TRACK_COMPUTE] = "compute",
    [ZR_TRACK_COMM] = "communication",
    [ZR_TRACK_DISK] = "NVMe",
    [ZR_TRACK_OVERLAPPED] = "delayed update",
};

// Begins an event, which the caller ends.
static zr_json_writer begin_event(char phase, int rank, int thread, zr_buffer *out)
{
    bool first = out->length > 0 && out->data[out->length - 1] == '[';
    zr_buffer_printf(out, "%s\n", first ? "" : ",");
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "ph", (char[]){phase, 0});
    zr_json_integer(&w, "pid", rank);
    zr_json_integer(&w, "tid", thread);
    return w;
}

static void append_name(int rank, int thread, const char *kind, const char *name, zr_buffer *out)
{
    zr_json_writer w = begin_event('M', rank, thread, out);
    zr_json_text(&w, "name", kind);
    zr_json_begin_object(&w, "args");
    zr_json_text(&w, "name", name);
    zr_json_end(&w);
    zr_json_end(&w);
}

static void append_sort_index(int rank, int thread, const char *kind, int place, zr_buffer *out)
{
    zr_json_writer w = begin_event('M', rank, thread, out);
    zr_json_text(&w, "name", kind);
    zr_json_begin_object(&w, "args");
    zr_json_integer(&w, "sort_index", place);
    zr_json_end(&w);
    zr_json_end(&w);
}

// Writes nanoseconds as microseconds with three decimals.
static void put_microseconds(zr_json_writer *w, const char *key, int64_t nanoseconds)
{
    char text[32];
    int64_t size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
    snprintf(text, sizeof text, "%s%lld.%03lld", nanoseconds < 0 ? "-" : "",
             (long long)(size / 1000), (long long)(size % 1000));
    zr_json_verbatim(w, key, text);
}

// Writes what people read as the record's name.
static void write_name(const trace *trace, const zr_record *record, char out[static NAME])
{
    const char *name = zr_activity_name(record->what);
    bool acts = zr_activity_track(record->what) == ZR_TRACK_PHASE && record->slot >= 0;
    if (!acts)
        snprintf(out, NAME, "%s", name);
    else if (trace->names->chunks > 1)
        snprintf(out, NAME, "%s %d, chunk %d", name, record->slot / ZR_RECORD_CHUNKS,
                 record->slot % ZR_RECORD_CHUNKS);
    else
        snprintf(out, NAME, "%s %d", name, record->slot / ZR_RECORD_CHUNKS);
}

static int64_t begin_of_record(const zr_recorder *recorder, int64_t i)
{
    int64_t begin = recorder->records[i].begin;
    if (zr_activity_track(recorder->records[i].what) == ZR_TRACK_PHASE)
        zr_records_skip_first_waits(recorder, 0, i, &begin);
    return begin;
}

// Begins the event of something that lasts.
static zr_json_writer begin_span(const trace *trace, zr_track track, int64_t begin, int64_t end)
{
    zr_json_writer w = begin_event('X', trace->rank, (int)track, trace->out);
    put_microseconds(&w, "ts", begin - trace->origin);
    put_microseconds(&w, "dur", end - begin);
    return w;
}

static const char *name_or_null(const char *const *names, int count, int32_t number)
{
    return number >= 0 && number < count ? names[number] : NULL;
}

// Writes a record that may overlap others as two events, its begin and its end.
static void append_async_event(const trace *trace, const zr_record *record, int64_t number)
{
    const int64_t at[] = {record->begin, record->end};
    zr_track track = zr_activity_track(record->what);
    for (int i = 0; i < 2; i++) {
        zr_json_writer w = begin_event("be"[i], trace -> rank, track, trace -> out);
        put_microseconds(&w, "ts", at[i] - trace->origin);
        zr_json_text(&w, "name", zr_activity_name(record->what));
        zr_json_text(&w, "cat", tracks[track]);
        zr_json_integer(&w, "id", number);
        zr_json_begin_object(&w, "args");
        zr_json_integer(&w, "bytes", record->bytes);
        zr_json_end(&w);
        zr_json_end(&w);
    }
}

static void append_record(const trace *trace, const zr_recorder *recorder, int64_t i)
{
    char name[NAME];
    const zr_record *record = &recorder->records[i];
    zr_track track = zr_activity_track(record->what);
    const char *unit = name_or_null(trace->names->units, trace->names->unit_count, record->unit);
    const char *slot = name_or_null(trace->names->slots, trace->names->slot_count, record->slot);
    write_name(trace, record, name);
    zr_json_writer w = begin_span(trace, track, begin_of_record(recorder, i), record->end);
    zr_json_text(&w, "name", name);
    zr_json_text(&w, "cat", tracks[track]);
    zr_json_begin_object(&w, "args");
    if (unit)
        zr_json_text(&w, "unit", unit);
    if (slot && track != ZR_TRACK_PHASE)
        zr_json_text(&w, "slot", slot);
    if (track != ZR_TRACK_PHASE)
        zr_json_integer(&w, "bytes", record->bytes);
    if (track != ZR_TRACK_PHASE && record->flops > 0)
        zr_json_integer(&w, "flops", record->flops);
    zr_json_end(&w);
    zr_json_end(&w);
}

static void append_unit_span(void *user, const zr_unit_span *span)
{
    const trace *trace = user;
    const char *unit = name_or_null(trace->names->units, trace->names->unit_count, span->unit);
    zr_json_writer w = begin_span(trace, ZR_TRACK_PHASE, span->begin, span->end);
    zr_json_text(&w, "name", unit ? unit : "unit");
    zr_json_text(&w, "cat", "unit");
    zr_json_begin_object(&w, "args");
    zr_json_integer(&w, "flops", span->flops);
    zr_json_end(&w);
    zr_json_end(&w);
}

// Whether the file begins as every trace of ours does: with the name of rank 0, after which that of
// its pipeline stage may follow.
bool zr_trace_is_one(const char *path)
{
    char head[256];
    zr_buffer ours = {0};
    zr_trace_begin(&ours);
    append_name(0, 0, "process_name", "rank 0", &ours);
    size_t common = ours.length - strlen("\"}}");
    bool is = !ours.failed && zr_file_head(path, head, sizeof head) >= ours.length &&
              !memcmp(head, ours.data, common);
    zr_buffer_free(&ours);
    return is;
}

void zr_trace_begin(zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "displayTimeUnit", "ms");
    zr_json_begin_array(&w, "traceEvents"); // which zr_trace_end ends
}

void zr_trace_rank(int rank, const zr_recorder *recorder, int64_t origin,
                   const zr_trace_names *names, zr_buffer *out)
{
    char process[NAME];
    trace trace = {.rank = rank, .origin = origin, .names = names, .out = out};
    if (names->stage >= 0)
        snprintf(process, sizeof process, "rank %d, pipeline stage %d", rank, names->stage);
    else
        snprintf(process, sizeof process, "rank %d", rank);
    append_name(rank, 0, "process_name", process, out);
    append_sort_index(rank, 0, "process_sort_index", rank, out);
    for (int t = 0; t < ZR_TRACK_COUNT; t++) {
        append_name(rank, t, "thread_name", tracks[t], out);
        append_sort_index(rank, t, "thread_sort_index", t, out);
    }
    for (int64_t i = 0; i < recorder->count; i++) {
        if (zr_activity_is_overlapped(recorder->records[i].what))
            append_async_event(&trace, &recorder->records[i], i);
        else
            append_record(&trace, recorder, i);
    }
    zr_for_unit_spans(recorder, 0, append_unit_span, &trace);
}

void zr_trace_end(zr_buffer *out) { zr_buffer_printf(out, "\n]}\n"); }
