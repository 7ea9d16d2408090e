// The table of comms_logger: collectives by operation, and by the bytes that each fetches from
// other ranks.
#include "monitor/breakdown.h"

#include <string.h>

static const zero_comm_op operations[ZR_ACTIVITY_COUNT] = {
    [ZR_ACTIVITY_reduce_scatter] = ZERO_COMM_reduce_scatter,
    [ZR_ACTIVITY_all_gather] = ZERO_COMM_all_gather,
    [ZR_ACTIVITY_all_reduce] = ZERO_COMM_all_reduce,
    [ZR_ACTIVITY_broadcast] = ZERO_COMM_broadcast,
    [ZR_ACTIVITY_send] = ZERO_COMM_send,
};

static bool is_selected_message(zr_activity what, uint32_t ops)
{
    return what != ZR_ACTIVITY_wait && zr_activity_track(what) == ZR_TRACK_COMM &&
           (ops >> operations[what] & 1);
}

static bool sorts_before(const zr_message_row *a, zr_activity what, int64_t bytes)
{
    return a->what != what ? a->what < what : a->bytes < bytes;
}

// Returns the row of this kind of message, and inserts it if there is none.
static zr_message_row *find_row(zr_messages *messages, zr_activity what, int64_t bytes,
                                zero_error *error)
{
    int at = 0;
    while (at < messages->count && sorts_before(&messages->rows[at], what, bytes))
        at++;
    if (at < messages->count && messages->rows[at].what == what &&
        messages->rows[at].bytes == bytes)
        return &messages->rows[at];
    zr_message_row *rows =
        zr_list_grow(messages->rows, messages->count, &messages->capacity, sizeof *rows, error);
    if (!rows)
        return NULL;
    messages->rows = rows;
    memmove(&messages->rows[at + 1], &messages->rows[at],
            (size_t)(messages->count++ - at) * sizeof *messages->rows);
    messages->rows[at] = (zr_message_row){.what = what, .bytes = bytes};
    return &messages->rows[at];
}

zero_status zr_messages_add(zr_messages *messages, const zr_recorder *recorder, int64_t first,
                            int64_t steps, uint32_t ops, zero_error *error)
{
    messages->steps += steps;
    for (int64_t i = first; i < recorder->count; i++) {
        const zr_record *record = &recorder->records[i];
        if (record->what == ZR_ACTIVITY_wait) {
            messages->waits++;
            messages->wait_nanoseconds += record->end - record->begin;
        } else if (is_selected_message(record->what, ops)) {
            zr_message_row *row = find_row(messages, record->what, record->bytes, error);
            if (!row)
                return ZERO_ERR_MEMORY;
            row->calls++;
            row->nanoseconds += zr_recorder_own_time(recorder, first, i);
        }
    }
    return ZERO_OK;
}

void zr_messages_free(zr_messages *messages)
{
    zr_free(messages->rows);
    *messages = (zr_messages){0};
}

void zr_breakdown_messages(const zr_messages *messages, const char *of, zr_buffer *out)
{
    zr_buffer_printf(
        out,
        "messages of %lld steps of rank 0%s; bytes are those fetched from other ranks%s, "
        "times are without waits\n",
        (long long)messages->steps, of, *of ? " or sent to pipeline stages" : "");
    zr_buffer_printf(out, "%-16s %14s %10s %12s %12s %16s %10s\n", "operation", "bytes a call",
                     "calls", "total ms", "average ms", "bytes", "GB/s");
    for (int r = 0; r < messages->count; r++) {
        const zr_message_row *row = &messages->rows[r];
        double total = (double)row->nanoseconds, bytes = (double)row->bytes * (double)row->calls;
        zr_buffer_printf(out, "%-16s %14lld %10lld %12.3f %12.4f %16.0f %10.3f\n",
                         zr_activity_name(row->what), (long long)row->bytes, (long long)row->calls,
                         total * 1e-6, total * 1e-6 / (double)row->calls, bytes,
                         total > 0 ? bytes / total : 0);
    }
    zr_buffer_printf(out, "waited for other ranks %lld times, %.3f ms\n",
                     (long long)messages->waits, (double)messages->wait_nanoseconds * 1e-6);
}

void zr_breakdown_message_list(const zr_recorder *recorder, int64_t first, uint32_t ops,
                               const char *const *slots, int slot_count, zr_buffer *out)
{
    for (int64_t i = first; i < recorder->count; i++) {
        const zr_record *record = &recorder->records[i];
        if (!is_selected_message(record->what, ops))
            continue;
        int64_t own = zr_recorder_own_time(recorder, first, i);
        bool named = record->slot >= 0 && record->slot < slot_count;
        zr_buffer_printf(out, "%s%s%s: %lld bytes, %.4f ms, waited %.4f ms\n",
                         zr_activity_name(record->what), named ? " " : "",
                         named ? slots[record->slot] : "", (long long)record->bytes,
                         (double)own * 1e-6, (double)(record->end - record->begin - own) * 1e-6);
    }
}
