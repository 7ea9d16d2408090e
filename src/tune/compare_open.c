// What all ways of a comparison have in common: the model, the configuration, the machine.
#include "tune/comparison.h"

#include "base/cpu.h"
#include "data/data_source.h"
#include "checkpoint/run_directory.h"
#include "predict/disk.h"
#include "setup/machine_facts.h"
#include "setup/resolve.h"
#include "setup/run_setup.h"

#include <stdio.h>
#include <string.h>

// The tokenizer is the one that trainings will have: the model's, or that of bytes.
static zero_status choose_subject(zr_comparison *c, zero_error *error)
{
    const zero_compare_options *options = c->options;
    char *directory = NULL;
    zr_tokenizer *tokenizer = NULL;
    zero_status status = zr_model_directory(options->model, &options->logger, &directory, error);
    if (status == ZERO_OK)
        status = directory ? zr_tokenizer_load(directory, &tokenizer, error)
                           : zr_tokenizer_open("bytes", NULL, 0, NULL, &tokenizer, error);
    const zr_subject_question question = {.new_spec = options->new_spec,
                                          .model = directory,
                                          .seq = options->seq,
                                          .tokenizer = tokenizer,
                                          .logger = &options->logger};
    if (status == ZERO_OK)
        status = zr_model_choice_read(&question, &c->subject, error);
    zr_tokenizer_destroy(tokenizer);
    zr_free(directory);
    return status;
}

// Fills in what zero train with --tensor and --pipeline resolves with; 0: not given.
static void fill_resolution(const zr_comparison *c, int tensor, int pipeline, zr_resolution *how)
{
    how->quiet = true;
    how->facts = zr_model_choice_facts(&c->subject, c->ranks);
    how->facts.parallel = (zero_parallel){.tensor = tensor, .pipeline = pipeline};
}

// The ways say these themselves, at one batch.
static zero_status check_base(const zr_config *config, zero_error *error)
{
    if (config->elastic)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: elasticity chooses a batch for each number of data ranks, and a "
                       "comparison needs the same batch for all: leave it out",
                       config->name);
    if (config->tensor > 1 || config->pipeline.stages > 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: a comparison chooses tensor ranks and pipeline stages itself: leave "
                       "out tensor_parallel and pipeline.stages",
                       config->name);
    return ZERO_OK;
}

static zero_status keep_base(zr_comparison *c, const zr_config *config, zero_error *error)
{
    zr_buffer text = {0};
    c->batch = (zr_way_batch){.samples = config->train_batch, .micro_batch = config->micro_batch};
    snprintf(c->dtype, sizeof c->dtype, "%s", zr_settings_of(config, false).precision.name);
    zr_config_write(config, &text);
    zero_status status = text.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the configuration")
                             : zr_json_parse(text.data, text.length, config->name, &c->base, error);
    zr_buffer_free(&text);
    return status;
}

// Passes warnings and errors on. Drops informational messages: they describe one run, and here many
// are resolved.
static void pass_on(void *user, zero_log_level level, const char *message)
{
    if (level != ZERO_LOG_INFO)
        zr_log(user, level, "%s", message);
}

static zero_status read_base(zr_comparison *c, zero_error *error)
{
    const zero_compare_options *options = c->options;
    const zero_logger logger = {.write = pass_on, .user = (void *)&options->logger};
    zr_config *config = NULL;
    zr_resolution how = {
        .name = options->config_path,
        .flags = options->overrides,
        .flag_count = options->override_count,
        .logger = &logger,
    };
    fill_resolution(c, 0, 0, &how);
    zero_status status = zr_resolve_file(&how, &config, error);
    if (status == ZERO_OK)
        status = check_base(config, error);
    if (status == ZERO_OK)
        status = keep_base(c, config, error);
    zr_config_destroy(config);
    return status;
}

static zero_status look_at_machine(zr_comparison *c, zero_error *error)
{
    const zero_compare_options *options = c->options;
    zr_disk disk;
    ZERO_TRY(zr_queue_open("cpu", NULL, c->threads, &c->queue, error));
    zr_machine_fill(c->queue, NULL, &c->machine);
    c->memory = (options->memory ? options->memory : c->machine.memory_limit) / c->ranks;
    c->machine.memory_limit = c->memory;
    zr_rate_book_read(&options->logger, &c->book);
    if (!options->nvme)
        return ZERO_OK;
    ZERO_TRY(zr_disk_look(options->nvme, &disk, error));
    c->nvme = disk.available / c->ranks;
    c->machine.tier_limit[ZERO_TIER_nvme] = c->nvme;
    return ZERO_OK;
}

static zero_status configure_way(zr_comparison *c, zr_compare_row *row, zero_error *error)
{
    zero_error reason = {0};
    if (row->way.needs[0]) {
        snprintf(row->why, sizeof row->why, "%s", row->way.needs);
        return ZERO_OK;
    }
    row->text = zr_way_config(&row->way, c->base, &c->batch, c->options->nvme, error);
    if (!row->text)
        return ZERO_ERR_MEMORY;
    zr_resolution how = {.text = row->text, .length = strlen(row->text), .name = row->way.name};
    fill_resolution(c, row->way.tensor, row->way.stages, &how);
    if (zr_resolve(&how, &row->config, &reason) != ZERO_OK)
        snprintf(row->why, sizeof row->why, "%s", reason.message);
    return ZERO_OK;
}

zero_status zr_comparison_open(const zero_compare_options *options, zr_comparison *out,
                               zero_error *error)
{
    int cores = zr_cpu_budget_get().allowed;
    zr_way ways[ZR_MOST_WAYS];
    *out = (zr_comparison){.options = options, .cores = cores};
    out->ranks = options->ranks ? options->ranks : ZR_MAX(cores, 2);
    out->threads = options->threads ? options->threads : ZR_MAX(cores / out->ranks, 1);
    out->crowded = (int64_t)out->ranks * out->threads > cores;
    ZERO_TRY(choose_subject(out, error));
    ZERO_TRY(zr_data_sources_are_there(options->data, options->data_count, error));
    ZERO_TRY(read_base(out, error));
    ZERO_TRY(look_at_machine(out, error));
    out->count = zr_ways_list(out->ranks, options->nvme != NULL, ways);
    for (int i = 0; i < out->count; i++) {
        out->rows[i].way = ways[i];
        ZERO_TRY(configure_way(out, &out->rows[i], error));
    }
    return ZERO_OK;
}

void zr_comparison_close(zr_comparison *c)
{
    for (int i = 0; i < c->count; i++) {
        zr_config_destroy(c->rows[i].config);
        zr_free(c->rows[i].text);
    }
    zr_rate_book_free(&c->book);
    zr_queue_close(c->queue);
    json_decref(c->base);
    zr_model_choice_free(&c->subject);
    zr_free(c->scratch);
    zr_free(c->made);
}
