#include "tune/tuning_settings.h"

#include "base/json.h"
#include "setup/defaults.h"
#include "setup/model_part.h"

#include <string.h>
#include <zero/comm.h>

enum { MOST_CANDIDATES = 1500 };

static zr_space_list list_of_one(int64_t value)
{
    return (zr_space_list){.at = {value}, .count = 1};
}

static void add_to_list(zr_space_list *list, int64_t value)
{
    if (list->count < ZR_SPACE_MOST)
        list->at[list->count++] = value;
}

// Returns whether a key is open: the file does not set it, and the search is not of stage and
// micro-batch alone.
static bool key_is_open(const zr_tuning_asked *a, const char *path)
{
    return !a->settings->fast && !zr_tuning_file_says(a->file, path);
}

// Returns whether a key that libzero.offload auto chooses is open. With "auto" it is open also in a
// search of stage and micro-batch alone, or a model that needs offloading would never fit.
static bool is_place_open(const zr_tuning_asked *a, const char *path)
{
    const char *word = json_string_value(zr_json_get(a->file->root, "libzero.offload"));
    bool automatic = word && strcmp(word, "auto") == 0;
    return automatic ? !zr_tuning_file_says(a->file, path) : key_is_open(a, path);
}

// ---- ranks

// Returns the tensor ranks that the user has set; 0 if open.
static int64_t given_tensor_ranks(const zr_tuning_asked *a)
{
    int64_t given = zr_tuning_file_number(a->file, ZR_TUNING_TENSOR);
    int64_t other = zr_tuning_file_number(a->file, "tensor_parallel.tp.tp_size");
    if (given || other)
        return ZR_MAX(given, other);
    return a->settings->model_ranks > 1 ? a->settings->model_ranks : 0;
}

// Returns the ranks that hold one model together; a job has a multiple of them.
static int64_t ranks_of_model(const zr_tuning_asked *a)
{
    int64_t pipeline = zr_tuning_file_number(a->file, ZR_TUNING_PIPELINE);
    return ZR_MAX(given_tensor_ranks(a), 1) * ZR_MAX(pipeline, 1);
}

// Returns every number of ranks that divides the cores and is a multiple of the user's grid, or
// else the least that the grid needs.
static zr_space_list list_rank_counts(const zr_tuning_asked *a)
{
    const zero_tune_options *o = a->options;
    zr_space_list list = {0};
    int64_t model = ranks_of_model(a);
    if (o->ranks)
        return list_of_one(o->ranks);
    if (o->threads)
        return list_of_one(ZR_MAX(a->cores / o->threads / model, 1) * model);
    if (a->settings->fast)
        return list_of_one(model);
    for (int64_t ranks = model; ranks <= ZR_MIN(a->cores, ZERO_MAX_RANKS); ranks += model)
        if (a->cores % ranks == 0)
            add_to_list(&list, ranks);
    return list.count ? list : list_of_one(model);
}

static zero_status check_ranks(const zr_tuning_asked *a, int64_t ranks, zero_error *error)
{
    int64_t tensor = ZR_MAX(given_tensor_ranks(a), 1), model = ranks_of_model(a);
    if (ranks % model == 0 && ranks <= ZERO_MAX_RANKS)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: %lld rank%s cannot be divided into %lld tensor rank%s x %lld pipeline "
                   "stage%s: a multiple of %lld up to %d can",
                   a->file->name, (long long)ranks, ranks == 1 ? "" : "s", (long long)tensor,
                   tensor == 1 ? "" : "s", (long long)(model / tensor),
                   model / tensor == 1 ? "" : "s", (long long)model, ZERO_MAX_RANKS);
}

static int most_ranks(const zr_tuning_space *space)
{
    int64_t most = 1;
    for (int i = 0; i < space->ranks.count; i++)
        most = ZR_MAX(most, space->ranks.at[i]);
    return (int)most;
}

static zr_space_list list_powers_of_two(int64_t most, int64_t divide)
{
    zr_space_list list = {0};
    for (int64_t power = 1; power <= most && divide % power == 0; power *= 2)
        add_to_list(&list, power);
    return list;
}

static zr_space_list list_tensor_ranks(const zr_tuning_asked *a, int ranks)
{
    int64_t given = given_tensor_ranks(a);
    if (given)
        return list_of_one(given);
    return key_is_open(a, ZR_TUNING_TENSOR) ? list_powers_of_two(ranks, a->subject->shape.heads)
                                            : list_of_one(1);
}

static zr_space_list list_pipeline_stages(const zr_tuning_asked *a, int ranks)
{
    zr_space_list list = {0};
    int64_t most =
        ZR_MIN(ZR_MIN((int64_t)ranks, a->subject->shape.layers), ZR_MOST_PIPELINE_STAGES);
    if (!key_is_open(a, ZR_TUNING_PIPELINE))
        return list_of_one(ZR_MAX(zr_tuning_file_number(a->file, ZR_TUNING_PIPELINE), 1));
    for (int64_t stages = 1; stages <= most; stages *= 2)
        add_to_list(&list, stages);
    return list;
}

// Asynchronous schedules compute something else, so they are used only if the user sets them.
static zero_status find_schedules(const zr_tuning_asked *a, zr_tuning_space *out, zero_error *error)
{
    const char *given = zr_tuning_file_text(a->file, ZR_TUNING_SCHEDULE);
    zr_pipeline_kind kind = ZR_PIPELINE_INTERLEAVED;
    out->chunks = 2;
    if (given && strcmp(given, zr_pipeline_kind_name(kind)) != 0 &&
        !zr_pipeline_kind_read(given, &kind, &out->chunks))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: " ZR_TUNING_SCHEDULE ": found \"%s\", expected one of %s",
                       a->file->name, given, ZR_PIPELINE_KINDS);
    out->schedules = list_of_one(kind);
    if (given)
        return ZERO_OK;
    out->schedules = list_of_one(ZR_PIPELINE_1F1B);
    add_to_list(&out->schedules, ZR_PIPELINE_ZB_H1);
    if (a->subject->shape.layers >= 4)
        add_to_list(&out->schedules, ZR_PIPELINE_INTERLEAVED);
    return ZERO_OK;
}

// ---- the batch

static zr_space_list given_micro_batches(const zr_tuning_file *file)
{
    int64_t given = zr_tuning_file_number(file, ZR_TUNING_MICRO_BATCH);
    return given ? list_of_one(given) : file->micro_batches;
}

// Returns the samples of a step of zero train with the user's settings on the most ranks, so that
// fewer ranks can divide them, too.
static int64_t samples_of_train(const zr_tuning_asked *a, const zr_tuning_space *space)
{
    int64_t model = space->tensor.at[0] * space->pipeline.at[0];
    int64_t data = ZR_MAX(most_ranks(space) / model, 1);
    int64_t given = zr_tuning_file_number(a->file, ZR_TUNING_BATCH);
    int64_t micro = zr_tuning_file_number(a->file, ZR_TUNING_MICRO_BATCH);
    int64_t usual = zr_default_batch(a->subject->parameters, a->subject->seq);
    if (given)
        return given;
    if (!micro)
        micro = (usual + data - 1) / data;
    return micro * ZR_MAX(space->accumulation, 1) * data;
}

// Adds twice and half as many samples, and so on, within the limits.
static void widen_batches(const zr_tuning_settings *settings, zr_space_list *list)
{
    int64_t batch = list->at[0], most = ZR_MIN(settings->most_batch, ZR_SPACE_MOST_BATCH);
    for (int64_t larger = 2 * batch; larger <= most; larger *= 2)
        add_to_list(list, larger);
    for (int64_t less = batch / 2; settings->least_batch && less >= settings->least_batch;
         less /= 2)
        add_to_list(list, less);
}

// Checks the user's numbers before they are multiplied.
static zero_status check_samples(const zr_tuning_asked *a, const char *path, int64_t most,
                                 zero_error *error)
{
    int64_t given = zr_tuning_file_number(a->file, path);
    return given <= most ? ZERO_OK
                         : zr_fail(error, ZERO_ERR_CONFIG,
                                   "%s: %s: %lld is more than the %lld that zero tune tries",
                                   a->file->name, path, (long long)given, (long long)most);
}

static zero_status find_batches(const zr_tuning_asked *a, zr_tuning_space *out, zero_error *error)
{
    const zr_tuning_settings *settings = a->settings;
    bool elastic =
        json_is_true(json_object_get(json_object_get(a->file->root, "elasticity"), "enabled"));
    ZERO_TRY(check_samples(a, ZR_TUNING_BATCH, ZR_SPACE_MOST_BATCH, error));
    ZERO_TRY(check_samples(a, ZR_TUNING_MICRO_BATCH, ZR_TUNING_MOST_MICROS, error));
    ZERO_TRY(check_samples(a, ZR_TUNING_ACCUMULATION, ZR_TUNING_MOST_MICROS, error));
    out->accumulation = zr_tuning_file_number(a->file, ZR_TUNING_ACCUMULATION);
    out->micro_batches = elastic ? list_of_one(1) : given_micro_batches(a->file);
    out->least_micro_batch = settings->least_micro_batch;
    out->most_micro_batch = settings->most_micro_batch;
    out->micro_batch_count = settings->micro_batches;
    bool fixed =
        out->accumulation && out->micro_batches.count == 1 && !a->file->micro_batches.count;
    bool batch_said = zr_tuning_file_says(a->file, ZR_TUNING_BATCH);
    out->batch_follows = elastic || (fixed && !batch_said);
    out->batches = list_of_one(samples_of_train(a, out));
    if (out->batches.at[0] > ZR_SPACE_MOST_BATCH)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: a step of %lld samples: zero tune tries at most %d", a->file->name,
                       (long long)out->batches.at[0], ZR_SPACE_MOST_BATCH);
    if (!batch_said)
        widen_batches(settings, &out->batches);
    return ZERO_OK;
}

// ---- memory

static zero_tier tier_said(const zr_tuning_file *file, const char *path)
{
    const char *text = zr_tuning_file_text(file, path);
    return !text || strcmp(text, "none") == 0 ? ZERO_TIER_device
           : strcmp(text, "cpu") == 0         ? ZERO_TIER_host
                                              : ZERO_TIER_nvme;
}

static bool says_path(const zr_tuning_file *file)
{
    static const char *const keys[] = {"libzero.nvme_path",
                                       "zero_optimization.offload_optimizer.nvme_path",
                                       "zero_optimization.offload_param.nvme_path"};
    bool given = false;
    for (int i = 0; i < ZR_COUNT(keys); i++) {
        const zr_setting *setting = zr_config_setting(file->config, keys[i]);
        given = given || (setting->value && !json_is_null(setting->value));
    }
    return given;
}

static bool tiles_are_open(const zr_tuning_asked *a)
{
    return is_place_open(a, "libzero.tiling.all") && is_place_open(a, "libzero.tiling.embedding") &&
           is_place_open(a, "libzero.tiling.attention") && is_place_open(a, "libzero.tiling.mlp") &&
           is_place_open(a, "libzero.exact_tensor");
}

static void find_memory(const zr_tuning_asked *a, zr_tuning_space *out)
{
    const zr_tuning_file *file = a->file;
    out->vary_checkpoints = key_is_open(a, ZR_TUNING_CHECKPOINTS);
    out->vary_optimizer = is_place_open(a, ZR_TUNING_OPTIMIZER);
    out->vary_parameters = is_place_open(a, ZR_TUNING_PARAMETERS);
    out->vary_sub_group = is_place_open(a, ZR_TUNING_SUB_GROUP);
    out->vary_delayed = key_is_open(a, ZR_TUNING_DELAYED);
    out->vary_tiles = tiles_are_open(a);
    out->tilings = ZR_TILINGS;
    out->budgets = zr_tuning_file_says(file, "libzero.device_memory");
    out->nvme = says_path(file);
    out->checkpoints = a->subject->shape.layers;
    out->as_said.checkpoints = zr_tuning_file_number(file, ZR_TUNING_CHECKPOINTS);
    out->as_said.optimizer = tier_said(file, ZR_TUNING_OPTIMIZER);
    out->as_said.parameters = tier_said(file, ZR_TUNING_PARAMETERS);
    out->as_said.delayed = zr_tuning_file_number(file, ZR_TUNING_DELAYED) > 0;
}

// Leaves out stages below those that the user's tiers need, which would be refused one by one.
static zr_space_list list_zero_stages(const zr_tuning_asked *a, const zr_run_candidate *given)
{
    int64_t least = given->parameters != ZERO_TIER_device  ? 3
                    : given->optimizer != ZERO_TIER_device ? 1
                                                           : 0;
    zr_space_list list = {0};
    if (zr_tuning_file_says(a->file, ZR_TUNING_STAGE)) // a flag wins over a list
        return list_of_one(zr_tuning_file_number(a->file, ZR_TUNING_STAGE));
    if (a->file->stages.count)
        return a->file->stages;
    for (int64_t stage = least; stage <= 3; stage++)
        add_to_list(&list, stage);
    return list;
}

zero_status zr_tuning_space_find(const zr_tuning_asked *asked, zr_tuning_space *out,
                                 zero_error *error)
{
    *out = (zr_tuning_space){.ranks = list_rank_counts(asked),
                             .cores = asked->cores,
                             .threads = asked->options->threads,
                             .most = MOST_CANDIDATES,
                             .metric = asked->settings->metric};
    ZERO_TRY(check_ranks(asked, out->ranks.at[0], error));
    out->tensor = list_tensor_ranks(asked, most_ranks(out));
    out->pipeline = list_pipeline_stages(asked, most_ranks(out));
    ZERO_TRY(find_schedules(asked, out, error));
    ZERO_TRY(find_batches(asked, out, error));
    find_memory(asked, out);
    out->stages = list_zero_stages(asked, &out->as_said);
    return ZERO_OK;
}
