// The list of architectures. Functions of any language model find the row of its architecture here
// and call it.
#include "model/architecture.h"

#include "base/file.h"
#include "model/model_json.h"
#include "model/lm_fields.h"
#include <stdio.h>
#include <string.h>

static const zr_architecture *const architectures[ZR_LM_KINDS] = {
    [ZR_LM_GPT2] = &zr_gpt2_architecture,
    [ZR_LM_LLAMA] = &zr_llama_architecture,
};

const zr_architecture *zr_architecture_of(zr_lm_kind kind) { return architectures[kind]; }

static void list_presets(char *out, size_t size)
{
    const char *name;
    size_t used = 0;
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (int i = 0; used < size && (name = architectures[a]->preset_name(i)); i++)
            used += (size_t)snprintf(out + used, size - used, used ? ", %s" : "%s", name);
}

// Refuses an unknown name. The message proposes the nearest preset, or else lists all presets.
static zero_status refuse_preset(const char *spec, size_t length, zero_error *error)
{
    char name[96], presets[512];
    snprintf(name, sizeof name, "%.*s", (int)ZR_MIN(length, sizeof name - 1), spec);
    const char *nearest = zr_preset_nearest(name);
    if (zr_path_is_directory(spec))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": this is a directory, no preset: --model starts from it",
                       spec);
    if (nearest)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "model \"%s\": there is no preset \"%s\"; did you mean \"%s\"?", spec, name,
                       nearest);
    list_presets(presets, sizeof presets);
    return zr_fail(error, ZERO_ERR_USAGE,
                   "model \"%.96s\": there is no preset \"%s\"; there are %s", spec, name, presets);
}

zero_status zr_lm_parse_spec(const char *spec, zr_lm_config *out, bool *vocab_given,
                             zero_error *error)
{
    char name[ZR_SPEC_WORD];
    const char *preset;
    size_t length = strcspn(spec, ":");
    zr_spec_copy(name, spec, length);
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (int i = 0; (preset = architectures[a]->preset_name(i)); i++) {
            zr_lm_config config = {.kind = (zr_lm_kind)a};
            if (strcmp(preset, name) != 0)
                continue;
            ZERO_TRY(architectures[a]->parse(spec, i, &config, vocab_given, error));
            zero_status status = zr_lm_check(&config, error);
            if (status != ZERO_OK) {
                zr_error_prefix(error, "model \"%s\"", spec);
                return status;
            }
            *vocab_given |= spec[length] == 0;
            *out = config;
            return ZERO_OK;
        }
    return refuse_preset(spec, length, error);
}

// Writes "gpt2, llama, ...".
static void list_types(char *out, size_t size)
{
    size_t used = 0;
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (const char *const *type = architectures[a]->model_types; *type && used < size; type++)
            used += (size_t)snprintf(out + used, size - used, used ? ", %s" : "%s", *type);
}

static zero_status find_architecture(zr_model_json *file, zr_lm_kind *out)
{
    char known[128];
    const char *type = zr_model_json_text(file, "model_type", NULL);
    if (file->status != ZERO_OK)
        return file->status;
    for (int a = 0; a < ZR_LM_KINDS; a++)
        for (const char *const *of = architectures[a]->model_types; *of; of++)
            if (strcmp(*of, type) == 0) {
                *out = (zr_lm_kind)a;
                return ZERO_OK;
            }
    list_types(known, sizeof known);
    return zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                   "%s: \"model_type\" is \"%s\": only %s can be computed exactly", file->path,
                   type, known);
}

// transformers lets a layer have settings of its own, which replace those of all layers.
static void refuse_layers_apart(zr_model_json *file)
{
    static const char key[] = "per_layer_config";
    const json_t *layers = zr_model_json_get(file, key);
    if (!json_is_object(layers) || json_object_size(layers))
        zr_model_json_refuse(file, key, "all layers have the same settings");
}

static zero_status read_architecture_config(zr_model_json *file, zr_lm_config *out)
{
    zr_lm_config config = {0};
    zero_error found = {.status = ZERO_OK};
    ZERO_TRY(find_architecture(file, &config.kind));
    refuse_layers_apart(file);
    architectures[config.kind]->read(file, &config);
    zr_model_json_tokens(file, "bos_token_id", &config.bos);
    zr_model_json_tokens(file, "eos_token_id", &config.eos);
    zr_model_json_tokens(file, "pad_token_id", &config.pad);
    if (file->status != ZERO_OK)
        return file->status;
    if (zr_lm_check(&config, &found) != ZERO_OK)
        return zr_fail(file->error, ZERO_ERR_DATA, "%s: %s", file->path, found.message);
    *out = config;
    return ZERO_OK;
}

zero_status zr_lm_config_read(const char *path, zr_lm_config *out, zero_error *error)
{
    zr_model_json file;
    ZERO_TRY(zr_model_json_open(path, &file, error));
    zero_status status = read_architecture_config(&file, out);
    zr_model_json_close(&file);
    return status;
}

zero_status zr_lm_config_unpack(const json_t *object, const char *name, zr_lm_config *out,
                                zero_error *error)
{
    zr_model_json file = {.root = (json_t *)object, .at = object, .path = name, .error = error};
    return json_is_object(object)
               ? read_architecture_config(&file, out)
               : zr_fail(error, ZERO_ERR_DATA, "%s: a JSON object is expected", name);
}

zero_status zr_lm_config_read_in(const char *directory, zr_lm_config *out, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/" ZR_MODEL_CONFIG, directory);
    zero_status status = path ? zr_lm_config_read(path, out, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

void zr_lm_config_write(const zr_lm_config *config, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    architectures[config->kind]->write(config, &w);
    zr_model_json_put_tokens(&w, "bos_token_id", &config->bos);
    zr_model_json_put_tokens(&w, "eos_token_id", &config->eos);
    zr_model_json_put_tokens(&w, "pad_token_id", &config->pad);
    zr_json_text(&w, "torch_dtype", "float32");
    zr_json_finish(&w);
}

zero_status zr_lm_check(const zr_lm_config *config, zero_error *error)
{
    return architectures[config->kind]->check(config, error);
}

zr_lm_shape zr_lm_shape_of(const zr_lm_config *config)
{
    return architectures[config->kind]->shape(config);
}

// Returns the architecture's own struct. All of them begin at the same address, because they form a
// union.
static void *struct_of_config(const zr_lm_config *config) { return (void *)&config->gpt2; }

void zr_lm_set_vocabulary(zr_lm_config *config, int64_t tokens)
{
    zr_lm_field_set_size(architectures[config->kind]->vocabulary, struct_of_config(config), tokens);
}

static zr_token_ids one_or_none(int64_t id)
{
    return (zr_token_ids){.given = true, .count = id >= 0, .at = {id}};
}

void zr_lm_set_tokens(zr_lm_config *config, int64_t bos, int64_t eos)
{
    config->bos = one_or_none(bos);
    config->eos = one_or_none(eos);
    config->pad = (zr_token_ids){.given = false};
}

zr_tiles zr_lm_tiles(const zr_lm_config *config)
{
    const zr_lm_field *tiles = architectures[config->kind]->tiles;
    const void *of = struct_of_config(config);
    return (zr_tiles){
        .embedding = zr_lm_field_size(&tiles[0], of),
        .attention = zr_lm_field_size(&tiles[1], of),
        .mlp = zr_lm_field_size(&tiles[2], of),
    };
}

void zr_lm_set_tiles(zr_lm_config *config, const zr_tiles *tiles)
{
    const zr_lm_field *fields = architectures[config->kind]->tiles;
    const int64_t values[ZR_TILED] = {tiles->embedding, tiles->attention, tiles->mlp};
    for (int i = 0; i < ZR_TILED; i++)
        zr_lm_field_set_size(&fields[i], struct_of_config(config), values[i]);
}
