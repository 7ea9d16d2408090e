// A chat template, a program that is never run: it is recognised or refused. One that is recognised
// writes a conversation.
#include "fuzz.h"

#include "data/chat.h"

#include <string.h>

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_chat chat = {.format = NULL};
    zr_document document = {.count = 0};
    char *text = zr_alloc(size + 1, error);
    if (!text)
        return ZERO_ERR_MEMORY;
    memcpy(text, data, size);
    zero_status status = zr_chat_recognise(text, &chat, error);
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "2+2?",
                                 "role", "assistant", "content", "4");
    fuzz_must(messages);
    if (status == ZERO_OK) {
        chat.begin = chat.begin ? chat.begin : zr_strdup("<s>", error);
        chat.end = chat.end ? chat.end : zr_strdup("</s>", error);
        status = chat.begin && chat.end
                     ? zr_chat_render(&chat,
                                      &(zr_conversation){.messages = messages, .name = "x.jsonl:1"},
                                      &document, error)
                     : ZERO_ERR_MEMORY;
    }
    json_decref(messages);
    zr_document_free(&document);
    zr_chat_free(&chat);
    zr_free(text);
    return status;
}
