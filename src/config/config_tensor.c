// Determines how many ranks compute one layer together (tensor ranks), and into how many slices,
// which they divide, a model is cut.
//
// A key at DeepSpeed's default (autotp_size 0, tp_size 1) is as good as absent, because a file may
// name it without meaning it. Where nothing is trained only the flag counts, because the file of a
// training serves any number of ranks.
#include "config/config_ranks.h"
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AUTOTP ZR_TENSOR_AUTOTP
#define TP_SIZE ZR_TENSOR_SIZE
#define EXACT "libzero.exact_tensor"

// Returns the key that says how many tensor ranks there are; NULL if no key does.
static const char *key_of_tensor_ranks(const zr_config *config)
{
    if (zr_config_number(config, AUTOTP, 0))
        return AUTOTP;
    return zr_config_number(config, TP_SIZE, 1) ? TP_SIZE : NULL;
}

zr_said zr_config_tensor_said(const zr_config *config)
{
    zr_said out;
    if (!config->for_inference)
        return zr_config_said(config, key_of_tensor_ranks(config));
    snprintf(out.text, sizeof out.text, "--tensor %d", config->tensor);
    return out;
}

bool zr_config_tensor_is_flag(const zr_config *config)
{
    const char *key = key_of_tensor_ranks(config);
    return config->for_inference || (key && zr_config_at(config, key)->origin == ZR_FROM_FLAG);
}

zero_status zr_config_settle_tensor(zr_config *config, zero_error *error)
{
    int64_t own = zr_config_number(config, AUTOTP, 0), other = zr_config_number(config, TP_SIZE, 1);
    const char *key = key_of_tensor_ranks(config);
    if (!config->for_inference && own && other && own != other)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s contradicts %s: both are the number of tensor ranks",
                       zr_config_said(config, TP_SIZE).text, zr_config_said(config, AUTOTP).text);
    if (config->for_inference)
        config->tensor = ZR_MAX(config->tensor, 1); // what the flag says
    else
        config->tensor = key ? (int)zr_config_number(config, key, 0) : 1;
    return ZERO_OK;
}

static zero_status refuse_slices(const zr_config *config, int64_t slices, zero_error *error)
{
    char fits[256] = "1";
    size_t used = 1;
    for (int64_t tensor = 2; tensor <= slices; tensor *= 2)
        used += (size_t)snprintf(fits + used, sizeof fits - used, ", %" PRId64, tensor);
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " EXACT " %" PRId64 " is no multiple of %s: it goes with --tensor %s",
                   zr_setting_where(config, zr_config_at(config, EXACT)).text, slices,
                   zr_config_tensor_said(config).text, fits);
}

zero_status zr_config_settle_slices(zr_config *config, zero_error *error)
{
    int64_t slices = zr_config_number(config, EXACT, 0), below = 1;
    while (2 * below <= slices)
        below *= 2;
    config->exact_tensor_said = slices > 0;
    config->exact_tensor = slices ? slices : config->tensor;
    if (slices && slices != below)
        return zr_fail(
            error, ZERO_ERR_CONFIG,
            "%s: " EXACT ": found %" PRId64 ", expected a power of two: %" PRId64 " or %" PRId64,
            zr_setting_where(config, zr_config_at(config, EXACT)).text, slices, below, 2 * below);
    return config->exact_tensor % config->tensor ? refuse_slices(config, slices, error) : ZERO_OK;
}

// Names what cuts the model into slices; there are several slices.
static zr_said slices_said(const zr_config *config)
{
    return config->exact_tensor_said ? zr_config_said(config, EXACT)
                                     : zr_config_tensor_said(config);
}

bool zr_config_overrules_tensor(const zr_config *config, const char *path)
{
    bool autotp = !strcmp(path, AUTOTP);
    if (!config->for_inference || (!autotp && strcmp(path, TP_SIZE)))
        return false;
    int64_t number = zr_config_number(config, path, autotp ? 0 : 1);
    return number && number != config->tensor;
}

void zr_config_describe_slices(const zr_config *config, char *out, size_t size)
{
    snprintf(out, size, "%s", slices_said(config).text);
}

// A tile is a part of one operator that comes and goes; a slice is a part of every one that stays.
static zero_status check_tiles(const zr_config *config, zero_error *error)
{
    static const char *const keys[] = {"libzero.tiling.all", "libzero.tiling.embedding",
                                       "libzero.tiling.attention", "libzero.tiling.mlp"};
    for (int i = 0; i < ZR_COUNT(keys); i++)
        if (zr_config_number(config, keys[i], 1))
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s cuts weights into tiles, %s the model into slices: keep one of them",
                           zr_config_said(config, keys[i]).text, slices_said(config).text);
    return ZERO_OK;
}

static zero_status check_wire(const zr_config *config, zero_error *error)
{
    static const char path[] = "seq_parallel_communication_data_type";
    const json_t *type = zr_config_value(config, path);
    if (!json_is_string(type) || !strcmp(json_string_value(type), "fp32") ||
        !strcmp(json_string_value(type), "auto"))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "%s is refused with %s: sums of slices are fp32; expected fp32",
                   zr_config_said(config, path).text, slices_said(config).text);
}

zero_status zr_config_fill_tensor(zr_config *config, zero_error *error)
{
    config->sequence_parallel = config->sequence_parallel && config->tensor > 1;
    // With rows divided, what enters a segment is this rank's rows already.
    config->partition_activations =
        config->partition_activations && config->tensor > 1 && !config->sequence_parallel;
    if (config->exact_tensor == 1)
        return ZERO_OK;
    ZERO_TRY(check_tiles(config, error));
    return check_wire(config, error);
}
