// Settles how many ranks compute one model together (tensor ranks), into how many slices a model is
// cut, and how many ranks share the batch (data ranks).
//
//   keys and flag -> tensor, which divides the world and the slices -> data ranks
//
// A key at DeepSpeed's default (autotp_size 0, tp_size 1) says nothing, because a file may name it
// without meaning it; then the flag may say more. What both say has to be the same. Where nothing
// is trained the flag alone counts, because the file of a training serves any number of ranks.
#include "config/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <zero/comm.h>

#define AUTOTP "tensor_parallel.autotp_size"
#define TP_SIZE "tensor_parallel.tp.tp_size"
#define EXACT "libzero.exact_tensor"
#define SEQUENCE "libzero.sequence_parallel"

// Returns the number that a key says; 0: none, or `silent`, with which it says nothing.
static int64_t said(const zr_config *config, const char *path, int64_t silent)
{
    int64_t number = json_integer_value(zr_config_value(config, path)); // 0 if "auto" or null
    return number == silent ? 0 : number;
}

// Returns the key that says how many tensor ranks there are; NULL: none does.
static const char *tensor_key(const zr_config *config)
{
    if (said(config, AUTOTP, 0))
        return AUTOTP;
    return said(config, TP_SIZE, 1) ? TP_SIZE : NULL;
}

typedef struct key_words {
    char text[384];
} key_words;

// Writes what a key says, and where: "--tensor 2", "libzero.exact_tensor 4 (ds.json:1:20)".
static key_words key_said(const zr_config *config, const char *path)
{
    key_words out;
    const zr_setting *setting = zr_config_at(config, path);
    zr_where where = zr_setting_where(config, setting);
    zr_shown shown = zr_value_shown(setting->value);
    if (setting->origin == ZR_FROM_FLAG)
        snprintf(out.text, sizeof out.text, "%s %s", where.text, shown.text);
    else
        snprintf(out.text, sizeof out.text, "%s %s (%s)", path, shown.text, where.text);
    return out;
}

// Says who decides how many tensor ranks there are, of whom somebody does.
static key_words tensor_said(const zr_config *config)
{
    key_words out;
    if (!config->for_inference)
        return key_said(config, tensor_key(config));
    snprintf(out.text, sizeof out.text, "--tensor %d", config->tensor);
    return out;
}

static zero_status refuse_flag(const zr_config *config, const char *flag, const char *path,
                               zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE, "%s contradicts %s: say one of them, or both alike", flag,
                   key_said(config, path).text);
}

// Puts the flag into the key, so that the resolved file says it too.
static zero_status put(zr_config *config, const char *path, const char *value, const char *flag,
                       zero_error *error)
{
    return zr_config_override(config, path, value, flag, false, NULL, error);
}

// Where nothing is trained, the flag stays out of the keys, whose own numbers are still reported.
static zero_status settle_by_flag(zr_config *config, int flag, zero_error *error)
{
    if (flag < 0 || flag > ZERO_MAX_RANKS)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--tensor: found %d, expected an integer from 0 to %d", flag,
                       ZERO_MAX_RANKS);
    config->tensor = ZR_MAX(flag, 1);
    return ZERO_OK;
}

static zero_status settle_tensor(zr_config *config, int flag, zero_error *error)
{
    int64_t own = said(config, AUTOTP, 0), other = said(config, TP_SIZE, 1);
    const char *key = tensor_key(config);
    char text[24], words[40];
    if (config->for_inference)
        return settle_by_flag(config, flag, error);
    snprintf(text, sizeof text, "%d", flag);
    snprintf(words, sizeof words, "--tensor %d", flag);
    if (own && other && own != other)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s contradicts %s: both are the number of tensor ranks",
                       key_said(config, TP_SIZE).text, key_said(config, AUTOTP).text);
    if (flag && key && said(config, key, 0) != flag)
        return refuse_flag(config, words, key, error);
    if (flag && !key)
        ZERO_TRY(put(config, AUTOTP, text, "--tensor", error));
    key = tensor_key(config);
    config->tensor = key ? (int)said(config, key, 0) : 1;
    return ZERO_OK;
}

static zero_status settle_world(zr_config *config, int world, zero_error *error)
{
    int64_t tensor = config->tensor, below = world - world % tensor;
    const char *key = tensor_key(config);
    config->world = world;
    config->ranks = (int)(world / tensor);
    if (world == below)
        return ZERO_OK;
    below = ZR_MAX(below, tensor);
    bool by_flag = config->for_inference || zr_config_at(config, key)->origin == ZR_FROM_FLAG;
    return zr_fail(error, by_flag ? ZERO_ERR_USAGE : ZERO_ERR_CONFIG,
                   "%d rank%s no multiple of %s: %s%" PRId64 " or %" PRId64 "%s", world,
                   world == 1 ? " is" : "s are", tensor_said(config).text,
                   by_flag ? "--ranks " : "", below, below + tensor, by_flag ? "" : " ranks");
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
                   tensor_said(config).text, fits);
}

static zero_status settle_slices(zr_config *config, zero_error *error)
{
    int64_t slices = said(config, EXACT, 0), below = 1;
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

static zero_status settle_sequence(zr_config *config, bool flag, zero_error *error)
{
    const json_t *value = zr_config_value(config, SEQUENCE);
    if (flag && json_is_false(value))
        return refuse_flag(config, "--sequence-parallel", SEQUENCE, error);
    if (flag && !json_is_true(value))
        return put(config, SEQUENCE, "true", "--sequence-parallel", error);
    return ZERO_OK;
}

zero_status zr_config_find_ranks(zr_config *config, const zr_config_facts *facts, zero_error *error)
{
    ZERO_TRY(settle_tensor(config, facts->tensor, error));
    ZERO_TRY(settle_world(config, facts->world, error));
    ZERO_TRY(settle_slices(config, error));
    return settle_sequence(config, facts->sequence_parallel, error);
}

// Says who cuts the model into slices, of which there are more than one.
static key_words slices_said(const zr_config *config)
{
    return config->exact_tensor_said ? key_said(config, EXACT) : tensor_said(config);
}

bool zr_config_overrules_tensor(const zr_config *config, const char *path)
{
    bool autotp = !strcmp(path, AUTOTP);
    if (!config->for_inference || (!autotp && strcmp(path, TP_SIZE)))
        return false;
    int64_t number = said(config, path, autotp ? 0 : 1);
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
        if (said(config, keys[i], 1))
            return zr_fail(error, ZERO_ERR_CONFIG,
                           "%s cuts weights into tiles, %s the model into slices: keep one of them",
                           key_said(config, keys[i]).text, slices_said(config).text);
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
                   key_said(config, path).text, slices_said(config).text);
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
