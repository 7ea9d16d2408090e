// A timeline as SVG, on light and dark screens: its lanes one below the other, time to the right.
#include "report/timeline.h"

#include <stdio.h>
#include <string.h>

enum {
    LETTER_HEIGHT = 11, // of a text, and of the boxes of a legend
    LINE = 18,          // height of a line
    ENTRY_GAP = 16,     // between two entries of a legend
};

typedef struct sheet {
    const zr_timeline *t;
    int y; // where the next lane or line begins
    zr_buffer body;
} sheet;

static const char shared_style[] =
    ".paper{fill:#ffffff}.line{stroke:#888888;fill:none}\n"
    "text{fill:#222222;font:11px sans-serif}.title{font-size:15px;font-weight:bold}"
    ".on{fill:#111111}.middle{text-anchor:middle}\n"
    ".box{stroke:#ffffff;stroke-width:.5}\n"
    "@media (prefers-color-scheme:dark){.paper{fill:#15181c}text{fill:#dddddd}.on{fill:#111111}"
    ".box{stroke:#15181c}}\n";

static void put_escaped(sheet *s, const char *text, int length)
{
    for (const char *end = text + length; text < end; text++) {
        switch (*text) {
        case '&': zr_buffer_printf(&s->body, "&amp;"); break;
        case '<': zr_buffer_printf(&s->body, "&lt;"); break;
        case '>': zr_buffer_printf(&s->body, "&gt;"); break;
        default: zr_buffer_append(&s->body, text, 1);
        }
    }
}

// class: NULL if the text has none.
static void put_part(sheet *s, int x, int y, const char *class, const char *text, int length)
{
    zr_buffer_printf(&s->body, "<text x=\"%d\" y=\"%d\"", x, y);
    if (class)
        zr_buffer_printf(&s->body, " class=\"%s\"", class);
    zr_buffer_printf(&s->body, ">");
    put_escaped(s, text, length);
    zr_buffer_printf(&s->body, "</text>\n");
}

// text: NULL if there is none.
static void put_text(sheet *s, int x, int y, const char *class, const char *text)
{
    if (text)
        put_part(s, x, y, class, text, (int)strlen(text));
}

static void put_lines(sheet *s, const zr_buffer *lines)
{
    for (const char *line = lines->data, *next; line && *line; line = next + 1) {
        next = strchr(line, '\n');
        const char *tab = memchr(line, '\t', (size_t)(next - line)), *rest = tab ? tab : next;
        put_part(s, ZR_SVG_MARGIN, s->y + LETTER_HEIGHT, NULL, line, (int)(rest - line));
        if (tab)
            put_part(s, ZR_SVG_LEFT, s->y + LETTER_HEIGHT, NULL, tab + 1, (int)(next - tab - 1));
        s->y += LINE;
    }
}

// Puts a rectangle from one column to another.
static void put_rectangle(sheet *s, int begin, int end, int y, int height, const char *class)
{
    zr_buffer_printf(&s->body,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"%s\"/>\n",
                     ZR_SVG_LEFT + begin, y, end - begin, height, class);
}

// Puts an interval of a lane whose top is at y.
static void put_box(sheet *s, const zr_timeline_interval *i, int y)
{
    const zr_timeline_entry *entry = &s->t->entries[i->entry];
    int x = ZR_SVG_LEFT + i->begin, width = i->end - i->begin;
    int label = i->label ? (int)strlen(i->label) * ZR_SVG_LETTER : 0;
    char shade[16] = "";
    if (entry->last_shade >= 0)
        snprintf(shade, sizeof shade, "%d", i->shade);
    zr_buffer_printf(&s->body,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"box %s%s%s\">"
                     "<title>",
                     x, y + i->top, ZR_MAX(width, 1), ZR_MAX(i->height, 1), entry->class, shade,
                     i->dashed ? " if" : "");
    put_escaped(s, i->words, (int)strlen(i->words));
    zr_buffer_printf(&s->body, "</title></rect>\n");
    if (label <= width && i->height >= LETTER_HEIGHT)
        put_text(s, x + (s->t->centered ? width / 2 : 2), y + i->top + i->height / 2 + 4,
                 s->t->centered ? "on middle" : "on", i->label);
}

// Puts the boxes of a lane; or, for ZR_ALL_LANES, the words of bands where the first lane's boxes
// are.
static void put_intervals(sheet *s, int lane, int middle)
{
    for (int n = 0; n < s->t->interval_count; n++) {
        const zr_timeline_interval *i = &s->t->intervals[n];
        if (i->lane != lane)
            continue;
        if (lane != ZR_ALL_LANES)
            put_box(s, i, s->y);
        else if (i->begin < i->end)
            put_text(s, ZR_SVG_LEFT + (i->begin + i->end) / 2, middle, "middle", i->words);
    }
}

static void put_lane(sheet *s, int number)
{
    const zr_timeline *t = s->t;
    const zr_timeline_lane *lane = &t->lanes[number];
    int middle = s->y + ZR_MAX(lane->row_height / 2 + 4, LETTER_HEIGHT);
    put_text(s, ZR_SVG_MARGIN, middle, NULL, lane->name);
    if (!t->caption_width)
        put_text(s, ZR_SVG_MARGIN, middle + LINE, NULL, lane->caption);
    if (lane->behind)
        put_rectangle(s, 0, t->columns, s->y, lane->height, lane->behind);
    put_intervals(s, number, middle);
    if (!number)
        put_intervals(s, ZR_ALL_LANES, middle);
    if (lane->around)
        put_rectangle(s, 0, t->columns, s->y, lane->height, lane->around);
    if (t->caption_width)
        put_text(s, ZR_SVG_LEFT + t->columns + t->gap, middle, NULL, lane->caption);
    s->y += lane->height + t->gap;
}

// Puts what goes across all lanes, from `top` to `bottom`: bands, or lines.
static void put_across(sheet *s, bool bands, int top, int bottom)
{
    for (int n = 0; n < s->t->interval_count; n++) {
        const zr_timeline_interval *i = &s->t->intervals[n];
        int x = ZR_SVG_LEFT + i->begin;
        if (i->lane != ZR_ALL_LANES || (i->begin < i->end) != bands)
            continue;
        if (bands) {
            put_rectangle(s, i->begin, i->end, top, bottom - top, "fold");
            continue;
        }
        zr_buffer_printf(&s->body, "<path d=\"M%d %dV%d\" class=\"line seam\"/>\n", x, top, bottom);
        put_text(s, x + 3, top + LETTER_HEIGHT, NULL, i->words);
    }
}

static void put_legend(sheet *s)
{
    int x = ZR_SVG_MARGIN;
    for (int e = 0; e < ZR_TIMELINE_ENTRIES; e++) {
        const zr_timeline_entry *entry = &s->t->entries[e];
        for (int shade = 0; entry->used && shade <= ZR_MAX(entry->last_shade, 0);
             shade += ZR_MAX(entry->last_shade, 1), x += LETTER_HEIGHT + 1)
            put_box(s,
                    &(zr_timeline_interval){.begin = x - ZR_SVG_LEFT,
                                            .end = x - ZR_SVG_LEFT + LETTER_HEIGHT,
                                            .height = LETTER_HEIGHT,
                                            .entry = e,
                                            .shade = shade,
                                            .words = entry->text},
                    s->y);
        if (!entry->used)
            continue;
        put_text(s, x + 3, s->y + LETTER_HEIGHT - 1, NULL, entry->text);
        x += ENTRY_GAP - 1 + (int)strlen(entry->text) * ZR_SVG_LETTER;
    }
    s->y += LINE;
}

static void put_all(sheet *s)
{
    const zr_timeline *t = s->t;
    int top = ZR_SVG_MARGIN + LINE + t->gap, bottom = top + LINE - t->gap / 2;
    for (int lane = 0; lane < t->lane_count; lane++)
        bottom += t->lanes[lane].height + t->gap;
    put_across(s, true, top, bottom);
    put_text(s, ZR_SVG_MARGIN, ZR_SVG_MARGIN + LINE - 4, "title", t->title);
    put_text(s, ZR_SVG_MARGIN, ZR_SVG_MARGIN + LINE + LETTER_HEIGHT, NULL, t->heading);
    s->y = top + LINE;
    for (int lane = 0; lane < t->lane_count; lane++)
        put_lane(s, lane);
    put_across(s, false, top, bottom);
    put_lines(s, &t->facts);
    s->y += t->gap;
    put_legend(s);
    put_lines(s, &t->notes);
}

void zr_timeline_draw(const zr_timeline *t, zr_buffer *out)
{
    sheet s = {.t = t};
    out->failed |= t->failed || t->facts.failed || t->notes.failed || t->style.failed;
    if (out->failed)
        return;
    put_all(&s);
    int lanes = ZR_SVG_LEFT + t->columns + ZR_MAX(t->caption_width, ZR_SVG_MARGIN);
    int width = ZR_MAX(lanes, t->least_width), height = s.y + ZR_SVG_MARGIN;
    zr_buffer_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\">\n<style>\n%s%s</style>\n",
                     width, height, width, height, shared_style, t->style.data);
    zr_buffer_printf(out, "<rect width=\"100%%\" height=\"100%%\" class=\"paper\"/>\n");
    zr_buffer_append(out, s.body.data, s.body.length);
    zr_buffer_printf(out, "</svg>\n");
    out->failed |= s.body.failed;
    zr_buffer_free(&s.body);
}
