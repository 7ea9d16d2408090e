// Writes conversations as documents: their text, and which parts of it are trained on.
#include "chat/chat_internal.h"

#include <string.h>

static void add_document(const zr_chat *chat, const zr_buffer *text, const zr_chat_targets *targets,
                         zr_document *out)
{
    size_t from = 0;
    for (size_t i = 0; i < targets->count; i++) {
        const zr_template_span *span = &targets->at[i];
        size_t begin = ZR_MAX(span->begin, from), end = ZR_MIN(span->end, text->length);
        if (begin >= end)
            continue;
        zr_chat_add_text(chat, text->data + from, begin - from, false, out);
        zr_chat_add_text(chat, text->data + begin, end - begin, true, out);
        from = end;
    }
    zr_chat_add_text(chat, text->data + from, text->length - from, false, out);
    out->special = true;
}

static zero_status render_whole(const zr_chat *chat, const zr_chat_text *text, zr_document *out,
                                zero_error *error)
{
    zr_rendered whole = {0};
    zr_chat_targets targets = {0};
    zero_status status = zr_chat_text_render(text, text->count, false, &whole, error);
    if (status == ZERO_OK)
        status = zr_chat_targets_find(text, &whole, &targets, error);
    if (status == ZERO_OK)
        add_document(chat, &whole.text, &targets, out);
    if (status == ZERO_OK && targets.rewritten && chat->counts)
        __atomic_fetch_add(&chat->counts->rewritten, 1, __ATOMIC_RELAXED);
    zr_rendered_free(&whole);
    zr_free(targets.at);
    return status;
}

zero_status zr_chat_render(const zr_chat *chat, const zr_conversation *conversation,
                           zr_document *out, zero_error *error)
{
    zr_chat_text text;
    ZERO_TRY(zr_chat_text_open(chat, conversation, &text, error));
    zero_status status = render_whole(chat, &text, out, error);
    zr_chat_text_close(&text);
    return status;
}

zero_status zr_chat_prompt(const zr_chat *chat, const zr_conversation *conversation,
                           zr_document *out, zero_error *error)
{
    zr_chat_text text;
    zr_rendered rendered = {0};
    ZERO_TRY(zr_chat_text_open(chat, conversation, &text, error));
    zero_status status = zr_chat_text_render(&text, text.count, true, &rendered, error);
    if (status == ZERO_OK)
        add_document(chat, &rendered.text, &(zr_chat_targets){0}, out);
    zr_rendered_free(&rendered);
    zr_chat_text_close(&text);
    return status;
}

zero_status zr_chat_ask(const zr_chat *chat, const char *text, const char *name, zr_document *out,
                        zero_error *error)
{
    json_t *content = json_string(text);
    if (!content)
        return zr_fail(error, ZERO_ERR_DATA, "%s: no UTF-8, which a message must be", name);
    json_t *messages = json_pack("[{s:s, s:o}]", "role", "user", "content", content);
    zero_status status =
        messages ? zr_chat_prompt(chat, &(zr_conversation){.messages = messages, .name = name}, out,
                                  error)
                 : zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for a message", name);
    json_decref(messages);
    return status;
}
