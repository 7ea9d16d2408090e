// Hugging Face's config.json of a GPT-2, read and written.
// Reading refuses, by key, every setting under which transformers would compute something else than we do; keys that do
// not change the arithmetic (task parameters, generation defaults) are passed over. Writing brings the same fields back.
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
    static const int64_t four_times = 0;
    static const double epsilon = 1e-5, range = 0.02, dropout = 0.1; // what transformers takes where the file is silent
    zero_gpt2_config *config = &out->gpt2;
    zero_gpt2_defaults(config);
    read_requirements(file);
    config->vocab_size = zr_model_json_size(file, "vocab_size", NULL);
    config->n_positions = zr_model_json_size(file, "n_positions", NULL);
    config->n_embd = zr_model_json_size(file, "n_embd", NULL);
    config->n_layer = zr_model_json_size(file, "n_layer", NULL);
    config->n_head = zr_model_json_size(file, "n_head", NULL);
    config->n_inner = zr_model_json_size(file, "n_inner", &four_times);
    config->layer_norm_epsilon = (float)zr_model_json_real(file, "layer_norm_epsilon", &epsilon);
    config->initializer_range = (float)zr_model_json_real(file, "initializer_range", &range);
    config->resid_pdrop = (float)zr_model_json_real(file, "resid_pdrop", &dropout);
    config->embd_pdrop = (float)zr_model_json_real(file, "embd_pdrop", &dropout);
    config->attn_pdrop = (float)zr_model_json_real(file, "attn_pdrop", &dropout);
}

void zr_gpt2_config_write(const zr_lm_config *of, zr_buffer *out)
{
    const zero_gpt2_config *config = &of->gpt2;
    zr_buffer_printf(out, "  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n");
    zr_model_json_put_size(out, "vocab_size", config->vocab_size);
    zr_model_json_put_size(out, "n_positions", config->n_positions);
    zr_model_json_put_size(out, "n_ctx", config->n_positions);
    zr_model_json_put_size(out, "n_embd", config->n_embd);
    zr_model_json_put_size(out, "n_layer", config->n_layer);
    zr_model_json_put_size(out, "n_head", config->n_head);
    if (config->n_inner == 0 || config->n_inner == 4 * config->n_embd)
        zr_buffer_printf(out, "  \"n_inner\": null,\n");
    else
        zr_model_json_put_size(out, "n_inner", config->n_inner);
    zr_model_json_put_float(out, "layer_norm_epsilon", config->layer_norm_epsilon);
    zr_model_json_put_float(out, "initializer_range", config->initializer_range);
    zr_model_json_put_float(out, "resid_pdrop", config->resid_pdrop);
    zr_model_json_put_float(out, "embd_pdrop", config->embd_pdrop);
    zr_model_json_put_float(out, "attn_pdrop", config->attn_pdrop);
    zr_buffer_printf(out, "  \"activation_function\": \"gelu_new\",\n  \"scale_attn_weights\": true,\n"
                          "  \"scale_attn_by_inverse_layer_idx\": false,\n  \"reorder_and_upcast_attn\": false,\n"
                          "  \"tie_word_embeddings\": true,\n");
}
