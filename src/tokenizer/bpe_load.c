// Loads the model of a BPE from a file: its tokens, and its settings. Everything in a file is
// checked; here, that each id occurs once and is not far too large.
#include "tokenizer/spm_normalize.h"
#include "tokenizer/unigram.h"

#include <stdlib.h>
#include <string.h>

bool zr_json_is_off(const json_t *setting)
{
    return !setting || json_is_null(setting) || json_is_false(setting) ||
           (json_is_string(setting) && !json_string_length(setting)) ||
           (json_is_array(setting) && !json_array_size(setting));
}

const char *zr_json_type(const json_t *part)
{
    if (!part || json_is_null(part))
        return "";
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "?";
}

const char *zr_json_pattern(const json_t *part)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(part, "pattern"), "String"));
    return text && *text ? text : NULL;
}

zero_status zr_bpe_refuse_part(const zr_bpe_loader *loader, const char *role, const json_t *part,
                               zero_error *error)
{
    char *text = json_dumps(part, JSON_COMPACT | JSON_ENCODE_ANY);
    zero_status status = zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: the %s %.600s: not built",
                                 loader->path, role, text ? text : "?");
    free(text);
    return status;
}

zero_status zr_bpe_copy_text(const char *text, char **out, zero_error *error)
{
    *out = zr_strdup(text, error);
    return *out ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_fail_not_built(const char *path, const char *what, const char *value,
                              zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: %s%.400s: not built", path, what, value);
}

zero_status zr_bpe_append_text(zr_bpe_loader *loader, const char *text, size_t length,
                               zr_text_span *out, zero_error *error)
{
    *out = (zr_text_span){.at = (uint32_t)loader->text.length, .length = (uint32_t)length};
    zr_buffer_append(&loader->text, text, length);
    if (loader->text.failed || loader->text.length > UINT32_MAX / 2)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for the text of its tokens",
                       loader->path);
    loader->bpe->text = loader->text.data;
    return ZERO_OK;
}

// Reads an id of the file and checks its range; messages name the token.
static zero_status read_id(const zr_bpe_loader *loader, const char *token, const json_t *value,
                           int32_t *out, zero_error *error)
{
    int64_t most = 2 * loader->entries + 65536; // some files leave gaps
    if (!json_is_integer(value))
        return zr_fail(error, ZERO_ERR_DATA, "%s: the id of the token \"%.100s\" is no integer",
                       loader->path, token);
    json_int_t id = json_integer_value(value);
    if (id < 0 || id > most)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the token \"%.100s\" has the id %lld, where %lld tokens have ids from "
                       "0 to %lld at most",
                       loader->path, token, (long long)id, (long long)loader->entries,
                       (long long)most);
    *out = (int32_t)id;
    return ZERO_OK;
}

static zero_status put_token(zr_bpe_loader *loader, const char *token, int32_t id,
                             zero_error *error)
{
    zr_text_span *spelled = loader->bpe->spelled;
    if (!*token)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the token of id %d is empty", loader->path, id);
    if (spelled[id].length)
        return zr_fail(error, ZERO_ERR_DATA, "%s: the id %d is given to \"%.*s\" and to \"%.100s\"",
                       loader->path, id, (int)ZR_MIN(spelled[id].length, 100u),
                       loader->bpe->text + spelled[id].at, token);
    return zr_bpe_append_text(loader, token, strlen(token), &spelled[id], error);
}

// Finds the largest id, which determines the size of the tables.
static zero_status find_largest(zr_bpe_loader *loader, json_t *vocab, const json_t *added,
                                int32_t *largest, zero_error *error)
{
    const char *token;
    json_t *value;
    int32_t id = 0;
    *largest = -1;
    json_object_foreach(vocab, token, value)
    {
        ZERO_TRY(read_id(loader, token, value, &id, error));
        *largest = ZR_MAX(*largest, id);
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *entry = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(entry, "content"));
        if (!content || !*content)
            return zr_fail(error, ZERO_ERR_DATA, "%s: added token %zu has no \"content\"",
                           loader->path, i);
        ZERO_TRY(read_id(loader, content, json_object_get(entry, "id"), &id, error));
        *largest = ZR_MAX(*largest, id);
    }
    return ZERO_OK;
}

static zero_status read_added(zr_bpe_loader *loader, const json_t *entry, zr_added_token *out,
                              zero_error *error)
{
    const char *content = json_string_value(json_object_get(entry, "content"));
    zr_bpe *bpe = loader->bpe;
    out->id = (int32_t)json_integer_value(json_object_get(entry, "id"));
    out->special = json_is_true(json_object_get(entry, "special"));
    out->lstrip = json_is_true(json_object_get(entry, "lstrip"));
    out->rstrip = json_is_true(json_object_get(entry, "rstrip"));
    out->single_word = json_is_true(json_object_get(entry, "single_word"));
    const json_t *normalized = json_object_get(entry, "normalized");
    out->normalized = normalized ? json_is_true(normalized) : !out->special;
    out->content = zr_strdup(content, error);
    if (!out->content)
        return ZERO_ERR_MEMORY;
    bpe->added_count++;
    int32_t of_model = zr_text_span_map_find(&bpe->ids, content, strlen(content));
    if (of_model >= 0 && of_model != out->id)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the token \"%.100s\" has the id %d in the vocabulary and %d among the "
                       "added tokens",
                       loader->path, content, of_model, out->id);
    return of_model >= 0 ? ZERO_OK : put_token(loader, content, out->id, error);
}

static zero_status allocate_bpe_tables(zr_bpe_loader *loader, int32_t vocabulary,
                                       size_t model_tokens, size_t added, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    loader->tokenizer->vocabulary = vocabulary;
    bpe->model_tokens = (int32_t)model_tokens;
    bpe->spelled = zr_alloc((size_t)vocabulary * sizeof *bpe->spelled, error);
    bpe->bytes = bpe->spelled ? zr_alloc((size_t)vocabulary * sizeof *bpe->bytes, error) : NULL;
    bpe->is_byte = bpe->bytes ? zr_alloc((size_t)vocabulary, error) : NULL;
    bpe->added = bpe->is_byte ? zr_alloc((added + 1) * sizeof *bpe->added, error) : NULL;
    return bpe->added ? zr_text_span_map_create((const char *const *)&bpe->text,
                                                (int64_t)model_tokens, &bpe->ids, error)
                      : ZERO_ERR_MEMORY;
}

zero_status zr_bpe_load_vocabulary(zr_bpe_loader *loader, json_t *vocab, const json_t *added,
                                   zero_error *error)
{
    const char *token;
    json_t *value;
    int32_t largest;
    loader->entries = (int64_t)json_object_size(vocab) + (int64_t)json_array_size(added);
    ZERO_TRY(find_largest(loader, vocab, added, &largest, error));
    if (largest < 0)
        return zr_fail(error, ZERO_ERR_DATA, "%s: a vocabulary without a token", loader->path);
    ZERO_TRY(allocate_bpe_tables(loader, largest + 1, json_object_size(vocab),
                                 json_array_size(added), error));
    json_object_foreach(vocab, token, value)
    {
        int32_t id = (int32_t)json_integer_value(value);
        ZERO_TRY(put_token(loader, token, id, error));
        // Inserting cannot find an earlier one, because the keys of an object are distinct.
        zr_text_span_map_insert(&loader->bpe->ids, loader->bpe->spelled[id], id);
    }
    for (size_t i = 0; i < json_array_size(added); i++)
        ZERO_TRY(read_added(loader, json_array_get(added, i),
                            &loader->bpe->added[loader->bpe->added_count], error));
    return ZERO_OK;
}

zero_status zr_bpe_load_model(zr_bpe_loader *loader, const json_t *model, zero_error *error)
{
    static const char *const refused[] = {"dropout", "continuing_subword_prefix",
                                          "end_of_word_suffix"};
    zr_bpe *bpe = loader->bpe;
    for (int i = 0; i < ZR_COUNT(refused); i++) {
        const json_t *setting = json_object_get(model, refused[i]);
        if (!zr_json_is_off(setting) &&
            !(json_is_number(setting) && json_number_value(setting) == 0))
            return zr_fail_not_built(loader->path, "the model's ", refused[i], error);
    }
    bpe->byte_fallback = json_is_true(json_object_get(model, "byte_fallback"));
    bpe->fuse_unk = json_is_true(json_object_get(model, "fuse_unk"));
    bpe->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    bpe->unk = -1;
    const json_t *unk = json_object_get(model, "unk_token");
    if (zr_json_is_off(unk))
        return ZERO_OK;
    const char *name = json_string_value(unk);
    bpe->unk = name ? zr_text_span_map_find(&bpe->ids, name, strlen(name)) : -1;
    return bpe->unk >= 0 ? ZERO_OK
                         : zr_fail(error, ZERO_ERR_DATA,
                                   "%s: the unk_token \"%.100s\" is no token of the vocabulary",
                                   loader->path, name ? name : "?");
}

void zr_bpe_free(zr_bpe *bpe)
{
    if (!bpe)
        return;
    for (int i = 0; i < bpe->added_count; i++) {
        zr_free(bpe->added[i].content);
        zr_free(bpe->added[i].sought);
    }
    for (int i = 0; i < ZR_STEPS; i++) {
        zr_free(bpe->normal[i].from);
        zr_free(bpe->normal[i].to);
        zr_free(bpe->split[i].space);
    }
    void *const rest[] = {
        bpe->text,   bpe->spelled,      bpe->bytes,          bpe->is_byte,       bpe->merges.slots,
        bpe->added,  bpe->decoder.from, bpe->decoder.to,     bpe->decoder.strip, bpe->decoder.space,
        bpe->prefix, bpe->suffix,       bpe->added_order[0], bpe->added_order[1]};
    for (int i = 0; i < ZR_COUNT(rest); i++)
        zr_free(rest[i]);
    zr_text_span_map_free(&bpe->ids);
    zr_text_span_map_free(&bpe->whole);
    zr_unigram_free(bpe->unigram);
    zr_spm_rules_free(bpe->rules);
    zr_charsmap_free(&bpe->charsmap);
    zr_free(bpe);
}
