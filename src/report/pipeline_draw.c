// zero plan --draw FILE of a pipeline: a lane for each pipeline stage, and in it a box for each
// action, with the number of its micro-batch. What shows between the boxes is the bubble. Norms and
// updates of asynchronous schedules are marks where they take no time.
#include "report/pipeline_draw.h"

#include "report/svg.h"

#include <math.h>
#include <stdio.h>

enum {
    MARGIN = 12,
    LEFT = 128,        // room for the names of stages
    RIGHT = 225,       // room for what stands after a lane
    VERSIONS = 80,     // room for versions, or chunks, there
    LEAST_WIDTH = 640, // of the lanes
    PAGE_WIDTH = 1200, // of the drawing, unless actions would be narrower than LEAST_ACTION
    MOST_WIDTH = 4000, // of the drawing
    LEAST_ACTION = 2,
    LABEL_MARGIN = 2, // on both sides of a number
    LANE_HEIGHT = 28,
    GAP = 6,
    MARK_WIDTH = 3, // one pixel before its time, and one after
    MARK_OUT = 2,   // of the lane
    NORM_HEIGHT = 8,
    NAME = 128,
};

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

typedef struct sheet {
    const zr_pipeline_picture *picture;
    int width, y; // of the lanes; where the next one begins
    zr_buffer body, line;
} sheet;

static const char *line_text(const sheet *s) { return s->line.failed ? "" : s->line.data; }

static int mixed(int one, int two, int part, int of) { return one + (two - one) * part / of; }

// Writes a rule for each act and chunk, of class "forward0"; one chunk alone has the middle color.
static void put_style(const zr_pipeline_picture *picture, zr_buffer *out)
{
    int chunks = picture->pipeline->chunks;
    zr_buffer_printf(out, ".idle{fill:#eeeeee}\n"
                          "@media (prefers-color-scheme:dark){.idle{fill:#2a2f35}}\n");
    for (int act = 0; act < ZR_ACT_COUNT; act++)
        for (int c = 0; c < chunks; c++) {
            const color *one = &palette[act][0], *two = &palette[act][1];
            int part = chunks > 1 ? c : 1, of = chunks > 1 ? chunks - 1 : 2;
            zr_buffer_printf(out, ".%s%d{fill:#%02x%02x%02x}%s", zr_act_name((zr_act)act), c,
                             (unsigned)mixed(one->red, two->red, part, of),
                             (unsigned)mixed(one->green, two->green, part, of),
                             (unsigned)mixed(one->blue, two->blue, part, of),
                             c == chunks - 1 ? "\n" : "");
        }
}

static bool is_asynchronous(const zr_pipeline_picture *picture)
{
    return zr_pipeline_is_asynchronous(picture->pipeline->kind);
}

static int right_of(const zr_pipeline_picture *picture)
{
    bool longer = is_asynchronous(picture) || picture->pipeline->chunks > 1;
    return RIGHT + (longer ? VERSIONS : 0);
}

// Returns the width that the number of any micro-batch needs.
static int label_width(const zr_pipeline *p)
{
    int digits = snprintf(NULL, 0, "%d", p->micro_batches * p->steps - 1);
    return digits * ZR_SVG_LETTER + 2 * LABEL_MARGIN;
}

// Returns the width of the lanes: as wide as numbers need in the shortest action where that fits a
// page; never so narrow that actions cannot be seen, within a bound.
static int pipeline_draw_width_of(const zr_pipeline_picture *picture)
{
    double shortest = zr_picture_shortest(picture), around = LEFT + right_of(picture);
    if (shortest <= 0)
        return LEAST_WIDTH;
    double actions = picture->simulation->total / shortest;
    double numbered = fmin(actions * label_width(picture->pipeline), PAGE_WIDTH - around);
    double seen = fmin(actions * LEAST_ACTION, MOST_WIDTH - around);
    return (int)fmax(LEAST_WIDTH, fmax(numbered, seen));
}

static int x_of(const sheet *s, double seconds)
{
    double total = s->picture->simulation->total;
    return LEFT + (total > 0 ? (int)lround(seconds / total * s->width) : 0);
}

// Writes what an action is, in words; of the parameters, an update makes the version.
static void tell_pipeline_draw(const sheet *s, const zr_action *action, char out[NAME])
{
    char version[NAME / 2] = "";
    if (is_asynchronous(s->picture) && action->act != ZR_ACT_NORM)
        snprintf(version, sizeof version, ", version %d of the parameters", action->version);
    snprintf(out, NAME, "%s of micro-batch %d, chunk %d%s", zr_act_name(action->act),
             action->micro_batch, action->chunk, version);
}

// Puts an action that is a pixel wide or more; so the number of boxes has a bound.
static void put_action(sheet *s, const zr_action *action, const zr_slot_of_time *at)
{
    int x = x_of(s, at->begin), end = x_of(s, at->end);
    char class[NAME], label[NAME], told[NAME];
    if (end <= x)
        return;
    snprintf(class, sizeof class, "%s%d", zr_act_name(action->act), action->chunk);
    snprintf(label, sizeof label, "%d", action->micro_batch);
    tell_pipeline_draw(s, action, told);
    zr_svg_put_box(&s->body, &(zr_svg_box){
                                 .x = x,
                                 .y = s->y,
                                 .width = end - x,
                                 .height = LANE_HEIGHT,
                                 .class = class,
                                 .label = label,
                                 .centered = true,
                                 .told = told,
                             });
}

// Puts what takes no time, unless it is too near to the one before, which then stands for both: an
// update over the whole lane, a norm at its lower edge. end: of the one before.
static void put_mark(sheet *s, const zr_action *action, const zr_slot_of_time *at, int *end)
{
    bool update = action->act == ZR_ACT_UPDATE;
    int height = update ? LANE_HEIGHT + MARK_OUT : NORM_HEIGHT, x = x_of(s, at->begin) - 1;
    char class[NAME], told[NAME];
    if (at->end > at->begin || x < *end + MARK_WIDTH)
        return;
    *end = x + MARK_WIDTH;
    snprintf(class, sizeof class, "%s%d", zr_act_name(action->act), action->chunk);
    tell_pipeline_draw(s, action, told);
    zr_svg_put_box(&s->body,
                   &(zr_svg_box){
                       .x = x,
                       .y = update ? s->y - MARK_OUT : s->y + LANE_HEIGHT + MARK_OUT - NORM_HEIGHT,
                       .width = MARK_WIDTH,
                       .height = height,
                       .class = class,
                       .label = "",
                       .told = told,
                   });
}

// Puts marks over the boxes.
static void put_marks(sheet *s, const zr_lane *lane, const zr_slot_of_time *at)
{
    int ends[ZR_ACT_COUNT] = {0};
    for (int i = 0; i < lane->count; i++)
        if (lane->at[i].act >= ZR_ACT_NORM)
            put_mark(s, &lane->at[i], &at[i], &ends[lane->at[i].act]);
}

static void put_lane(sheet *s, int stage)
{
    const zr_lane *lane = &s->picture->lanes[stage];
    const zr_slot_of_time *at = s->picture->simulation->stage[stage].at;
    int middle = s->y + LANE_HEIGHT / 2 + 4;
    char name[NAME];
    snprintf(name, sizeof name, "pipeline stage %d", stage);
    zr_svg_put_text(&s->body, MARGIN, middle, NULL, name);
    zr_buffer_printf(&s->body,
                     "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"idle\"/>\n", LEFT,
                     s->y, s->width, LANE_HEIGHT);
    for (int i = 0; i < lane->count; i++)
        put_action(s, &lane->at[i], &at[i]);
    put_marks(s, lane, at);
    s->line.length = 0;
    zr_pipeline_stage_caption(s->picture, stage, &s->line);
    zr_svg_put_text(&s->body, LEFT + s->width + GAP, middle, NULL, line_text(s));
    s->y += LANE_HEIGHT + GAP;
}

// Puts an entry for an act: its color, or if a stage has several chunks those of the first and of
// the last one. Returns where the next entry begins.
static int put_act(sheet *s, int x, zr_act act, const char *text)
{
    int last = s->picture->pipeline->chunks - 1;
    char class[NAME];
    if (last) {
        snprintf(class, sizeof class, "%s0", zr_act_name(act));
        zr_svg_put_box(&s->body, &(zr_svg_box){
                                     .x = x,
                                     .y = s->y,
                                     .width = ZR_SVG_LETTER_HEIGHT,
                                     .height = ZR_SVG_LETTER_HEIGHT,
                                     .class = class,
                                     .label = "",
                                     .told = text,
                                 });
        x += ZR_SVG_LETTER_HEIGHT + 1;
    }
    snprintf(class, sizeof class, "%s%d", zr_act_name(act), last);
    return zr_svg_put_entry(&s->body, x, s->y, class, text);
}

// Puts an entry for each act that the schedule has.
static void put_pipeline_draw_legend(sheet *s)
{
    const zr_pipeline *p = s->picture->pipeline;
    bool weights = zr_pipeline_has_weights(p->kind);
    int x = put_act(s, MARGIN, ZR_ACT_FORWARD, "forward");
    x = put_act(s, x, ZR_ACT_BACKWARD, weights ? "backward of the input" : "backward");
    if (weights)
        x = put_act(s, x, ZR_ACT_WEIGHT, "backward of the weights");
    if (is_asynchronous(s->picture))
        x = put_act(s, x, ZR_ACT_UPDATE, "update");
    if (p->kind == ZR_PIPELINE_2BW)
        x = put_act(s, x, ZR_ACT_NORM, "norm of a step, for all pipeline stages");
    if (s->picture->simulation->bubble > 0)
        zr_svg_put_entry(&s->body, x, s->y, "idle", "bubble");
    s->y += ZR_SVG_LINE_HEIGHT;
    if (p->chunks > 1) {
        char text[NAME];
        snprintf(text, sizeof text, "Light to dark: chunks 0 to %d of a pipeline stage.",
                 p->chunks - 1);
        zr_svg_put_text(&s->body, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL, text);
        s->y += ZR_SVG_LINE_HEIGHT;
    }
    zr_svg_put_text(&s->body, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL,
                    "Time goes to the right. A number is a micro-batch's. Held are "
                    "activations, at most at one time.");
    s->y += ZR_SVG_LINE_HEIGHT;
    if (!is_asynchronous(s->picture))
        return;
    zr_svg_put_text(&s->body, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL,
                    zr_picture_has_marks(s->picture)
                        ? "Thin marks, of one or several, take no time here, because it is not "
                          "known. Versions are those of the parameters."
                        : "Versions are those of the parameters.");
    s->y += ZR_SVG_LINE_HEIGHT;
}

static void put_heading(sheet *s)
{
    s->y = MARGIN + ZR_SVG_LINE_HEIGHT;
    zr_svg_put_text(&s->body, MARGIN, s->y - 4, "title", s->picture->title);
    s->line.length = 0;
    zr_picture_heading(s->picture, &s->line);
    zr_svg_put_text(&s->body, MARGIN, s->y + ZR_SVG_LETTER_HEIGHT, NULL, line_text(s));
    s->y += ZR_SVG_LINE_HEIGHT + GAP;
}

void zr_pipeline_draw(const zr_pipeline_picture *picture, zr_buffer *out)
{
    sheet s = {.picture = picture, .width = pipeline_draw_width_of(picture)};
    zr_buffer style = {0};
    put_heading(&s);
    for (int stage = 0; stage < picture->pipeline->stages; stage++)
        put_lane(&s, stage);
    s.y += GAP;
    put_pipeline_draw_legend(&s);
    put_style(picture, &style);
    zr_svg_put_document(out, LEFT + s.width + right_of(picture), s.y + MARGIN,
                        style.failed ? "" : style.data, &s.body);
    out->failed |= style.failed || s.line.failed;
    zr_buffer_free(&style);
    zr_buffer_free(&s.line);
    zr_buffer_free(&s.body);
}
