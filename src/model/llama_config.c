// Reads and writes Hugging Face's config.json of Llama, Mistral, Qwen2 and Qwen3. The rotary
// settings have two spellings: rope_theta next to rope_scaling or, since transformers 5,
// rope_parameters for all. Both are read; if a file has both, rope_scaling counts, as in
// transformers. The older one is written, because every version of transformers reads it. Settings
// under which transformers would compute something else are refused by key.
#include "model/llama_model.h"
#include "model/model_json.h"
#include <string.h>

// What transformers assumes for a variant: values of absent keys, and facts for which there is no
// key.
typedef struct variant_facts {
    const char *architecture;
    int64_t head_dim, window; // defaults; 0 means hidden_size / heads, and no window
    bool qkv_bias, reads_attention_bias, reads_mlp_bias, qk_norm, needs_kv_heads, slides_optionally;
} variant_facts;

static const variant_facts variants[ZERO_LLAMA_VARIANT_COUNT] = {
    [ZERO_LLAMA_llama] = {.architecture = "LlamaForCausalLM",
                          .reads_attention_bias = true,
                          .reads_mlp_bias = true},
    [ZERO_LLAMA_mistral] = {.architecture = "MistralForCausalLM",
                            .window = 4096,
                            .needs_kv_heads = true},
    [ZERO_LLAMA_qwen2] = {.architecture = "Qwen2ForCausalLM",
                          .qkv_bias = true,
                          .needs_kv_heads = true,
                          .slides_optionally = true},
    [ZERO_LLAMA_qwen3] = {.architecture = "Qwen3ForCausalLM",
                          .head_dim = 128,
                          .reads_attention_bias = true,
                          .qk_norm = true,
                          .needs_kv_heads = true,
                          .slides_optionally = true},
};

static void read_variant(zr_model_json *file, zero_llama_config *config)
{
    const char *type = zr_model_json_text(file, "model_type", "");
    for (int v = 0; type && v < ZERO_LLAMA_VARIANT_COUNT; v++)
        if (strcmp(type, zr_llama_variant_name((zero_llama_variant)v)) == 0)
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

static void read_requirements(zr_model_json *file, const variant_facts *facts)
{
    zr_model_json_require_text(file, "hidden_act", "silu", "swish");
    if (facts->slides_optionally)
        zr_model_json_require_bool(file, "use_sliding_window", false, false);
    refuse_other_layers(file);
    zr_model_json_refuse(file, "quantization_config", "only unquantised weights can be read");
}

static void read_sizes(zr_model_json *file, const variant_facts *facts, zero_llama_config *config)
{
    static const int64_t none = 0;
    zr_lm_fields_read(zr_llama_fields, ZR_LLAMA_VOCABULARY, ZR_LLAMA_HEADS, file, config);
    config->n_kv_head =
        zr_model_json_size(file, "num_key_value_heads", facts->needs_kv_heads ? NULL : &none);
    config->head_dim = zr_model_json_size(file, "head_dim", &facts->head_dim);
    if (facts->window) // an absent key means the default, null means no window
        config->sliding_window = zr_model_json_size(
            file, "sliding_window",
            json_object_get(file->at, "sliding_window") ? &none : &facts->window);
}

static void read_settings(zr_model_json *file, const variant_facts *facts,
                          zero_llama_config *config)
{
    zr_lm_fields_read(zr_llama_fields, ZR_LLAMA_EPSILON, ZR_LLAMA_DROPOUT, file, config);
    config->tied = zr_model_json_bool(file, "tie_word_embeddings", false);
    config->output_bias =
        facts->reads_attention_bias && zr_model_json_bool(file, "attention_bias", false);
    config->qkv_bias = facts->qkv_bias || config->output_bias;
    config->mlp_bias = facts->reads_mlp_bias && zr_model_json_bool(file, "mlp_bias", false);
    config->qk_norm = facts->qk_norm;
}

static void read_scaling(zr_model_json *file, zero_rope *rope)
{
    const char *older = zr_model_json_text(file, "type", "default"),
               *name = zr_model_json_text(file, "rope_type", older);
    int s = 0;
    if (file->status != ZERO_OK)
        return;
    while (s < ZERO_ROPE_SCALING_COUNT &&
           strcmp(name, zr_rope_scaling_name((zero_rope_scaling)s)) != 0)
        s++;
    if (s == ZERO_ROPE_SCALING_COUNT)
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"rope_type\" is \"%s\": only default, linear, dynamic, llama3 "
                               "and yarn can be computed exactly",
                               file->path, name);
    rope->scaling = (zero_rope_scaling)s;
}

static void read_scaling_numbers(zr_model_json *file, zero_rope *rope)
{
    static const double none = 0;
    static const int64_t same = 0;
    bool llama3 = rope->scaling == ZERO_ROPE_llama3, yarn = rope->scaling == ZERO_ROPE_yarn;
    if (rope->scaling != ZERO_ROPE_default)
        rope->factor = zr_model_json_real(file, "factor", yarn ? &none : NULL);
    if (llama3 || yarn)
        rope->original_max_positions =
            zr_model_json_size(file, "original_max_position_embeddings", &same);
    if (llama3) {
        rope->low_freq_factor = zr_model_json_real(file, "low_freq_factor", NULL);
        rope->high_freq_factor = zr_model_json_real(file, "high_freq_factor", NULL);
    }
    if (yarn) {
        rope->beta_fast = zr_model_json_real(file, "beta_fast", &none);
        rope->beta_slow = zr_model_json_real(file, "beta_slow", &none);
        rope->attention_factor = zr_model_json_real(file, "attention_factor", &none);
        rope->mscale = zr_model_json_real(file, "mscale", &none);
        rope->mscale_all_dim = zr_model_json_real(file, "mscale_all_dim", &none);
        rope->whole_range = !zr_model_json_bool(file, "truncate", true);
    }
}

// Returns an object of rotary settings; NULL if it is absent or empty.
static const json_t *rope_object(zr_model_json *file, const char *key)
{
    const json_t *object = zr_model_json_get(file, key);
    if (object && !json_is_object(object))
        file->status =
            zr_fail(file->error, ZERO_ERR_DATA, "%s: \"%s\" is not an object", file->path, key);
    else if (json_object_get(object, "full_attention") ||
             json_object_get(object, "sliding_attention"))
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"%s\" has settings of several kinds of layers: only one "
                               "can be computed exactly",
                               file->path, key);
    return json_object_size(object) ? object : NULL;
}

// Reads the rotary settings at file->at, which is the root or an object of such settings.
static void read_rope_at(zr_model_json *file, zero_rope *rope)
{
    static const double whole = 1;
    rope->theta = zr_model_json_real(file, "rope_theta", &rope->theta);
    if (zr_model_json_real(file, "partial_rotary_factor", &whole) != 1)
        zr_model_json_refuse(file, "partial_rotary_factor", "only whole heads are rotated");
    if (file->at == file->root)
        return;
    read_scaling(file, rope);
    if (file->status == ZERO_OK)
        read_scaling_numbers(file, rope);
}

// Refuses a file whose rope_theta in rope_parameters would be lost because rope_scaling replaces
// that object.
static void check_replaced(zr_model_json *file, const json_t *replaced, const zero_rope *rope)
{
    file->at = replaced;
    double theta = zr_model_json_real(file, "rope_theta", &rope->theta);
    if (file->status == ZERO_OK && theta != rope->theta)
        file->status = zr_fail(
            file->error, ZERO_ERR_DATA,
            "%s: \"rope_scaling\" replaces \"rope_parameters\" as a whole, so its rope_theta %g "
            "would become %g: write the scaling into \"rope_parameters\", or the right rope_theta "
            "into \"rope_scaling\"",
            file->path, theta, rope->theta);
}

static void read_rope(zr_model_json *file, zero_llama_config *config)
{
    zero_rope *rope = &config->rope;
    *rope = (zero_rope){.theta = 10000};
    read_rope_at(file, rope);
    int64_t original =
        zr_model_json_size(file, "original_max_position_embeddings", &rope->original_max_positions);
    const json_t *parameters = rope_object(file, "rope_parameters"),
                 *scaling = rope_object(file, "rope_scaling");
    file->at = scaling ? scaling : parameters ? parameters : file->root;
    if (file->at != file->root)
        read_rope_at(file, rope);
    if (scaling && parameters)
        check_replaced(file, parameters, rope);
    file->at = file->root;
    if (original && (rope->scaling == ZERO_ROPE_llama3 || rope->scaling == ZERO_ROPE_yarn))
        rope->original_max_positions = original;
    if (rope->scaling == ZERO_ROPE_yarn && rope->factor == 0 && rope->original_max_positions > 0)
        rope->factor = (double)config->max_positions / (double)rope->original_max_positions;
}

void zr_llama_config_read(zr_model_json *file, zr_lm_config *out)
{
    zero_llama_config *config = &out->llama;
    zero_llama_defaults(config);
    read_variant(file, config);
    const variant_facts *facts = &variants[config->variant];
    read_requirements(file, facts);
    read_sizes(file, facts, config);
    read_settings(file, facts, config);
    read_rope(file, config);
}

static void write_rope(const zero_rope *rope, zr_json_writer *w)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {
        {"factor", rope->factor},
        {"low_freq_factor", rope->low_freq_factor},
        {"high_freq_factor", rope->high_freq_factor},
        {"beta_fast", rope->beta_fast},
        {"beta_slow", rope->beta_slow},
        {"attention_factor", rope->attention_factor},
        {"mscale", rope->mscale},
        {"mscale_all_dim", rope->mscale_all_dim},
    };
    zr_model_json_put_real(w, "rope_theta", rope->theta, false);
    if (rope->scaling == ZERO_ROPE_default) {
        zr_json_null(w, "rope_scaling");
        return;
    }
    zr_json_begin_object(w, "rope_scaling");
    zr_json_text(w, "rope_type", zr_rope_scaling_name(rope->scaling));
    for (int i = 0; i < ZR_COUNT(numbers); i++)
        if (numbers[i].value > 0)
            zr_json_real(w, numbers[i].key, numbers[i].value);
    if (rope->original_max_positions)
        zr_json_integer(w, "original_max_position_embeddings", rope->original_max_positions);
    if (rope->whole_range)
        zr_json_flag(w, "truncate", false);
    zr_json_end(w);
}

static void write_variant(const zero_llama_config *config, const variant_facts *facts,
                          zr_json_writer *w)
{
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

void zr_llama_config_write(const zr_lm_config *of, zr_json_writer *w)
{
    const zero_llama_config *config = &of->llama;
    const variant_facts *facts = &variants[config->variant];
    zr_json_begin_array(w, "architectures");
    zr_json_text(w, NULL, facts->architecture);
    zr_json_end(w);
    zr_json_text(w, "model_type", zr_llama_variant_name(config->variant));
    zr_lm_fields_write(zr_llama_fields, ZR_LLAMA_VOCABULARY, ZR_LLAMA_HEADS, config, w);
    zr_json_integer(w, "num_key_value_heads", zr_llama_kv_heads(config));
    zr_json_integer(w, "head_dim", zr_llama_head_dim(config));
    zr_lm_fields_write(zr_llama_fields, ZR_LLAMA_EPSILON, ZR_LLAMA_DROPOUT, config, w);
    write_rope(&config->rope, w);
    write_variant(config, facts, w);
    zr_json_text(w, "hidden_act", "silu");
    zr_json_flag(w, "tie_word_embeddings", config->tied);
}
