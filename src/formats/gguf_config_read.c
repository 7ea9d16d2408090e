// A configuration from the keys of a GGUF file: they become a config.json, which is read and
// checked as one.
#include "formats/gguf_config.h"

#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY = 128, LLAMA3_CONTEXT = 8192, LLAMA3_CONTEXTS = 21 };

typedef struct reading {
    const zr_gguf *gguf;
    const zr_architecture *of;
    const zr_model_type *type;
    char name[KEY]; // of the architecture in GGUF
    json_t *out;    // config.json
    int64_t positions, width, heads, head_dim;
    zero_error *error;
} reading;

static zero_status get_size(reading *r, const char *key, int64_t *out)
{
    char full[2 * KEY];
    snprintf(full, sizeof full, "%s.%s", r->name, key);
    return zr_gguf_get_integer(r->gguf, full, INT32_MAX, out, r->error);
}

static zero_status get_real(reading *r, const char *key, double *out)
{
    char full[2 * KEY];
    snprintf(full, sizeof full, "%s.%s", r->name, key);
    return zr_gguf_get_real(r->gguf, full, out, r->error);
}

static void put(reading *r, const char *key, json_t *value)
{
    json_object_set_new(r->out, key, value);
}

// Writes a field under its key of config.json, if the architecture has it.
static void put_field(reading *r, zr_lm_role role, json_t *value)
{
    const char *key = r->of->fields[role].key;
    if (key)
        put(r, key, value);
    else
        json_decref(value);
}

static zero_status need_size(reading *r, const char *key, int64_t *out)
{
    *out = 0;
    ZERO_TRY(get_size(r, key, out));
    return *out ? ZERO_OK
                : zr_fail(r->error, ZERO_ERR_DATA, "\"%s\" has no key \"%s.%s\"", r->gguf->path,
                          r->name, key);
}

static bool has_tensor(const reading *r, const char *name)
{
    return zr_gguf_find_tensor(r->gguf, name) != NULL;
}

// Returns the rows of the table of tokens, which counts more than a key.
static zero_status read_vocabulary(reading *r)
{
    const zr_gguf_item *table = zr_gguf_find_tensor(r->gguf, "token_embd.weight");
    if (!table || table->dims != 2)
        return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\" has no tensor \"token_embd.weight\"",
                       r->gguf->path);
    put_field(r, ZR_ROLE_VOCABULARY, json_integer(table->sizes[0]));
    return ZERO_OK;
}

// A pattern names the layers that have the window; without it, what names its layers so has none.
static zero_status read_pattern(reading *r, int64_t window)
{
    const zr_gguf_key *pattern;
    char full[2 * KEY];
    snprintf(full, sizeof full, "%s." ZR_GGUF_WINDOW_PATTERN, r->name);
    ZERO_TRY(zr_gguf_get_array(r->gguf, full, ZR_GGUF_FLAG, &pattern, r->error));
    if (!pattern)
        return ZERO_OK;
    json_t *types = json_array();
    for (uint64_t i = 0; i < pattern->count && i <= ZR_MOST_LAYER_TYPES; i++)
        json_array_append_new(types,
                              json_string(r->gguf->file.data[pattern->at + i] ? "sliding_attention"
                                                                              : "full_attention"));
    put(r, "layer_types", types);
    put(r, "use_sliding_window", json_true());
    put_field(r, ZR_ROLE_WINDOW, json_integer(window));
    return ZERO_OK;
}

static zero_status read_window(reading *r, int64_t window)
{
    if (!window || r->of->fields[ZR_ROLE_WINDOW].kind == ZR_FIELD_NONE)
        return ZERO_OK;
    if (r->of->gguf[r->type - r->of->types].pattern)
        return read_pattern(r, window);
    put_field(r, ZR_ROLE_WINDOW, json_integer(window));
    return ZERO_OK;
}

static zero_status read_sizes(reading *r)
{
    static const struct {
        zr_lm_role role;
        const char *key;
    } needed[] = {{ZR_ROLE_POSITIONS, "context_length"},
                  {ZR_ROLE_WIDTH, "embedding_length"},
                  {ZR_ROLE_INNER, "feed_forward_length"},
                  {ZR_ROLE_LAYERS, "block_count"},
                  {ZR_ROLE_HEADS, "attention.head_count"}};
    int64_t value, kv_heads = 0, window = 0;
    for (int i = 0; i < ZR_COUNT(needed); i++) {
        ZERO_TRY(need_size(r, needed[i].key, &value));
        put_field(r, needed[i].role, json_integer(value));
        r->positions = needed[i].role == ZR_ROLE_POSITIONS ? value : r->positions;
        r->width = needed[i].role == ZR_ROLE_WIDTH ? value : r->width;
        r->heads = value; // the last one
    }
    kv_heads = r->heads;
    r->head_dim = r->width / r->heads;
    ZERO_TRY(get_size(r, "attention.head_count_kv", &kv_heads));
    ZERO_TRY(get_size(r, "attention.key_length", &r->head_dim));
    ZERO_TRY(get_size(r, "attention.sliding_window", &window));
    put_field(r, ZR_ROLE_KV_HEADS, json_integer(kv_heads));
    put_field(r, ZR_ROLE_HEAD_DIM, json_integer(r->head_dim));
    ZERO_TRY(read_window(r, window));
    return read_vocabulary(r);
}

// Returns the number with the fewest digits that is the same in fp32: 1e-05 for what f32 has of it.
static double short_of(double value)
{
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
        double shorter;
        if (sscanf(text, "%lf", &shorter) == 1 && (float)shorter == (float)value)
            return shorter;
    }
    return value;
}

static zero_status read_rates(reading *r)
{
    double epsilon = 0;
    ZERO_TRY(get_real(
        r, r->of->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon",
        &epsilon));
    put_field(r, ZR_ROLE_EPSILON, json_real(short_of(epsilon)));
    put_field(r, ZR_ROLE_DEVIATION, json_real(0.02));
    static const zr_lm_role none[] = {ZR_ROLE_RESIDUAL_DROPOUT, ZR_ROLE_EMBEDDING_DROPOUT,
                                      ZR_ROLE_ATTENTION_DROPOUT};
    for (int i = 0; i < ZR_COUNT(none); i++)
        put_field(r, none[i], json_real(0));
    return ZERO_OK;
}

static zero_status read_scaling(reading *r, json_t *rope)
{
    static const struct {
        const char *key, *as;
    } numbers[] = {{"rope.scaling.factor", "factor"},
                   {"rope.scaling.yarn_beta_fast", "beta_fast"},
                   {"rope.scaling.yarn_beta_slow", "beta_slow"}};
    char key[2 * KEY];
    zr_gguf_text type = {"none", 4};
    int64_t original = 0;
    double factor = 0;
    snprintf(key, sizeof key, "%s.rope.scaling.type", r->name);
    ZERO_TRY(zr_gguf_get_text(r->gguf, key, &type, r->error));
    if (type.length == 4 && !memcmp(type.at, "none", 4))
        return ZERO_OK;
    json_object_set_new(rope, "rope_type", json_stringn(type.at, type.length));
    for (int i = 0; i < ZR_COUNT(numbers); i++) {
        double value = 0;
        ZERO_TRY(get_real(r, numbers[i].key, &value));
        if (value > 0)
            json_object_set_new(rope, numbers[i].as, json_real(short_of(value)));
        factor = i ? factor : value;
    }
    ZERO_TRY(get_size(r, "rope.scaling.original_context_length", &original));
    if (original)
        json_object_set_new(rope, "original_max_position_embeddings", json_integer(original));
    double times = 1;
    ZERO_TRY(get_real(r, "rope.scaling.attn_factor", &times));
    if (times != 1 && factor >= 1)
        json_object_set_new(rope, "attention_factor",
                            json_real(short_of(times * (1 + 0.1 * log(factor)))));
    return ZERO_OK;
}

// Returns whether llama3's scaling with these settings divides frequencies by these factors.
static bool divides_by(const reading *r, const zero_rope *rope, const float *factors)
{
    const zero_rope plain = {.theta = rope->theta};
    float unused, frequency[2][ZR_MOST_HEAD_DIM];
    zr_rope_frequencies(&plain, r->head_dim, r->positions, frequency[0], &unused);
    zr_rope_frequencies(rope, r->head_dim, r->positions, frequency[1], &unused);
    for (int64_t j = 0; j < r->head_dim / 2; j++)
        if (!(fabsf(frequency[0][j] / frequency[1][j] - factors[j]) <= 1e-4F * factors[j]))
            return false;
    return true;
}

static zero_status put_llama3(const zero_rope *of, json_t *rope)
{
    json_object_set_new(rope, "rope_type", json_string("llama3"));
    json_object_set_new(rope, "factor", json_real(of->factor));
    json_object_set_new(rope, "low_freq_factor", json_real(of->low_freq_factor));
    json_object_set_new(rope, "high_freq_factor", json_real(of->high_freq_factor));
    json_object_set_new(rope, "original_max_position_embeddings",
                        json_integer(of->original_max_positions));
    return ZERO_OK;
}

// GGUF has the factors of llama3's scaling, not its settings: those that all such models have are
// tried, with the usual context and those that are powers of two.
static zero_status read_factors(reading *r, double theta, json_t *rope)
{
    const zr_gguf_item *factors = zr_gguf_find_tensor(r->gguf, ZR_GGUF_FACTORS);
    float values[ZR_MOST_HEAD_DIM];
    if (!factors)
        return ZERO_OK;
    if (r->head_dim > ZR_MOST_HEAD_DIM || factors->dims != 1 ||
        factors->elements != r->head_dim / 2 || factors->type->block > 1)
        return zr_fail(r->error, ZERO_ERR_DATA,
                       "\"%s\": the tensor \"" ZR_GGUF_FACTORS
                       "\" has not half as many elements as "
                       "a head",
                       r->gguf->path);
    zr_gguf_decode(factors->type, factors->data, factors->elements, values);
    zero_rope tried = {.scaling = ZERO_ROPE_llama3,
                       .theta = theta,
                       .factor = 1,
                       .low_freq_factor = 1,
                       .high_freq_factor = 4};
    for (int64_t j = 0; j < factors->elements; j++)
        tried.factor = fmax(tried.factor, (double)values[j]);
    tried.factor = short_of(tried.factor);
    for (int i = 0; i < LLAMA3_CONTEXTS; i++) {
        tried.original_max_positions = i ? 1 << i : LLAMA3_CONTEXT;
        if (divides_by(r, &tried, values))
            return put_llama3(&tried, rope);
    }
    return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                   "\"%s\": the tensor \"" ZR_GGUF_FACTORS "\" is of no rope scaling \"llama3\" "
                   "with low_freq_factor 1 and high_freq_factor 4",
                   r->gguf->path);
}

static zero_status read_rope(reading *r)
{
    double theta = 10000;
    int64_t rotated = r->head_dim;
    json_t *rope = json_object();
    zero_status status = get_real(r, "rope.freq_base", &theta);
    if (status == ZERO_OK)
        status = get_size(r, "rope.dimension_count", &rotated);
    put_field(r, ZR_ROLE_THETA, json_real(short_of(theta)));
    put_field(r, ZR_ROLE_ROTATED, json_real((double)rotated / (double)r->head_dim));
    if (status == ZERO_OK && r->of->fields[ZR_ROLE_ROTATED].kind == ZR_FIELD_NONE &&
        rotated != r->head_dim)
        status = zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                         "\"%s\": %lld of a head's %lld elements are rotated: only whole heads are",
                         r->gguf->path, (long long)rotated, (long long)r->head_dim);
    if (status == ZERO_OK)
        status = read_scaling(r, rope);
    if (status == ZERO_OK)
        status = read_factors(r, short_of(theta), rope);
    if (status == ZERO_OK && json_object_size(rope))
        put(r, "rope_scaling", json_incref(rope));
    json_decref(rope);
    return status;
}

// What is no key follows from the tensors.
static void read_options(reading *r)
{
    put(r, "attention_bias", json_boolean(has_tensor(r, "blk.0.attn_output.bias")));
    put(r, "mlp_bias", json_boolean(has_tensor(r, "blk.0.ffn_up.bias")));
    if (r->of->fields[ZR_ROLE_TIED].kind != ZR_FIELD_NONE)
        put_field(r, ZR_ROLE_TIED, json_boolean(!has_tensor(r, "output.weight")));
    for (const zr_lm_need *need = r->of->needs; need->key; need++)
        put(r, need->key, need->text ? json_string(need->text) : json_boolean(need->value));
}

static zero_status read_parallel(reading *r)
{
    bool parallel = true;
    char key[2 * KEY];
    snprintf(key, sizeof key, "%s.use_parallel_residual", r->name);
    ZERO_TRY(zr_gguf_get_flag(r->gguf, key, &parallel, r->error));
    if (r->of->block->parallel)
        put(r, "use_parallel_residual", json_boolean(parallel));
    return ZERO_OK;
}

static zero_status read_token(reading *r, const char *key, const char *as)
{
    int64_t id = -1;
    ZERO_TRY(zr_gguf_get_integer(r->gguf, key, INT32_MAX, &id, r->error));
    put(r, as, id < 0 ? json_null() : json_integer(id));
    return ZERO_OK;
}

static zero_status read_all(reading *r)
{
    put(r, "model_type", json_string(r->type->name));
    ZERO_TRY(read_sizes(r));
    ZERO_TRY(read_rates(r));
    read_options(r);
    ZERO_TRY(read_parallel(r));
    ZERO_TRY(read_token(r, "tokenizer.ggml.bos_token_id", "bos_token_id"));
    ZERO_TRY(read_token(r, "tokenizer.ggml.eos_token_id", "eos_token_id"));
    return r->of->rotary ? read_rope(r) : ZERO_OK;
}

// Of several types that GGUF has under one name, the one with a window is taken if there is one.
static zero_status find_architecture(reading *r)
{
    zr_gguf_text name = {"", 0};
    char key[2 * KEY];
    ZERO_TRY(zr_gguf_get_text(r->gguf, "general.architecture", &name, r->error));
    snprintf(r->name, sizeof r->name, "%.*s", (int)ZR_MIN(name.length, (size_t)KEY - 1), name.at);
    snprintf(key, sizeof key, "%s.attention.sliding_window", r->name);
    bool slides = zr_gguf_find_key(r->gguf, key) != NULL;
    for (int a = 0; a < ZR_LM_KINDS; a++) {
        const zr_architecture *of = zr_architecture_at(a);
        for (int t = 0; of->gguf && of->types[t].name; t++)
            if (!strcmp(of->gguf[t].name, r->name) &&
                (!r->type || (slides && !strcmp(of->types[t].name, "mistral")))) {
                r->of = of;
                r->type = &of->types[t];
            }
    }
    return r->type ? ZERO_OK
                   : zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                             "\"%s\": \"general.architecture\" is \"%s\": gpt2, llama, qwen2, "
                             "qwen3 and gptneox are read",
                             r->gguf->path, r->name);
}

zero_status zr_gguf_read_config(const zr_gguf *gguf, zr_lm_config *out, zero_error *error)
{
    reading r = {.gguf = gguf, .error = error};
    ZERO_TRY(find_architecture(&r));
    r.out = json_object();
    zero_status status = r.out ? read_all(&r)
                               : zr_fail(error, ZERO_ERR_MEMORY,
                                         "no memory for the settings of "
                                         "\"%s\"",
                                         gguf->path);
    if (status == ZERO_OK)
        status = zr_lm_config_unpack(r.out, gguf->path, out, error);
    json_decref(r.out);
    return status;
}
