// GPT-2's two files, vocab.json and merges.txt, and the settings in their directory that determine
// ids. They are read as in transformers:
//
//   tokenizer_config.json    added_tokens_decoder: {"50257": {"content": "<pad>", "special": true,
//                            "lstrip": ...}}; add_prefix_space; names of special tokens
//   added_tokens.json        {"<pad>": 50257}; read if there is no added_tokens_decoder
// special_tokens_map.json  names of special tokens; read if there is no added_tokens_decoder
#include "base/random.h"
#include "tokenizer/bpe_load.h"

#include <stdlib.h>
#include <string.h>

typedef struct gathering { // added tokens, before they go to the loader
    const char *path;      // for messages
    const zr_token_settings *settings;
    const json_t *vocab;
    json_t *tokens; // by content; entries are like those of added_tokens in a tokenizer.json
} gathering;

static zero_status fail_memory(const gathering *g, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its added tokens", g->path);
}

// Adds a token. `flags` is an object with lstrip and the like, or NULL.
static zero_status gather_added_token(gathering *g, const char *content, json_int_t id,
                                      const json_t *flags, bool special, bool normalized,
                                      zero_error *error)
{
    json_t *entry = json_object();
    bool failed = !entry || json_object_set_new(entry, "special", json_boolean(special)) ||
                  json_object_set_new(entry, "normalized", json_boolean(normalized)) ||
                  (flags && json_object_update(entry, (json_t *)flags)) ||
                  (special && json_object_set_new(entry, "special", json_true())) ||
                  json_object_set_new(entry, "id", json_integer(id)) ||
                  json_object_set_new(entry, "content", json_string(content)) ||
                  json_object_set(g->tokens, content, entry);
    json_decref(entry);
    return failed ? fail_memory(g, error) : ZERO_OK;
}

static zero_status gather_from_config(gathering *g, json_t *decoder, zero_error *error)
{
    const char *key;
    json_t *token;
    json_object_foreach(decoder, key, token)
    {
        const char *content = json_string_value(json_object_get(token, "content"));
        char *end;
        long long id = strtoll(key, &end, 10);
        if (!content || !*content || !*key || *end)
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: the added_tokens_decoder of tokenizer_config.json says of "
                           "\"%.40s\" no token, where an id and its \"content\" are needed",
                           g->path, key);
        ZERO_TRY(gather_added_token(g, content, id, token, false, true, error));
    }
    return ZERO_OK;
}

static zero_status gather_from_added_json(gathering *g, json_t *added, zero_error *error)
{
    const char *content;
    json_t *id;
    json_object_foreach(added, content, id)
    {
        if (!json_is_integer(id))
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s: added_tokens.json gives \"%.100s\" no integer for its id", g->path,
                           content);
        ZERO_TRY(gather_added_token(g, content, json_integer_value(id), NULL, false, true, error));
    }
    return ZERO_OK;
}

// Marks a token as special because the settings name it as one. If a list has it with its id, its
// other flags are those of the list.
static zero_status gather_named_special(gathering *g, const char *role, const json_t *named,
                                        zero_error *error)
{
    const char *content = zr_token_content(named);
    const json_t *in_vocab = content ? json_object_get(g->vocab, content) : NULL;
    json_t *known = content ? json_object_get(g->tokens, content) : NULL;
    if (!content || !*content)
        return ZERO_OK;
    if (!known && !json_is_integer(in_vocab))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: its %s \"%.100s\" has no id in vocab.json, added_tokens.json or "
                       "added_tokens_decoder: not built; a tokenizer.json says which it gets",
                       g->path, role, content);
    if (!known)
        return gather_added_token(g, content, json_integer_value(in_vocab),
                                  json_is_object(named) ? named : NULL, true, false, error);
    bool failed = json_object_set_new(known, "special", json_true()) != 0;
    if (!json_object_get(g->settings->config, "added_tokens_decoder"))
        failed = failed || json_object_set_new(known, "normalized", json_false());
    return failed ? fail_memory(g, error) : ZERO_OK;
}

static zero_status gather_named_specials(gathering *g, zero_error *error)
{
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    json_t *usual = json_string(ZR_GPT2_END);
    zero_status status = usual ? ZERO_OK : fail_memory(g, error);
    for (int i = 0; i < ZR_COUNT(roles) && status == ZERO_OK; i++) {
        const json_t *named = zr_token_setting(g->settings, roles[i]);
        if (named || (i < 3 && json_object_get(g->vocab, ZR_GPT2_END)))
            status = gather_named_special(g, roles[i], named ? named : usual, error);
    }
    for (int l = 0; l < ZR_COUNT(lists); l++) {
        const json_t *list = zr_token_setting(g->settings, lists[l]);
        for (size_t i = 0; i < json_array_size(list) && status == ZERO_OK; i++)
            status = gather_named_special(g, lists[l], json_array_get(list, i), error);
    }
    json_decref(usual);
    return status;
}

static zero_status gather_added_tokens(gathering *g, zero_error *error)
{
    json_t *decoder = json_object_get(g->settings->config, "added_tokens_decoder");
    if (!g->tokens)
        return fail_memory(g, error);
    ZERO_TRY(decoder ? gather_from_config(g, decoder, error)
                     : gather_from_added_json(g, g->settings->added, error));
    return gather_named_specials(g, error);
}

static int by_id(const void *a, const void *b)
{
    json_int_t x = json_integer_value(json_object_get(*(json_t *const *)a, "id")),
               y = json_integer_value(json_object_get(*(json_t *const *)b, "id"));
    return (x > y) - (x < y);
}

static zero_status append_tokens_by_id(const gathering *g, json_t *out, zero_error *error)
{
    const char *content;
    json_t *entry;
    size_t count = 0;
    bool failed = false;
    json_t **list = zr_alloc((json_object_size(g->tokens) + 1) * sizeof *list, error);
    if (!list)
        return ZERO_ERR_MEMORY;
    json_object_foreach(g->tokens, content, entry) list[count++] = entry;
    qsort(list, count, sizeof *list, by_id);
    for (size_t i = 0; i < count; i++)
        failed = json_array_append(out, list[i]) != 0 || failed;
    zr_free(list);
    return failed ? fail_memory(g, error) : ZERO_OK;
}

// Makes the list, and a hash of it, because these ids are in neither of the two files.
static zero_status list_added_tokens(const gathering *g, json_t **out, uint64_t *hash,
                                     zero_error *error)
{
    char *text = json_dumps(g->tokens, JSON_SORT_KEYS | JSON_COMPACT);
    *out = json_array();
    *hash = text ? zr_hash_text(text) : 0;
    zero_status status = text && *out ? append_tokens_by_id(g, *out, error) : fail_memory(g, error);
    free(text);
    return status;
}

zero_status zr_gpt2_added(const char *path, const zr_token_settings *settings, const json_t *vocab,
                          json_t **out, uint64_t *hash, zero_error *error)
{
    gathering g = {.path = path, .settings = settings, .vocab = vocab, .tokens = json_object()};
    *out = NULL;
    zero_status status =
        json_is_object(vocab)
            ? gather_added_tokens(&g, error)
            : zr_fail(error, ZERO_ERR_DATA,
                      "%s: no object of tokens and their ids, as vocab.json is", path);
    if (status == ZERO_OK)
        status = list_added_tokens(&g, out, hash, error);
    json_decref(g.tokens);
    return status;
}

zero_status zr_gpt2_load(zr_bpe_loader *loader, const zr_token_settings *settings, json_t *vocab,
                         const char *merges, size_t merges_length, zero_error *error)
{
    bool prefix = json_is_true(json_object_get(settings->config, "add_prefix_space"));
    json_t *added = NULL;
    loader->bpe->unk = -1;
    zero_status status = zr_gpt2_added(loader->path, settings, vocab, &added,
                                       &loader->tokenizer->fingerprint, error);
    loader->tokenizer->fingerprint += prefix;
    if (status == ZERO_OK)
        status = zr_bpe_load_vocabulary(loader, vocab, added, error);
    json_decref(added);
    ZERO_TRY(status);
    ZERO_TRY(zr_bpe_load_merges_text(loader, merges, merges_length, error));
    ZERO_TRY(zr_bpe_load_gpt2_pipeline(loader, prefix, error));
    return zr_bpe_finish(loader, error);
}
