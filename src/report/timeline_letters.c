// A timeline: how it is filled, and how it is drawn as lines of letters.
#include "report/timeline.h"

#include <string.h>

void zr_timeline_free(zr_timeline *t)
{
    for (int n = 0; n < t->text_count; n++)
        zr_free(t->texts[n]);
    zr_free(t->texts);
    zr_free(t->lanes);
    zr_free(t->intervals);
    zr_buffer_free(&t->facts);
    zr_buffer_free(&t->notes);
    zr_buffer_free(&t->style);
}

// Returns the list with room for one entry more; NULL without memory.
static void *grow_list(zr_timeline *t, void *list, int count, int *capacity, size_t width)
{
    void *longer = zr_list_grow(list, count, capacity, width, NULL);
    t->failed |= !longer;
    return longer;
}

const char *zr_timeline_say(zr_timeline *t, const char *format, ...)
{
    char **texts = grow_list(t, t->texts, t->text_count, &t->text_capacity, sizeof *texts);
    zr_buffer text = {0};
    va_list arguments;
    if (!texts)
        return "";
    t->texts = texts;
    va_start(arguments, format);
    zr_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    t->failed |= text.failed;
    t->texts[t->text_count++] = text.data;
    return text.failed ? "" : text.data;
}

int zr_timeline_add_lane(zr_timeline *t, const zr_timeline_lane *lane)
{
    zr_timeline_lane *lanes =
        grow_list(t, t->lanes, t->lane_count, &t->lane_capacity, sizeof *lanes);
    if (!lanes)
        return 0;
    t->lanes = lanes;
    t->lanes[t->lane_count] = *lane;
    return t->lane_count++;
}

void zr_timeline_add(zr_timeline *t, const zr_timeline_interval *interval)
{
    zr_timeline_interval *intervals =
        grow_list(t, t->intervals, t->interval_count, &t->interval_capacity, sizeof *intervals);
    if (!intervals)
        return;
    t->intervals = intervals;
    t->intervals[t->interval_count++] = *interval;
    t->entries[interval->entry].used |= interval->lane != ZR_ALL_LANES;
    t->dashed |= interval->dashed;
}

// line: (columns + 1), because what takes no time may stand after all of it.
static void put_lane(const zr_timeline *t, int lane, char *line, zr_buffer *out)
{
    const zr_timeline_lane *of = &t->lanes[lane];
    int cut = t->columns + 1, length = of->trimmed ? 0 : t->columns;
    memset(line, of->background, (size_t)t->columns + 1);
    for (int n = 0; n < t->interval_count; n++) {
        const zr_timeline_interval *i = &t->intervals[n];
        if (i->lane == ZR_ALL_LANES && i->begin == i->end)
            cut = i->begin;
        if (i->lane != lane)
            continue;
        memset(line + i->begin, i->letter, (size_t)(i->end - i->begin));
        length = ZR_MAX(length, i->end);
    }
    zr_buffer_printf(out, "%-*s", t->name_width, of->name);
    zr_buffer_append(out, line, (size_t)ZR_MIN(cut, length));
    if (cut < length) {
        zr_buffer_printf(out, "|");
        zr_buffer_append(out, line + cut, (size_t)(length - cut));
    }
    zr_buffer_printf(out, "%s%s\n", of->caption ? "  " : "", of->caption ? of->caption : "");
}

void zr_timeline_draw_letters(const zr_timeline *t, zr_buffer *out)
{
    char *line = zr_alloc((size_t)t->columns + 1, NULL);
    out->failed |= !line || t->failed || t->notes.failed;
    if (!out->failed) {
        zr_buffer_printf(out, "%s\n%s\n\n", t->title, t->heading);
        for (int lane = 0; lane < t->lane_count; lane++)
            put_lane(t, lane, line, out);
        if (t->notes.length)
            zr_buffer_printf(out, "\n%s", t->notes.data);
    }
    zr_free(line);
}
