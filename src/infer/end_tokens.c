#include "infer/prompts.h"

#include "base/file.h"
#include "base/json.h"
#include "model/architecture.h"

#define MOST_BYTES ((size_t)1 << 20)
#define KEY "eos_token_id"

static zero_status append_id(const json_t *value, const char *path, zr_ids *out, zero_error *error)
{
    if (!json_is_integer(value))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: \"" KEY "\" must be a token's id, or a list of such", path);
    json_int_t id = json_integer_value(value);
    if (id >= 0 && id <= INT32_MAX)
        zr_ids_append(out, (int32_t)id);
    return ZERO_OK;
}

static zero_status append_ids(const json_t *root, const char *path, bool *found, zr_ids *out,
                              zero_error *error)
{
    const json_t *value = json_object_get(root, KEY), *item;
    size_t i;
    *found = value && !json_is_null(value);
    if (!json_is_object(root))
        return zr_fail(error, ZERO_ERR_DATA, "%s: a JSON object is expected", path);
    if (*found && !json_is_array(value))
        return append_id(value, path, out, error);
    json_array_foreach(value, i, item) ZERO_TRY(append_id(item, path, out, error));
    return ZERO_OK;
}

// *found: whether the file exists and has the key.
static zero_status read_ids_of_file(const char *directory, const char *name, bool *found,
                                    zr_ids *out, zero_error *error)
{
    char *path = zr_sprintf(error, "%s/%s", directory, name);
    json_t *root = NULL;
    zero_status status = !path                  ? ZERO_ERR_MEMORY
                         : zr_path_exists(path) ? zr_json_load(path, MOST_BYTES, &root, error)
                                                : ZERO_OK;
    *found = false;
    if (root)
        status = append_ids(root, path, found, out, error);
    json_decref(root);
    zr_free(path);
    return status;
}

zero_status zr_end_tokens_read(const char *directory, const zr_tokenizer *tokenizer,
                               const zr_chat *chat, zr_ids *out, zero_error *error)
{
    static const char *const files[] = {ZR_GENERATION_CONFIG, ZR_MODEL_CONFIG};
    bool found = false;
    int32_t turn;
    *out = (zr_ids){0};
    for (int i = 0; i < ZR_COUNT(files) && !found; i++)
        ZERO_TRY(read_ids_of_file(directory, files[i], &found, out, error));
    if (!found && zr_tokenizer_end(tokenizer) >= 0)
        zr_ids_append(out, zr_tokenizer_end(tokenizer));
    if (chat && zr_tokenizer_find(tokenizer, zr_chat_turn_end(chat), &turn))
        zr_ids_append(out, turn);
    return out->failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the end tokens of %s", directory)
               : ZERO_OK;
}
