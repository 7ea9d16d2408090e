// zero_plan: the choice between the two ways of planning, and the tables that both write.
#include "setup/resolve.h"
#include "report/plan_report.h"

#include "base/bytes_text.h"
#include "base/length_text.h"
#include "base/file.h"
#include "base/json.h"
#include "base/struct_take.h"
#include "memory/ledger.h"
#include "plan/settings_fields.h"

#include <stdio.h>
#include <string.h>

int64_t zr_plan_row_total(const zr_plan_row *row)
{
    int64_t total = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        total += row->bytes[c];
    return total;
}

zr_plan_range zr_plan_range_of(const zr_plan_row *rows, int count,
                               int64_t (*bytes_of)(const zr_plan_row *row))
{
    zr_plan_range range = {.largest = rows};
    const zr_plan_row *smallest = rows;
    int64_t least = bytes_of(rows), most = least;
    for (int i = 1; i < count; i++) {
        const zr_plan_row *row = &rows[i];
        least = ZR_MIN(least, bytes_of(row));
        most = ZR_MAX(most, bytes_of(row));
        if (row->micro_batch > range.largest->micro_batch)
            range.largest = row;
        if (row->micro_batch < smallest->micro_batch)
            smallest = row;
    }
    char from[ZR_BYTES_TEXT], to[ZR_BYTES_TEXT];
    zr_bytes_text((double)least, from);
    zr_bytes_text((double)most, to);
    bool one = strcmp(from, to) == 0;
    snprintf(range.bytes, sizeof range.bytes, "%s%s%s", from, one ? "" : " to ", one ? "" : to);
    long long low = smallest->micro_batch, high = range.largest->micro_batch;
    range.several = low != high;
    if (range.several)
        snprintf(range.micro_batches, sizeof range.micro_batches, " (micro-batches %lld to %lld)",
                 low, high);
    else if (high)
        snprintf(range.micro_batches, sizeof range.micro_batches, " (micro-batch %lld)", high);
    return range;
}

static bool used(const zr_plan_row *rows, int count, int category)
{
    for (int i = 0; i < count; i++)
        if (rows[i].bytes[category])
            return true;
    return false;
}

static bool offloads(const zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (rows[i].tiers[ZERO_TIER_host] || rows[i].tiers[ZERO_TIER_nvme])
            return true;
    return false;
}

static bool is_timed(const zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (!zr_forecast_is_unknown(&rows[i].time))
            return true;
    return false;
}

static void append_time(const zr_plan_row *row, zr_buffer *out)
{
    char step[ZR_SECONDS_TEXT] = "-";
    if (!zr_forecast_is_unknown(&row->time))
        zr_seconds_text(zr_forecast_is_rough(&row->time) ? zr_one_digit(row->time.seconds)
                                                         : row->time.seconds,
                        step);
    zr_buffer_printf(out, "  %10s", step);
}

static void append_heading(const zr_plan_row *rows, int count, zr_buffer *out)
{
    zr_buffer_printf(out, "stage  ranks%s", rows[0].micro_batch ? "  micro-batch" : "");
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        if (used(rows, count, c))
            zr_buffer_printf(out, "  %13s", zr_memory_category_name((zero_memory_category)c));
    zr_buffer_printf(out, "  %10s", "total");
    if (offloads(rows, count))
        zr_buffer_printf(out, " = %8s + %8s  %10s", "device", "host", "and NVMe");
    if (is_timed(rows, count))
        zr_buffer_printf(out, "  %10s", "step");
    zr_buffer_printf(out, "%s\n",
                     rows[0].largest < 0   ? ""
                     : rows[0].micro_batch ? "  largest micro-batch that fits"
                                           : "  fits");
}

static void append_tiers(const zr_plan_row *row, zr_buffer *out)
{
    char device[ZR_BYTES_TEXT], host[ZR_BYTES_TEXT], nvme[ZR_BYTES_TEXT];
    zr_bytes_text((double)row->tiers[ZERO_TIER_device], device);
    zr_bytes_text((double)row->tiers[ZERO_TIER_host], host);
    zr_bytes_text((double)row->tiers[ZERO_TIER_nvme], nvme);
    zr_buffer_printf(out, " = %8s + %8s  %10s", device, host, nvme);
}

static void append_row(const zr_plan_row *row, const zr_plan_row *rows, int count, zr_buffer *out)
{
    char text[ZR_BYTES_TEXT];
    zr_buffer_printf(out, "%5d  %5d", row->stage, row->ranks);
    if (row->micro_batch)
        zr_buffer_printf(out, "  %11lld", (long long)row->micro_batch);
    for (int c = 0; c < ZERO_MEM_COUNT; c++) {
        if (!used(rows, count, c))
            continue;
        zr_bytes_text((double)row->bytes[c], text);
        zr_buffer_printf(out, "  %13s", text);
    }
    zr_bytes_text((double)zr_plan_row_total(row), text);
    zr_buffer_printf(out, "  %10s", text);
    if (offloads(rows, count))
        append_tiers(row, out);
    if (is_timed(rows, count))
        append_time(row, out);
    if (row->largest > 0 && row->micro_batch)
        zr_buffer_printf(out, "  %lld", (long long)row->largest);
    else if (row->largest >= 0)
        zr_buffer_printf(out, "  %s", row->largest ? "yes" : row->micro_batch ? "none" : "no");
    zr_buffer_printf(out, "\n");
}

void zr_plan_table(const zr_plan_row *rows, int count, zr_buffer *out)
{
    append_heading(rows, count, out);
    for (int i = 0; i < count; i++)
        append_row(&rows[i], rows, count, out);
    zr_plan_exchanged_text(rows, count, out);
    zr_plan_residual_text(rows, count, out);
}

static void append_json_row(const zr_plan_row *row, zr_buffer *out)
{
    zr_buffer_printf(out, "{\"stage\":%d,\"ranks\":%d", row->stage, row->ranks);
    if (row->micro_batch)
        zr_buffer_printf(out, ",\"micro_batch\":%lld", (long long)row->micro_batch);
    zr_plan_exchanged_json(row, out);
    zr_plan_residual_json(row, out);
    zr_plan_pipeline_stages_json(row, out);
    zr_plan_network_json(row, out);
    zr_plan_time_json(row, out);
    zr_buffer_printf(out, ",\"bytes\":{");
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        zr_buffer_printf(out, "%s\"%s\":%lld", c ? "," : "",
                         zr_memory_category_name((zero_memory_category)c),
                         (long long)row->bytes[c]);
    zr_buffer_printf(out, "},\"total\":%lld,\"tiers\":{", (long long)zr_plan_row_total(row));
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        zr_buffer_printf(out, "%s\"%s\":%lld", t ? "," : "", zr_tier_name((zero_tier)t),
                         (long long)row->tiers[t]);
    zr_buffer_printf(out, "}");
    if (row->largest >= 0)
        zr_buffer_printf(out, ",\"fits\":%s",
                         row->largest > 0 && row->micro_batch <= row->largest ? "true" : "false");
    if (row->largest > 0 && row->micro_batch)
        zr_buffer_printf(out, ",\"largest_micro_batch\":%lld", (long long)row->largest);
    zr_buffer_printf(out, "}");
}

void zr_plan_json(const zr_plan_row *rows, int count, const char *model, const char *policy,
                  double parameters, const zr_settings *settings, const zr_elastic *elastic,
                  zr_buffer *out)
{
    zr_buffer_printf(out, "{\"model\":");
    zr_json_append_string(out, model, strlen(model));
    zr_buffer_printf(out, ",\"policy\":");
    zr_json_append_string(out, policy, strlen(policy));
    zr_buffer_printf(out, ",\"parameters\":%.0f,\"rows\":[", parameters);
    for (int i = 0; i < count; i++) {
        zr_buffer_printf(out, i ? ",\n" : "\n");
        append_json_row(&rows[i], out);
    }
    zr_buffer_printf(out, "]");
    if (settings) {
        zr_buffer_printf(out, ",\n\"settings\":");
        zr_settings_json(settings, out);
    }
    if (elastic)
        zr_buffer_printf(out, ",\n\"elasticity\":{\"batch\":%lld,\"ranks\":[",
                         (long long)elastic->batch);
    for (int i = 0; elastic && i < elastic->count; i++)
        zr_buffer_printf(out, "%s%lld", i ? "," : "", (long long)elastic->ranks[i]);
    zr_buffer_printf(out, elastic ? "]}}\n" : "}\n");
}

// Checks that what only a model's plan knows is not asked of formulas.
static zero_status check_report_model(const zero_plan_options *options, zero_error *error)
{
    bool by_formula = options->parameters > 0;
    if (by_formula && (options->pipeline || options->schedule || options->split))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: options.parameters are planned by formulas that know no "
                       "pipelines: options.pipeline, options.schedule and options.split need a "
                       "model");
    if (by_formula && (options->tensor || options->sequence_parallel))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: options.parameters plans by formulas that know no tensor "
                       "parallelism: options.tensor and options.sequence_parallel need a model");
    if (options->machines && (by_formula || options->ranks <= 0))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: options.machines says where the ranks of one plan are: it needs "
                       "options.ranks, and a model");
    return ZERO_OK;
}

static zero_status check_report(const zero_plan_options *options, zero_error *error)
{
    bool is_table = options->view == ZERO_PLAN_TABLE;
    if (!!options->new_spec + !!options->model + (options->parameters > 0) != 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: exactly one of options.new_spec, options.model and "
                       "options.parameters must be given");
    ZERO_TRY(check_report_model(options, error));
    if ((unsigned)options->view > ZERO_PLAN_LETTERS)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: options.view is %d, which is no zero_plan_view",
                       (int)options->view);
    if (!is_table && (options->json || options->memory > 0 || options->parameters > 0))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: options.view %d shows the program of a model: options.json, "
                       "options.memory and options.parameters do not go with it",
                       (int)options->view);
    return ZERO_OK;
}

// Makes every flag an override.
static zero_status take_flags(zero_plan_options *options, zr_flag_list *flags, zero_error *error)
{
    const zero_parallel parallel = {.tensor = options->tensor,
                                    .sequence_parallel = options->sequence_parallel,
                                    .pipeline = options->pipeline,
                                    .schedule = options->schedule,
                                    .split = options->split};
    ZERO_TRY(zr_flag_list_make(options->overrides, options->override_count, &parallel, -1, 0, flags,
                               error));
    options->overrides = flags->at;
    options->override_count = flags->count;
    return ZERO_OK;
}

zero_status zero_plan(const zero_plan_options *options, void (*write)(void *user, const char *text),
                      void *user, zero_error *error)
{
    ZR_NEED(error, options);
    ZR_NEED(error, write);
    zr_buffer text = {0};
    zero_plan_options taken;
    zr_flag_list flags;
    ZERO_TRY(zr_struct_take("zero_plan: options", options,
                            ZR_STRUCT_UPTO(zero_plan_options, logger), &taken, sizeof taken,
                            error));
    options = &taken;
    ZERO_TRY(check_report(options, error));
    ZERO_TRY(take_flags(&taken, &flags, error));
    zero_status status = options->parameters > 0 ? zr_plan_by_formula(options, &text, error)
                                                 : zr_plan_by_model(options, &text, error);
    if (status == ZERO_OK && text.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of the plan");
    if (status == ZERO_OK && options->path)
        status = zr_file_write_durable(options->path, text.data, text.length, error);
    else if (status == ZERO_OK)
        write(user, text.data);
    zr_flag_list_free(&flags);
    zr_buffer_free(&text);
    return status;
}
