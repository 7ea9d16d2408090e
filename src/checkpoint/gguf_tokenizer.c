// A tokenizer as the keys of a GGUF file.
#include "checkpoint/gguf_model.h"

#include <string.h>

#define KEY "tokenizer.ggml."

void zr_gguf_put_tokenizer(zr_gguf_writer *w, const zr_token_list *list, const char *template)
{
    const char *text = list->text.data;
    size_t count = (size_t)list->count;
    zr_gguf_put_text(w, KEY "model", list->scored ? "llama" : "gpt2");
    if (!list->scored)
        zr_gguf_put_text(w, KEY "pre", list->pre);
    zr_gguf_put_array(w, KEY "tokens", ZR_GGUF_TEXT, list->count);
    for (int32_t id = 0; id < list->count; id++)
        zr_gguf_put_item(w, text + list->tokens[id].at, list->tokens[id].length);
    if (list->scored) {
        zr_gguf_put_array(w, KEY "scores", ZR_GGUF_F32, list->count);
        zr_buffer_append(&w->keys, list->scores, count * sizeof *list->scores);
    }
    zr_gguf_put_array(w, KEY "token_type", ZR_GGUF_I32, list->count);
    zr_buffer_append(&w->keys, list->kinds, count * sizeof *list->kinds);
    if (!list->scored)
        zr_gguf_put_array(w, KEY "merges", ZR_GGUF_TEXT, list->merge_count);
    for (int32_t i = 0; i < list->merge_count; i++)
        zr_gguf_put_item(w, text + list->merges[i].at, list->merges[i].length);
    zr_gguf_put_u32(w, KEY "bos_token_id", list->begin);
    zr_gguf_put_u32(w, KEY "eos_token_id", list->end);
    if (list->unknown >= 0)
        zr_gguf_put_u32(w, KEY "unknown_token_id", list->unknown);
    zr_gguf_put_flag(w, KEY "add_bos_token", list->adds_begin);
    zr_gguf_put_flag(w, KEY "add_eos_token", list->adds_end);
    if (list->scored)
        zr_gguf_put_flag(w, KEY "add_space_prefix", list->adds_space);
    if (template)
        zr_gguf_put_text(w, "tokenizer.chat_template", template);
}

typedef struct reading {
    const zr_gguf *gguf;
    zr_token_list *out;
    zero_error *error;
} reading;

static zero_status damaged(const reading *r, const char *what)
{
    return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": %s", r->gguf->path, what);
}

// Copies the texts of a list. *spans (zr_free) is (*count).
static zero_status read_texts(reading *r, const zr_gguf_key *key, zr_text_span **spans,
                              int32_t *count)
{
    size_t at = key->at;
    if (key->count > INT32_MAX / 2)
        return damaged(r, "its tokenizer has more tokens than can be counted");
    *count = (int32_t)key->count;
    *spans = zr_alloc(((size_t)key->count + 1) * sizeof **spans, r->error);
    if (!*spans)
        return ZERO_ERR_MEMORY;
    for (int32_t i = 0; i < *count; i++) {
        const zr_gguf_text text = zr_gguf_next_text(r->gguf, &at);
        if (text.length > UINT32_MAX / 2 - r->out->text.length)
            return damaged(r, "its tokenizer has more than 2 GiB of text");
        (*spans)[i] = (zr_text_span){(uint32_t)r->out->text.length, (uint32_t)text.length};
        zr_buffer_append(&r->out->text, text.at, text.length);
    }
    return r->out->text.failed ? zr_fail(r->error, ZERO_ERR_MEMORY,
                                         "\"%s\": no memory for its tokens", r->gguf->path)
                               : ZERO_OK;
}

// Copies a list that has a number for each token.
static zero_status read_numbers(reading *r, const char *name, zr_gguf_kind kind, void **out)
{
    const zr_gguf_key *key;
    size_t bytes = ((size_t)r->out->count + 1) * sizeof(int32_t);
    ZERO_TRY(zr_gguf_get_array(r->gguf, name, kind, &key, r->error));
    if (!key || key->count != (uint64_t)r->out->count)
        return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": \"%s\" has not a number for each token",
                       r->gguf->path, name);
    *out = zr_alloc(bytes, r->error);
    if (!*out)
        return ZERO_ERR_MEMORY;
    memcpy(*out, r->gguf->file.data + key->at, bytes - sizeof(int32_t));
    return ZERO_OK;
}

static zero_status check_kinds(reading *r)
{
    for (int32_t id = 0; id < r->out->count; id++) {
        if (r->out->kinds[id] < ZR_TOKEN_NORMAL || r->out->kinds[id] > ZR_TOKEN_BYTE)
            return damaged(r, "\"" KEY "token_type\" has a number that is none of 1 to 6");
        if (r->out->scored && !(r->out->scores[id] >= -1e30F && r->out->scores[id] <= 1e30F))
            return damaged(r, "\"" KEY "scores\" has a number that is not finite");
    }
    return ZERO_OK;
}

static zero_status read_tokens(reading *r)
{
    const zr_gguf_key *tokens, *merges;
    zr_token_list *out = r->out;
    ZERO_TRY(zr_gguf_get_array(r->gguf, KEY "tokens", ZR_GGUF_TEXT, &tokens, r->error));
    if (!tokens)
        return damaged(r, "it has no key \"" KEY "tokens\"");
    ZERO_TRY(read_texts(r, tokens, &out->tokens, &out->count));
    ZERO_TRY(read_numbers(r, KEY "token_type", ZR_GGUF_I32, (void **)&out->kinds));
    if (out->scored)
        ZERO_TRY(read_numbers(r, KEY "scores", ZR_GGUF_F32, (void **)&out->scores));
    ZERO_TRY(check_kinds(r));
    if (out->scored)
        return ZERO_OK;
    ZERO_TRY(zr_gguf_get_array(r->gguf, KEY "merges", ZR_GGUF_TEXT, &merges, r->error));
    return merges ? read_texts(r, merges, &out->merges, &out->merge_count)
                  : damaged(r, "it has no key \"" KEY "merges\"");
}

static zero_status read_id(reading *r, const char *key, int32_t *out)
{
    int64_t id = -1;
    ZERO_TRY(zr_gguf_get_integer(r->gguf, key, INT32_MAX, &id, r->error));
    *out = (int32_t)id;
    return ZERO_OK;
}

static zero_status read_settings(reading *r)
{
    zr_token_list *out = r->out;
    out->byte_fallback = out->scored;
    out->adds_space = out->adds_begin = out->scored; // as llama.cpp does where there is no key
    ZERO_TRY(read_id(r, KEY "bos_token_id", &out->begin));
    ZERO_TRY(read_id(r, KEY "eos_token_id", &out->end));
    ZERO_TRY(read_id(r, KEY "unknown_token_id", &out->unknown));
    if (!out->scored)
        out->adds_begin = !strcmp(out->pre, "llama-bpe");
    ZERO_TRY(zr_gguf_get_flag(r->gguf, KEY "add_bos_token", &out->adds_begin, r->error));
    ZERO_TRY(zr_gguf_get_flag(r->gguf, KEY "add_eos_token", &out->adds_end, r->error));
    return zr_gguf_get_flag(r->gguf, KEY "add_space_prefix", &out->adds_space, r->error);
}

static zero_status find_pre(reading *r)
{
    char name[64];
    zr_gguf_text text = {"", 0};
    ZERO_TRY(zr_gguf_get_text(r->gguf, KEY "pre", &text, r->error));
    int length = (int)ZR_MIN(text.length, sizeof name - 1);
    memcpy(name, text.at, (size_t)length);
    name[length] = 0;
    const zr_token_pre *pre = zr_token_pre_find(name);
    r->out->pre = pre ? pre->name : NULL;
    return pre ? ZERO_OK
               : zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                         "\"%s\": \"" KEY "pre\" is \"%s\": gpt-2, llama-bpe, smaug-bpe, qwen2 and "
                         "smollm are built, and what means the same",
                         r->gguf->path, name);
}

static zero_status read_list(reading *r)
{
    zr_gguf_text model = {"", 0};
    ZERO_TRY(zr_gguf_get_text(r->gguf, KEY "model", &model, r->error));
    if (!model.length)
        return ZERO_OK;
    r->out->scored = model.length == 5 && !memcmp(model.at, "llama", 5);
    if (!r->out->scored && !(model.length == 4 && !memcmp(model.at, "gpt2", 4)))
        return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                       "\"%s\": \"" KEY "model\" is \"%.*s\": gpt2 and llama are built",
                       r->gguf->path, (int)ZR_MIN(model.length, (size_t)64), model.at);
    if (!r->out->scored)
        ZERO_TRY(find_pre(r));
    ZERO_TRY(read_tokens(r));
    return read_settings(r);
}

zero_status zr_gguf_read_tokenizer(const zr_gguf *gguf, zr_token_list *out, zero_error *error)
{
    reading r = {.gguf = gguf, .out = out, .error = error};
    *out = (zr_token_list){.begin = -1, .end = -1, .unknown = -1};
    zero_status status = read_list(&r);
    if (status != ZERO_OK)
        zr_token_list_free(out);
    return status;
}
