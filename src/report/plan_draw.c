// zero plan --draw FILE: a micro-batch as SVG. Time goes to the right, one column an instruction:
//
//   calls      [wte][h.0][h.1]...[head]¦[h.1][h.0][wte]      ¦ zero_forward returns
//   exchanges     [gather h.1]   ...   [reduce h.1]          from begin to AWAIT, in rows
//   transfers  [fetch h.2]  ...              [store h.1]
//   a panel for each buffer that holds bytes for a while: a rectangle for each life
//   (plan/live_ranges.h) at its first byte, as high as its bytes
//
// A color is an operation's and has one meaning; flat parameters have tints of gray, so neighbors
// differ. Calls that fold (plan_columns.h) have a gray band; what begins and ends in one is not
// drawn.
//
// An instruction that takes no time of its own (AWAIT, BIND, RELEASE, ...) has no width; calls are
// wide.
#include "base/text.h"
#include "plan/live_ranges.h"
#include "report/plan_columns.h"
#include "report/plan_in_flight.h"
#include "report/plan_show.h"
#include "report/svg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN = 12,
    LEFT = 128, // margin around; room for the names of lanes
    LEAST_WIDTH = 860,
    CALL_HEIGHT = 28,
    ROW_HEIGHT = 15,
    LEAST_ROW = 3,
    MOST_ROWS_HEIGHT = 360,
    PANEL_HEIGHT = 110,
    LEAST_PIECE = 4, // height of a flat parameter, where all have room for it
    GAP = 16,
    TINTS = 3,
    NAME = 128,
};

// What a color means, for the legend.
static const struct {
    const char *class, *text;
} colors[] = {
    {"forward", "forward"},
    {"again", "forward again"},
    {"backward", "backward"},
    {"both", "both in one call"},
    {"gather", "gather"},
    {"reduce", "reduce"},
    {"fetch", "fetch"},
    {"store", "store"},
    {"piece0", "a piece, as high as its bytes, but never too thin to see"},
};

enum { COLORS = ZR_COUNT(colors) };

typedef struct sheet {
    const zr_plan *plan;
    const zr_pass *pass;
    zr_columns columns;
    const int *x;          // those of the columns
    int right, y;          // where time ends; where the next lane begins
    bool conditional;      // something is drawn that happens only under its `when`
    bool used[COLORS];     // by what is drawn
    zr_buffer stale, body; // what lies behind the rest; the rest
} sheet;

typedef struct box { // a rectangle that stands for something
    int x, y, width, height;
    const char *class; // CSS class of the style
    int tint;          // of a flat parameter; -1: the class sets the color
    bool conditional;  // happens only under the instruction's `when`
    const char *label; // left out if there is no room for it
} box;

static const char style[] =
    ".seam{stroke:#d62728;stroke-dasharray:4 3}\n"
    ".if{stroke:#222222;stroke-width:1;stroke-dasharray:2 2}\n"
    ".forward{fill:#9ecae9}.again{fill:#a6dcd4}.backward{fill:#ffbf79}.both{fill:#d6a5c9}\n"
    ".gather{fill:#88d27a}.reduce{fill:#ff9d98}.fetch{fill:#f2cf5b}.store{fill:#d8b5a5}\n"
    ".fold{fill:#f4f5f6}\n"
    ".piece0{fill:#d3d6da}.piece1{fill:#b6bbc1}.piece2{fill:#e6e8ea}\n"
    "@media "
    "(prefers-color-scheme:dark){.fold{fill:#20252b}.if{stroke:#ffffff}.seam{stroke:#ff6b6b}}\n";

static void put_draw_text(sheet *s, int x, int y, const char *class, const char *text)
{
    zr_svg_put_text(&s->body, x, y, class, text);
}

static void put_box(sheet *s, const box *b, const char *told)
{
    char class[NAME];
    if (b->tint >= 0)
        snprintf(class, sizeof class, "piece%d%s", b->tint % TINTS, b->conditional ? " if" : "");
    else
        snprintf(class, sizeof class, "%s%s", b->class, b->conditional ? " if" : "");
    for (int c = 0; c < COLORS; c++)
        s->used[c] |= !strcmp(b->tint >= 0 ? "piece0" : b->class, colors[c].class);
    s->conditional |= b->conditional;
    zr_svg_put_box(&s->body, &(zr_svg_box){.x = b->x,
                                           .y = b->y,
                                           .width = b->width,
                                           .height = b->height,
                                           .class = class,
                                           .label = b->label,
                                           .told = told});
}

static const char *class_of_call(int what)
{
    static const char *const classes[] = {"forward", "again", "backward", "both"};
    return classes[what];
}

static void put_call(sheet *s, int at)
{
    const zr_instruction *call = &s->pass->at[at];
    const char *unit = zr_plan_unit_name(s->plan, call->unit);
    char told[2 * NAME];
    snprintf(told, sizeof told, "%s %s", zr_call_name((zr_call)call->what), unit);
    put_box(s,
            &(box){.x = s->x[at],
                   .y = s->y,
                   .width = s->x[at + 1 + call->body] - s->x[at],
                   .height = CALL_HEIGHT,
                   .class = class_of_call(call->what),
                   .tint = -1,
                   .label = unit},
            told);
}

// Puts what stands for the calls of a fold.
static void put_fold(sheet *s, const zr_fold *fold)
{
    char text[NAME];
    snprintf(text, sizeof text, "... %d like these ...", fold->last - fold->first + 1);
    put_draw_text(s, (s->x[fold->from] + s->x[fold->to]) / 2, s->y + CALL_HEIGHT / 2 + 4, "middle",
                  text);
}

// Puts bands behind the folds, from `top` to here.
static void put_bands(sheet *s, int top)
{
    const zr_fold *folds = s->columns.folds;
    for (const zr_fold *f = folds; f < folds + s->columns.fold_count; f++)
        zr_buffer_printf(&s->stale,
                         "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"fold\"/>\n",
                         s->x[f->from], top, s->x[f->to] - s->x[f->from], s->y - GAP / 2 - top);
}

static void put_calls(sheet *s)
{
    put_draw_text(s, MARGIN, s->y + CALL_HEIGHT / 2 + 4, NULL, "calls");
    for (int i = 0; i < s->pass->count; i++)
        if (s->pass->at[i].code == ZR_CALL && !zr_fold_of(&s->columns, i))
            put_call(s, i);
    for (int f = 0; f < s->columns.fold_count; f++)
        put_fold(s, &s->columns.folds[f]);
    s->y += CALL_HEIGHT + GAP;
}

static const char *class_of_flight(zr_code code)
{
    switch (code) {
    case ZR_GATHER:
    case ZR_JOIN: return "gather";
    case ZR_REDUCE: return "reduce";
    case ZR_FETCH: return "fetch";
    default: return "store";
    }
}

static const char *flat_param_name(const sheet *s, int flat_param)
{
    return flat_param < 0 ? "checkpoint" : s->plan->flat_params[flat_param].name;
}

static void put_flight(sheet *s, const zr_in_flight_range *f, int row_height)
{
    const zr_instruction *begins = &s->pass->at[f->from];
    const char *name = flat_param_name(s, begins->flat_param),
               *class = class_of_flight(begins->code);
    const char *what = begins->code == ZR_JOIN ? "join" : class;
    char told[2 * NAME], bytes[ZR_BYTES_TEXT];
    zr_bytes_text((double)begins->bytes, bytes);
    snprintf(told, sizeof told, "%s %s, %s, from %d until %d", what, name, bytes, f->from, f->to);
    put_box(s,
            &(box){.x = s->x[f->from],
                   .y = s->y + f->row * row_height,
                   .width = s->x[f->to] - s->x[f->from],
                   .height = row_height - 1,
                   .class = class,
                   .tint = -1,
                   .conditional = begins->when != ZR_ALWAYS,
                   .label = name},
            told);
}

static zero_status put_lane(sheet *s, zr_in_flight_lane lane, const char *name, zero_error *error)
{
    zr_in_flight flights;
    zero_status status = zr_in_flight_of(s->pass, lane, &flights, error);
    if (status == ZERO_OK && flights.count) {
        int height = ZR_MAX(ZR_MIN(ROW_HEIGHT, MOST_ROWS_HEIGHT / flights.rows), LEAST_ROW);
        put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL, name);
        for (int f = 0; f < flights.count; f++)
            if (!zr_is_folded(&s->columns, flights.at[f].from, flights.at[f].to))
                put_flight(s, &flights.at[f], height);
        s->y += flights.rows * height + GAP;
    }
    zr_in_flight_free(&flights);
    return status;
}

typedef struct panel {
    int64_t *edges, whole; // (count) all first bytes and ends, each once, in order; of the buffer
    int count;
} panel;

static int order_of_bytes(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

// Returns how far below the panel's top a byte lies. Between two edges is as much room as there
// are bytes, but at least a little, so that small flat parameters can be seen.
static int depth_of(const panel *p, int64_t byte)
{
    int least = ZR_MIN(LEAST_PIECE, PANEL_HEIGHT / ZR_MAX(p->count, 1)), depth = 0;
    for (int e = 0; e + 1 < p->count && p->edges[e] < byte; e++) {
        int64_t from = p->edges[e] * PANEL_HEIGHT / p->whole;
        int64_t to = p->edges[e + 1] * PANEL_HEIGHT / p->whole;
        depth += ZR_MAX((int)(to - from), least);
    }
    return depth;
}

static void put_live_range(sheet *s, const zr_live_range *live_range, const panel *p)
{
    int top = depth_of(p, live_range->first),
        bottom = depth_of(p, live_range->first + live_range->bytes);
    char told[2 * NAME], bytes[ZR_BYTES_TEXT];
    zr_bytes_text((double)live_range->bytes, bytes);
    snprintf(told, sizeof told, "%s: %s from byte %lld, from %d to %d",
             flat_param_name(s, live_range->flat_param), bytes, (long long)live_range->first,
             live_range->from, live_range->to);
    put_box(s,
            &(box){.x = s->x[live_range->from],
                   .y = s->y + top,
                   .width = s->x[live_range->to + 1] - s->x[live_range->from],
                   .height = bottom - top,
                   .class = "",
                   .tint = ZR_MAX(live_range->flat_param, 0),
                   .conditional = s->pass->at[live_range->from].when != ZR_ALWAYS,
                   .label = flat_param_name(s, live_range->flat_param)},
            told);
}

static void find_edges(const zr_live_ranges *live_ranges, zr_buffer_id buffer, panel *p)
{
    int count = 0;
    p->edges[count++] = 0;
    for (const zr_live_range *live_range = live_ranges->at;
         live_range < live_ranges->at + live_ranges->count; live_range++)
        if (live_range->buffer == buffer) {
            p->edges[count++] = live_range->first;
            p->edges[count++] = live_range->first + live_range->bytes;
        }
    qsort(p->edges, (size_t)count, sizeof *p->edges, order_of_bytes);
    for (int e = 0; e < count; e++)
        if (!e || p->edges[e] > p->edges[p->count - 1])
            p->edges[p->count++] = p->edges[e];
}

// edges: room for those of all live ranges.
static void put_panel(sheet *s, const zr_live_ranges *live_ranges, zr_buffer_id buffer,
                      int64_t *edges)
{
    panel p = {.edges = edges, .whole = zr_live_ranges_end(live_ranges, buffer)};
    char bytes[ZR_BYTES_TEXT];
    if (!p.whole)
        return;
    find_edges(live_ranges, buffer, &p);
    int height = depth_of(&p, p.whole);
    zr_bytes_text((double)p.whole, bytes);
    put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL, zr_buffer_name(buffer));
    put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT + ZR_SVG_LINE_HEIGHT, NULL, bytes);
    for (const zr_live_range *live_range = live_ranges->at;
         live_range < live_ranges->at + live_ranges->count; live_range++)
        if (live_range->buffer == buffer &&
            !zr_is_folded(&s->columns, live_range->from, live_range->to))
            put_live_range(s, live_range, &p);
    zr_buffer_printf(&s->body,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"line\"/>\n", LEFT,
                     s->y, s->right - LEFT, height);
    s->y += height + GAP;
}

static zero_status put_panels(sheet *s, zero_error *error)
{
    zr_live_ranges live_ranges;
    zero_status status = zr_live_ranges_of(s->plan, ZR_PASS_MICRO_BATCH, &live_ranges, error);
    int64_t *edges = NULL;
    if (status == ZERO_OK) {
        edges = zr_alloc((2 * (size_t)live_ranges.count + 1) * sizeof *edges, error);
        status = edges ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    for (int buffer = 0; status == ZERO_OK && buffer < ZR_BUFFER_COUNT; buffer++)
        put_panel(s, &live_ranges, (zr_buffer_id)buffer, edges);
    zr_free(edges);
    zr_live_ranges_free(&live_ranges);
    return status;
}

static void put_forward_end(sheet *s, int top)
{
    int x = s->x[s->pass->forward_end];
    zr_buffer_printf(&s->body, "<path d=\"M%d %dV%d\" class=\"line seam\"/>\n", x, top,
                     s->y - GAP / 2);
    put_draw_text(s, x + 3, top + ZR_SVG_LETTER_HEIGHT, NULL, "zero_forward returns");
}

// Writes what a pass does, in words: "1 sum over ranks, 7 waits", or "nothing".
static void put_words(const zr_pass *pass, zr_buffer *out)
{
    static const struct {
        zr_code code;
        const char *one, *several;
    } words[] = {
        {ZR_GATHER, "gather", "gathers"},
        {ZR_REDUCE, "reduction", "reductions"},
        {ZR_SCALARS, "sum of loss and norm over ranks", "sums of loss and norm over ranks"},
        {ZR_FETCH, "fetch", "fetches"},
        {ZR_STORE, "store", "stores"},
        {ZR_AWAIT, "wait", "waits"},
        {ZR_PUBLISH, "publication of a shard", "publications of shards"},
        {ZR_SQUARES, "shard's squares into the norm", "shards' squares into the norm"},
        {ZR_UPDATE, "walk of the optimizer", "walks of the optimizer"},
        {ZR_TIED_WEIGHT, "exchange of a shared table", "exchanges of shared tables"},
    };
    size_t before = out->length;
    for (int w = 0; w < ZR_COUNT(words); w++) {
        int count = 0;
        for (int i = 0; i < pass->count; i++)
            count += pass->at[i].code == words[w].code;
        if (count)
            zr_buffer_printf(out, "%s%d %s", out->length > before ? ", " : "", count,
                             count == 1 ? words[w].one : words[w].several);
    }
    if (out->length == before)
        zr_buffer_printf(out, pass->count ? "nothing that takes time" : "nothing");
}

// Lists what a step does once, after its micro-batches.
static void put_once(sheet *s)
{
    zr_buffer line = {0};
    put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL,
                  "once a step, after its micro-batches:");
    s->y += ZR_SVG_LINE_HEIGHT;
    for (int kind = ZR_PASS_BOUNDARY; kind < ZR_PASS_COUNT; kind++) {
        if (!zr_plan_shows_pass(s->plan, kind))
            continue;
        line.length = 0;
        put_words(&s->plan->program.passes[kind], &line);
        put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL,
                      zr_pass_name((zr_pass_kind)kind));
        put_draw_text(s, LEFT, s->y + ZR_SVG_LETTER_HEIGHT, NULL, line.failed ? "" : line.data);
        s->y += ZR_SVG_LINE_HEIGHT;
    }
    s->body.failed |= line.failed;
    zr_buffer_free(&line);
    s->y += GAP;
}

// Lists the colors that the drawing has.
static void put_draw_legend(sheet *s)
{
    int x = MARGIN;
    for (int c = 0; c < COLORS; c++)
        if (s->used[c])
            x = zr_svg_put_entry(&s->body, x, s->y, colors[c].class, colors[c].text);
    s->y += ZR_SVG_LINE_HEIGHT;
    if (s->columns.fold_count) {
        char text[2 * NAME];
        snprintf(text, sizeof text,
                 "gray bands: the calls of %s to %s; what begins and ends in a band is not drawn",
                 zr_plan_unit_name(s->plan, ZR_SHOWN_ENDS),
                 zr_plan_unit_name(s->plan, s->plan->unit_count - ZR_SHOWN_ENDS - 1));
        put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL, text);
        s->y += ZR_SVG_LINE_HEIGHT;
    }
    if (!s->conditional)
        return;
    put_draw_text(s, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL,
                  "dashed: only in some micro-batches, or when the weights have changed");
    s->y += ZR_SVG_LINE_HEIGHT;
}

static zero_status put_all(sheet *s, const char *title, zero_error *error)
{
    s->y = MARGIN;
    put_draw_text(s, MARGIN, s->y + ZR_SVG_LINE_HEIGHT - 4, "title", title);
    s->y += ZR_SVG_LINE_HEIGHT + GAP;
    int top = s->y;
    s->y += ZR_SVG_LINE_HEIGHT;
    put_calls(s);
    ZERO_TRY(put_lane(s, ZR_LANE_EXCHANGES, "exchanges", error));
    ZERO_TRY(put_lane(s, ZR_LANE_TRANSFERS, "transfers", error));
    ZERO_TRY(put_panels(s, error));
    put_bands(s, top);
    put_forward_end(s, top);
    put_once(s);
    put_draw_legend(s);
    return ZERO_OK;
}

static void append_sheet(sheet *s, const char *title, zr_buffer *out)
{
    int needed = ZR_MAX(s->right, MARGIN + (int)strlen(title) * ZR_SVG_TITLE_LETTER) + MARGIN;
    int width = ZR_MAX(needed, LEAST_WIDTH), height = s->y + MARGIN;
    zr_buffer_append(&s->stale, s->body.data, s->body.length);
    s->stale.failed |= s->body.failed;
    zr_svg_put_document(out, width, height, style, &s->stale);
}

zero_status zr_plan_draw(const zr_plan *plan, const char *title, zr_buffer *out, zero_error *error)
{
    sheet s = {.plan = plan, .pass = &plan->program.passes[ZR_PASS_MICRO_BATCH]};
    zero_status status = zr_columns_of(plan, s.pass, LEFT, &s.columns, error);
    if (status == ZERO_OK) {
        s.x = s.columns.x;
        s.right = s.x[s.pass->count];
        status = put_all(&s, title, error);
    }
    if (status == ZERO_OK)
        append_sheet(&s, title, out);
    zr_buffer_free(&s.stale);
    zr_buffer_free(&s.body);
    zr_columns_free(&s.columns);
    return status;
}
