// The other keys of messages, apart from their content, and the exported template of a format.
#include "base/file.h"
#include "data/chat_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// What is exported of a format that was named is recognised as that format, without a system
// message of its own.
static void test_templates_for_exports(void **state)
{
    for (int i = 0; zr_chat_format_at(i); i++) {
        zr_chat named, again;
        zr_buffer text = {0};
        assert_int_equal(zr_chat_load(NULL, zr_chat_format_at(i), &named, NULL), ZERO_OK);
        zr_chat_template(&named, &text);
        zr_buffer_append(&text, "", 1);
        assert_int_equal(zr_chat_recognise(text.data, &again, NULL), ZERO_OK);
        assert_non_null(again.format);
        assert_string_equal(zr_chat_format_name(&again), zr_chat_format_at(i));
        assert_null(again.system);
        zr_buffer_free(&text);
        zr_chat_free(&named);
        zr_chat_free(&again);
    }
}

// Writes the text of what is trained on, after rendering as chatml.
static zero_status trained(const char *messages, char out[static 256], zero_error *error)
{
    zr_chat chat;
    zr_document document = {0};
    json_t *list = json_loads(messages, 0, NULL);
    size_t at = 0, first = 0;
    assert_non_null(list);
    assert_int_equal(zr_chat_load(NULL, "chatml", &chat, NULL), ZERO_OK);
    zero_status status = zr_chat_render(
        &chat, &(zr_conversation){.messages = list, .name = "f.jsonl:7"}, &document, error);
    for (int i = 0; status == ZERO_OK && i < document.count; i++) {
        const zr_document_part *part = &document.segments[i];
        if (part->trained)
            at += (size_t)snprintf(out + at, 256 - at, "%.*s", (int)(part->end - first),
                                   document.text.data + first);
        first = part->end;
    }
    out[at] = 0;
    zr_document_free(&document);
    zr_chat_free(&chat);
    json_decref(list);
    return status;
}

#define ASK "{\"role\": \"user\", \"content\": \"q\"}, "
#define SAY(text, more) "{\"role\": \"assistant\", \"content\": \"" text "\"" more "}"

static void test_weights_of_messages(void **state)
{
    static const struct {
        const char *messages, *trained;
    } cases[] = {
        {"[" ASK SAY("a", "") ", " ASK SAY("b", ", \"weight\": 0") "]", "a<|im_end|>"},
        {"[" ASK SAY("a", ", \"weight\": 0.0") ", " ASK SAY("b", ", \"weight\": 1") "]",
         "b<|im_end|>"},
        {"[" ASK SAY("a", ", \"train\": false") ", " ASK SAY("b", ", \"train\": true") "]",
         "b<|im_end|>"},
        {"[" ASK SAY("a",
                     ", \"weight\": null, \"tool_calls\": [], \"reasoning_content\": \"\"") "]",
         "a<|im_end|>"},
        {"[{\"role\": \"user\", \"content\": \"q\", \"weight\": 0}, " SAY("a", "") "]",
         "a<|im_end|>"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        char text[256];
        zero_error error = {0};
        if (trained(cases[i].messages, text, &error) != ZERO_OK || strcmp(text, cases[i].trained))
            fail_msg("%s: \"%s\" %s", cases[i].messages, text, error.message);
    }
}

static void test_what_is_not_written_is_refused(void **state)
{
    static const struct {
        const char *messages, *words;
    } cases[] = {
        {"[" ASK SAY("a", ", \"weight\": 0.5") "]",
         "f.jsonl:7: message 1: its \"weight\" must be 0"},
        {"[" ASK SAY("a", ", \"train\": 1") "]", "its \"train\" must be true or false"},
        {"[" ASK SAY("a", ", \"train\": true, \"weight\": 0") "]", "say different things"},
        {"[{\"role\": \"user\", \"content\": \"q\", \"weight\": 1}, " SAY("a", "") "]",
         "message 0 (user) asks to be trained on (\"weight\")"},
        {"[" ASK SAY("a", ", \"reasoning_content\": \"so\"") "]",
         "message 1 (assistant) has \"reasoning_content\""},
        {"[" ASK "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{}]}]",
         "message 1 (assistant) has \"tool_calls\""},
        {"[" ASK "{\"role\": \"tool\", \"content\": \"4\"}]",
         "message 1 (tool): results of tools are not built"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        char text[256];
        zero_error error = {0};
        assert_int_equal(trained(cases[i].messages, text, &error), ZERO_ERR_DATA);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: %s", cases[i].messages, error.message);
    }
}

static zero_status render_with(const char *options, zero_error *error)
{
    zr_chat chat;
    zr_document document = {0};
    json_t *messages = json_loads("[{\"role\": \"user\", \"content\": \"q\"}]", 0, NULL),
           *more = json_loads(options, 0, NULL);
    zr_conversation conversation = {.messages = messages, .options = more, .name = "f.jsonl:7"};
    assert_int_equal(zr_chat_load(NULL, "chatml", &chat, NULL), ZERO_OK);
    zero_status status = zr_chat_render(&chat, &conversation, &document, error);
    zr_document_free(&document);
    zr_chat_free(&chat);
    json_decref(messages);
    json_decref(more);
    return status;
}

static void test_records_with_more(void **state)
{
    zero_error error = {0};
    assert_int_equal(render_with("{}", NULL), ZERO_OK);
    assert_int_equal(render_with("{\"enable_thinking\": true}", &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "f.jsonl:7: the record has \"chat_template_kwargs\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_templates_for_exports),
        cmocka_unit_test(test_weights_of_messages),
        cmocka_unit_test(test_what_is_not_written_is_refused),
        cmocka_unit_test(test_records_with_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
