// zero_plan: the choice between the two ways of planning, and the tables that both write.
#include "setup/resolve.h"
#include "report/plan_report.h"

#include "base/errors.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "memory/arena.h"
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

static bool any_row_uses(const zr_plan_row *rows, int count, int category)
{
    for (int i = 0; i < count; i++)
        if (rows[i].bytes[category])
            return true;
    return false;
}

static bool any_row_offloads(const zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (rows[i].tiers[ZERO_TIER_host] || rows[i].tiers[ZERO_TIER_nvme])
            return true;
    return false;
}

static bool any_row_is_timed(const zr_plan_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        if (!zr_forecast_is_unknown(&rows[i].time))
            return true;
    return false;
}

// Returns the predicted step, with one digit where most of it is guessed.
static zr_value step_value(const zr_plan_row *row)
{
    double seconds = row->time.seconds;
    if (zr_forecast_is_unknown(&row->time))
        return zr_none();
    return zr_real(zr_forecast_is_rough(&row->time) ? zr_one_digit(seconds) : seconds);
}

// Returns whether a row fits, or the largest micro-batch with which it does.
static zr_value fits_value(const zr_plan_row *row)
{
    if (row->largest > 0 && row->micro_batch)
        return zr_integer(row->largest);
    return zr_text(row->largest ? "yes" : row->micro_batch ? "none" : "no");
}

enum { TOTAL = 3 * ZR_BYTES_TEXT + 8 }; // bytes of a text of the total and of what it consists of

static void tiers_text(const zr_plan_row *row, bool offloaded, char out[TOTAL])
{
    char total[ZR_BYTES_TEXT], device[ZR_BYTES_TEXT], host[ZR_BYTES_TEXT];
    zr_bytes_text((double)zr_plan_row_total(row), total);
    zr_bytes_text((double)row->tiers[ZERO_TIER_device], device);
    zr_bytes_text((double)row->tiers[ZERO_TIER_host], host);
    if (offloaded)
        snprintf(out, TOTAL, "%10s = %8s + %8s", total, device, host);
    else
        snprintf(out, TOTAL, "%s", total);
}

typedef struct plan_columns { // which columns a table of rows has
    zr_heading at[ZERO_MEM_COUNT + 8];
    int count;
    bool uses[ZERO_MEM_COUNT], batch, offloaded, timed, fits;
} plan_columns;

static void add_column(plan_columns *c, bool there, zr_heading heading)
{
    if (there)
        c->at[c->count++] = heading;
}

static void choose_columns(const zr_plan_row *rows, int count, plan_columns *c)
{
    *c = (plan_columns){.batch = rows[0].micro_batch > 0,
                        .offloaded = any_row_offloads(rows, count),
                        .timed = any_row_is_timed(rows, count),
                        .fits = rows[0].largest >= 0};
    add_column(c, true, (zr_heading){.label = "stage"});
    add_column(c, true, (zr_heading){.label = "ranks"});
    add_column(c, c->batch, (zr_heading){.label = "micro-batch"});
    for (int i = 0; i < ZERO_MEM_COUNT; i++) {
        c->uses[i] = any_row_uses(rows, count, i);
        add_column(c, c->uses[i],
                   (zr_heading){.label = zr_memory_category_name((zero_memory_category)i),
                                .unit = ZR_UNIT_BYTES,
                                .width = 13});
    }
    add_column(
        c, true,
        (zr_heading){.label = c->offloaded ? "total =   device +     host" : "total", .width = 10});
    add_column(c, c->offloaded,
               (zr_heading){.label = "and NVMe", .unit = ZR_UNIT_BYTES, .width = 10});
    add_column(c, c->timed, (zr_heading){.label = "step", .unit = ZR_UNIT_SECONDS, .width = 10});
    add_column(
        c, c->fits,
        (zr_heading){.label = c->batch ? "largest micro-batch that fits" : "fits", .left = true});
}

static void put_row_cells(const zr_plan_row *row, const plan_columns *c, zr_report *r)
{
    char total[TOTAL];
    tiers_text(row, c->offloaded, total);
    zr_report_row(r);
    zr_report_cell(r, zr_integer(row->stage));
    zr_report_cell(r, zr_integer(row->ranks));
    if (c->batch)
        zr_report_cell(r, zr_integer(row->micro_batch));
    for (int i = 0; i < ZERO_MEM_COUNT; i++)
        if (c->uses[i])
            zr_report_cell(r, zr_integer(row->bytes[i]));
    zr_report_cell(r, zr_text(total));
    if (c->offloaded)
        zr_report_cell(r, zr_integer(row->tiers[ZERO_TIER_nvme]));
    if (c->timed)
        zr_report_cell(r, step_value(row));
    if (c->fits)
        zr_report_cell(r, fits_value(row));
}

void zr_plan_table(const zr_plan_row *rows, int count, int width, zr_buffer *out)
{
    plan_columns columns;
    choose_columns(rows, count, &columns);
    zr_report *r = zr_report_create(NULL);
    zr_report_table(r, NULL, columns.at, columns.count);
    for (int i = 0; i < count; i++)
        put_row_cells(&rows[i], &columns, r);
    zr_report_end_table(r);
    zr_report_finish(r, ZR_REPORT_TEXT, width, out);
    zr_plan_exchanged_text(rows, count, width, out);
    zr_plan_residual_text(rows, count, out);
}

void zr_plan_messages_json(const zr_plan_messages *messages, zr_json_writer *w, const char *key)
{
    zr_json_begin_object(w, key);
    zr_json_integer(w, "calls", messages->calls);
    zr_json_integer(w, "bytes", messages->bytes);
    zr_json_end(w);
}

void zr_plan_bytes_json(const int64_t bytes[ZERO_MEM_COUNT], int64_t total,
                        const int64_t tiers[ZERO_TIER_COUNT], zr_json_writer *w)
{
    zr_json_begin_object(w, "bytes");
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        zr_json_integer(w, zr_memory_category_name((zero_memory_category)c), bytes[c]);
    zr_json_end(w);
    zr_json_integer(w, "total", total);
    zr_json_begin_object(w, "tiers");
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        zr_json_integer(w, zr_tier_name((zero_tier)t), tiers[t]);
    zr_json_end(w);
}

static void put_plan_row(const zr_plan_row *row, zr_json_writer *w)
{
    zr_json_begin_object(w, NULL);
    zr_json_integer(w, "stage", row->stage);
    zr_json_integer(w, "ranks", row->ranks);
    if (row->micro_batch)
        zr_json_integer(w, "micro_batch", row->micro_batch);
    zr_plan_exchanged_json(row, w);
    zr_plan_residual_json(row, w);
    zr_plan_pipeline_stages_json(row, w);
    zr_plan_network_json(row, w);
    zr_plan_time_json(row, w);
    zr_plan_bytes_json(row->bytes, zr_plan_row_total(row), row->tiers, w);
    if (row->largest >= 0)
        zr_json_flag(w, "fits", row->largest > 0 && row->micro_batch <= row->largest);
    if (row->largest > 0 && row->micro_batch)
        zr_json_integer(w, "largest_micro_batch", row->largest);
    zr_json_end(w);
}

static void put_elasticity(const zr_elastic *elastic, zr_json_writer *w)
{
    zr_json_line(w, 0);
    zr_json_begin_object(w, "elasticity");
    zr_json_integer(w, "batch", elastic->batch);
    zr_json_begin_array(w, "ranks");
    for (int i = 0; i < elastic->count; i++)
        zr_json_integer(w, NULL, elastic->ranks[i]);
    zr_json_end(w);
    zr_json_end(w);
}

void zr_plan_json(const zr_plan_row *rows, int count, const char *model, const char *policy,
                  double parameters, const zr_settings *settings, const zr_elastic *elastic,
                  zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "model", model);
    zr_json_text(&w, "policy", policy);
    zr_json_fixed(&w, "parameters", 0, parameters);
    zr_json_begin_array(&w, "rows");
    for (int i = 0; i < count; i++) {
        zr_json_line(&w, 0);
        put_plan_row(&rows[i], &w);
    }
    zr_json_end(&w);
    if (settings) {
        zr_json_line(&w, 0);
        zr_settings_json(settings, &w, "settings");
    }
    if (elastic)
        put_elasticity(elastic, &w);
    zr_json_end(&w);
    zr_buffer_printf(out, "\n");
}

// Checks that what only a model's plan knows is not asked of formulas.
static zero_status check_formula_options(const zero_plan_options *options, zero_error *error)
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

static zero_status check_plan_options(const zero_plan_options *options, zero_error *error)
{
    bool is_table = options->view == ZERO_PLAN_TABLE;
    if (!!options->new_spec + !!options->model + (options->parameters > 0) != 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_plan: exactly one of options.new_spec, options.model and "
                       "options.parameters must be given");
    ZERO_TRY(check_formula_options(options, error));
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
    ZERO_TRY(check_plan_options(options, error));
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
