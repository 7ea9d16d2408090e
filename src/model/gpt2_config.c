// Reads and writes Hugging Face's config.json of a GPT-2.
// Reading refuses, by its key, every setting under which transformers would compute something else
// than we do. Keys that do not change the arithmetic (task parameters, generation defaults) are
// ignored. Writing produces the same fields again.
#include "model/gpt2_model.h"
#include "model/model_json.h"

static void read_requirements(zr_model_json *file)
{
    zr_model_json_require_text(file, "activation_function", "gelu_new", "gelu_pytorch_tanh");
    zr_model_json_require_bool(file, "scale_attn_weights", true, true);
    zr_model_json_require_bool(file, "scale_attn_by_inverse_layer_idx", false, false);
    zr_model_json_require_bool(file, "reorder_and_upcast_attn", false, false);
    zr_model_json_require_bool(file, "add_cross_attention", false, false);
    zr_model_json_require_bool(file, "tie_word_embeddings", true, true);
}

void zr_gpt2_config_read(zr_model_json *file, zr_lm_config *out)
{
    zero_gpt2_defaults(&out->gpt2);
    read_requirements(file);
    zr_lm_fields_read(zr_gpt2_fields, ZR_GPT2_VOCABULARY, ZR_GPT2_ATTENTION_DROPOUT, file,
                      &out->gpt2);
}

void zr_gpt2_config_write(const zr_lm_config *of, zr_json_writer *w)
{
    const zero_gpt2_config *config = &of->gpt2;
    zr_json_begin_array(w, "architectures");
    zr_json_text(w, NULL, "GPT2LMHeadModel");
    zr_json_end(w);
    zr_json_text(w, "model_type", "gpt2");
    zr_lm_fields_write(zr_gpt2_fields, ZR_GPT2_VOCABULARY, ZR_GPT2_POSITIONS, config, w);
    zr_json_integer(w, "n_ctx", config->n_positions);
    zr_lm_fields_write(zr_gpt2_fields, ZR_GPT2_WIDTH, ZR_GPT2_HEADS, config, w);
    if (config->n_inner == 0 || config->n_inner == 4 * config->n_embd)
        zr_json_null(w, "n_inner");
    else
        zr_lm_fields_write(zr_gpt2_fields, ZR_GPT2_INNER, ZR_GPT2_INNER, config, w);
    zr_lm_fields_write(zr_gpt2_fields, ZR_GPT2_EPSILON, ZR_GPT2_ATTENTION_DROPOUT, config, w);
    zr_json_text(w, "activation_function", "gelu_new");
    zr_json_flag(w, "scale_attn_weights", true);
    zr_json_flag(w, "scale_attn_by_inverse_layer_idx", false);
    zr_json_flag(w, "reorder_and_upcast_attn", false);
    zr_json_flag(w, "tie_word_embeddings", true);
}
