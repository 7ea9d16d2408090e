// What happens when, as data: lanes, and intervals of time in them. plan_timeline.c and
// plan_letters.c make one of a micro-batch, pipeline_timeline.c one of a schedule; two renderers
// draw any of them.
//
// Time is counted in columns, from 0: pixels of an SVG, letters of a line of text.
//
//   title                                      title
//   heading                                    heading
//   name  [interval] [interval   ]  caption    name  0000.1111111  caption
//   name            [interval]      caption    name  ......22222.  caption
//   facts, legend, notes                       notes
#ifndef ZR_REPORT_TIMELINE_H
#define ZR_REPORT_TIMELINE_H

#include "base/alloc.h"

enum {
    ZR_TIMELINE_ENTRIES = 9, // of a legend, at most
    ZR_ALL_LANES = -1,
    ZR_SVG_LETTER = 7,       // pixels: approximate width of a letter, for any font
    ZR_SVG_TITLE_LETTER = 9, // the same of a title
    ZR_SVG_MARGIN = 12,      // around a drawing
    ZR_SVG_LEFT = 128,       // where time begins; names of lanes stand before it
};

typedef struct zr_timeline_lane {
    const char *name, *caption;  // caption: NULL if it has none
    int height, row_height;      // SVG: pixels; the name stands next to the first row
    const char *behind, *around; // SVG: class of a rectangle behind or around all; NULL if none
    char background;             // letters: what stands where no interval is
    bool trimmed;                // letters: the line ends with its last interval
} zr_timeline_lane;

// Of two intervals in one place the later one is seen. In ZR_ALL_LANES an interval is a gray band
// behind all lanes, its words in the first one; without a length it is a line across them: that is
// dashed, with its words at the top (SVG), or | (letters).
typedef struct zr_timeline_interval {
    int lane, begin, end; // columns [begin, end)
    int top, height;      // SVG: pixels from the top of its lane
    int entry, shade;     // of the legend
    bool dashed;          // SVG: it happens only under a condition
    const char *label;    // SVG: NULL, or left out if there is no room for it
    const char *words;    // SVG: what a viewer shows when the pointer is on it
    char letter;
} zr_timeline_interval;

typedef struct zr_timeline_entry { // what a color means
    const char *class;             // CSS class of the style; with shades its number follows
    int last_shade;                // -1 if it has no shades; above 0, the first and last are shown
    const char *text;
    bool used; // the legend shows it: an interval has it, or the producer wants it
} zr_timeline_entry;

typedef struct zr_timeline {
    zr_timeline_lane *lanes; // (lane_count)
    int lane_count, lane_capacity;
    zr_timeline_interval *intervals; // (interval_count)
    int interval_count, interval_capacity;
    zr_timeline_entry entries[ZR_TIMELINE_ENTRIES];
    const char *title, *heading; // heading: NULL if it has none
    char **texts;                // (text_count) what zr_timeline_say made
    int text_count, text_capacity;
    bool failed;            // something could not be added: no memory
    zr_buffer facts, notes; // lines above and below the legend; a tab goes to where time begins
    zr_buffer style;        // SVG: CSS rules of the entries
    int columns;            // of all time
    int gap;                // SVG: pixels between lanes
    int caption_width;      // SVG: pixels for captions after the lanes; 0: they stand below names
    int least_width;        // SVG: pixels of the drawing
    bool centered;          // SVG: labels stand in the middle of intervals, not at the left edge
    bool dashed;            // an interval is
    int name_width;         // letters: columns for the names of lanes
} zr_timeline;

// A timeline begins as zeros; what does not fit in memory makes it `failed`. Texts live as long as
// it does: those that zr_timeline_say formats, and those of the caller.
void zr_timeline_free(zr_timeline *t);
const char *zr_timeline_say(zr_timeline *t, const char *format, ...) ZERO_PRINTF(2, 3);
int zr_timeline_add_lane(zr_timeline *t, const zr_timeline_lane *lane); // returns its number
void zr_timeline_add(zr_timeline *t, const zr_timeline_interval *interval);

// Append a drawing to *out, which becomes `failed` without memory, or if the timeline had none. All
// coordinates are whole numbers, so that the text is the same in every locale.
void zr_timeline_draw(const zr_timeline *t, zr_buffer *out);         // an SVG document
void zr_timeline_draw_letters(const zr_timeline *t, zr_buffer *out); // lines of text

#endif
