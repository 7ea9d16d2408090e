// Writes what was chosen in words, as a table and as JSON.
#include "base/bytes_text.h"
#include "memory/ledger.h"
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

void zr_placement_table(const zr_placement_answer *answer, zr_buffer *out)
{
    zr_buffer_printf(out, "stage  optimizer   parameters     device        host        NVMe    "
                          "step  compute  exchange   update     NVMe\n");
    for (int i = 0; i < answer->count; i++) {
        const zr_placement *at = &answer->at[i];
        const zr_forecast *step = &at->step;
        char bytes[ZERO_TIER_COUNT][ZR_BYTES_TEXT];
        for (int t = 0; t < ZERO_TIER_COUNT; t++)
            zr_bytes_text((double)at->tiers[t], bytes[t]);
        zr_buffer_printf(out, "%5d  %-10s  %-10s %10s  %10s  %10s", at->stage,
                         zr_tier_name(at->optimizer), zr_tier_name(at->parameters), bytes[0],
                         bytes[1], bytes[2]);
        zr_buffer_printf(out, " %6.3f s  %7.3f  %8.3f  %7.3f  %7.3f", step->seconds,
                         step->parts[ZR_TIME_COMPUTE], step->parts[ZR_TIME_EXCHANGE],
                         step->parts[ZR_TIME_UPDATE], step->parts[ZR_TIME_DISK]);
        zr_buffer_printf(out, "%s%s%s\n", i == answer->chosen ? "  <- chosen" : "",
                         at->fits ? "" : "  does not fit: ", at->fits ? "" : at->excess);
    }
}

void zr_placement_json(const zr_placement_answer *answer, zr_buffer *out)
{
    zr_buffer_printf(out, "\"placements\":[");
    for (int i = 0; i < answer->count; i++) {
        const zr_placement *at = &answer->at[i];
        const zr_tiles *tiles = &zr_tilings[at->tiles];
        const zr_forecast *step = &at->step;
        zr_buffer_printf(out,
                         "%s{\"stage\":%d,\"optimizer\":\"%s\",\"parameters\":\"%s\",\"sub_group\":"
                         "%lld,\"tiling\":[%lld,%lld,%lld],\"fits\":%s,\"chosen\":%s,\"tiers\":{",
                         i ? ",\n" : "\n", at->stage, zr_tier_name(at->optimizer),
                         zr_tier_name(at->parameters), (long long)at->sub_group,
                         (long long)tiles->embedding, (long long)tiles->attention,
                         (long long)tiles->mlp, at->fits ? "true" : "false",
                         i == answer->chosen ? "true" : "false");
        for (int t = 0; t < ZERO_TIER_COUNT; t++)
            zr_buffer_printf(out, "%s\"%s\":%lld", t ? "," : "", zr_tier_name((zero_tier)t),
                             (long long)at->tiers[t]);
        zr_buffer_printf(out,
                         "},\"step\":{\"total\":%.6f,\"compute\":%.6f,\"exchange\":%.6f,\"update\":"
                         "%.6f,\"nvme\":%.6f}}",
                         step->seconds, step->parts[ZR_TIME_COMPUTE], step->parts[ZR_TIME_EXCHANGE],
                         step->parts[ZR_TIME_UPDATE], step->parts[ZR_TIME_DISK]);
    }
    zr_buffer_printf(out, "]");
}
