// Keys of an architecture in GGUF. What a field is called follows from its role, as in config.json;
// reading makes a config.json of them, so that it is checked as every other one is.
#include "formats/gguf_config.h"

#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY = 128 };

// A key after the architecture's name.
static const struct {
    zr_lm_role role;
    const char *key;
} sizes[] = {
    {ZR_ROLE_VOCABULARY, "vocab_size"},
    {ZR_ROLE_POSITIONS, "context_length"},
    {ZR_ROLE_WIDTH, "embedding_length"},
    {ZR_ROLE_INNER, "feed_forward_length"},
    {ZR_ROLE_LAYERS, "block_count"},
    {ZR_ROLE_HEADS, "attention.head_count"},
    {ZR_ROLE_KV_HEADS, "attention.head_count_kv"},
    {ZR_ROLE_HEAD_DIM, "attention.key_length"},
    {ZR_ROLE_WINDOW, "attention.sliding_window"},
};

static void make_key(char out[static KEY], const char *architecture, const char *key)
{
    snprintf(out, KEY, "%s.%s", architecture, key);
}

static const char *epsilon_key(const zr_architecture *of)
{
    return of->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon";
}

typedef struct writing {
    zr_gguf_writer *w;
    const zr_architecture *of;
    const char *name; // of the architecture in GGUF
    const zr_lm_config *config;
    zr_lm_shape shape;
    zero_error *error;
} writing;

static void put_size(const writing *c, const char *key, int64_t value)
{
    char full[KEY];
    make_key(full, c->name, key);
    zr_gguf_put_u32(c->w, full, value);
}

static void put_real(const writing *c, const char *key, double value)
{
    char full[KEY];
    make_key(full, c->name, key);
    zr_gguf_put_f32(c->w, full, value);
}

// Returns the value of a role; values that follow from others are those of the shape.
static int64_t size_of_role(const writing *c, zr_lm_role role)
{
    const int64_t followed[ZR_ROLES] = {[ZR_ROLE_INNER] = c->shape.inner,
                                        [ZR_ROLE_KV_HEADS] = c->shape.kv_heads,
                                        [ZR_ROLE_HEAD_DIM] = c->shape.head_dim};
    return followed[role] ? followed[role]
                          : zr_lm_field_size(&c->of->fields[role], zr_lm_struct(c->config));
}

static void put_sizes(const writing *c)
{
    for (int i = 0; i < ZR_COUNT(sizes); i++)
        if (size_of_role(c, sizes[i].role))
            put_size(c, sizes[i].key, size_of_role(c, sizes[i].role));
    put_size(c, "attention.value_length", c->shape.head_dim);
    put_real(c, epsilon_key(c->of), (double)c->shape.norm_epsilon);
    if (c->of->block->parallel) {
        char key[KEY];
        make_key(key, c->name, "use_parallel_residual");
        zr_gguf_put_flag(c->w, key, true);
    }
}

static void put_scaling(const writing *c, const char *type, const zero_rope *rope)
{
    char key[KEY];
    make_key(key, c->name, "rope.scaling.type");
    zr_gguf_put_text(c->w, key, type);
    put_real(c, "rope.scaling.factor", rope->factor);
}

// Says which layers have the window.
static void put_pattern(const writing *c)
{
    char key[KEY];
    make_key(key, c->name, ZR_GGUF_WINDOW_PATTERN);
    zr_gguf_put_array(c->w, key, ZR_GGUF_FLAG, c->shape.layers);
    for (int layer = 0; layer < c->shape.layers; layer++) {
        char slides = zr_lm_window(c->config, layer) != 0;
        zr_buffer_append(&c->w->keys, &slides, 1);
    }
}

// llama.cpp multiplies cosines and sines by attn_factor (1 + ln(factor) / 10), and cuts the ramp
// to whole dimensions.
static zero_status put_yarn(const writing *c, const zero_rope *rope, float factor)
{
    double usual = 1 + 0.1 * log(rope->factor);
    if (rope->whole_range)
        return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                       "this model's rope scaling \"yarn\" has \"truncate\" false, which llama.cpp "
                       "does not compute");
    put_scaling(c, "yarn", rope);
    put_size(c, "rope.scaling.original_context_length",
             rope->original_max_positions ? rope->original_max_positions : c->shape.positions);
    if (rope->beta_fast > 0)
        put_real(c, "rope.scaling.yarn_beta_fast", rope->beta_fast);
    if (rope->beta_slow > 0)
        put_real(c, "rope.scaling.yarn_beta_slow", rope->beta_slow);
    if (fabs((double)factor / usual - 1) > 1e-6)
        put_real(c, "rope.scaling.attn_factor", (double)factor / usual);
    return ZERO_OK;
}

// Computes by what llama3's scaling divides each frequency.
static zero_status make_factors(const writing *c, const zero_rope *rope, float **out)
{
    const zero_rope plain = {.theta = rope->theta};
    int64_t half = c->shape.rotated / 2;
    float unused, *all = zr_alloc((size_t)(2 * half) * sizeof *all, c->error);
    *out = all;
    if (!all)
        return ZERO_ERR_MEMORY;
    zr_rope_frequencies(&plain, c->shape.rotated, c->shape.positions, all, &unused);
    zr_lm_frequencies(c->config, all + half, &unused);
    for (int64_t j = 0; j < half; j++)
        all[j] /= all[half + j];
    return ZERO_OK;
}

static zero_status put_rope(const writing *c, const zero_rope *rope, float **factors)
{
    put_real(c, "rope.freq_base", rope->theta);
    put_size(c, "rope.dimension_count", c->shape.rotated);
    if (rope->scaling == ZERO_ROPE_linear)
        put_scaling(c, "linear", rope);
    if (rope->scaling == ZERO_ROPE_yarn) {
        float unused, factor;
        float *frequency = zr_alloc((size_t)c->shape.rotated * sizeof unused, c->error);
        if (!frequency)
            return ZERO_ERR_MEMORY;
        zr_lm_frequencies(c->config, frequency, &factor);
        zr_free(frequency);
        return put_yarn(c, rope, factor);
    }
    if (rope->scaling != ZERO_ROPE_llama3)
        return ZERO_OK; // within the context, "dynamic" is the default
    if (!c->of->gguf[c->shape.type - c->of->types].factors)
        return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                       "this model has the rope scaling \"llama3\", which llama.cpp does not "
                       "compute for \"%s\"",
                       c->name);
    return make_factors(c, rope, factors);
}

zero_status zr_gguf_put_config(zr_gguf_writer *w, const zr_lm_config *config, float **factors,
                               zero_error *error)
{
    const zr_architecture *of = zr_architecture_of(config);
    const zr_lm_shape shape = zr_lm_shape_of(config);
    const writing c = {.w = w,
                       .of = of,
                       .name = of->gguf[shape.type - of->types].name,
                       .config = config,
                       .shape = shape,
                       .error = error};
    *factors = NULL;
    put_sizes(&c);
    if (of->gguf[shape.type - of->types].pattern && size_of_role(&c, ZR_ROLE_WINDOW))
        put_pattern(&c);
    return of->rotary ? put_rope(&c, zr_lm_rope(config), factors) : ZERO_OK;
}
