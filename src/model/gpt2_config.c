// Hugging Face's config.json of a GPT-2, read and written.
// Reading refuses, by key, every setting under which transformers would compute something else than we do; keys that do
// not change the arithmetic (task parameters, generation defaults) are passed over. Writing brings the same fields back.
#include "model/gpt2.h"
#include "base/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_LIMIT (1 << 20) // bytes of a config.json

typedef struct reader { // sticky: after the first failure the others do nothing
    const json_t *root;
    const char *path;
    zero_status status;
    zero_error *error;
} reader;

static const json_t *reader_get(reader *r, const char *key) // NULL: absent or null
{
    const json_t *value = r->status == ZERO_OK ? json_object_get(r->root, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

static int64_t read_size(reader *r, const char *key, const int64_t *otherwise)
{
    const json_t *value = reader_get(r, key);
    if (r->status != ZERO_OK)
        return 0;
    if (!value && otherwise)
        return *otherwise;
    if (!value)
        r->status = zr_fail(r->error, ZERO_ERR_DATA, "%s: key \"%s\" is missing", r->path, key);
    else if (!json_is_integer(value))
        r->status = zr_fail(r->error, ZERO_ERR_DATA, "%s: \"%s\" is not a whole number", r->path, key);
    return r->status == ZERO_OK ? (int64_t)json_integer_value(value) : 0;
}

static float read_float(reader *r, const char *key, float otherwise)
{
    const json_t *value = reader_get(r, key);
    if (!value)
        return otherwise;
    if (!json_is_number(value)) {
        r->status = zr_fail(r->error, ZERO_ERR_DATA, "%s: \"%s\" is not a number", r->path, key);
        return otherwise;
    }
    return (float)json_number_value(value);
}

static void require_bool(reader *r, const char *key, bool right, bool otherwise)
{
    const json_t *value = reader_get(r, key);
    if (r->status != ZERO_OK)
        return;
    if (value && !json_is_boolean(value))
        r->status = zr_fail(r->error, ZERO_ERR_DATA, "%s: \"%s\" is neither true nor false", r->path, key);
    else if ((value ? json_is_true(value) : otherwise) != right)
        r->status = zr_fail(r->error, ZERO_ERR_UNSUPPORTED, "%s: \"%s\" is %s: only %s can be computed exactly",
                            r->path, key, right ? "false" : "true", right ? "true" : "false");
}

static void require_text(reader *r, const char *key, const char *right, const char *synonym, bool needed)
{
    const json_t *value = reader_get(r, key);
    if (r->status != ZERO_OK || (!value && !needed))
        return;
    const char *text = json_string_value(value);
    if (!text)
        r->status = zr_fail(r->error, ZERO_ERR_DATA, "%s: \"%s\" is %s: \"%s\" is expected", r->path, key,
                            value ? "not a string" : "missing", right);
    else if (strcmp(text, right) != 0 && (!synonym || strcmp(text, synonym) != 0))
        r->status = zr_fail(r->error, ZERO_ERR_UNSUPPORTED, "%s: \"%s\" is \"%s\": only \"%s\" can be computed exactly",
                            r->path, key, text, right);
}

static void read_requirements(reader *r)
{
    require_text(r, "model_type", "gpt2", NULL, true);
    require_text(r, "activation_function", "gelu_new", "gelu_pytorch_tanh", false);
    require_bool(r, "scale_attn_weights", true, true);
    require_bool(r, "scale_attn_by_inverse_layer_idx", false, false);
    require_bool(r, "reorder_and_upcast_attn", false, false);
    require_bool(r, "add_cross_attention", false, false);
    require_bool(r, "tie_word_embeddings", true, true);
}

static void read_fields(reader *r, zero_gpt2_config *config)
{
    static const int64_t four_times = 0;
    config->vocab_size = read_size(r, "vocab_size", NULL);
    config->n_positions = read_size(r, "n_positions", NULL);
    config->n_embd = read_size(r, "n_embd", NULL);
    config->n_layer = read_size(r, "n_layer", NULL);
    config->n_head = read_size(r, "n_head", NULL);
    config->n_inner = read_size(r, "n_inner", &four_times);
    config->layer_norm_epsilon = read_float(r, "layer_norm_epsilon", 1e-5f);
    config->initializer_range = read_float(r, "initializer_range", 0.02f);
    config->resid_pdrop = read_float(r, "resid_pdrop", 0.1f); // what transformers takes where the file is silent
    config->embd_pdrop = read_float(r, "embd_pdrop", 0.1f);
    config->attn_pdrop = read_float(r, "attn_pdrop", 0.1f);
}

zero_status zr_gpt2_config_read(const char *path, zero_gpt2_config *out, zero_error *error)
{
    json_t *root = NULL;
    zero_error found = {.status = ZERO_OK};
    ZERO_TRY(zr_json_load(path, CONFIG_LIMIT, &root, error));
    reader r = {.root = root, .path = path, .error = error};
    zero_gpt2_config config;
    zero_gpt2_defaults(&config);
    if (!json_is_object(root))
        r.status = zr_fail(error, ZERO_ERR_DATA, "%s: a JSON object is expected", path);
    read_requirements(&r);
    read_fields(&r, &config);
    if (r.status == ZERO_OK && zr_gpt2_check(&config, &found) != ZERO_OK)
        r.status = zr_fail(error, ZERO_ERR_DATA, "%s: %s", path, found.message);
    if (r.status == ZERO_OK)
        *out = config;
    json_decref(root);
    return r.status;
}

// With the shortest digits that bring the same float back.
static void write_float(zr_buffer *out, const char *key, float value)
{
    char digits[32];
    for (int precision = 1; precision <= 9; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, (double)value);
        if (strtof(digits, NULL) == value)
            break;
    }
    zr_buffer_printf(out, "  \"%s\": %s%s,\n", key, digits, strpbrk(digits, ".e") ? "" : ".0");
}

static void write_size(zr_buffer *out, const char *key, int64_t value)
{
    zr_buffer_printf(out, "  \"%s\": %lld,\n", key, (long long)value);
}

void zr_gpt2_config_write(const zero_gpt2_config *config, zr_buffer *out)
{
    bool published_vocabulary = config->vocab_size >= 50257; // its last token ends a text
    const char *end_of_text = published_vocabulary ? "50256" : "null";
    zr_buffer_printf(out, "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n");
    write_size(out, "vocab_size", config->vocab_size);
    write_size(out, "n_positions", config->n_positions);
    write_size(out, "n_ctx", config->n_positions);
    write_size(out, "n_embd", config->n_embd);
    write_size(out, "n_layer", config->n_layer);
    write_size(out, "n_head", config->n_head);
    if (config->n_inner == 0 || config->n_inner == 4 * config->n_embd)
        zr_buffer_printf(out, "  \"n_inner\": null,\n");
    else
        write_size(out, "n_inner", config->n_inner);
    write_float(out, "layer_norm_epsilon", config->layer_norm_epsilon);
    write_float(out, "initializer_range", config->initializer_range);
    write_float(out, "resid_pdrop", config->resid_pdrop);
    write_float(out, "embd_pdrop", config->embd_pdrop);
    write_float(out, "attn_pdrop", config->attn_pdrop);
    zr_buffer_printf(out, "  \"activation_function\": \"gelu_new\",\n  \"scale_attn_weights\": true,\n"
                          "  \"scale_attn_by_inverse_layer_idx\": false,\n  \"reorder_and_upcast_attn\": false,\n"
                          "  \"tie_word_embeddings\": true,\n  \"torch_dtype\": \"float32\",\n");
    zr_buffer_printf(out, "  \"bos_token_id\": %s,\n  \"eos_token_id\": %s\n}\n", end_of_text, end_of_text);
}
