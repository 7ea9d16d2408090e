// What config.json means for each of Llama, Mistral, Qwen2 and Qwen3. Settings under which
// transformers would compute something else are refused by key.
#include "model/llama_model.h"
#include "model/model_json.h"
#include <string.h>

// What transformers assumes for a variant: values of absent keys, and facts for which there is no
// key.
typedef struct variant_facts {
    int64_t head_dim, window; // defaults; 0 means hidden_size / heads, and no window
    bool qkv_bias, reads_attention_bias, reads_mlp_bias, qk_norm, needs_kv_heads, slides_optionally;
} variant_facts;

static const variant_facts variants[ZERO_LLAMA_VARIANT_COUNT] = {
    [ZERO_LLAMA_llama] = {.reads_attention_bias = true, .reads_mlp_bias = true},
    [ZERO_LLAMA_mistral] = {.window = 4096, .needs_kv_heads = true},
    [ZERO_LLAMA_qwen2] = {.qkv_bias = true, .needs_kv_heads = true, .slides_optionally = true},
    [ZERO_LLAMA_qwen3] = {.head_dim = 128,
                          .reads_attention_bias = true,
                          .qk_norm = true,
                          .needs_kv_heads = true,
                          .slides_optionally = true},
};

static void read_variant(zr_model_json *file, zero_llama_config *config)
{
    const char *type = zr_model_json_text(file, "model_type", "");
    for (int v = 0; type && v < ZERO_LLAMA_VARIANT_COUNT; v++)
        if (strcmp(type, zr_llama_architecture.types[v].name) == 0)
            config->variant = (zero_llama_variant)v;
}

static void refuse_other_layers(zr_model_json *file)
{
    const json_t *types = zr_model_json_get(file, "layer_types"), *type;
    size_t i;
    json_array_foreach(types, i, type) if (file->status == ZERO_OK &&
                                           (!json_is_string(type) ||
                                            strcmp(json_string_value(type), "full_attention") != 0))
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"layer_types\" has \"%s\" for layer %zu: only "
                               "\"full_attention\" can be computed exactly",
                               file->path, json_is_string(type) ? json_string_value(type) : "?", i);
}

static void read_sizes(zr_model_json *file, const variant_facts *facts, zero_llama_config *config)
{
    static const int64_t none = 0;
    if (facts->needs_kv_heads)
        zr_model_json_size(file, "num_key_value_heads", NULL);
    config->head_dim = zr_model_json_size(file, "head_dim", &facts->head_dim);
    if (facts->window) // an absent key means the default, null means no window
        config->sliding_window = zr_model_json_size(
            file, "sliding_window",
            json_object_get(file->at, "sliding_window") ? &none : &facts->window);
}

void zr_llama_read(zr_model_json *file, zr_lm_config *out)
{
    zero_llama_config *config = &out->llama;
    read_variant(file, config);
    const variant_facts *facts = &variants[config->variant];
    if (facts->slides_optionally)
        zr_model_json_require_bool(file, "use_sliding_window", false, false);
    refuse_other_layers(file);
    read_sizes(file, facts, config);
    config->output_bias =
        facts->reads_attention_bias && zr_model_json_bool(file, "attention_bias", false);
    config->qkv_bias = facts->qkv_bias || config->output_bias;
    config->mlp_bias = facts->reads_mlp_bias && zr_model_json_bool(file, "mlp_bias", false);
    config->qk_norm = facts->qk_norm;
}

void zr_llama_write(const zr_lm_config *of, zr_json_writer *w)
{
    const zero_llama_config *config = &of->llama;
    const variant_facts *facts = &variants[config->variant];
    if (facts->reads_attention_bias)
        zr_json_flag(w, "attention_bias", config->output_bias);
    if (facts->reads_mlp_bias)
        zr_json_flag(w, "mlp_bias", config->mlp_bias);
    if (facts->slides_optionally)
        zr_json_flag(w, "use_sliding_window", false);
    if (facts->window && config->sliding_window)
        zr_json_integer(w, "sliding_window", config->sliding_window);
    else if (facts->window)
        zr_json_null(w, "sliding_window");
}
