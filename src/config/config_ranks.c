// Divides the ranks of a job:
//
//   keys and flags -> tensor ranks, pipeline stages, which together divide the world -> data ranks
//
// and says in words how they are divided.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>

zr_job_grid zr_config_grid(const zr_config *config)
{
    return (zr_job_grid){
        .stages = config->pipeline.stages, .data = config->ranks, .tensor = config->tensor};
}

int zr_config_model_ranks(const zr_config *config)
{
    return config->tensor * config->pipeline.stages;
}

// Says who decides how many ranks compute a model: "--pipeline 2 x --tensor 4, which is 8".
static void describe_model_division(const zr_config *config, char *out, size_t size)
{
    bool split = config->tensor > 1, piped = config->pipeline.stages > 1;
    int used = 0;
    out[0] = 0;
    if (piped)
        used = snprintf(out, size, "%s%s", zr_config_said(config, ZR_PIPELINE_STAGES).text,
                        split ? " x " : "");
    if (split)
        used += snprintf(out + used, size - (size_t)used, "%s", zr_config_tensor_said(config).text);
    if (split && piped)
        snprintf(out + used, size - (size_t)used, ", which is %d", zr_config_model_ranks(config));
}

static bool is_by_flag(const zr_config *config)
{
    return zr_config_tensor_is_flag(config) ||
           zr_config_at(config, ZR_PIPELINE_STAGES)->origin == ZR_FROM_FLAG;
}

static zero_status settle_world(zr_config *config, int world, zero_error *error)
{
    int64_t model = zr_config_model_ranks(config), below = world - world % model;
    char who[1024];
    config->world = world;
    config->ranks = (int)(world / model);
    if (world == below)
        return ZERO_OK;
    below = ZR_MAX(below, model);
    bool by_flag = is_by_flag(config);
    describe_model_division(config, who, sizeof who);
    return zr_fail(error, by_flag ? ZERO_ERR_USAGE : ZERO_ERR_CONFIG,
                   "%d rank%s no multiple of %s: %s%" PRId64 " or %" PRId64 "%s", world,
                   world == 1 ? " is" : "s are", who, by_flag ? "--ranks " : "", below,
                   below + model, by_flag ? "" : " ranks");
}

zero_status zr_config_find_ranks(zr_config *config, const zr_config_facts *facts, zero_error *error)
{
    ZERO_TRY(zr_config_override_parallel(config, &facts->parallel, error));
    ZERO_TRY(zr_config_settle_tensor(config, error));
    ZERO_TRY(zr_config_settle_pipeline(config, error));
    ZERO_TRY(settle_world(config, facts->world, error));
    return zr_config_settle_slices(config, error);
}

// Writes how many ranks of the job are not data ranks; `out` is empty if there are none.
static void describe_job_ranks(zr_job_grid grid, char *out, size_t size)
{
    int64_t job = grid.stages * grid.data * grid.tensor;
    out[0] = 0;
    if (grid.stages > 1 && grid.tensor > 1)
        snprintf(out, size,
                 " (%" PRId64 " ranks: %" PRId64 " pipeline stages x %" PRId64 " tensor)", job,
                 grid.stages, grid.tensor);
    else if (grid.stages > 1)
        snprintf(out, size, " (%" PRId64 " ranks: %" PRId64 " pipeline stages)", job, grid.stages);
    else if (grid.tensor > 1)
        snprintf(out, size, " (%" PRId64 " ranks, %" PRId64 " a model)", job, grid.tensor);
}

zr_ranks_words zr_ranks_in_words(zr_job_grid grid)
{
    bool shared = grid.stages > 1 || grid.tensor > 1;
    zr_ranks_words words = {.kind = shared ? "data ranks" : "ranks"};
    const char *one = shared ? "data rank" : "rank", *counted = grid.data == 1 ? one : words.kind;
    int at = snprintf(words.text, sizeof words.text, "%" PRId64 " %s", grid.data, counted);
    describe_job_ranks(grid, words.text + at, sizeof words.text - (size_t)at);
    return words;
}

zr_grid_words zr_grid_in_words(zr_job_grid grid)
{
    zr_grid_words words = {0};
    int at = 0;
    if (grid.stages > 1)
        at = snprintf(words.text, sizeof words.text, "%" PRId64 " pipeline stages x ", grid.stages);
    if (grid.stages > 1 || grid.tensor > 1)
        at += snprintf(words.text + at, sizeof words.text - (size_t)at, "%" PRId64 " data",
                       grid.data);
    if (grid.tensor > 1)
        snprintf(words.text + at, sizeof words.text - (size_t)at, " x %" PRId64 " tensor",
                 grid.tensor);
    return words;
}
