#include "base/clock.h"
#include "base/json.h"
#include "base/report.h"
#include "base/text.h"
#include "tune/tuning.h"

#include <string.h>

enum { NAME = 200 };

int zr_tuning_count(const zr_tuning *t, zr_candidate_state state)
{
    int count = 0;
    for (int i = 0; i < t->candidates.count; i++)
        count += t->candidates.at[i].state == state;
    return count;
}

static double report_cost_of(const zr_tuning *t, int candidate)
{
    return zr_candidate_cost(&t->candidates.at[candidate], t->settings.metric);
}

static int best_predicted(const zr_tuning *t, zr_candidate_state state)
{
    int best = -1;
    for (int i = 0; i < t->candidates.count; i++) {
        const zr_run_candidate *c = &t->candidates.at[i];
        if (c->state == state && c->step.seconds > 0 &&
            (best < 0 || report_cost_of(t, i) < report_cost_of(t, best)))
            best = i;
    }
    return best;
}

int zr_tuning_too_large(const zr_tuning *t)
{
    int large = best_predicted(t, ZR_CANDIDATE_TOO_LARGE),
        good = best_predicted(t, ZR_CANDIDATE_FITS);
    bool faster = large >= 0 && good >= 0 && report_cost_of(t, large) < report_cost_of(t, good);
    if (faster && t->best >= 0) // nor is it of use to somebody whose choice has turned out faster
        faster = report_cost_of(t, large) < t->race.lanes[t->best].cost;
    return faster ? large : -1;
}

// ---- in words

static void put_report_row(const zr_tuning *t, int i, zr_report *r)
{
    const zr_finalist *f = &t->finalists[i];
    const zr_run_candidate *c = zr_tuning_candidate(t, i);
    char name[NAME];
    zr_candidate_text(c, name, sizeof name);
    zr_report_row(r);
    zr_report_cell(r, zr_text(name));
    zr_report_cell(r, c->step.seconds > 0 ? zr_real(c->step.seconds) : zr_none());
    zr_report_cell(r, f->seconds > 0 ? zr_real(f->seconds) : zr_none());
    zr_report_cell(r, zr_integer(ZR_MAX(f->memory, c->memory)));
    zr_report_cell(r, f->seconds > 0 ? zr_real((double)c->tokens / f->seconds) : zr_none());
    const char *why = !f->why[0] ? "" : f->seconds > 0 ? "later failed: " : "failed: ";
    zr_report_cell_text(r, "%s%s%s%s", f->seconds > 0 && i == t->best ? "best" : "",
                        f->seconds > 0 && i == t->best && f->why[0] ? "  " : "", why, f->why);
}

// Writes the finalists, the best measured ones first.
static void say_rows(const zr_tuning *t, zr_buffer *out)
{
    static const zr_heading columns[] = {
        {.label = "ranks x threads", .left = true},
        {.label = "predicted", .unit = ZR_UNIT_SECONDS, .width = 10},
        {.label = "measured", .unit = ZR_UNIT_SECONDS, .width = 10},
        {.label = "memory", .unit = ZR_UNIT_BYTES, .width = 9},
        {.label = "tokens/s", .width = 9},
        {.label = "", .left = true},
    };
    bool listed[ZR_RACE_LANES] = {false};
    zr_report *r = zr_report_create(NULL);
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int n = 0; n < t->race.count; n++) {
        int next = -1;
        for (int i = 0; i < t->race.count; i++) {
            const zr_race_lane *lane = &t->race.lanes[i];
            bool measured = lane->trials > 0;
            bool better = next < 0 || (measured && t->finalists[next].seconds == 0) ||
                          (measured && lane->cost < t->race.lanes[next].cost);
            if (!listed[i] && better)
                next = i;
        }
        listed[next] = true;
        put_report_row(t, next, r);
    }
    zr_report_end_table(r);
    zr_report_finish(r, ZR_REPORT_TEXT, 0, out);
}

static void say_second(const zr_tuning *t, zr_buffer *out)
{
    int second = zr_race_best(&t->race, t->best);
    char name[NAME];
    if (second < 0)
        return;
    double ratio = t->race.lanes[second].cost / t->race.lanes[t->best].cost;
    zr_candidate_text(zr_tuning_candidate(t, second), name, sizeof name);
    zr_buffer_printf(out, "The second best costs %.1f%% more: %s%s.\n", 100 * (ratio - 1), name,
                     t->race.lanes[second].parted ? "" : "; the trials do not tell them apart");
}

static void say_too_large(const zr_tuning *t, zr_buffer *out)
{
    int large = zr_tuning_too_large(t);
    char name[NAME], seconds[ZR_SECONDS_TEXT];
    if (large < 0)
        return;
    const zr_run_candidate *c = &t->candidates.at[large];
    zr_candidate_text(c, name, sizeof name);
    zr_seconds_text(c->step.seconds, seconds);
    zr_buffer_printf(out, "Faster, if it fitted: %s, %s predicted", name, seconds);
    if (c->step.unknown > ZR_JUDGE_UNKNOWN)
        zr_buffer_printf(out, " (%.0f%% of it guessed)", 100 * c->step.unknown);
    zr_buffer_printf(out, "; %s.\n", c->why);
}

static int left_out(const zr_tuning *t)
{
    return t->candidates.left + zr_tuning_count(t, ZR_CANDIDATE_UNJUDGED);
}

static void say_counts(const zr_tuning *t, zr_buffer *out)
{
    int left = left_out(t);
    zr_buffer_printf(out, "%d candidates: %d fit, %d do not, %d cannot be planned",
                     t->candidates.count, zr_tuning_count(t, ZR_CANDIDATE_FITS),
                     zr_tuning_count(t, ZR_CANDIDATE_TOO_LARGE),
                     zr_tuning_count(t, ZR_CANDIDATE_REFUSED));
    if (left)
        zr_buffer_printf(out, ", %d were left out", left);
    zr_buffer_printf(out, "; %d trial%s, %.0f s in all.\n", t->race.trials,
                     t->race.trials == 1 ? "" : "s", zr_clock_seconds() - t->begun);
}

static void say_word(const char *word, zr_buffer *out)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        zr_buffer_printf(out, " %s", word);
        return;
    }
    zr_buffer_printf(out, " '");
    for (; *word; word++)
        zr_buffer_printf(out, *word == '\'' ? "'\\''" : "%c", *word);
    zr_buffer_printf(out, "'");
}

void zr_tuning_command(const zr_tuning *t, zr_buffer *out)
{
    const zr_run_candidate *c = zr_tuning_candidate(t, t->best);
    zr_buffer_printf(out, "zero train");
    for (int i = 0; t->arguments[i]; i++)
        say_word(t->arguments[i], out);
    char *config = zr_sprintf(NULL, "%s/tuned.json", t->out_dir);
    zr_buffer_printf(out, " --config");
    say_word(config ? config : "tuned.json", out);
    zr_buffer_printf(out, " --ranks %d --threads %d --out run\n", c->ranks, c->threads);
    zr_free(config);
}

static void say_length(const zr_tuning *t, zr_buffer *out)
{
    char text[2 * ZR_LENGTH_TEXT];
    zr_thousand_steps_text(t->finalists[t->best].seconds, 0, time(NULL), false, text);
    zr_buffer_printf(out, "%s with the best.\n", text);
}

void zr_tuning_table(const zr_tuning *t, zr_buffer *out)
{
    say_rows(t, out);
    zr_buffer_printf(out, "\n");
    say_second(t, out);
    say_length(t, out);
    say_too_large(t, out);
    say_counts(t, out);
    zr_buffer_printf(out, "\n%s/tuned.json has the best. The command:\n  ", t->out_dir);
    zr_tuning_command(t, out);
}

// ---- as JSON

static void put_candidate(const zr_run_candidate *c, zr_json_writer *w)
{
    char name[NAME];
    zr_candidate_text(c, name, sizeof name);
    zr_json_text(w, "name", name);
    zr_json_integer(w, "ranks", c->ranks);
    zr_json_integer(w, "threads", c->threads);
    zr_json_integer(w, "tensor", c->tensor);
    zr_json_integer(w, "pipeline", c->stages);
    zr_json_integer(w, "stage", c->stage);
    zr_json_integer(w, "micro_batch", c->micro_batch);
    zr_json_integer(w, "accumulation", c->accumulation);
    zr_json_integer(w, "tokens", c->tokens);
    zr_json_integer(w, "memory", c->memory);
    zr_json_real(w, "predicted", c->step.seconds);
    zr_json_real(w, "predicted_low", c->step.low);
    zr_json_real(w, "predicted_high", c->step.high);
}

static void put_finalist(const zr_tuning *t, int i, zr_json_writer *w)
{
    const zr_finalist *f = &t->finalists[i];
    zr_json_line(w, 1);
    zr_json_begin_object(w, NULL);
    put_candidate(zr_tuning_candidate(t, i), w);
    zr_json_integer(w, "trials", t->race.lanes[i].trials);
    if (f->seconds > 0) {
        zr_json_real(w, "measured", f->seconds);
        zr_json_real(w, "measured_low", f->low);
        zr_json_real(w, "measured_high", f->high);
        zr_json_integer(w, "held", f->memory);
    }
    if (f->why[0])
        zr_json_text(w, "failed", f->why);
    zr_json_flag(w, "best", i == t->best);
    zr_json_end(w);
}

static void put_second(const zr_tuning *t, zr_json_writer *w)
{
    int second = zr_race_best(&t->race, t->best);
    char name[NAME];
    if (second < 0)
        return;
    zr_candidate_text(zr_tuning_candidate(t, second), name, sizeof name);
    zr_json_line(w, 0);
    zr_json_begin_object(w, "second");
    zr_json_text(w, "name", name);
    zr_json_real(w, "costs_more", t->race.lanes[second].cost / t->race.lanes[t->best].cost - 1);
    zr_json_flag(w, "told_apart", t->race.lanes[second].parted);
    zr_json_end(w);
}

static void put_too_large(const zr_tuning *t, zr_json_writer *w)
{
    int large = zr_tuning_too_large(t);
    if (large < 0)
        return;
    zr_json_line(w, 0);
    zr_json_begin_object(w, "too_large_but_faster");
    put_candidate(&t->candidates.at[large], w);
    zr_json_real(w, "guessed", t->candidates.at[large].step.unknown);
    zr_json_text(w, "excess", t->candidates.at[large].why);
    zr_json_end(w);
}

void zr_tuning_json(const zr_tuning *t, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "metric", zr_tuning_metric_name(t->settings.metric));
    zr_json_integer(&w, "candidates", t->candidates.count);
    zr_json_integer(&w, "fit", zr_tuning_count(t, ZR_CANDIDATE_FITS));
    zr_json_integer(&w, "too_large", zr_tuning_count(t, ZR_CANDIDATE_TOO_LARGE));
    zr_json_integer(&w, "refused", zr_tuning_count(t, ZR_CANDIDATE_REFUSED));
    zr_json_integer(&w, "left_out", left_out(t));
    zr_json_integer(&w, "trials", t->race.trials);
    zr_json_real(&w, "seconds", zr_clock_seconds() - t->begun);
    zr_json_line(&w, 0);
    zr_json_begin_array(&w, "rows");
    for (int i = 0; i < t->race.count; i++)
        put_finalist(t, i, &w);
    zr_json_end(&w);
    put_second(t, &w);
    put_too_large(t, &w);
    zr_json_end(&w);
    zr_buffer_printf(out, "\n");
}
