#include "tune/compare_ways.h"

#include "base/json.h"
#include "tune/trial.h"

#include <stdio.h>
#include <string.h>

// Elements that move at a time where states lie on NVMe, so that buffers stay small.
enum { NVME_SUB_GROUP = 1 << 20, RANKS_OF_3D = 8, RANKS_OF_2D = 4 };

#define NO_CODE "none"
#define CODE_OF_TENSOR "every layer: which columns and rows a rank has, and where parts are summed"
#define CODE_OF_PIPELINE "a list of units with what passes between them"
#define CODE_OF_BOTH "both: layers in slices, and a list of units"

// ---- the list

static zr_way data_parallel_way(const char *name, int ranks, int stage)
{
    zr_way way = {
        .name = name, .data = ranks, .tensor = 1, .stages = 1, .stage = stage, .code = NO_CODE};
    snprintf(way.effort, sizeof way.effort, "`\"zero_optimization\": {\"stage\": %d}`", stage);
    if (stage == 0)
        snprintf(way.effort, sizeof way.effort, "nothing");
    return way;
}

static zr_way tensor_parallel_way(int ranks)
{
    zr_way way = {.name = "tensor parallelism",
                  .data = 1,
                  .tensor = ranks,
                  .stages = 1,
                  .code = CODE_OF_TENSOR};
    snprintf(way.effort, sizeof way.effort, "`--tensor %d`", ranks);
    return way;
}

static zr_way pipeline_way(int ranks)
{
    zr_way way = {.name = "pipeline parallelism",
                  .data = 1,
                  .tensor = 1,
                  .stages = ranks,
                  .code = CODE_OF_PIPELINE};
    snprintf(way.effort, sizeof way.effort, "`--pipeline %d`, and micro-batches to fill it", ranks);
    return way;
}

// Of 3D, each axis has two ranks at least; with four ranks there are the two axes that split a
// model.
static zr_way way_in_3d(int ranks)
{
    zr_way way = {.name = "3D: data, tensor, pipeline",
                  .data = ranks / RANKS_OF_2D,
                  .tensor = 2,
                  .stages = 2,
                  .stage = 1,
                  .effort = "`--tensor 2 --pipeline 2 --stage 1`",
                  .code = CODE_OF_BOTH};
    if (ranks == RANKS_OF_2D) {
        way.name = "tensor and pipeline";
        way.stage = 0;
        snprintf(way.effort, sizeof way.effort, "`--tensor 2 --pipeline 2`");
    } else if (ranks % RANKS_OF_3D)
        snprintf(way.needs, sizeof way.needs,
                 "needs a multiple of %d ranks, 2 of each axis (--ranks %d), or %d without data "
                 "ranks, not %d",
                 RANKS_OF_3D, RANKS_OF_3D, RANKS_OF_2D, ranks);
    return way;
}

static zr_way offloading_way(const char *name, int ranks, zero_tier states)
{
    zr_way way = data_parallel_way(name, ranks, 3);
    const char *device = states == ZERO_TIER_host ? "cpu" : "nvme";
    way.states = states;
    snprintf(way.effort, sizeof way.effort,
             "`\"stage\": 3`, `offload_optimizer` and `offload_param` on `%s`%s", device,
             states == ZERO_TIER_host ? "" : " with a path");
    return way;
}

int zr_ways_list(int ranks, bool nvme, zr_way out[ZR_MOST_WAYS])
{
    int count = 0;
    out[count++] = data_parallel_way("data parallelism", ranks, 0);
    out[count++] = data_parallel_way("ZeRO stage 1", ranks, 1);
    out[count++] = data_parallel_way("ZeRO stage 2", ranks, 2);
    out[count++] = data_parallel_way("ZeRO stage 3", ranks, 3);
    out[count++] = tensor_parallel_way(ranks);
    out[count++] = pipeline_way(ranks);
    out[count++] = way_in_3d(ranks);
    out[count++] = offloading_way("ZeRO stage 3, states on the host", ranks, ZERO_TIER_host);
    if (nvme)
        out[count++] = offloading_way("ZeRO stage 3, states on NVMe", ranks, ZERO_TIER_nvme);
    return count;
}

int64_t zr_way_accumulation(const zr_way *way, const zr_way_batch *batch)
{
    return batch->samples / (batch->micro_batch * way->data);
}

// ---- the configuration

static bool put_integer(json_t *root, const char *path, int64_t value)
{
    return zr_json_put(root, path, json_integer(value));
}

static bool put_states(json_t *root, const zr_way *way, const char *nvme)
{
    static const char *const sections[] = {"zero_optimization.offload_optimizer",
                                           "zero_optimization.offload_param"};
    static const char *const devices[ZERO_TIER_COUNT] = {
        [ZERO_TIER_device] = "none", [ZERO_TIER_host] = "cpu", [ZERO_TIER_nvme] = "nvme"};
    bool on_nvme = way->states == ZERO_TIER_nvme;
    for (int i = 0; i < ZR_COUNT(sections); i++) {
        json_t *section = json_pack("{s:s}", "device", devices[way->states]);
        if (section && on_nvme)
            json_object_set_new(section, "nvme_path", json_string(nvme));
        if (!section || !zr_json_put(root, sections[i], section))
            return false;
    }
    return !on_nvme || put_integer(root, "zero_optimization.sub_group_size", NVME_SUB_GROUP);
}

// What would say something of another way.
static void remove_way_settings(json_t *root)
{
    static const char *const sections[] = {"tensor_parallel", "elasticity", "train_batch_size"};
    static const char *const ours[] = {"run", "offload", "delayed_update", "pipeline"};
    zr_trial_quiet(root);
    json_t *libzero = json_object_get(root, "libzero"), *grid = json_object_get(root, "pipeline");
    for (int i = 0; i < ZR_COUNT(sections); i++)
        json_object_del(root, sections[i]);
    for (int i = 0; i < ZR_COUNT(ours) && libzero; i++)
        json_object_del(libzero, ours[i]);
    if (grid)
        json_object_del(grid, "stages");
}

static bool put_way_settings(json_t *root, const zr_way *way, const zr_way_batch *batch,
                             const char *nvme)
{
    remove_way_settings(root);
    return put_integer(root, "zero_optimization.stage", way->stage) &&
           put_integer(root, "train_micro_batch_size_per_gpu", batch->micro_batch) &&
           put_integer(root, "gradient_accumulation_steps", zr_way_accumulation(way, batch)) &&
           put_states(root, way, nvme);
}

char *zr_way_config(const zr_way *way, const json_t *base, const zr_way_batch *batch,
                    const char *nvme, zero_error *error)
{
    json_t *root = json_deep_copy(base);
    char *dumped =
        root && put_way_settings(root, way, batch, nvme) ? json_dumps(root, JSON_INDENT(2)) : NULL;
    char *text = dumped ? zr_strdup(dumped, error) : NULL;
    json_decref(root);
    if (!dumped)
        zr_fail(error, ZERO_ERR_MEMORY, "no memory for the configuration of %s", way->name);
    free(dumped);
    return text;
}
