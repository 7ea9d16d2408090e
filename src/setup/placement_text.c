// Writes what was chosen in words, as a table and as JSON.
#include "base/text.h"
#include "memory/arena.h"
#include "setup/placement.h"
#include "setup/model_part.h"

#include <stdio.h>

static const char *const places[] = {
    [ZERO_TIER_device] = "the device", [ZERO_TIER_host] = "the host", [ZERO_TIER_nvme] = "NVMe"};

void zr_placement_text(const zr_placement *at, char *out, size_t size)
{
    char group[48] = "", tiles[96] = "";
    const zr_tiles *t = &zr_tilings[at->tiles];
    if (at->fits && at->sub_group)
        snprintf(group, sizeof group, ", sub-groups of %lld", (long long)at->sub_group);
    if (at->fits && at->tiles)
        snprintf(tiles, sizeof tiles, ", tiles %lld (embedding), %lld (attention), %lld (MLP)",
                 (long long)t->embedding, (long long)t->attention, (long long)t->mlp);
    if (at->optimizer == at->parameters)
        snprintf(out, size, "stage %d, all states on %s%s%s", at->stage, places[at->optimizer],
                 group, tiles);
    else
        snprintf(out, size, "stage %d, optimizer states on %s, parameters on %s%s%s", at->stage,
                 places[at->optimizer], places[at->parameters], group, tiles);
}

static const zr_placement *fastest_that_does_not_fit(const zr_placement_answer *answer)
{
    const zr_placement *found = NULL;
    for (int i = 0; i < answer->count; i++)
        if (!answer->at[i].fits && (!found || answer->at[i].step.seconds < found->step.seconds))
            found = &answer->at[i];
    return found;
}

void zr_placement_describe(const zr_placement_answer *answer, const char *separator, zr_buffer *out)
{
    char text[256], step[ZR_SECONDS_TEXT];
    const zr_placement *faster = fastest_that_does_not_fit(answer);
    if (answer->chosen < 0) {
        zr_buffer_printf(
            out, "nothing fits%s",
            answer->with_disk
                ? ""
                : "; with a directory on a disk (libzero.nvme_path) states could leave memory");
    } else {
        const zr_placement *at = &answer->at[answer->chosen];
        zr_placement_text(at, text, sizeof text);
        zr_buffer_printf(out, "%s%spredicted: ", text, separator);
        zr_forecast_text(&at->step, out);
    }
    if (!faster ||
        (answer->chosen >= 0 && faster->step.seconds >= answer->at[answer->chosen].step.seconds))
        return;
    zr_placement_text(faster, text, sizeof text);
    zr_seconds_text(faster->step.seconds, step);
    zr_buffer_printf(out, "%s%s, predicted %s, does not fit%s: %s", separator, text, step,
                     faster->tiles ? ", not even in the smallest tiles" : "", faster->excess);
}

static void put_placement_row(const zr_placement_answer *answer, int i, zr_report *r)
{
    const zr_placement *at = &answer->at[i];
    const double *parts = at->step.parts;
    char note[sizeof at->excess + 32];
    snprintf(note, sizeof note, "%s%s%s", i == answer->chosen ? "<- chosen" : "",
             at->fits ? "" : "does not fit: ", at->fits ? "" : at->excess);
    zr_report_row(r);
    zr_report_cell(r, zr_integer(at->stage));
    zr_report_cell(r, zr_text(zr_tier_name(at->optimizer)));
    zr_report_cell(r, zr_text(zr_tier_name(at->parameters)));
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        zr_report_cell(r, zr_integer(at->tiers[t]));
    zr_report_cell_text(r, "%.3f s", at->step.seconds);
    zr_report_cell(r, zr_real(parts[ZR_TIME_COMPUTE]));
    zr_report_cell(r, zr_real(parts[ZR_TIME_EXCHANGE]));
    zr_report_cell(r, zr_real(parts[ZR_TIME_UPDATE]));
    zr_report_cell(r, zr_real(parts[ZR_TIME_DISK]));
    zr_report_cell(r, zr_text(note));
}

void zr_placement_table(const zr_placement_answer *answer, int width, zr_buffer *out)
{
    static const zr_heading columns[] = {
        {.label = "stage"},
        {.label = "optimizer", .width = 10, .left = true},
        {.label = "parameters", .width = 10, .left = true},
        {.label = "device", .unit = ZR_UNIT_BYTES, .width = 9},
        {.label = "host", .unit = ZR_UNIT_BYTES, .width = 10},
        {.label = "NVMe", .unit = ZR_UNIT_BYTES, .width = 10},
        {.label = "step", .width = 7},
        {.label = "compute", .decimals = 3},
        {.label = "exchange", .decimals = 3},
        {.label = "update", .decimals = 3, .width = 7},
        {.label = "NVMe", .decimals = 3, .width = 7},
        {.label = "", .left = true},
    };
    zr_report *r = zr_report_create(NULL);
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int i = 0; i < answer->count; i++)
        put_placement_row(answer, i, r);
    zr_report_end_table(r);
    zr_report_finish(r, ZR_REPORT_TEXT, width, out);
}

static void put_placement_json(const zr_placement *at, bool chosen, zr_json_writer *w)
{
    const zr_tiles *tiles = &zr_tilings[at->tiles];
    zr_json_begin_object(w, NULL);
    zr_json_integer(w, "stage", at->stage);
    zr_json_text(w, "optimizer", zr_tier_name(at->optimizer));
    zr_json_text(w, "parameters", zr_tier_name(at->parameters));
    zr_json_integer(w, "sub_group", at->sub_group);
    zr_json_begin_array(w, "tiling");
    zr_json_integer(w, NULL, tiles->embedding);
    zr_json_integer(w, NULL, tiles->attention);
    zr_json_integer(w, NULL, tiles->mlp);
    zr_json_end(w);
    zr_json_flag(w, "fits", at->fits);
    zr_json_flag(w, "chosen", chosen);
    zr_json_begin_object(w, "tiers");
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        zr_json_integer(w, zr_tier_name((zero_tier)t), at->tiers[t]);
    zr_json_end(w);
    zr_json_begin_object(w, "step");
    zr_json_fixed(w, "total", 6, at->step.seconds);
    zr_json_fixed(w, "compute", 6, at->step.parts[ZR_TIME_COMPUTE]);
    zr_json_fixed(w, "exchange", 6, at->step.parts[ZR_TIME_EXCHANGE]);
    zr_json_fixed(w, "update", 6, at->step.parts[ZR_TIME_UPDATE]);
    zr_json_fixed(w, "nvme", 6, at->step.parts[ZR_TIME_DISK]);
    zr_json_end(w);
    zr_json_end(w);
}

void zr_placement_json(const zr_placement_answer *answer, zr_json_writer *w)
{
    zr_json_begin_array(w, "placements");
    for (int i = 0; i < answer->count; i++) {
        zr_json_line(w, 0);
        put_placement_json(&answer->at[i], i == answer->chosen, w);
    }
    zr_json_end(w);
}
