#include "model/lora.h"

#include "model/lm_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char weight_ending[] = ".weight";

// Returns the bytes of a layer's name: without the ending of its weight's.
static size_t layer_length(const zero_tensor_row *row)
{
    size_t length = strlen(row->name), ending = sizeof weight_ending - 1;
    bool ends = length > ending && !strcmp(row->name + length - ending, weight_ending);
    return ends ? length - ending : length;
}

uint32_t zr_lora_all_targets(const zr_lm_config *config)
{
    const zr_lm_tensors *tensors = &zr_architecture_of(config)->tensors;
    unsigned options = zr_lm_shape_of(config).options;
    uint32_t found = 0;
    for (int t = 0; t < tensors->count; t++)
        if (tensors->block[t].in && !(tensors->block[t].only_with & ~options))
            found |= 1u << t;
    return found;
}

uint32_t zr_lora_targets_named(const zr_lm_config *config, const char *name, size_t length)
{
    const zr_lm_tensors *tensors = &zr_architecture_of(config)->tensors;
    uint32_t all = zr_lora_all_targets(config), found = 0;
    if (length == sizeof ZR_LORA_ALL - 1 && !memcmp(name, ZR_LORA_ALL, length))
        return all;
    for (int t = 0; t < tensors->count; t++) {
        const char *layer = tensors->block[t].name;
        size_t whole = layer_length(&tensors->block[t]);
        bool ends = whole >= length && !memcmp(layer + whole - length, name, length) &&
                    (whole == length || layer[whole - length - 1] == '.');
        found |= length && ends ? all & 1u << t : 0;
    }
    return found;
}

void zr_lora_target_name(const zr_lm_config *config, int tensor, char *out, size_t size)
{
    const zero_tensor_row *row = &zr_architecture_of(config)->tensors.block[tensor];
    snprintf(out, size, "%.*s", (int)layer_length(row), row->name);
    const char *last = strrchr(out, '.');
    if (last && zr_lora_targets_named(config, last + 1, strlen(last + 1)) == 1u << tensor)
        memmove(out, last + 1, strlen(last + 1) + 1);
}

float zr_lora_scale(const zr_lora *lora)
{
    double rank = (double)lora->rank;
    return (float)(lora->alpha / (lora->rank_root ? sqrt(rank) : rank));
}

bool zr_lora_computes_same(const zr_lora *a, const zr_lora *b)
{
    return a->rank == b->rank && a->alpha == b->alpha && a->rank_root == b->rank_root &&
           a->magnitudes == b->magnitudes && a->targets == b->targets;
}

// Writes the names of all targets: "q_proj, k_proj, ...".
static void list_targets(const zr_lm_config *config, uint32_t targets, const char *between,
                         char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (int t = 0; t < 32 && used < size; t++) {
        char name[ZR_LORA_TARGET];
        if (!(targets >> t & 1))
            continue;
        zr_lora_target_name(config, t, name, sizeof name);
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? between : "", name);
    }
}

typedef struct parsing {
    const char *text, *name;
    const zr_lm_config *config;
    zr_lora *out;
    bool has_alpha, in_targets;
    zero_error *error;
} parsing;

static zero_status read_value(const parsing *p, const char *key, const char *value, size_t length,
                              double least, double most, double *out)
{
    char copy[40], *end;
    snprintf(copy, sizeof copy, "%.*s", (int)ZR_MIN(length, sizeof copy - 1), value);
    *out = strtod(copy, &end);
    if (end == copy || *end || length >= sizeof copy || !(*out >= least) || !(*out <= most))
        return zr_fail(p->error, ZERO_ERR_CONFIG,
                       "%s: \"%s\": %s=%s: a number from %g to %g is expected", p->name, p->text,
                       key, copy, least, most);
    return ZERO_OK;
}

static zero_status add_target(parsing *p, const char *name, size_t length)
{
    uint32_t found = zr_lora_targets_named(p->config, name, length);
    char all[256];
    p->out->targets |= found;
    if (found)
        return ZERO_OK;
    list_targets(p->config, zr_lora_all_targets(p->config), ", ", all, sizeof all);
    return zr_fail(p->error, ZERO_ERR_CONFIG,
                   "%s: \"%s\": %s has no linear layer \"%.*s\" that can have an adapter: there "
                   "are %s, and %s for all of them",
                   p->name, p->text, zr_architecture_of(p->config)->title, (int)ZR_MIN(length, 64),
                   name, all, ZR_LORA_ALL);
}

static zero_status add_targets(parsing *p, const char *names, size_t length)
{
    p->in_targets = true;
    for (size_t at = 0, part; at <= length; at += part + 1) {
        const char *plus = memchr(names + at, '+', length - at);
        part = plus ? (size_t)(plus - names) - at : length - at;
        ZERO_TRY(add_target(p, names + at, part));
    }
    return ZERO_OK;
}

static bool is_word(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !memcmp(text, word, length);
}

static zero_status read_pair(parsing *p, const char *key, size_t key_length, const char *value,
                             size_t length)
{
    zr_lora *lora = p->out;
    double number;
    p->in_targets = false;
    if (is_word(key, key_length, "targets"))
        return add_targets(p, value, length);
    if (is_word(key, key_length, "r")) {
        ZERO_TRY(read_value(p, "r", value, length, 1, ZR_LORA_MOST_RANK, &number));
        lora->rank = (int64_t)number;
        return lora->rank == number
                   ? ZERO_OK
                   : zr_fail(p->error, ZERO_ERR_CONFIG, "%s: \"%s\": r=%g is not a whole number",
                             p->name, p->text, number);
    }
    if (is_word(key, key_length, "alpha")) {
        p->has_alpha = true;
        return read_value(p, "alpha", value, length, 1e-6, 1e6, &lora->alpha);
    }
    if (is_word(key, key_length, "dropout")) {
        ZERO_TRY(read_value(p, "dropout", value, length, 0, 0.999, &number));
        lora->dropout = (float)number;
        return ZERO_OK;
    }
    return zr_fail(p->error, ZERO_ERR_CONFIG,
                   "%s: \"%s\": \"%.*s\" is unknown: r, alpha, targets, dropout, rslora and dora "
                   "are expected, as in \"r=16,alpha=32,targets=all-linear\"",
                   p->name, p->text, (int)ZR_MIN(key_length, 64), key);
}

static zero_status read_word(parsing *p, const char *word, size_t length)
{
    const char *equal = memchr(word, '=', length);
    if (equal)
        return read_pair(p, word, (size_t)(equal - word), equal + 1,
                         length - (size_t)(equal + 1 - word));
    if (is_word(word, length, "rslora")) {
        p->out->rank_root = true;
        return ZERO_OK;
    }
    if (is_word(word, length, "dora")) {
        p->out->magnitudes = true;
        return ZERO_OK;
    }
    return p->in_targets ? add_targets(p, word, length)
                         : read_pair(p, word, length, "", 0); // refuses it
}

zero_status zr_lora_parse(const char *text, const char *name, const zr_lm_config *config,
                          zr_lora *out, zero_error *error)
{
    parsing p = {.text = text, .name = name, .config = config, .out = out, .error = error};
    *out = (zr_lora){0};
    if (!text || !strcmp(text, "none"))
        return ZERO_OK;
    for (size_t length; *text; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        ZERO_TRY(read_word(&p, text, length));
    }
    if (!out->rank)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s: \"%s\" has no rank: \"r=16\" is usual, \"r=16,alpha=32,targets=%s\" "
                       "says what is usual with it",
                       name, p.text, ZR_LORA_ALL);
    if (!p.has_alpha)
        out->alpha = 2 * (double)out->rank;
    if (!out->targets)
        out->targets = zr_lora_all_targets(config);
    return ZERO_OK;
}

void zr_lora_write(const zr_lora *lora, const zr_lm_config *config, char *text, size_t size)
{
    char targets[320] = ZR_LORA_ALL, dropout[32] = "";
    if (lora->targets != zr_lora_all_targets(config))
        list_targets(config, lora->targets, "+", targets, sizeof targets);
    if (lora->dropout > 0)
        snprintf(dropout, sizeof dropout, ",dropout=%.6g", (double)lora->dropout);
    snprintf(text, size, "r=%lld,alpha=%.9g,targets=%s%s%s%s", (long long)lora->rank, lora->alpha,
             targets, dropout, lora->rank_root ? ",rslora" : "", lora->magnitudes ? ",dora" : "");
}
