// zero plan --draw - of a pipeline: a line for each pipeline stage, a column for an equal part of
// the time. And what both drawings of a pipeline say in words.
#include "report/pipeline_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 400, NAME_WIDTH = 18, LETTERS = 26, DIGITS = 10, TIME = 48 };

double zr_picture_shortest(const zr_pipeline_picture *picture)
{
    double shortest = 0;
    for (int s = 0; s < picture->pipeline->stages; s++)
        for (int i = 0; i < picture->lanes[s].count; i++) {
            const zr_slot_of_time *at = &picture->simulation->stage[s].at[i];
            double length = at->end - at->begin;
            if (length > 0 && (shortest <= 0 || length < shortest))
                shortest = length;
        }
    return shortest;
}

static bool is_mark(const zr_pipeline_picture *picture, int stage, int i)
{
    const zr_slot_of_time *at = &picture->simulation->stage[stage].at[i];
    return picture->lanes[stage].at[i].act == ZR_ACT_UPDATE && at->end <= at->begin;
}

bool zr_picture_has_marks(const zr_pipeline_picture *picture)
{
    for (int s = 0; s < picture->pipeline->stages; s++)
        for (int i = 0; i < picture->lanes[s].count; i++)
            if (is_mark(picture, s, i))
                return true;
    return false;
}

static void time_text(const zr_pipeline_picture *picture, double seconds, char out[TIME])
{
    if (picture->in_micro_batches)
        snprintf(out, TIME, "%.3g times as long as a micro-batch", seconds);
    else if (seconds >= 1 || seconds <= 0)
        snprintf(out, TIME, "%.3g s", seconds);
    else if (seconds >= 1e-3)
        snprintf(out, TIME, "%.3g ms", seconds * 1e3);
    else
        snprintf(out, TIME, "%.3g us", seconds * 1e6);
}

void zr_picture_heading(const zr_pipeline_picture *picture, zr_buffer *out)
{
    const zr_pipeline *p = picture->pipeline;
    char time[TIME];
    time_text(picture, picture->simulation->total, time);
    zr_buffer_printf(out, "%s", zr_pipeline_kind_name(p->kind));
    if (p->chunks > 1)
        zr_buffer_printf(out, ":%d", p->chunks);
    zr_buffer_printf(out, ", %d pipeline stage%s, %d micro-batch%s", p->stages,
                     p->stages == 1 ? "" : "s", p->micro_batches,
                     p->micro_batches == 1 ? "" : "es");
    if (p->steps > 1)
        zr_buffer_printf(out, " in each of %d steps", p->steps);
    zr_buffer_printf(out, ": %s%s, bubble %.1f%%", time,
                     picture->in_micro_batches ? " on one rank" : "",
                     100 * picture->simulation->bubble);
}

void zr_pipeline_stage_caption(const zr_pipeline_picture *picture, int stage, zr_buffer *out)
{
    const zr_simulated_pipeline_stage *of = &picture->simulation->stage[stage];
    int versions = zr_pipeline_versions(picture->pipeline, stage);
    zr_buffer_printf(out, "%.1f%% bubble, holds %d micro-batch%s%s", 100 * of->bubble, of->sets,
                     of->sets == 1 ? "" : "es", picture->pipeline->chunks > 1 ? " of a chunk" : "");
    if (zr_pipeline_is_asynchronous(picture->pipeline->kind))
        zr_buffer_printf(out, ", %d version%s", versions, versions == 1 ? "" : "s");
}

static char letter_of(const zr_action *action)
{
    int k = action->micro_batch;
    switch (action->act) {
    case ZR_ACT_FORWARD: return (char)('0' + k % DIGITS);
    case ZR_ACT_BACKWARD: return (char)('a' + k % LETTERS);
    case ZR_ACT_WEIGHT: return (char)('A' + k % LETTERS);
    default: return '*'; // the end of a step
    }
}

// Writes the line of a stage, or that of its chunks. columns: of all time.
static void put_line(const zr_pipeline_picture *picture, int stage, bool chunks, int columns,
                     zr_buffer *out)
{
    const zr_lane *lane = &picture->lanes[stage];
    double column = picture->simulation->total / columns;
    char line[MOST_COLUMNS];
    memset(line, chunks ? ' ' : '.', sizeof line);
    for (int i = 0; i < lane->count; i++) {
        const zr_slot_of_time *at = &picture->simulation->stage[stage].at[i];
        long begin = lround(at->begin / column), end = lround(at->end / column);
        char letter = chunks ? (char)('0' + lane->at[i].chunk) : letter_of(&lane->at[i]);
        memset(line + begin, letter, (size_t)(end - begin));
    }
    zr_buffer_append(out, line, (size_t)columns);
}

// Writes a line with the updates that take no time, each below what begins then.
static void put_marks(const zr_pipeline_picture *picture, int stage, int columns, zr_buffer *out)
{
    const zr_lane *lane = &picture->lanes[stage];
    double column = picture->simulation->total / columns;
    char line[MOST_COLUMNS + 1]; // the last ones are made after all
    int length = 0;
    memset(line, ' ', sizeof line);
    for (int i = 0; i < lane->count; i++)
        if (is_mark(picture, stage, i)) {
            int at = (int)lround(picture->simulation->stage[stage].at[i].begin / column);
            line[at] = line[at] == ' ' ? '*' : '+';
            length = at + 1;
        }
    zr_buffer_printf(out, "\n%-*s", NAME_WIDTH, "         update");
    zr_buffer_append(out, line, (size_t)length);
}

static void put_stage(const zr_pipeline_picture *picture, int stage, int columns, zr_buffer *out)
{
    zr_buffer_printf(out, "pipeline stage %-*d", NAME_WIDTH - (int)strlen("pipeline stage "),
                     stage);
    put_line(picture, stage, false, columns, out);
    zr_buffer_printf(out, "  ");
    zr_pipeline_stage_caption(picture, stage, out);
    if (picture->pipeline->chunks > 1) {
        zr_buffer_printf(out, "\n%-*s", NAME_WIDTH, "         chunk");
        put_line(picture, stage, true, columns, out);
    }
    if (zr_picture_has_marks(picture))
        put_marks(picture, stage, columns, out);
    zr_buffer_printf(out, "\n");
}

static void put_pipeline_letters_legend(const zr_pipeline_picture *picture, double column,
                                        zr_buffer *out)
{
    const zr_pipeline *p = picture->pipeline;
    bool weights = zr_pipeline_has_weights(p->kind);
    char time[TIME];
    time_text(picture, column, time);
    zr_buffer_printf(out, "\nA column is %s. 0 1 2: forward of these micro-batches, and so on%s.\n",
                     time, zr_pipeline_window(p) > DIGITS ? " with the last digit" : "");
    zr_buffer_printf(out, "a b c: backward%s of micro-batches 0, 1, 2, and so on%s.\n",
                     weights ? " of the input" : "",
                     zr_pipeline_window(p) > LETTERS ? ", from a again after z" : "");
    if (weights)
        zr_buffer_printf(out, "A B C: the weights' part of backward.\n");
    if (zr_picture_has_marks(picture))
        zr_buffer_printf(out,
                         "*: an update (+: several), made before what begins above it. Its time is "
                         "not known, and here it takes none.\n");
    else if (zr_pipeline_is_asynchronous(p->kind))
        zr_buffer_printf(out, "*: update.\n");
    zr_buffer_printf(out, ".: bubble. Held are activations, at most at one time%s.\n",
                     zr_pipeline_is_asynchronous(p->kind) ? "; versions, of the parameters" : "");
}

void zr_pipeline_draw_letters(const zr_pipeline_picture *picture, zr_buffer *out)
{
    double shortest = zr_picture_shortest(picture), total = picture->simulation->total;
    zr_buffer_printf(out, "%s\n", picture->title);
    zr_picture_heading(picture, out);
    zr_buffer_printf(out, "\n\n");
    if (shortest <= 0)
        return;
    int columns = (int)fmax(1, fmin(round(total / shortest), MOST_COLUMNS));
    for (int s = 0; s < picture->pipeline->stages; s++)
        put_stage(picture, s, columns, out);
    put_pipeline_letters_legend(picture, total / columns, out);
}
