// zero plan --draw FILE: a micro-batch as SVG. Time goes to the right, one column an instruction:
//
//   calls      [wte][h.0][h.1]...[head]¦[h.1][h.0][wte]      ¦ zero_forward returns
//   exchanges     [gather h.1]   ...   [reduce h.1]          from begin to AWAIT, in rows
//   transfers  [fetch h.2]  ...              [store h.1]
//   a panel for each buffer that holds bytes for a while: a rectangle for each live range
//   (plan/program.h) at its first byte, as high as its bytes
//
// A color is an operation's and has one meaning; flat parameters have tints of gray, so neighbors
// differ. Calls that fold (plan_columns.c) have a gray band; what begins and ends in one is not
// drawn.
//
// An instruction that takes no time of its own (AWAIT, BIND, RELEASE, ...) has no width; calls are
// wide.
#include "report/plan_timeline.h"

#include "base/text.h"
#include "plan/program.h"
#include "report/plan_show.h"

#include <stdlib.h>
#include <string.h>

// Pixels.
enum {
    LEAST_WIDTH = 860,
    CALL_HEIGHT = 28,
    ROW_HEIGHT = 15,
    LEAST_ROW = 3,
    MOST_ROWS_HEIGHT = 360,
    PANEL_HEIGHT = 110,
    LEAST_HEIGHT = 4, // height of a flat parameter, where all have room for it
    GAP = 16,
};

enum { GATHER = ZR_CALL_BOTH + 1, REDUCE, FETCH, STORE, FLAT_PARAM, TINTS = 3 };

// What a color means; a call has the entry of its number.
static const zr_timeline_entry legend[] = {
    [ZR_CALL_FORWARD] = {"forward", -1, "forward", false},
    [ZR_CALL_AGAIN] = {"again", -1, "forward again", false},
    [ZR_CALL_BACKWARD] = {"backward", -1, "backward", false},
    [ZR_CALL_BOTH] = {"both", -1, "both in one call", false},
    [GATHER] = {"gather", -1, "gather", false},
    [REDUCE] = {"reduce", -1, "reduce", false},
    [FETCH] = {"fetch", -1, "fetch", false},
    [STORE] = {"store", -1, "store", false},
    [FLAT_PARAM] = {"piece", 0, "a flat parameter, as high as its bytes, but never too thin to see",
                    false},
};

static const char style[] =
    ".seam{stroke:#d62728;stroke-dasharray:4 3}\n"
    ".if{stroke:#222222;stroke-width:1;stroke-dasharray:2 2}\n"
    ".forward{fill:#9ecae9}.again{fill:#a6dcd4}.backward{fill:#ffbf79}.both{fill:#d6a5c9}\n"
    ".gather{fill:#88d27a}.reduce{fill:#ff9d98}.fetch{fill:#f2cf5b}.store{fill:#d8b5a5}\n"
    ".fold{fill:#f4f5f6}\n"
    ".piece0{fill:#d3d6da}.piece1{fill:#b6bbc1}.piece2{fill:#e6e8ea}\n"
    "@media "
    "(prefers-color-scheme:dark){.fold{fill:#20252b}.if{stroke:#ffffff}.seam{stroke:#ff6b6b}}\n";

typedef struct drawing {
    const zr_plan *plan;
    const zr_pass *pass;
    zr_columns columns;
    const int *x; // those of the columns
    zr_timeline *t;
    int *row_ends;  // (pass->count) where the last interval of each row of a lane ends
    int64_t *edges; // (2 live ranges + 1) of a panel: all first bytes and ends, each once, in order
    int edge_count;
} drawing;

static void add_calls(drawing *d)
{
    zr_timeline *t = d->t;
    int lane = zr_timeline_add_lane(
        t, &(zr_timeline_lane){.name = "calls", .height = CALL_HEIGHT, .row_height = CALL_HEIGHT});
    for (int i = 0; i < d->pass->count; i++) {
        const zr_instruction *call = &d->pass->at[i];
        if (call->code != ZR_CALL || zr_fold_of(&d->columns, i))
            continue;
        const char *unit = zr_plan_unit_name(d->plan, call->unit);
        const char *what = zr_call_names[call->what];
        zr_timeline_add(t,
                        &(zr_timeline_interval){.lane = lane,
                                                .begin = d->x[i],
                                                .end = d->x[i + 1 + call->body],
                                                .height = CALL_HEIGHT,
                                                .entry = call->what,
                                                .label = unit,
                                                .words = zr_timeline_say(t, "%s %s", what, unit)});
    }
    for (const zr_fold *f = d->columns.folds; f < d->columns.folds + d->columns.fold_count; f++)
        zr_timeline_add(t,
                        &(zr_timeline_interval){.lane = ZR_ALL_LANES,
                                                .begin = d->x[f->from],
                                                .end = d->x[f->to],
                                                .words = zr_timeline_say(t, "... %d like these ...",
                                                                         f->last - f->first + 1)});
}

int zr_plan_flight_end(const zr_pass *pass, int at)
{
    const zr_slot begun = pass->at[at].slot;
    int end = at + 1;
    if (pass->at[at].code == ZR_JOIN)
        return end;
    for (; end < pass->count; end++) {
        const zr_instruction *i = &pass->at[end];
        if (i->code == ZR_AWAIT && i->slot.kind == begun.kind && i->slot.index == begun.index)
            break;
    }
    return end;
}

// Returns the entry of an instruction that begins an exchange between ranks or a transfer between
// tiers; -1 if it begins nothing. A GATHER of what is already here has no slot.
static int flight_entry(const zr_instruction *i)
{
    bool slot = i->slot.kind != ZR_NO_SLOT;
    switch (i->code) {
    case ZR_JOIN: return GATHER;
    case ZR_GATHER: return slot ? GATHER : -1;
    case ZR_REDUCE: return slot ? REDUCE : -1;
    case ZR_FETCH: return slot ? FETCH : -1;
    case ZR_STORE: return slot ? STORE : -1;
    default: return -1;
    }
}

static const char *flat_param_name(const drawing *d, int flat_param)
{
    return flat_param < 0 ? "checkpoint" : d->plan->flat_params[flat_param].name;
}

// Adds what instruction `from` begins, in row `row` of its lane, one pixel high: add_flights
// scales it.
static void add_flight(drawing *d, int from, int to, int row)
{
    const zr_instruction *begins = &d->pass->at[from];
    const char *name = flat_param_name(d, begins->flat_param);
    int entry = flight_entry(begins);
    const char *what = begins->code == ZR_JOIN ? "join" : legend[entry].class;
    char bytes[ZR_BYTES_TEXT];
    zr_bytes_text((double)begins->bytes, bytes);
    zr_timeline_add(
        d->t, &(zr_timeline_interval){.lane = d->t->lane_count,
                                      .begin = d->x[from],
                                      .end = d->x[to],
                                      .top = row,
                                      .entry = entry,
                                      .dashed = begins->when != ZR_ALWAYS,
                                      .label = name,
                                      .words = zr_timeline_say(d->t, "%s %s, %s, from %d until %d",
                                                               what, name, bytes, from, to)});
}

// Adds a lane of the flights with an entry from `first` to `last`. Each has the lowest row in which
// no other is at that time.
static void add_flights(drawing *d, const char *name, int first, int last)
{
    zr_timeline *t = d->t;
    int rows = 0, added = t->interval_count;
    for (int i = 0; i < d->pass->count; i++) {
        int entry = flight_entry(&d->pass->at[i]), row = 0, to;
        if (entry < first || entry > last)
            continue;
        while (row < rows && d->row_ends[row] > i)
            row++;
        d->row_ends[row] = to = zr_plan_flight_end(d->pass, i);
        rows = ZR_MAX(rows, row + 1);
        if (!zr_is_folded(&d->columns, i, to))
            add_flight(d, i, to, row);
    }
    if (!rows)
        return;
    int height = ZR_MAX(ZR_MIN(ROW_HEIGHT, MOST_ROWS_HEIGHT / rows), LEAST_ROW);
    for (; added < t->interval_count; added++) {
        t->intervals[added].top *= height;
        t->intervals[added].height = height - 1;
    }
    zr_timeline_add_lane(
        t, &(zr_timeline_lane){.name = name, .height = rows * height, .row_height = height});
}

static int order_of_bytes(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

// Returns how far below the panel's top a byte lies. Between two edges is as much room as there
// are bytes, but at least a little, so that small flat parameters can be seen.
static int panel_depth(const drawing *d, int64_t byte)
{
    int least = ZR_MIN(LEAST_HEIGHT, PANEL_HEIGHT / ZR_MAX(d->edge_count, 1)), depth = 0;
    int64_t whole = d->edges[d->edge_count - 1];
    for (int e = 0; e + 1 < d->edge_count && d->edges[e] < byte; e++) {
        int64_t from = d->edges[e] * PANEL_HEIGHT / whole;
        int64_t to = d->edges[e + 1] * PANEL_HEIGHT / whole;
        depth += ZR_MAX((int)(to - from), least);
    }
    return depth;
}

static void add_live_range(drawing *d, int lane, const zr_live_range *range)
{
    const char *name = flat_param_name(d, range->flat_param);
    int top = panel_depth(d, range->first), bottom = panel_depth(d, range->first + range->bytes);
    char bytes[ZR_BYTES_TEXT];
    zr_bytes_text((double)range->bytes, bytes);
    zr_timeline_add(d->t, &(zr_timeline_interval){
                              .lane = lane,
                              .begin = d->x[range->from],
                              .end = d->x[range->to + 1],
                              .top = top,
                              .height = bottom - top,
                              .entry = FLAT_PARAM,
                              .shade = ZR_MAX(range->flat_param, 0) % TINTS,
                              .dashed = d->pass->at[range->from].when != ZR_ALWAYS,
                              .label = name,
                              .words = zr_timeline_say(d->t, "%s: %s from byte %lld, from %d to %d",
                                                       name, bytes, (long long)range->first,
                                                       range->from, range->to)});
}

static void find_edges(drawing *d, const zr_live_ranges *ranges, zr_buffer_id buffer)
{
    int64_t *edges = d->edges;
    int count = 1;
    edges[0] = 0;
    for (const zr_live_range *range = ranges->at; range < ranges->at + ranges->count; range++)
        if (range->buffer == buffer) {
            edges[count++] = range->first;
            edges[count++] = range->first + range->bytes;
        }
    qsort(edges, (size_t)count, sizeof *edges, order_of_bytes);
    d->edge_count = 0;
    for (int e = 0; e < count; e++)
        if (!e || edges[e] > edges[d->edge_count - 1])
            edges[d->edge_count++] = edges[e];
}

static void add_panel(drawing *d, const zr_live_ranges *ranges, zr_buffer_id buffer)
{
    int64_t whole = zr_live_ranges_end(ranges, buffer);
    char bytes[ZR_BYTES_TEXT];
    if (!whole)
        return;
    find_edges(d, ranges, buffer);
    zr_bytes_text((double)whole, bytes);
    int lane = zr_timeline_add_lane(
        d->t, &(zr_timeline_lane){.name = zr_buffer_names[buffer],
                                  .caption = zr_timeline_say(d->t, "%s", bytes),
                                  .height = panel_depth(d, whole),
                                  .around = "line"});
    for (const zr_live_range *range = ranges->at; range < ranges->at + ranges->count; range++)
        if (range->buffer == buffer && !zr_is_folded(&d->columns, range->from, range->to))
            add_live_range(d, lane, range);
}

// Writes what a pass does, in words: "1 sum over ranks, 7 waits", or "nothing".
static void describe_pass(const zr_pass *pass, zr_buffer *out)
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
static void put_facts(const zr_plan *plan, zr_buffer *out)
{
    zr_buffer_printf(out, "once a step, after its micro-batches:\n");
    for (int kind = ZR_PASS_BOUNDARY; kind < ZR_PASS_COUNT; kind++) {
        if (!zr_plan_shows_pass(plan, kind))
            continue;
        zr_buffer_printf(out, "%s\t", zr_pass_name((zr_pass_kind)kind));
        describe_pass(&plan->program.passes[kind], out);
        zr_buffer_printf(out, "\n");
    }
}

static void put_notes(const drawing *d)
{
    const zr_plan *plan = d->plan;
    if (d->columns.fold_count)
        zr_buffer_printf(&d->t->notes,
                         "gray bands: the calls of %s to %s; what begins and ends in a band is not "
                         "drawn\n",
                         zr_plan_unit_name(plan, ZR_SHOWN_ENDS),
                         zr_plan_unit_name(plan, plan->unit_count - ZR_SHOWN_ENDS - 1));
    if (d->t->dashed)
        zr_buffer_printf(&d->t->notes, "dashed: only in some micro-batches, or when the weights "
                                       "have changed\n");
}

static void add_all(drawing *d, const zr_live_ranges *ranges)
{
    zr_timeline *t = d->t;
    int title = (int)strlen(t->title) * ZR_SVG_TITLE_LETTER;
    int end = d->x[d->pass->forward_end];
    t->columns = d->x[d->pass->count];
    t->gap = GAP;
    t->least_width = ZR_MAX(title + 2 * ZR_SVG_MARGIN, LEAST_WIDTH);
    memcpy(t->entries, legend, sizeof legend);
    zr_buffer_printf(&t->style, "%s", style);
    add_calls(d);
    add_flights(d, "exchanges", GATHER, REDUCE);
    add_flights(d, "transfers", FETCH, STORE);
    for (int buffer = 0; buffer < ZR_BUFFER_COUNT; buffer++)
        add_panel(d, ranges, (zr_buffer_id)buffer);
    zr_timeline_add(
        t, &(zr_timeline_interval){
               .lane = ZR_ALL_LANES, .begin = end, .end = end, .words = "zero_forward returns"});
    put_facts(d->plan, &t->facts);
    put_notes(d);
}

zero_status zr_plan_timeline(const zr_plan *plan, zr_timeline *t, zero_error *error)
{
    drawing d = {.plan = plan, .pass = &plan->program.passes[ZR_PASS_MICRO_BATCH], .t = t};
    zr_live_ranges ranges = {0};
    zero_status status = zr_columns_of(plan, d.pass, &d.columns, error);
    d.x = d.columns.x;
    if (status == ZERO_OK)
        status = zr_live_ranges_of(plan, ZR_PASS_MICRO_BATCH, &ranges, error);
    if (status == ZERO_OK) {
        d.row_ends = zr_alloc((size_t)d.pass->count * sizeof *d.row_ends, error);
        d.edges = zr_alloc((2 * (size_t)ranges.count + 1) * sizeof *d.edges, error);
        status = d.row_ends && d.edges ? ZERO_OK : ZERO_ERR_MEMORY;
    }
    if (status == ZERO_OK)
        add_all(&d, &ranges);
    zr_free(d.edges);
    zr_free(d.row_ends);
    zr_live_ranges_free(&ranges);
    zr_columns_free(&d.columns);
    return status;
}
