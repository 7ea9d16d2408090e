// Reports the keys and flags that are given and have no effect here: how many keys, and why.
//
// One warning counts them; for each reason a line at ZERO_LOG_DEBUG names them (--explain). A flag
// without effect is named at once, with its reason, because --explain is about a file. This is the
// last step of resolving.
#include "config/settings.h"

#include <stdio.h>
#include <string.h>

typedef struct reason {
    const char *text; // points to `made`, or to a row's own reason
    char made[ZR_KEY_PATH_BYTES + 16];
} reason;

static bool path_is_one_of(const char *path, const char *const *paths, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(path, paths[i]))
            return true;
    return false;
}

static bool uses_nvme(const zr_offload_config *offload)
{
    return offload->automatic || offload->parameters == ZERO_TIER_nvme ||
           offload->optimizer == ZERO_TIER_nvme ||
           offload->activation_checkpoint_tier == ZERO_TIER_nvme;
}

// Returns why there is nothing that tensor ranks could divide; NULL: they divide it.
static const char *why_nothing_is_divided(const zr_config *config, bool checkpoints)
{
    if (config->tensor == 1)
        return checkpoints
                   ? "there are no tensor-parallel ranks, among which checkpoints could be "
                     "divided"
                   : "there are no tensor-parallel ranks, among which rows could be divided";
    if (checkpoints && !config->offload.activation_checkpoints)
        return "activation_checkpointing.number_checkpoints keeps none";
    return checkpoints && config->sequence_parallel
               ? "with rows divided (libzero.sequence_parallel), each rank keeps its own rows"
               : NULL;
}

// Returns what else in the file leaves an honoured key nothing to do; NULL: nothing does.
static const char *why_overruled(const zr_config *config, const zr_key *key)
{
    static const char *const dynamic[] = {"fp16.initial_scale_power", "fp16.loss_scale_window",
                                          "fp16.hysteresis", "fp16.consecutive_hysteresis",
                                          "fp16.min_loss_scale"};
    if (config->loss_scale.kind == ZR_SCALE_STATIC &&
        path_is_one_of(key->path, dynamic, ZR_COUNT(dynamic)))
        return "fp16.loss_scale fixes the scale";
    if (!strncmp(key->path, "aio.", 4) && !uses_nvme(&config->offload))
        return "nothing is offloaded to nvme";
    const char *idle = zr_config_pipeline_idle(config, key);
    if (idle)
        return idle;
    if (zr_config_overrules_tensor(config, key->path))
        return "where nothing is trained --tensor alone says how many tensor ranks there are";
    bool partitions = !strcmp(key->path, "activation_checkpointing.partition_activations"),
         by_rows = !strcmp(key->path, "libzero.sequence_parallel");
    if ((partitions || by_rows) && json_is_true(zr_config_value(config, key->path)))
        return why_nothing_is_divided(config, partitions);
    bool all = json_is_true(zr_config_value(config, "comms_logger.prof_all"));
    if (!strcmp(key->path, "comms_logger.prof_ops") && all &&
        json_array_size(zr_config_value(config, key->path)))
        return "comms_logger.prof_all is true";
    return NULL;
}

// Returns whether a given key has no effect; *why says why not.
static bool has_no_effect(const zr_config *config, int index, reason *why)
{
    const zr_key *key = zr_key_at(index);
    why->text = NULL;
    if (!zr_setting_is_given(&config->settings[index]))
        return false;
    // The switch is still to be chosen.
    if (config->offload.automatic && key->needs && strstr(key->needs, "offload_"))
        return false;
    if (zr_key_is_idle(key, config)) {
        const char *off = json_is_string(zr_config_value(config, key->needs)) ? "none" : "false";
        snprintf(why->made, sizeof why->made, "%s is %s", key->needs, off);
        why->text = why->made;
    } else if (key->treatment == ZR_KEY_NO_EFFECT)
        why->text = key->reason;
    else if (key->treatment == ZR_KEY_HONOURED)
        why->text = why_overruled(config, key);
    return why->text != NULL;
}

static bool is_flag(const zr_config *config, int index)
{
    return config->settings[index].origin == ZR_FROM_FLAG;
}

// Returns whether a key of the file has no effect; *why says why not.
static bool is_idle_key(const zr_config *config, int index, reason *why)
{
    return !is_flag(config, index) && has_no_effect(config, index, why);
}

static bool is_idle_for_reason(const zr_config *config, int index, const reason *why)
{
    reason own;
    return is_idle_key(config, index, &own) && !strcmp(own.text, why->text);
}

static void log_without_effect(const zr_config *config, int index, const char *keys,
                               const reason *why, zero_log_level level, const zero_logger *logger)
{
    zr_log(logger, level, "%s: no effect here: %s: %s",
           zr_setting_where(config, &config->settings[index]).text, keys, why->text);
}

// Prints one line for row `index` and all later rows that have no effect for the same reason.
// Prints nothing if an earlier row has had that line.
static void log_keys_of_one_reason(const zr_config *config, int index, const reason *why,
                                   const zero_logger *logger)
{
    for (int i = 0; i < index; i++)
        if (is_idle_for_reason(config, i, why))
            return;
    zr_buffer keys = {0};
    for (int i = index; i < zr_key_count(); i++)
        if (is_idle_for_reason(config, i, why))
            zr_buffer_printf(&keys, "%s%s", i > index ? ", " : "", zr_key_at(i)->path);
    log_without_effect(config, index, keys.failed ? zr_key_at(index)->path : keys.data, why,
                       ZERO_LOG_DEBUG, logger);
    zr_buffer_free(&keys);
}

static void warn_of_flags_without_effect(const zr_config *config, const zero_logger *logger)
{
    reason why;
    for (int i = 0; i < zr_key_count(); i++)
        if (is_flag(config, i) && has_no_effect(config, i, &why))
            log_without_effect(config, i, zr_key_at(i)->path, &why, ZERO_LOG_WARNING, logger);
}

void zr_config_report_idle(const zr_config *config, const zero_logger *logger)
{
    reason why;
    int count = 0;
    warn_of_flags_without_effect(config, logger);
    for (int i = 0; i < zr_key_count(); i++)
        count += is_idle_key(config, i, &why);
    if (count)
        zr_log(logger, ZERO_LOG_WARNING, "%d key%s of %s ha%s no effect here (--explain)", count,
               count == 1 ? "" : "s", config->name, count == 1 ? "s" : "ve");
    for (int i = 0; i < zr_key_count(); i++)
        if (is_idle_key(config, i, &why))
            log_keys_of_one_reason(config, i, &why, logger);
}
