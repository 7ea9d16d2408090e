#include "formats/safetensors_write.h"
#include "base/labels.h"
#include "formats/source_merge.h"
#include "model/lora_peft.h"

#include <string.h>

#define WRAPPED "module."
#define GPT2 "transformer."

static bool name_starts_with(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

static bool all_start(const zr_source_vector *vector, const char *with)
{
    for (int t = 0; t < vector->tensor_count; t++)
        if (!name_starts_with(vector->tensors[t].name, with))
            return false;
    return vector->tensor_count > 0;
}

static bool vector_has_tensor(const zr_source_vector *vector, const char *name)
{
    for (int t = 0; t < vector->tensor_count; t++)
        if (!strcmp(vector->tensors[t].name, name))
            return true;
    return false;
}

// Returns whether this is a mask, a buffer of older files of GPT-2 and GPT-NeoX that is not a
// weight.
static bool is_mask(const char *name)
{
    const char *layer = name_starts_with(name, GPT2) ? name + strlen(GPT2) : name;
    bool neox = name_starts_with(layer, "gpt_neox.layers.");
    const char *end = strstr(layer, neox ? ".attention." : ".attn.");
    end = end ? strchr(end + 1, '.') : NULL;
    return (neox || name_starts_with(layer, "h.")) && end &&
           (!strcmp(end, ".bias") || !strcmp(end, ".masked_bias"));
}

bool zr_tensor_is_buffer(const char *name)
{
    static const char *const rotary[] = {"rotary_emb.inv_freq", "rotary_emb.cos_cached",
                                         "rotary_emb.sin_cached"};
    for (int i = 0; i < ZR_COUNT(rotary); i++)
        if (strstr(name, rotary[i]))
            return true;
    return is_mask(name);
}

static bool is_left_out(const zr_source *source, const zr_source_vector *vector, int tensor,
                        const char *name)
{
    return is_mask(name) || (vector == &source->vectors[0] && zr_merge_leaves_out(source, tensor));
}

// The heads stand next to the model whose names have the prefix.
static bool is_head(const char *name)
{
    return name_starts_with(name, "lm_head.") || !strcmp(name, ZR_SCORE_WEIGHT);
}

zero_status zr_tensor_names(const zr_source *source, const zr_source_vector *vector,
                            zr_naming naming, char ***out, zero_error *error)
{
    size_t skip = all_start(vector, WRAPPED) ? strlen(WRAPPED) : 0;
    bool adds = naming == ZR_NAMES_HUGGING_FACE && source->kind == ZR_SOURCE_CHECKPOINT &&
                vector_has_tensor(vector, "wte.weight") && vector_has_tensor(vector, "wpe.weight");
    char **names = zr_alloc(((size_t)vector->tensor_count + 1) * sizeof *names, error);
    *out = names;
    if (!names)
        return ZERO_ERR_MEMORY;
    for (int t = 0; t < vector->tensor_count; t++) {
        const char *name = vector->tensors[t].name + skip;
        if (is_left_out(source, vector, t, name))
            continue;
        if (naming == ZR_NAMES_OURS && name_starts_with(name, GPT2))
            name += strlen(GPT2);
        if (!(names[t] = zr_sprintf(error, "%s%s", adds && !is_head(name) ? GPT2 : "", name))) {
            zr_tensor_names_free(names, vector->tensor_count);
            *out = NULL;
            return ZERO_ERR_MEMORY;
        }
    }
    return ZERO_OK;
}

int zr_tensor_prefix_bytes(const char *name, const char *prefix)
{
    if (strcmp(name, ZR_SCORE_WEIGHT) != 0)
        return (int)strlen(prefix);
    return name_starts_with(prefix, ZR_ADAPTER_PREFIX) ? (int)strlen(ZR_ADAPTER_PREFIX) : 0;
}

void zr_tensor_names_free(char **names, int count)
{
    for (int t = 0; names && t < count; t++)
        zr_free(names[t]);
    zr_free(names);
}
