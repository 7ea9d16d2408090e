// Fills and checks the parts of the offload sections that are not plain numbers: directories, and
// conditions between keys.
#include "config/settings.h"

#include <string.h>

enum { SECTOR = 4096, MOST_BLOCK = 1 << 30, MOST_DEPTH = 256, MOST_LANES = 16 }; // limits of I/O

static zero_status refuse_paths(const zr_config *config, const zr_setting *setting, const char *key,
                                const char *wanted, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_CONFIG, "%s: %s: found %s, expected %s",
                   zr_setting_where(config, setting).text, key,
                   setting->value ? zr_value_shown(setting->value).text : "nothing", wanted);
}

static zero_status fill_paths(const zr_config *config, const char *key, zr_paths *out,
                              zero_error *error)
{
    const zr_setting *own = zr_config_at(config, key),
                     *shared = zr_config_at(config, "libzero.nvme_path");
    bool named = own->value && !json_is_null(own->value);
    const zr_setting *setting =
        !named && shared->value && !json_is_null(shared->value) ? shared : own;
    const json_t *value = setting->value;
    size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (count < 1 || count > ZR_CONFIG_MOST_PATHS)
        return refuse_paths(config, setting, key, "from 1 to 16 directories", error);
    for (out->count = 0; out->count < (int)count; out->count++) {
        const json_t *path =
            json_is_array(value) ? json_array_get(value, (size_t)out->count) : value;
        if (!json_is_string(path) || !*json_string_value(path))
            return refuse_paths(config, setting, key,
                                "a directory on NVMe, or a list of them: the device is nvme",
                                error);
        out->at[out->count] = json_string_value(path);
    }
    return ZERO_OK;
}

int zr_offload_least_stage(bool parameters, bool optimizer, bool part)
{
    return parameters || (optimizer && part) ? 3 : optimizer ? 1 : 0;
}

static zero_status check_ratio(const zr_config *config, zero_error *error)
{
    const zr_setting *ratio = zr_config_at(config, "zero_optimization.offload_optimizer.ratio");
    if (config->offload.optimizer == ZERO_TIER_device || config->offload.ratio == 1 ||
        config->stage == 3)
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_CONFIG, "%s: offload_optimizer.ratio %g is for stage 3, the stage is %lld",
        zr_setting_where(config, ratio).text, config->offload.ratio, (long long)config->stage);
}

static zero_status check_stage(const zr_config *config, int tier, const char *key, int64_t least,
                               const char *what, zero_error *error)
{
    if (tier == ZERO_TIER_device || config->stage >= least)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: %s is %s, but the stage is %lld: %s are partitioned from stage %lld on, "
                   "and every rank would keep a copy there",
                   zr_setting_where(config, zr_config_at(config, key)).text, key,
                   json_string_value(zr_config_value(config, key)), (long long)config->stage, what,
                   (long long)least);
}

// The norms of LAMB and Adafactor and Muon's matrices come from all ranks, which must exchange them
// in one order, so an update that runs during a step cannot request them.
static zero_status check_delayed(const zr_config *config, zero_error *error)
{
    const zr_offload_config *offload = &config->offload;
    const zr_setting *from = zr_config_at(config, "libzero.delayed_update.start_step");
    if (!offload->delayed_from || offload->automatic)
        return ZERO_OK;
    if (offload->optimizer == ZERO_TIER_device)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: libzero.delayed_update.start_step is %lld, but "
                       "zero_optimization.offload_optimizer.device is none: what is updated on the "
                       "device cannot run at the same time; expected cpu or nvme",
                       zr_setting_where(config, from).text, (long long)offload->delayed_from);
    if (!zr_optimizer_traits_of(config->optimizer.kind)->elementwise)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: libzero.delayed_update.start_step is %lld, but the optimizer is %s: "
                       "its update waits for parts of tensors that other ranks have, and a delayed "
                       "update waits for none",
                       zr_setting_where(config, from).text, (long long)offload->delayed_from,
                       zr_optimizer_traits_of(config->optimizer.kind)->name);
    return ZERO_OK;
}

// Directions wait between Muon's two walks (engine/muon.h) for those of other ranks, and what is on
// NVMe is in memory only while a walk passes it.
static zero_status check_muon(const zr_config *config, zero_error *error)
{
    const zr_setting *device = zr_config_at(config, "zero_optimization.offload_optimizer.device");
    if (config->optimizer.kind != ZR_OPTIMIZER_MUON || config->offload.automatic ||
        config->offload.optimizer != ZERO_TIER_nvme)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: zero_optimization.offload_optimizer.device is nvme, but the optimizer is "
                   "Muon: its directions stay in memory while ranks exchange them; expected cpu or "
                   "none, or another optimizer",
                   zr_setting_where(config, device).text);
}

static zero_status fill_activation_checkpoints(zr_config *config, zero_error *error)
{
    zr_offload_config *offload = &config->offload;
    bool to_host =
        json_is_true(zr_config_value(config, "activation_checkpointing.cpu_checkpointing"));
    if (to_host && offload->activation_checkpoint_tier == ZERO_TIER_device)
        offload->activation_checkpoint_tier = ZERO_TIER_host;
    bool by_interval = config->pipeline.stages > 1 && config->pipeline.checkpoint_interval;
    bool elsewhere = offload->activation_checkpoint_tier != ZERO_TIER_device;
    if ((elsewhere || by_interval) && !offload->activation_checkpoints)
        offload->activation_checkpoints = INT32_MAX; // one for each unit
    if (offload->activation_checkpoint_tier == ZERO_TIER_nvme)
        return fill_paths(config, "libzero.checkpoints.nvme_path",
                          &offload->activation_checkpoint_paths, error);
    return ZERO_OK;
}

static void fill_tiles(zr_offload_config *offload)
{
    int64_t *tiles[] = {&offload->tiles_embedding, &offload->tiles_attention, &offload->tiles_mlp};
    for (int i = 0; i < ZR_COUNT(tiles); i++)
        *tiles[i] = *tiles[i] ? *tiles[i] : offload->tiles;
}

zero_status zr_config_fill_offload(zr_config *config, zero_error *error)
{
    zr_offload_config *offload = &config->offload;
    ZERO_TRY(check_stage(config, offload->optimizer, "zero_optimization.offload_optimizer.device",
                         1, "optimizer states", error));
    ZERO_TRY(check_stage(config, offload->parameters, "zero_optimization.offload_param.device", 3,
                         "parameters", error));
    ZERO_TRY(check_ratio(config, error));
    ZERO_TRY(check_delayed(config, error));
    ZERO_TRY(check_muon(config, error));
    if (offload->optimizer == ZERO_TIER_device)
        offload->ratio = 0;
    if (offload->parameters == ZERO_TIER_nvme)
        ZERO_TRY(fill_paths(config, "zero_optimization.offload_param.nvme_path",
                            &offload->parameter_paths, error));
    if (offload->optimizer == ZERO_TIER_nvme)
        ZERO_TRY(fill_paths(config, "zero_optimization.offload_optimizer.nvme_path",
                            &offload->optimizer_paths, error));
    ZERO_TRY(fill_activation_checkpoints(config, error));
    fill_tiles(offload);
    offload->block = ZR_MAX(ZR_MIN(offload->block, MOST_BLOCK) / SECTOR, 1) * SECTOR;
    offload->queue_depth = ZR_MIN(offload->queue_depth, MOST_DEPTH);
    offload->lanes = ZR_MIN(offload->lanes, MOST_LANES);
    return ZERO_OK;
}
