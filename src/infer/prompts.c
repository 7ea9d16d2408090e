#include "infer/prompts.h"

#include <stdio.h>
#include <string.h>

typedef struct encoding {
    const zr_tokenizer *tokenizer;
    const zr_chat *chat;
    zr_encoder *encoder;
    zr_document document; // for a chat
    zr_prompts *out;
} encoding;

static void append_ids(zr_ids *ids, const int32_t *from, int count)
{
    for (int i = 0; i < count; i++)
        zr_ids_append(ids, from[i]);
}

static zero_status encode_text(encoding *e, const char *text, size_t length, const char *name,
                               zero_error *error)
{
    return zr_encoder_append(e->encoder, ZR_ENCODE_SPECIAL, text, 0, length, name, &e->out->ids,
                             error);
}

static zero_status append_document(encoding *e, const char *name, zero_error *error)
{
    if (e->document.text.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for it as a chat", name);
    return encode_text(e, e->document.text.data, e->document.text.length, name, error);
}

static zero_status append_chat(encoding *e, const char *text, const char *name, zero_error *error)
{
    zr_document_clear(&e->document);
    ZERO_TRY(zr_chat_ask(e->chat, text, name, &e->document, error));
    return append_document(e, name, error);
}

static zero_status append_prompt(encoding *e, const char *text, const char *name, zero_error *error)
{
    const int32_t *before, *after;
    int before_count, after_count;
    zr_ids *ids = &e->out->ids;
    int64_t first = ids->count;
    if (e->chat)
        return append_chat(e, text, name, error);
    zr_tokenizer_template(e->tokenizer, &before, &before_count, &after, &after_count);
    append_ids(ids, before, before_count);
    ZERO_TRY(encode_text(e, text, strlen(text), name, error));
    append_ids(ids, after, after_count);
    if (ids->count == first && encode_text(e, "\n", 1, name, NULL) != ZERO_OK)
        ids->count = first;
    if (ids->count == first)
        zr_ids_append(ids, 0);
    return ZERO_OK;
}

static zero_status encode_all(encoding *e, const char *const *texts, int64_t count,
                              zero_error *error)
{
    zr_prompts *out = e->out;
    for (int64_t p = 0; p < count; p++) {
        char name[48];
        snprintf(name, sizeof name, count > 1 ? "prompt %lld" : "the prompt", (long long)p);
        ZERO_TRY(append_prompt(e, texts[p] ? texts[p] : "", name, error));
        out->first[p + 1] = out->ids.count;
        out->longest = ZR_MAX(out->longest, out->first[p + 1] - out->first[p]);
    }
    return out->ids.failed ? zr_fail(error, ZERO_ERR_MEMORY,
                                     "no memory for the tokens of %lld prompts", (long long)count)
                           : ZERO_OK;
}

zero_status zr_prompts_encode(const zr_tokenizer *tokenizer, const zr_chat *chat,
                              const char *const *texts, int64_t count, zr_prompts *out,
                              zero_error *error)
{
    encoding e = {.tokenizer = tokenizer, .chat = chat, .out = out};
    *out = (zr_prompts){.count = count,
                        .first = zr_alloc((size_t)(count + 1) * sizeof *out->first, error)};
    zero_status status =
        out->first ? zr_encoder_create(tokenizer, &e.encoder, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = encode_all(&e, texts, count, error);
    zr_encoder_destroy(e.encoder);
    zr_document_free(&e.document);
    if (status != ZERO_OK)
        zr_prompts_free(out);
    return status;
}

static zero_status encode_turns(encoding *e, const json_t *messages, zero_error *error)
{
    const zr_conversation of = {.messages = messages, .name = "the conversation"};
    ZERO_TRY(zr_chat_prompt(e->chat, &of, &e->document, error));
    ZERO_TRY(append_document(e, of.name, error));
    e->out->first[1] = e->out->longest = e->out->ids.count;
    return e->out->ids.failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a conversation's tokens")
               : ZERO_OK;
}

zero_status zr_prompts_encode_turns(const zr_tokenizer *tokenizer, const zr_chat *chat,
                                    const json_t *messages, zr_prompts *out, zero_error *error)
{
    encoding e = {.tokenizer = tokenizer, .chat = chat, .out = out};
    *out = (zr_prompts){.count = 1, .first = zr_alloc(2 * sizeof *out->first, error)};
    zero_status status =
        out->first ? zr_encoder_create(tokenizer, &e.encoder, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = encode_turns(&e, messages, error);
    zr_encoder_destroy(e.encoder);
    zr_document_free(&e.document);
    if (status != ZERO_OK)
        zr_prompts_free(out);
    return status;
}

void zr_prompts_free(zr_prompts *prompts)
{
    zr_ids_free(&prompts->ids);
    zr_free(prompts->first);
    *prompts = (zr_prompts){0};
}

static zero_status share_ids(zero_comm *comm, zr_ids *ids, zero_error *error)
{
    int64_t count = ids->count;
    ZERO_TRY(zr_comm_broadcast(comm, &count, sizeof count, 0, error));
    if (comm->rank > 0 && !zr_ids_reserve(ids, count))
        return zr_fail(error, ZERO_ERR_MEMORY, "no memory for %lld tokens of rank 0's prompts",
                       (long long)count);
    ids->count = count;
    return !count ? ZERO_OK
                  : zr_comm_broadcast(comm, ids->at, count * (int64_t)sizeof *ids->at, 0, error);
}

zero_status zr_prompts_share(zero_comm *comm, zr_prompts *prompts, zr_ids *ends, zero_error *error)
{
    int64_t sizes[] = {prompts->count, prompts->longest};
    if (comm->size == 1)
        return ZERO_OK;
    ZERO_TRY(zr_comm_broadcast(comm, sizes, sizeof sizes, 0, error));
    size_t bytes = (size_t)(sizes[0] + 1) * sizeof *prompts->first;
    if (comm->rank > 0)
        *prompts =
            (zr_prompts){.count = sizes[0], .longest = sizes[1], .first = zr_alloc(bytes, error)};
    if (!prompts->first)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_comm_broadcast(comm, prompts->first, (int64_t)bytes, 0, error));
    ZERO_TRY(share_ids(comm, &prompts->ids, error));
    return share_ids(comm, ends, error);
}
