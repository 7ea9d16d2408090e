// zero plan --draw of a pipeline as a timeline: a lane for each pipeline stage, and in it an
// interval for each action, with the number of its micro-batch. What shows between them is the
// bubble. Norms and updates of asynchronous schedules are marks where they take no time.
#include "report/pipeline_timeline.h"

#include "report/timeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Pixels.
enum {
    RIGHT = 225,       // room for what stands after a lane
    VERSIONS = 80,     // room for versions, or chunks, there
    LEAST_WIDTH = 640, // of the lanes
    PAGE_WIDTH = 1200, // of the drawing, unless actions would be narrower than LEAST_ACTION
    MOST_WIDTH = 4000, // of the drawing
    LEAST_ACTION = 2,
    LABEL_MARGIN = 2, // on both sides of a number
    LANE_HEIGHT = 28,
    GAP = 6,
    MARK_OUT = 2,    // how far a mark reaches out of its lane
    NORM_HEIGHT = 8, // of the mark of a norm
    MARKS_APART = 6, // marks of one act that are nearer have one box
};

enum { MOST_COLUMNS = 400, NAME_WIDTH = 18, LETTERS = 26, DIGITS = 10, TIME = 48, NAME = 64 };

typedef struct color {
    int red, green, blue;
} color;

// The colors of each act, in the first chunk and in the last one of a stage.
static const color palette[ZR_ACT_COUNT][2] = {
    [ZR_ACT_FORWARD] = {{0xc6, 0xdb, 0xef}, {0x6b, 0xae, 0xd6}},
    [ZR_ACT_BACKWARD] = {{0xfd, 0xd9, 0xb0}, {0xfd, 0x9d, 0x4c}},
    [ZR_ACT_WEIGHT] = {{0xc7, 0xe9, 0xc0}, {0x74, 0xc4, 0x76}},
    [ZR_ACT_NORM] = {{0x8a, 0x63, 0xb8}, {0x8a, 0x63, 0xb8}},
    [ZR_ACT_UPDATE] = {{0xe0, 0x56, 0x7a}, {0xe0, 0x56, 0x7a}},
};

// The place of each act in the legend.
static const int entry_of[ZR_ACT_COUNT] = {
    [ZR_ACT_FORWARD] = 0, [ZR_ACT_BACKWARD] = 1, [ZR_ACT_WEIGHT] = 2,
    [ZR_ACT_UPDATE] = 3,  [ZR_ACT_NORM] = 4,
};

typedef struct drawing {
    const zr_pipeline_picture *picture;
    const zr_pipeline *pipeline;
    zr_timeline *t;
    bool letters, asynchronous;
    double total, shortest; // seconds: all time; of the shortest action that takes any, or 0
    bool has_marks;         // there are updates that take no time
} drawing;

static const zr_slot_of_time *slot_at(const drawing *d, int stage, int i)
{
    return &d->picture->simulation->stage[stage].at[i];
}

static void find_marks_and_shortest(drawing *d)
{
    for (int s = 0; s < d->pipeline->stages; s++)
        for (int i = 0; i < d->picture->lanes[s].count; i++) {
            double length = slot_at(d, s, i)->end - slot_at(d, s, i)->begin;
            if (length > 0 && (d->shortest <= 0 || length < d->shortest))
                d->shortest = length;
            d->has_marks |= length <= 0 && d->picture->lanes[s].at[i].act == ZR_ACT_UPDATE;
        }
}

static int mix_channel(int one, int two, int part, int of) { return one + (two - one) * part / of; }

// Writes a rule for each act and chunk, of class "forward0"; one chunk alone has the middle color.
static void put_style(int chunks, zr_buffer *out)
{
    zr_buffer_printf(out, ".idle{fill:#eeeeee}\n"
                          "@media (prefers-color-scheme:dark){.idle{fill:#2a2f35}}\n");
    for (int act = 0; act < ZR_ACT_COUNT; act++)
        for (int c = 0; c < chunks; c++) {
            const color *one = &palette[act][0], *two = &palette[act][1];
            int part = chunks > 1 ? c : 1, of = chunks > 1 ? chunks - 1 : 2;
            zr_buffer_printf(out, ".%s%d{fill:#%02x%02x%02x}%s", zr_act_name((zr_act)act), c,
                             (unsigned)mix_channel(one->red, two->red, part, of),
                             (unsigned)mix_channel(one->green, two->green, part, of),
                             (unsigned)mix_channel(one->blue, two->blue, part, of),
                             c == chunks - 1 ? "\n" : "");
        }
}

// Returns the width of the lanes of an SVG: as wide as numbers need in the shortest action where
// that fits a page; never so narrow that actions cannot be seen, within a bound.
static int choose_svg_width(const drawing *d)
{
    const zr_pipeline *p = d->pipeline;
    int digits = snprintf(NULL, 0, "%d", p->micro_batches * p->steps - 1);
    int number = digits * ZR_SVG_LETTER + 2 * LABEL_MARGIN,
        around = ZR_SVG_LEFT + d->t->caption_width;
    if (d->shortest <= 0)
        return LEAST_WIDTH;
    double actions = d->total / d->shortest;
    double numbered = fmin(actions * number, PAGE_WIDTH - around);
    double seen = fmin(actions * LEAST_ACTION, MOST_WIDTH - around);
    return (int)fmax(LEAST_WIDTH, fmax(numbered, seen));
}

static int column_at(const drawing *d, double seconds)
{
    return d->total > 0 ? (int)lround(seconds / (d->total / d->t->columns)) : 0;
}

// Says what an action is; of the parameters, an update makes the version.
static const char *say_action(const drawing *d, const zr_action *action)
{
    char version[NAME] = "";
    if (d->asynchronous && action->act != ZR_ACT_NORM)
        snprintf(version, sizeof version, ", version %d of the parameters", action->version);
    return zr_timeline_say(d->t, "%s of micro-batch %d, chunk %d%s", zr_act_name(action->act),
                           action->micro_batch, action->chunk, version);
}

static char action_letter(const zr_action *action)
{
    int k = action->micro_batch;
    switch (action->act) {
    case ZR_ACT_FORWARD: return (char)('0' + k % DIGITS);
    case ZR_ACT_BACKWARD: return (char)('a' + k % LETTERS);
    case ZR_ACT_WEIGHT: return (char)('A' + k % LETTERS);
    default: return '*'; // the end of a step
    }
}

// Adds the actions of a stage that are a column wide or more, so their number has a bound. chunks:
// the letters are the numbers of chunks.
static void add_actions(const drawing *d, int stage, int lane, bool chunks)
{
    for (int i = 0; i < d->picture->lanes[stage].count; i++) {
        const zr_action *action = &d->picture->lanes[stage].at[i];
        int begin = column_at(d, slot_at(d, stage, i)->begin);
        int end = column_at(d, slot_at(d, stage, i)->end);
        if (begin < end)
            zr_timeline_add(
                d->t, &(zr_timeline_interval){
                          .lane = lane,
                          .begin = begin,
                          .end = end,
                          .height = LANE_HEIGHT,
                          .entry = entry_of[action->act],
                          .shade = action->chunk,
                          .label = zr_timeline_say(d->t, "%d", action->micro_batch),
                          .words = say_action(d, action),
                          .letter = chunks ? (char)('0' + action->chunk) : action_letter(action)});
    }
}

// Adds what takes no time. In an SVG a mark is 3 pixels wide, because 1 is hard to see: an update
// goes over the whole lane, a norm is at its lower edge, and a mark too near to the one before it
// is left out. Letters show only updates, each below what begins then.
static void add_marks(const drawing *d, int stage, int lane)
{
    int before[ZR_ACT_COUNT], around = d->letters ? 0 : 1; // before: the last mark's column
    for (int act = 0; act < ZR_ACT_COUNT; act++)
        before[act] = -MARKS_APART;
    for (int i = 0; i < d->picture->lanes[stage].count; i++) {
        const zr_action *action = &d->picture->lanes[stage].at[i];
        const zr_slot_of_time *at = slot_at(d, stage, i);
        bool update = action->act == ZR_ACT_UPDATE;
        int column = column_at(d, at->begin), *last = &before[action->act];
        if (action->act < ZR_ACT_NORM || at->end > at->begin ||
            (d->letters ? !update : column < *last + MARKS_APART))
            continue;
        zr_timeline_add(d->t, &(zr_timeline_interval){
                                  .lane = lane,
                                  .begin = column - around,
                                  .end = column + 1 + around,
                                  .top = update ? -MARK_OUT : LANE_HEIGHT + MARK_OUT - NORM_HEIGHT,
                                  .height = update ? LANE_HEIGHT + MARK_OUT : NORM_HEIGHT,
                                  .entry = entry_of[action->act],
                                  .shade = action->chunk,
                                  .words = say_action(d, action),
                                  .letter = column == *last ? '+' : '*'});
        *last = column;
    }
}

// Says "27.3% bubble, holds 4 micro-batches", of a stage; in asynchronous schedules also
// "4 versions".
static const char *say_caption(const drawing *d, int stage)
{
    const zr_simulated_pipeline_stage *of = &d->picture->simulation->stage[stage];
    int versions = zr_pipeline_versions(d->pipeline, stage);
    char more[NAME] = "";
    if (d->asynchronous)
        snprintf(more, sizeof more, ", %d version%s", versions, versions == 1 ? "" : "s");
    return zr_timeline_say(d->t, "%.1f%% bubble, holds %d micro-batch%s%s%s", 100 * of->bubble,
                           of->sets, of->sets == 1 ? "" : "es",
                           d->pipeline->chunks > 1 ? " of a chunk" : "", more);
}

static void add_stage(const drawing *d, int stage)
{
    zr_timeline *t = d->t;
    int lane = zr_timeline_add_lane(
        t, &(zr_timeline_lane){.name = zr_timeline_say(t, "pipeline stage %d", stage),
                               .caption = say_caption(d, stage),
                               .height = LANE_HEIGHT,
                               .row_height = LANE_HEIGHT,
                               .behind = "idle",
                               .background = '.'});
    add_actions(d, stage, lane, false);
    if (d->letters && d->pipeline->chunks > 1) {
        lane = zr_timeline_add_lane(
            t, &(zr_timeline_lane){.name = "         chunk", .background = ' '});
        add_actions(d, stage, lane, true);
    }
    if (d->letters && d->has_marks)
        lane = zr_timeline_add_lane(
            t, &(zr_timeline_lane){.name = "         update", .background = ' ', .trimmed = true});
    if (!d->letters || d->has_marks)
        add_marks(d, stage, lane);
}

static void time_text(const drawing *d, double seconds, char out[TIME])
{
    if (d->picture->in_micro_batches)
        snprintf(out, TIME, "%.3g times as long as a micro-batch", seconds);
    else if (seconds >= 1 || seconds <= 0)
        snprintf(out, TIME, "%.3g s", seconds);
    else if (seconds >= 1e-3)
        snprintf(out, TIME, "%.3g ms", seconds * 1e3);
    else
        snprintf(out, TIME, "%.3g us", seconds * 1e6);
}

// Says "1f1b, 4 pipeline stages, 8 micro-batches: 33 ms, bubble 27.3%"; or, in micro-batches,
// "... 2.75 times as long as a micro-batch on one rank, bubble 27.3%".
static const char *say_heading(const drawing *d)
{
    const zr_pipeline *p = d->pipeline;
    char time[TIME], chunks[NAME] = "", steps[NAME] = "";
    time_text(d, d->total, time);
    if (p->chunks > 1)
        snprintf(chunks, sizeof chunks, ":%d", p->chunks);
    if (p->steps > 1)
        snprintf(steps, sizeof steps, " in each of %d steps", p->steps);
    return zr_timeline_say(
        d->t, "%s%s, %d pipeline stage%s, %d micro-batch%s%s: %s%s, bubble %.1f%%",
        zr_pipeline_kind_name(p->kind), chunks, p->stages, p->stages == 1 ? "" : "s",
        p->micro_batches, p->micro_batches == 1 ? "" : "es", steps, time,
        d->picture->in_micro_batches ? " on one rank" : "", 100 * d->picture->simulation->bubble);
}

static void put_svg_notes(const drawing *d, zr_buffer *out)
{
    if (d->pipeline->chunks > 1)
        zr_buffer_printf(out, "Light to dark: chunks 0 to %d of a pipeline stage.\n",
                         d->pipeline->chunks - 1);
    zr_buffer_printf(out, "Time goes to the right. A number is a micro-batch's. Held are "
                          "activations, at most at one time.\n");
    if (d->asynchronous)
        zr_buffer_printf(out, "%sVersions are those of the parameters.\n",
                         d->has_marks ? "Thin marks, of one or several, take no time here, because "
                                        "it is not known. "
                                      : "");
}

static void put_letters_notes(const drawing *d, zr_buffer *out)
{
    const zr_pipeline *p = d->pipeline;
    bool weights = zr_pipeline_has_weights(p->kind);
    char time[TIME];
    time_text(d, d->total / d->t->columns, time);
    zr_buffer_printf(out, "A column is %s. 0 1 2: forward of these micro-batches, and so on%s.\n",
                     time, zr_pipeline_window(p) > DIGITS ? " with the last digit" : "");
    zr_buffer_printf(out, "a b c: backward%s of micro-batches 0, 1, 2, and so on%s.\n",
                     weights ? " of the input" : "",
                     zr_pipeline_window(p) > LETTERS ? ", from a again after z" : "");
    if (weights)
        zr_buffer_printf(out, "A B C: the weights' part of backward.\n");
    if (d->has_marks)
        zr_buffer_printf(out,
                         "*: an update (+: several), made before what begins above it. Its time is "
                         "not known, and here it takes none.\n");
    else if (d->asynchronous)
        zr_buffer_printf(out, "*: update.\n");
    zr_buffer_printf(out, ".: bubble. Held are activations, at most at one time%s.\n",
                     d->asynchronous ? "; versions, of the parameters" : "");
}

static void put_legend(const drawing *d)
{
    bool weights = zr_pipeline_has_weights(d->pipeline->kind);
    int last = d->pipeline->chunks - 1;
    const zr_timeline_entry entries[] = {
        {"forward", last, "forward", true},
        {"backward", last, weights ? "backward of the input" : "backward", true},
        {"weight", last, "backward of the weights", weights},
        {"update", last, "update", d->asynchronous},
        {"norm", last, "norm of a step, for all pipeline stages",
         d->pipeline->kind == ZR_PIPELINE_2BW},
        {"idle", -1, "bubble", d->picture->simulation->bubble > 0},
    };
    memcpy(d->t->entries, entries, sizeof entries);
}

static void fill_timeline(drawing *d)
{
    zr_timeline *t = d->t;
    bool longer = d->asynchronous || d->pipeline->chunks > 1;
    find_marks_and_shortest(d);
    t->heading = say_heading(d);
    t->gap = GAP;
    t->centered = true;
    t->caption_width = RIGHT + (longer ? VERSIONS : 0);
    t->name_width = NAME_WIDTH;
    if (d->letters && d->shortest <= 0)
        return;
    t->columns = d->letters ? (int)fmax(1, fmin(round(d->total / d->shortest), MOST_COLUMNS))
                            : choose_svg_width(d);
    if (!d->letters)
        put_style(d->pipeline->chunks, &t->style);
    put_legend(d);
    for (int stage = 0; stage < d->pipeline->stages; stage++)
        add_stage(d, stage);
    (d->letters ? put_letters_notes : put_svg_notes)(d, &t->notes);
}

static void draw_pipeline(const zr_pipeline_picture *picture, bool letters, zr_buffer *out)
{
    zr_timeline t = {.title = picture->title};
    drawing d = {.picture = picture,
                 .pipeline = picture->pipeline,
                 .t = &t,
                 .letters = letters,
                 .asynchronous = zr_pipeline_is_asynchronous(picture->pipeline->kind),
                 .total = picture->simulation->total};
    fill_timeline(&d);
    (letters ? zr_timeline_draw_letters : zr_timeline_draw)(&t, out);
    zr_timeline_free(&t);
}

void zr_pipeline_draw(const zr_pipeline_picture *picture, zr_buffer *out)
{
    draw_pipeline(picture, false, out);
}

void zr_pipeline_draw_letters(const zr_pipeline_picture *picture, zr_buffer *out)
{
    draw_pipeline(picture, true, out);
}
