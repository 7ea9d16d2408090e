// The other keys of messages and records: which answers are trained on, what is passed to the
// template, and what is refused because the template does not read it.
#include "chat/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Writes the text of what is trained on.
static zero_status trained(const char *messages, char out[static 256], zero_error *error)
{
    zr_chat chat;
    zr_document document = {0};
    json_t *list = json_loads(messages, 0, NULL);
    size_t at = 0, first = 0;
    assert_non_null(list);
    assert_int_equal(zr_chat_load(NULL, "chatml", NULL, &chat, NULL), ZERO_OK);
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
        {"[" ASK SAY("a", "") ", {\"role\": \"tool\", \"content\": \"4\"}]", "a<|im_end|>"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        char text[256];
        zero_error error = {0};
        if (trained(cases[i].messages, text, &error) != ZERO_OK || strcmp(text, cases[i].trained))
            fail_msg("%s: \"%s\" %s", cases[i].messages, text, error.message);
    }
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *messages, *words;
    } cases[] = {
        {"[]", "at least one"},
        {"{}", "at least one"},
        {"[1]", "message 0 has no \"role\""},
        {"[{\"role\": 3, \"content\": \"x\"}]", "no \"role\""},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]",
         "f.jsonl:7: the chat template fails: + between str and list (chatml, line 2, column"},
        {"[{\"role\": \"user\", \"content\": null}]", "\"content\" is undefined, and +"},
        {"[{\"role\": \"user\"}]", "\"content\" is undefined, and +"},
        {"[" ASK SAY("a", ", \"weight\": 0.5") "]",
         "f.jsonl:7: message 1: its \"weight\" must be 0"},
        {"[" ASK SAY("a", ", \"train\": 1") "]", "its \"train\" must be true or false"},
        {"[" ASK SAY("a", ", \"train\": true, \"weight\": 0") "]", "say different things"},
        {"[{\"role\": \"user\", \"content\": \"q\", \"weight\": 1}, " SAY("a", "") "]",
         "message 0 (user) asks to be trained on (\"weight\")"},
        {"[" ASK SAY("a", ", \"reasoning_content\": \"so\"") "]",
         "message 1 (assistant) has \"reasoning_content\", which the chat template does not read"},
        {"[" ASK "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{}]}]",
         "message 1 (assistant) has \"tool_calls\""},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        char text[256];
        zero_error error = {0};
        assert_int_equal(trained(cases[i].messages, text, &error), ZERO_ERR_DATA);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: %s", cases[i].messages, error.message);
    }
}

// Renders a question with more keys of the record.
static zero_status render_with(const char *format, const char *tools, const char *options,
                               zr_document *document, zero_error *error)
{
    zr_chat chat;
    json_t *messages = json_loads("[{\"role\": \"user\", \"content\": \"q\"}]", 0, NULL),
           *list = json_loads(tools, 0, NULL), *more = json_loads(options, 0, NULL);
    zr_conversation conversation = {
        .messages = messages, .tools = list, .options = more, .name = "f.jsonl:7"};
    assert_int_equal(zr_chat_load(NULL, format, NULL, &chat, NULL), ZERO_OK);
    zr_document_clear(document);
    zero_status status = zr_chat_render(&chat, &conversation, document, error);
    zr_chat_free(&chat);
    json_decref(messages);
    json_decref(list);
    json_decref(more);
    return status;
}

static void test_keys_of_records(void **state)
{
    zero_error error = {0};
    zr_document document = {0};
    assert_int_equal(render_with("chatml", "[]", "{}", &document, NULL), ZERO_OK);
    assert_int_equal(render_with("chatml", "[{}]", "{}", &document, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "f.jsonl:7: the record has \"tools\", which the chat "
                                          "template does not read"));
    assert_int_equal(render_with("chatml", "[]", "{\"enable_thinking\": true}", &document, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(error.message, "the record's \"chat_template_kwargs\" have \"enable_thinking\""));
    assert_int_equal(render_with("chatml", "[]", "[1]", &document, &error), ZERO_ERR_DATA);
    if (render_with(TEMPLATES "/llama3_tools.jinja", "[{\"n\": 1}]", "{\"date_string\": \"1 May\"}",
                    &document, &error))
        fail_msg("%s", error.message);
    assert_non_null(strstr(document.text.data, "Today: 1 May"));
    assert_non_null(strstr(document.text.data, "{\n    \"n\": 1\n}"));
    zr_document_free(&document);
}

// As transformers does: keys that are null are left out, thoughts have each of their names.
static void test_messages_as_the_template_sees_them(void **state)
{
    zr_chat chat = {0};
    static const char text[] = "{% for m in messages %}{{ m.content is defined }},{{ m.thinking }},"
                               "{{ m.reasoning_content }},{{ m.reasoning }};{% endfor %}";
    json_t *messages = json_loads(
        "[{\"role\": \"user\", \"content\": null}, {\"role\": \"user\", \"reasoning\": \"r\"}, "
        "{\"role\": \"user\", \"thinking\": \"t\"}, {\"role\": \"user\", \"thinking\": \"t\", "
        "\"reasoning_content\": \"c\", \"content\": \"\"}]",
        0, NULL);
    zr_document document = {0};
    assert_int_equal(zr_template_parse(text, strlen(text), "x", &chat.template, NULL), ZERO_OK);
    assert_int_equal(zr_chat_render(&chat, &(zr_conversation){.messages = messages, .name = "f:1"},
                                    &document, NULL),
                     ZERO_OK);
    assert_string_equal(document.text.data, "False,,,;False,r,r,r;False,t,t,;True,t,c,;");
    zr_document_free(&document);
    json_decref(messages);
    zr_chat_free(&chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_of_messages),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_keys_of_records),
        cmocka_unit_test(test_messages_as_the_template_sees_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
