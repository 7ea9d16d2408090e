// What the tables of an architecture say of a configuration: how a spec sets it, how config.json
// has it, what is wrong in it, and what every language model has.
#include "model/lm_table.h"

#include "base/errors.h"
#include "model/rope.h"

static void *struct_of(const zr_lm_config *config) { return (void *)zr_lm_struct(config); }

static zero_rope *rope_of(const zr_architecture *of, const zr_lm_config *config)
{
    return (zero_rope *)((char *)struct_of(config) + of->fields[ZR_ROLE_THETA].at -
                         offsetof(zero_rope, theta));
}

static void set_defaults(const zr_architecture *of, zr_lm_config *out)
{
    if (of->defaults)
        of->defaults(out);
    else
        out->numbers = (zr_lm_numbers){.deviation = 0.02f,
                                       .rotated = of->fields[ZR_ROLE_ROTATED].otherwise,
                                       .rope = {.theta = 10000}};
}

// ---- specs ----

static void set_size(const zr_architecture *of, zr_lm_role role, int64_t value, void *config)
{
    zr_lm_field_set_size(&of->fields[role], config, value);
}

static void apply_preset(const zr_architecture *of, const zr_lm_preset *preset, zr_lm_config *out)
{
    void *config = struct_of(out);
    set_defaults(of, out);
    set_size(of, ZR_ROLE_VOCABULARY, preset->vocab, config);
    set_size(of, ZR_ROLE_POSITIONS, preset->context, config);
    set_size(of, ZR_ROLE_WIDTH, preset->width, config);
    set_size(of, ZR_ROLE_INNER, preset->inner, config);
    set_size(of, ZR_ROLE_LAYERS, preset->layers, config);
    set_size(of, ZR_ROLE_HEADS, preset->heads, config);
    set_size(of, ZR_ROLE_KV_HEADS, preset->kv_heads, config);
    set_size(of, ZR_ROLE_HEAD_DIM, preset->head_dim, config);
    set_size(of, ZR_ROLE_WINDOW, preset->window, config);
    *(float *)((char *)config + of->fields[ZR_ROLE_EPSILON].at) = preset->epsilon;
    if (of->fields[ZR_ROLE_TIED].kind != ZR_FIELD_NONE)
        *(int *)((char *)config + of->fields[ZR_ROLE_TIED].at) = preset->tied;
    if (of->apply)
        of->apply(preset, out);
}

// Returns the width of an MLP that is not given.
static int64_t usual_inner(const zr_architecture *of, int64_t width)
{
    return of->gated ? ZR_ROUND_UP(width * 8 / 3, (int64_t)64) : 4 * width;
}

// Derives sizes that are not given from those that are: an inner width of 4 times the width, or of
// 8/3 of it if the MLP is gated; and as many heads of keys and values as of queries.
static void derive_sizes(const zr_architecture *of, uint32_t given, void *config)
{
    int64_t width = zr_lm_field_size(&of->fields[ZR_ROLE_WIDTH], config);
    bool usable = width > 0 && width <= 1 << 20, has_width = given >> ZR_ROLE_WIDTH & 1,
         has_inner = given >> ZR_ROLE_INNER & 1, has_heads = given >> ZR_ROLE_HEADS & 1,
         has_kv_heads = given >> ZR_ROLE_KV_HEADS & 1;
    if (has_width && !has_inner && usable && of->fields[ZR_ROLE_INNER].kind == ZR_FIELD_SIZE)
        set_size(of, ZR_ROLE_INNER, usual_inner(of, width), config);
    if (has_heads && !has_kv_heads)
        set_size(of, ZR_ROLE_KV_HEADS, 0, config);
}

zero_status zr_lm_table_parse(const zr_architecture *of, const char *spec,
                              const zr_lm_preset *preset, zr_lm_config *out, bool *vocab_given,
                              zero_error *error)
{
    uint32_t given = 0;
    apply_preset(of, preset, out);
    ZERO_TRY(zr_spec_parse(spec, of->fields, struct_of(out), &given, error));
    derive_sizes(of, given, struct_of(out));
    *vocab_given = given >> ZR_ROLE_VOCABULARY & 1;
    return ZERO_OK;
}

// ---- config.json ----

void zr_lm_table_read(const zr_architecture *of, zr_model_json *file, zr_lm_config *out)
{
    void *config = struct_of(out);
    const zr_lm_field *rotated = &of->fields[ZR_ROLE_ROTATED];
    set_defaults(of, out);
    for (const zr_lm_need *need = of->needs; need->key; need++) {
        if (need->text)
            zr_model_json_require_text(file, need->key, need->text, need->synonym);
        else
            zr_model_json_require_bool(file, need->key, need->value, need->otherwise);
    }
    zr_lm_fields_read(of->fields, ZR_ROLE_VOCABULARY, ZR_ROLE_TIED, file, config);
    if (of->rotary)
        zr_rope_read(file, zr_lm_field_size(&of->fields[ZR_ROLE_POSITIONS], config),
                     rope_of(of, out),
                     rotated->kind ? (double *)((char *)config + rotated->at) : NULL);
    if (of->read)
        of->read(file, out);
}

// Sets optional sizes as files have them: those of heads as numbers, the inner width only if it is
// not the usual one.
static void resolve_sizes(const zr_architecture *of, zr_lm_config *config)
{
    const zr_lm_shape shape = zr_lm_table_shape(of, config);
    set_size(of, ZR_ROLE_KV_HEADS, shape.kv_heads, struct_of(config));
    set_size(of, ZR_ROLE_HEAD_DIM, shape.head_dim, struct_of(config));
    if (of->fields[ZR_ROLE_INNER].kind == ZR_FIELD_OPTIONAL &&
        shape.inner == usual_inner(of, shape.width))
        set_size(of, ZR_ROLE_INNER, 0, struct_of(config));
}

void zr_lm_table_write(const zr_architecture *of, const zr_lm_config *config, zr_json_writer *w)
{
    const zr_model_type *type = zr_lm_table_shape(of, config).type;
    zr_lm_config resolved = *config;
    resolve_sizes(of, &resolved);
    zr_json_begin_array(w, "architectures");
    if (config->labels.count)
        zr_model_json_put_classifier(w, type->class_name);
    else
        zr_json_text(w, NULL, type->class_name);
    zr_json_end(w);
    zr_json_text(w, "model_type", type->name);
    zr_lm_fields_write(of->fields, ZR_ROLE_VOCABULARY, ZR_ROLE_TIED, struct_of(&resolved), w);
    if (of->rotary)
        zr_rope_write(rope_of(of, config), w);
    for (const zr_lm_need *need = of->needs; need->key; need++) {
        if (need->text)
            zr_json_text(w, need->key, need->text);
        else if (!need->silent)
            zr_json_flag(w, need->key, need->value);
    }
    if (of->write)
        of->write(config, w);
}

// ---- checks ----

static zero_status check_heads(const zr_architecture *of, const zr_lm_shape *shape,
                               const void *config, zero_error *error)
{
    const zr_lm_field *f = of->fields;
    if (!zr_lm_field_size(&f[ZR_ROLE_HEAD_DIM], config) && shape->width % shape->heads != 0)
        return zr_fail(
            error, ZERO_ERR_USAGE, "%s: width %lld (%s) is not divisible by %lld heads (%s)%s",
            of->title, (long long)shape->width, f[ZR_ROLE_WIDTH].key, (long long)shape->heads,
            f[ZR_ROLE_HEADS].key, f[ZR_ROLE_HEAD_DIM].kind ? ", and head_dim is not given" : "");
    if (shape->heads % shape->kv_heads != 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: %lld heads (%s) cannot share %lld heads of keys and values (%s) evenly",
                       of->title, (long long)shape->heads, f[ZR_ROLE_HEADS].key,
                       (long long)shape->kv_heads, f[ZR_ROLE_KV_HEADS].key);
    if (!of->rotary ||
        (shape->rotated > 0 && shape->rotated % 2 == 0 && shape->head_dim <= ZR_MOST_HEAD_DIM))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "%s: a head of %lld elements (head_dim), %lld of them rotated: the two halves "
                   "that are rotated must be equal, and a head at most %d long",
                   of->title, (long long)shape->head_dim, (long long)shape->rotated,
                   ZR_MOST_HEAD_DIM);
}

zero_status zr_lm_table_check(const zr_architecture *of, const zr_lm_config *config,
                              zero_error *error)
{
    const void *numbers = struct_of(config);
    const zr_lm_field *fields = of->fields;
    ZERO_TRY(zr_lm_fields_check(fields, ZR_ROLE_VOCABULARY, ZR_ROLE_HEAD_DIM, of->title, numbers,
                                error));
    ZERO_TRY(zr_lm_fields_check(fields, ZR_ROLE_EPSILON, ZR_ROLES - 1, of->title, numbers, error));
    const zr_lm_shape shape = zr_lm_table_shape(of, config);
    ZERO_TRY(check_heads(of, &shape, numbers, error));
    if (of->rotary)
        ZERO_TRY(zr_rope_check(rope_of(of, config), of->title, error));
    return of->check ? of->check(config, error) : ZERO_OK;
}

// ---- what every language model has ----

zr_lm_shape zr_lm_table_shape(const zr_architecture *of, const zr_lm_config *config)
{
    const zr_lm_field *f = of->fields;
    const void *c = struct_of(config);
    zr_lm_shape shape = {
        .title = of->title,
        .type = of->types,
        .vocab = zr_lm_field_size(&f[ZR_ROLE_VOCABULARY], c),
        .positions = zr_lm_field_size(&f[ZR_ROLE_POSITIONS], c),
        .width = zr_lm_field_size(&f[ZR_ROLE_WIDTH], c),
        .inner = zr_lm_field_size(&f[ZR_ROLE_INNER], c),
        .layers = zr_lm_field_size(&f[ZR_ROLE_LAYERS], c),
        .heads = zr_lm_field_size(&f[ZR_ROLE_HEADS], c),
        .kv_heads = zr_lm_field_size(&f[ZR_ROLE_KV_HEADS], c),
        .head_dim = zr_lm_field_size(&f[ZR_ROLE_HEAD_DIM], c),
        .norm_epsilon = zr_lm_field_float(&f[ZR_ROLE_EPSILON], c),
        .deviation = zr_lm_field_float(&f[ZR_ROLE_DEVIATION], c),
        .rms = of->rms,
        .gated = of->gated,
        .outputs_first = of->outputs_first,
        .tied = !f[ZR_ROLE_TIED].kind || zr_lm_field_flag(&f[ZR_ROLE_TIED], c),
        .embedding_dropout = zr_lm_field_float(&f[ZR_ROLE_EMBEDDING_DROPOUT], c),
        .attention_dropout = zr_lm_field_float(&f[ZR_ROLE_ATTENTION_DROPOUT], c),
        .residual_dropout = zr_lm_field_float(&f[ZR_ROLE_RESIDUAL_DROPOUT], c),
    };
    shape.outputs = config->labels.count ? config->labels.count : shape.vocab;
    shape.inner = shape.inner ? shape.inner : usual_inner(of, shape.width);
    shape.kv_heads = shape.kv_heads ? shape.kv_heads : shape.heads;
    if (!shape.head_dim && shape.heads)
        shape.head_dim = shape.width / shape.heads;
    if (of->rotary)
        shape.rotated = f[ZR_ROLE_ROTATED].kind
                            ? (int64_t)((double)shape.head_dim *
                                        *(const double *)((const char *)c + f[ZR_ROLE_ROTATED].at))
                            : shape.head_dim;
    if (of->shape)
        of->shape(config, &shape);
    return shape;
}

const zero_rope *zr_lm_rope(const zr_lm_config *config)
{
    const zr_architecture *of = zr_architecture_of(config);
    return of->rotary ? rope_of(of, config) : NULL;
}

void zr_lm_frequencies(const zr_lm_config *config, float *frequency, float *factor)
{
    const zr_architecture *of = zr_architecture_of(config);
    zr_rope_frequencies(rope_of(of, config), zr_lm_table_shape(of, config).rotated,
                        zr_lm_field_size(&of->fields[ZR_ROLE_POSITIONS], struct_of(config)),
                        frequency, factor);
}
