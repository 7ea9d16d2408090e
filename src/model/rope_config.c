// The rotary settings of config.json. They have two spellings: rope_theta next to rope_scaling or,
// since transformers 5, rope_parameters for all. Both are read; if a file has both, rope_scaling
// counts, as in transformers. The older one is written, because every version of transformers reads
// it.
#include "model/rope.h"

#include <string.h>

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

// Reads the rotary settings at file->at, which is the root or an object of such settings. An
// architecture that rotates a part of a head has keys of its own at the root.
static void read_rope_at(zr_model_json *file, zero_rope *rope, double *rotated)
{
    static const double whole = 1;
    if (rotated && file->at == file->root)
        return;
    double part = zr_model_json_real(file, "partial_rotary_factor", rotated ? rotated : &whole);
    rope->theta = zr_model_json_real(file, "rope_theta", &rope->theta);
    if (rotated)
        *rotated = part;
    else if (part != 1)
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

void zr_rope_read(zr_model_json *file, int64_t positions, zero_rope *rope, double *rotated)
{
    read_rope_at(file, rope, rotated);
    int64_t original =
        zr_model_json_size(file, "original_max_position_embeddings", &rope->original_max_positions);
    const json_t *parameters = rope_object(file, "rope_parameters"),
                 *scaling = rope_object(file, "rope_scaling");
    file->at = scaling ? scaling : parameters ? parameters : file->root;
    if (file->at != file->root)
        read_rope_at(file, rope, rotated);
    if (scaling && parameters)
        check_replaced(file, parameters, rope);
    file->at = file->root;
    if (original && (rope->scaling == ZERO_ROPE_llama3 || rope->scaling == ZERO_ROPE_yarn))
        rope->original_max_positions = original;
    if (rope->scaling == ZERO_ROPE_yarn && rope->factor == 0 && rope->original_max_positions > 0)
        rope->factor = (double)positions / (double)rope->original_max_positions;
}

void zr_rope_write(const zero_rope *rope, zr_json_writer *w)
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
