// Chat templates: recognised by their text, rendered as transformers renders them
// (chat_golden.json), and trained on in the right places.
#include "base/file.h"
#include "data/chat_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static json_t *golden;
static char directory[] = "/tmp/zero-chat-XXXXXX";

static int read_golden(void **state)
{
    assert_non_null(mkdtemp(directory));
    return zr_json_load(GOLDEN, 1 << 20, &golden, NULL) != ZERO_OK;
}

static int forget_golden(void **state)
{
    json_decref(golden);
    return zr_directory_remove(directory, NULL) != ZERO_OK;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static zr_chat chat_of(const json_t *entry)
{
    zr_chat chat;
    assert_int_equal(zr_chat_recognise(text_of(entry, "template"), &chat, NULL), ZERO_OK);
    if (!chat.format) {
        zr_chat_hash hash;
        assert_int_equal(zr_chat_hash_template(text_of(entry, "template"), &hash, NULL), ZERO_OK);
        fail_msg("%s: not recognised; as a row it is {0x%016llx, 0x%016llx, %llu}",
                 text_of(entry, "model"), (unsigned long long)hash.first,
                 (unsigned long long)hash.second, (unsigned long long)hash.length);
    }
    chat.begin = zr_strdup(text_of(entry, "bos"), NULL);
    chat.end = zr_strdup(text_of(entry, "eos"), NULL);
    return chat;
}

static void test_templates_are_recognised(void **state)
{
    size_t i;
    json_t *entry;
    assert_true(json_array_size(golden) >= 10);
    json_array_foreach(golden, i, entry)
    {
        zr_chat chat = chat_of(entry);
        assert_string_equal(zr_chat_format_name(&chat), text_of(entry, "format"));
        zr_chat_free(&chat);
    }
}

static bool is_golden(const char *format)
{
    size_t i;
    json_t *entry;
    json_array_foreach(golden, i, entry) if (!strcmp(text_of(entry, "format"), format)) return true;
    return false;
}

static void test_no_format_is_left_out(void **state)
{
    zr_chat chat;
    zero_error error;
    assert_int_equal(zr_chat_load(NULL, "none", &chat, &error), ZERO_ERR_USAGE);
    for (int i = 0; zr_chat_format_at(i); i++) {
        const char *format = zr_chat_format_at(i);
        if (!is_golden(format))
            fail_msg("%s has no template among those that are recognised here", format);
        if (!strstr(error.message, format))
            fail_msg("\"%s\" does not name %s", error.message, format);
    }
}

static char *with(const char *text, size_t at, size_t dropped, const char *added)
{
    return zr_sprintf(NULL, "%.*s%s%s", (int)at, text, added, text + at + dropped);
}

static bool is_known(const char *text)
{
    zr_chat chat;
    assert_non_null(text);
    assert_int_equal(zr_chat_recognise(text, &chat, NULL), ZERO_OK);
    bool known = chat.format != NULL;
    zr_chat_free(&chat);
    return known;
}

static bool says_the_same_by_default(const char *a, const char *b)
{
    zr_chat one, other;
    assert_int_equal(zr_chat_recognise(a, &one, NULL), ZERO_OK);
    assert_int_equal(zr_chat_recognise(b, &other, NULL), ZERO_OK);
    bool same =
        one.system && other.system ? !strcmp(one.system, other.system) : one.system == other.system;
    zr_chat_free(&one);
    zr_chat_free(&other);
    return same;
}

static bool is_in_comment(const char *text, size_t at)
{
    const char *open = NULL, *next = strstr(text, "{#");
    for (; next && next + 2 <= text + at; next = strstr(next + 2, "{#"))
        open = next;
    const char *end = open ? strstr(open, "#}") : NULL;
    return end && end >= text + at;
}

// A template counts by its whole text: a word more anywhere, after its end too, is another
// template.
static void test_every_part_of_a_template_counts(void **state)
{
    size_t i;
    json_t *entry;
    json_array_foreach(golden, i, entry)
    {
        const char *text = text_of(entry, "template");
        size_t length = strlen(text), step = length / 40 + 1;
        for (size_t at = 0; at <= length;
             at += at < length && at + step > length ? length - at : step) {
            char *longer = with(text, at, 0, "x");
            if (!is_in_comment(text, at) && is_known(longer) &&
                says_the_same_by_default(text, longer))
                fail_msg("%s with an x at %zu is taken as what it was", text_of(entry, "model"),
                         at);
            zr_free(longer);
        }
        char *tail = with(text, length, 0,
                          "{% for message in messages %}{{ message['content'] }}{% endfor %}");
        assert_false(is_known(tail));
        zr_free(tail);
        const char *prompt = strstr(text, "add_generation_prompt %}");
        char *other =
            prompt ? with(text, (size_t)(prompt - text) + 24, 0, "{{ eos_token }}") : NULL;
        assert_true(!other || !is_known(other));
        zr_free(other);
    }
}

// All that once made a template Qwen2.5's or Llama 3.1's, in one that writes something else.
static void test_marks_make_no_template(void **state)
{
    assert_false(
        is_known("{% if tools %}{% endif %}{# '<|im_start|>system\\nYou are Qwen, created by "
                 "Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' #}"
                 "{% set x = '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are "
                 "a helpful assistant.<|im_end|>\\n' + '<tool_call>' + messages[0]['content'] %}"
                 "{% for message in messages %}{{ '### ' + message['role'] + ': ' + "
                 "message['content'] }}{% endfor %}"));
    assert_false(is_known("{{ \"Cutting Knowledge Date: December 2023\\n\" + \"26 Jul 2024\" + "
                          "\"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}"
                          "{% for message in messages %}{{ message['content'] | trim + "
                          "\"<|eot_id|>\" }}{% endfor %}"));
}

static bool is_known_with(const char *text, size_t at, const char *added)
{
    char *longer = with(text, at, 0, added);
    bool known = is_known(longer);
    zr_free(longer);
    return known;
}

// Spaces that Jinja writes count: they stand before a block, but not at the beginning of its line.
// Of line ends it drops the one after a block, and the last.
static void test_spaces_that_are_written_count(void **state)
{
    const char *text = text_of(json_array_get(golden, 0), "template");
    const char *block = strstr(text, "{% endfor %}"), *next = strstr(text, "{% if ");
    assert_true(block && next);
    assert_false(is_known_with(text, (size_t)(block - text), "  "));
    assert_false(is_known_with(text, (size_t)(block - text), "\n  ")); // the line end is written
    assert_true(is_known_with(text, (size_t)(next - text), "\n \t"));
    // dropped after a block; {{ is no block
    assert_false(is_known_with(text, strlen("{% for message in messages %}"), "\n   "));
    assert_true(is_known_with(text, strlen("{% for message in messages %}"), "\n"));
    assert_true(is_known_with(text, strlen(text), "\n\n"));
    assert_false(is_known_with(text, strlen(text), "\n\n\n"));
}

static void test_a_system_message_may_have_escapes(void **state)
{
    static const char published[] = "You are a helpful assistant.";
    const char *text = text_of(json_array_get(golden, 1), "template"),
               *at = strstr(text, published);
    zr_chat chat;
    assert_non_null(at);
    char *own = with(text, (size_t)(at - text), strlen(published), "One\\tTwo\\nThree");
    assert_int_equal(zr_chat_recognise(own, &chat, NULL), ZERO_OK);
    assert_non_null(chat.system);
    assert_string_equal(chat.system, "One\tTwo\nThree");
    zr_chat_free(&chat);
    zr_free(own);
}

// What a user says alone, up to where the answer begins: as with add_generation_prompt.
static void test_questions_are_those_of_transformers(void **state)
{
    size_t i, c;
    json_t *entry, *one;
    int equal = 0;
    json_array_foreach(golden, i, entry)
    {
        zr_chat chat = chat_of(entry);
        json_array_foreach(json_object_get(entry, "asked"), c, one)
        {
            zr_document document = {0};
            assert_int_equal(
                zr_chat_ask(&chat, text_of(one, "says"), "the prompt", &document, NULL), ZERO_OK);
            assert_string_equal(document.text.data, text_of(one, "text"));
            assert_true(document.special);
            zr_document_free(&document);
            equal++;
        }
        assert_true(strstr(text_of(entry, "template"), zr_chat_turn_end(&chat)) ||
                    !strcmp(zr_chat_turn_end(&chat), chat.end));
        zr_chat_free(&chat);
    }
    assert_true(equal >= 40);
    zr_chat chat = chat_of(json_array_get(golden, 0));
    zr_document document = {0};
    zero_error error = {0};
    assert_int_equal(zr_chat_ask(&chat, "\xff", "the prompt", &document, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "the prompt: no UTF-8"));
    zr_document_free(&document);
    zr_chat_free(&chat);
}

// What the template raises for we refuse; the rest is equal to the byte.
static void test_text_is_that_of_transformers(void **state)
{
    size_t i, c;
    json_t *entry, *one;
    int equal = 0, refused = 0;
    json_array_foreach(golden, i, entry)
    {
        zr_chat chat = chat_of(entry);
        json_array_foreach(json_object_get(entry, "cases"), c, one)
        {
            zr_document document = {0};
            zero_error error = {0};
            const char *text = text_of(one, "text");
            zero_status status = zr_chat_render(
                &chat,
                &(zr_conversation){.messages = json_object_get(one, "messages"), .name = "file:7"},
                &document, &error);
            if (!text) {
                assert_int_equal(status, ZERO_ERR_DATA);
                assert_non_null(strstr(error.message, "file:7: message "));
                refused++;
            } else if (status == ZERO_OK) {
                assert_string_equal(document.text.data, text);
                equal++;
            } else { // stricter: another role where Llama 2's template writes nothing
                assert_string_equal(text_of(entry, "format"), "llama2");
                assert_non_null(strstr(error.message, "\"system\""));
            }
            zr_document_free(&document);
        }
        zr_chat_free(&chat);
    }
    assert_true(equal >= 80);
    assert_true(refused >= 10);
}

// The document with [trained parts] marked and seams as |.
static char *marked(const zr_document *document)
{
    static char text[4096];
    size_t at = 0, start = 0;
    for (int i = 0; i < document->count; i++) {
        const zr_document_part *part = &document->segments[i];
        at += (size_t)snprintf(text + at, sizeof text - at, part->trained ? "[%.*s]%s" : "%.*s%s",
                               (int)(part->end - start), document->text.data + start,
                               part->seam ? "|" : "");
        start = part->end;
    }
    return text;
}

static json_t *conversation(const char *text)
{
    json_t *messages;
    assert_int_equal(zr_json_parse(text, strlen(text), "messages", &messages, NULL), ZERO_OK);
    return messages;
}

static void check_marks(const char *format, size_t trained_from, const char *expected)
{
    zr_chat chat;
    zr_document document = {0};
    json_t *messages = conversation("[{\"role\": \"user\", \"content\": \"Q1\"}, {\"role\": "
                                    "\"assistant\", \"content\": \"A1\"},"
                                    "{\"role\": \"user\", \"content\": \"Q2\"}, {\"role\": "
                                    "\"assistant\", \"content\": \"A2\"}]");
    assert_int_equal(zr_chat_load(NULL, format, &chat, NULL), ZERO_OK);
    assert_int_equal(
        zr_chat_render(
            &chat,
            &(zr_conversation){.messages = messages, .trained_from = trained_from, .name = "f:1"},
            &document, NULL),
        ZERO_OK);
    assert_string_equal(marked(&document), expected);
    assert_true(document.special);
    zr_document_free(&document);
    zr_chat_free(&chat);
    json_decref(messages);
}

static void test_what_the_assistant_says_is_trained(void **state)
{
    check_marks("chatml", 0,
                "<|im_start|>user\nQ1|<|im_end|>\n|<|im_start|>assistant\n[A1]|[<|im_end|>]\n|<|im_"
                "start|>user\nQ2|<|im_end|>\n|<|im_start|>assistant\n[A2]|[<|im_end|>]\n|");
    check_marks("chatml", 2,
                "<|im_start|>user\nQ1|<|im_end|>\n|<|im_start|>assistant\nA1|<|im_end|>\n|<|im_"
                "start|>user\nQ2|<|im_end|>\n|<|im_start|>assistant\n[A2]|[<|im_end|>]\n|");
    check_marks("llama2", 0, "<s>[INST] Q1 [/INST][ A1 </s>]|<s>[INST] Q2 [/INST][ A2 </s>]|");
    check_marks("llama3", 0,
                "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nQ1<|eot_id|>|<|start_"
                "header_id|>assistant<|end_header_id|>\n\n[A1<|eot_id|>]|"
                "<|start_header_id|>user<|end_header_id|>\n\nQ2<|eot_id|>|<|start_header_id|>"
                "assistant<|end_header_id|>\n\n[A2<|eot_id|>]|");
    check_marks("mistral", 0, "<s>[INST] Q1 [/INST][A1]|[</s>][INST] Q2 [/INST][A2]|[</s>]");
    check_marks("mistral-2024", 0,
                "<s> [INST] Q1 [/INST][ A1]|[</s>] [INST] Q2 [/INST][ A2]|[</s>]");
}

static void test_templates_that_are_not_known(void **state)
{
    static const char *const others[] = {
        "{% for message in messages %}{{ message['role'] + ': ' + message['content'] }}{% endfor "
        "%}",
        // trims
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] | trim + '<|im_end|>' + '\\n'}}{% endfor %}",
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{{ eos_token }}",
        "x{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}",
        "{{ 'unclosed",
        "{% ",
        "{#",
        "",
        "{",
        "{{ \"\\",
    };
    json_t *messages = conversation("[{\"role\": \"user\", \"content\": \"Q\"}]");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        zr_chat chat;
        zero_error error;
        zr_document document = {0};
        assert_int_equal(zr_chat_recognise(others[i], &chat, NULL), ZERO_OK);
        assert_null(chat.format);
        assert_int_equal(zr_chat_render(&chat,
                                        &(zr_conversation){.messages = messages, .name = "f:3"},
                                        &document, &error),
                         ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "f:3: the chat template"));
        assert_non_null(strstr(error.message, others[i][0] == 'x' ? "x{% for" : "begins"));
        zr_document_free(&document);
        zr_chat_free(&chat);
    }
    json_decref(messages);
}

// White space in tags, trim marks, comments and kinds of quotes make no difference.
static void test_spelling_makes_no_difference(void **state)
{
    zr_chat chat;
    const char *other = "{#- ChatML -#}\n{%- for message in messages -%}\n    {{- \"<|im_start|>\" "
                        "+ message[\"role\"] + \"\n\" +\n message[\"content\"] + \"<|im_end|>\" + "
                        "\"\\n\" -}}\n{%-  endfor  %}\n";
    assert_int_equal(zr_chat_recognise(other, &chat, NULL), ZERO_OK);
    assert_string_equal(zr_chat_format_name(&chat), "chatml");
    assert_null(chat.system);
    zr_chat_free(&chat);
}

static void write(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(zr_file_write_durable(path, text, strlen(text), NULL), ZERO_OK);
}

#define CHATML                                                                                     \
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\\\n' + "                 \
    "message['content'] + '<|im_end|>' + '\\\\n'}}{% endfor %}"

static void test_a_models_directory(void **state)
{
    zr_chat chat;
    zero_error error;
    assert_int_equal(zr_chat_load(directory, NULL, &chat, NULL), ZERO_OK); // nothing there
    assert_null(chat.format);
    assert_non_null(strstr(chat.refusal, directory));
    zr_chat_free(&chat);
    write("tokenizer_config.json", "{\"bos_token\": {\"content\": \"<b>\", \"special\": true}, "
                                   "\"eos_token\": \"<e>\", \"chat_template\": \"" CHATML "\"}");
    assert_int_equal(zr_chat_load(directory, NULL, &chat, NULL), ZERO_OK);
    assert_string_equal(zr_chat_format_name(&chat), "chatml");
    assert_string_equal(chat.begin, "<b>");
    assert_string_equal(chat.end, "<e>");
    zr_chat_free(&chat);
    write("tokenizer_config.json",
          "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"?\"}, {\"name\": "
          "\"default\", \"template\": \"" CHATML "\"}]}");
    assert_int_equal(zr_chat_load(directory, NULL, &chat, NULL), ZERO_OK);
    assert_string_equal(zr_chat_format_name(&chat), "chatml");
    zr_chat_free(&chat);
    write("chat_template.jinja", "{{ 'another' }}"); // wins
    assert_int_equal(zr_chat_load(directory, NULL, &chat, NULL), ZERO_OK);
    assert_null(chat.format);
    assert_non_null(strstr(chat.refusal, "{{ 'another' }}"));
    zr_chat_free(&chat);
    assert_int_equal(zr_chat_load(directory, "llama2", &chat, NULL), ZERO_OK); // set by hand
    assert_string_equal(zr_chat_format_name(&chat), "llama2");
    zr_chat_free(&chat);
    assert_int_equal(zr_chat_load(directory, "alpaca", &chat, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "alpaca"));
    write("tokenizer_config.json", "{");
    assert_int_equal(zr_chat_load(directory, NULL, &chat, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "tokenizer_config.json"));
}

static void test_messages_that_are_none(void **state)
{
    static const struct {
        const char *messages, *words;
    } cases[] = {
        {"[]", "at least one"},
        {"{}", "at least one"},
        {"[1]", "message 0 has no \"role\""},
        {"[{\"role\": \"user\"}]", "message 0 (user) has no \"content\""},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]",
         "no \"content\" that is text"},
        {"[{\"role\": 3, \"content\": \"x\"}]", "no \"role\""},
        {"[{\"role\": \"user\", \"content\": \"x\"}, {\"role\": \"tool\", \"content\": \"x\"}]",
         "message 1 (tool)"},
        {"[{\"role\": \"assistant\", \"content\": \"x\", \"tool_calls\": [1]}]", "\"tool_calls\""},
    };
    zr_chat chat;
    assert_int_equal(zr_chat_load(NULL, "chatml", &chat, NULL), ZERO_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zero_error error = {0};
        zr_document document = {0};
        json_t *messages = conversation(cases[i].messages);
        assert_int_equal(zr_chat_render(&chat,
                                        &(zr_conversation){.messages = messages, .name = "f:9"},
                                        &document, &error),
                         ZERO_ERR_DATA);
        assert_non_null(strstr(error.message, cases[i].words));
        zr_document_free(&document);
        json_decref(messages);
    }
    zr_chat_free(&chat);
}

static void test_no_memory(void **state)
{
    const json_t *entry = json_array_get(golden, 1);
    int64_t before = zr_alloc_count();
    zr_chat chat = chat_of(entry);
    zr_chat_free(&chat);
    for (int64_t nth = 1, all = zr_alloc_count() - before - 2; nth <= all; nth++) {
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        zero_status status = zr_chat_recognise(text_of(entry, "template"), &chat, &error);
        zr_alloc_fail_at(0);
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_null(chat.system);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_format_is_left_out),
        cmocka_unit_test(test_templates_are_recognised),
        cmocka_unit_test(test_questions_are_those_of_transformers),
        cmocka_unit_test(test_text_is_that_of_transformers),
        cmocka_unit_test(test_what_the_assistant_says_is_trained),
        cmocka_unit_test(test_templates_that_are_not_known),
        cmocka_unit_test(test_every_part_of_a_template_counts),
        cmocka_unit_test(test_marks_make_no_template),
        cmocka_unit_test(test_spaces_that_are_written_count),
        cmocka_unit_test(test_a_system_message_may_have_escapes),
        cmocka_unit_test(test_spelling_makes_no_difference),
        cmocka_unit_test(test_a_models_directory),
        cmocka_unit_test(test_messages_that_are_none),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, read_golden, forget_golden);
}
