// What config.json means for each of Llama, Mistral, Qwen2 and Qwen3. Settings under which
// transformers would compute something else are refused by key.
#include "model/llama_model.h"
#include "model/model_json.h"
#include <string.h>

// What transformers assumes for a variant: values of absent keys, and facts for which there is no
// key.
typedef struct variant_facts {
    int64_t head_dim; // 0 means hidden_size / heads
    bool qkv_bias, reads_attention_bias, reads_mlp_bias, qk_norm, needs_kv_heads;
} variant_facts;

static const variant_facts variants[ZERO_LLAMA_VARIANT_COUNT] = {
    [ZERO_LLAMA_llama] = {.reads_attention_bias = true, .reads_mlp_bias = true},
    [ZERO_LLAMA_mistral] = {.needs_kv_heads = true},
    [ZERO_LLAMA_qwen2] = {.qkv_bias = true, .needs_kv_heads = true},
    [ZERO_LLAMA_qwen3] = {.head_dim = 128,
                          .reads_attention_bias = true,
                          .qk_norm = true,
                          .needs_kv_heads = true},
};

static void read_variant(zr_model_json *file, zero_llama_config *config)
{
    const char *type = zr_model_json_text(file, "model_type", "");
    for (int v = 0; type && v < ZERO_LLAMA_VARIANT_COUNT; v++)
        if (strcmp(type, zr_llama_architecture.types[v].name) == 0)
            config->variant = (zero_llama_variant)v;
}

static void read_sizes(zr_model_json *file, const variant_facts *facts, zero_llama_config *config)
{
    if (facts->needs_kv_heads)
        zr_model_json_size(file, "num_key_value_heads", NULL);
    config->head_dim = zr_model_json_size(file, "head_dim", &facts->head_dim);
}

void zr_llama_read(zr_model_json *file, zr_lm_config *out)
{
    zero_llama_config *config = &out->llama;
    read_variant(file, config);
    const variant_facts *facts = &variants[config->variant];
    read_sizes(file, facts, config);
    zr_sliding_read(file, out);
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
    zr_sliding_write(of, w);
}
