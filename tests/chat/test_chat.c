// Conversations by chat templates, as transformers renders them (chat_golden.json): templates that
// models are published with, and the formats that --chat names.
#include "base/file.h"
#include "chat/chat.h"

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

static void write(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(zr_file_write_durable(path, text, strlen(text), NULL), ZERO_OK);
}

static void forget(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    remove(path);
}

// Loads the chat of a model directory with an entry's template, or with a format and the entry's
// tokens.
static zr_chat chat_of(const json_t *entry, const char *format)
{
    zr_chat chat;
    zero_error error = {0};
    json_t *config = json_object();
    const char *begin = text_of(entry, "bos");
    if (*begin)
        json_object_set_new(config, "bos_token", json_string(begin));
    json_object_set_new(config, "eos_token", json_string(text_of(entry, "eos")));
    json_object_set(config, "chat_template", json_object_get(entry, "template"));
    char *text = json_dumps(config, 0);
    write("tokenizer_config.json", text);
    if (zr_chat_load(directory, format, NULL, &chat, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    if (!chat.template)
        fail_msg("%s: %s", text_of(entry, "model"), chat.refusal);
    free(text);
    json_decref(config);
    forget("tokenizer_config.json");
    return chat;
}

// Compares all conversations; `stricter`: some that the template writes may be refused.
static void compare_cases(const json_t *entry, const zr_chat *chat, bool stricter, int *equal,
                          int *refused)
{
    size_t c;
    json_t *one;
    json_array_foreach(json_object_get(entry, "cases"), c, one)
    {
        zr_document document = {0};
        zero_error error = {0};
        const char *text = text_of(one, "text");
        zero_status status = zr_chat_render(
            chat, &(zr_conversation){.messages = json_object_get(one, "messages"), .name = "f:7"},
            &document, &error);
        if (status == ZERO_OK) {
            assert_non_null(text);
            assert_string_equal(document.text.data, text);
            assert_true(document.special);
            ++*equal;
        } else {
            if (text && !stricter)
                fail_msg("%s, case %zu: %s", text_of(entry, "model"), c, error.message);
            assert_int_equal(status, ZERO_ERR_DATA);
            assert_non_null(strstr(error.message, "f:7: the chat template refuses: "));
            ++*refused;
        }
        zr_document_free(&document);
    }
}

static void test_published_templates(void **state)
{
    size_t i;
    json_t *entry;
    int equal = 0, refused = 0;
    json_array_foreach(golden, i, entry)
    {
        zr_chat chat = chat_of(entry, NULL);
        compare_cases(entry, &chat, false, &equal, &refused);
        assert_string_equal(zr_chat_format_name(&chat), "the model's own template");
        zr_chat_free(&chat);
    }
    assert_true(equal >= 80);
    assert_true(refused >= 10);
}

// A format writes what a published template of its family does, unless that has a system message of
// its own.
static void test_named_formats(void **state)
{
    static const char *const models[] = {"OpenHermes",       "Llama 2",     "Llama 3",
                                         "Llama 3.1",        "Mistral 0.1", "Mistral 0.2",
                                         "Mistral 0.2, 2024"};
    size_t i;
    json_t *entry;
    int equal = 0, refused = 0, formats = 0;
    json_array_foreach(golden, i, entry)
    {
        bool compared = false;
        for (int m = 0; m < ZR_COUNT(models); m++)
            compared |= !strcmp(text_of(entry, "model"), models[m]);
        if (!compared)
            continue;
        const char *format = text_of(entry, "format");
        zr_chat chat = chat_of(entry, format);
        // Llama 2's template writes nothing of other roles; the others, too, of a system alone.
        compare_cases(entry, &chat, true, &equal, &refused);
        assert_string_equal(zr_chat_format_name(&chat), format);
        zr_chat_free(&chat);
        formats++;
    }
    assert_int_equal(formats, ZR_COUNT(models));
    assert_true(equal >= 50);
    assert_null(zr_chat_format_at(formats));
}

// What a user says alone, up to where the answer begins: as with add_generation_prompt.
static void test_questions(void **state)
{
    size_t i, c;
    json_t *entry, *one;
    int equal = 0;
    json_array_foreach(golden, i, entry)
    {
        zr_chat chat = chat_of(entry, NULL);
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
        assert_string_equal(zr_chat_turn_end(&chat), !strncmp(text_of(entry, "format"), "chatml", 6)
                                                         ? "<|im_end|>"
                                                         : text_of(entry, "eos"));
        zr_chat_free(&chat);
    }
    assert_true(equal >= 40);
    zr_chat chat = chat_of(json_array_get(golden, 0), NULL);
    zr_document document = {0};
    zero_error error = {0};
    assert_int_equal(zr_chat_ask(&chat, "\xff", "the prompt", &document, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "the prompt: no UTF-8"));
    zr_document_free(&document);
    zr_chat_free(&chat);
}

// What is exported of a format is the template that it is.
static void test_templates_for_exports(void **state)
{
    for (int i = 0; zr_chat_format_at(i); i++) {
        zr_chat named, again;
        zr_buffer text = {0};
        zr_document documents[2] = {{.count = 0}, {.count = 0}};
        assert_int_equal(zr_chat_load(NULL, zr_chat_format_at(i), NULL, &named, NULL), ZERO_OK);
        zr_chat_template(&named, &text);
        zr_buffer_append(&text, "", 1);
        write("chat_template.jinja", text.data);
        write("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
        assert_int_equal(zr_chat_load(directory, NULL, NULL, &again, NULL), ZERO_OK);
        json_object_update(named.tokens, again.tokens);
        assert_int_equal(zr_chat_ask(&named, "Hi", "x", &documents[0], NULL), ZERO_OK);
        assert_int_equal(zr_chat_ask(&again, "Hi", "x", &documents[1], NULL), ZERO_OK);
        assert_string_equal(documents[0].text.data, documents[1].text.data);
        for (int d = 0; d < 2; d++)
            zr_document_free(&documents[d]);
        zr_buffer_free(&text);
        zr_chat_free(&named);
        zr_chat_free(&again);
    }
    forget("chat_template.jinja");
    forget("tokenizer_config.json");
}

static void asks(const char *format, const char *expected)
{
    zr_chat chat;
    zr_document document = {0};
    zero_error error = {0};
    if (zr_chat_load(directory, format, "2025-03-09", &chat, &error) != ZERO_OK ||
        zr_chat_ask(&chat, "Q", "f:3", &document, &error) != ZERO_OK)
        assert_string_equal(error.message, expected);
    else
        assert_string_equal(document.text.data, expected);
    zr_document_free(&document);
    zr_chat_free(&chat);
}

static void test_a_models_directory(void **state)
{
    zr_chat chat;
    zero_error error;
    char path[160], line[256];
    assert_int_equal(zr_chat_load(directory, NULL, NULL, &chat, NULL), ZERO_OK); // nothing there
    assert_null(chat.template);
    assert_non_null(strstr(chat.refusal, directory));
    zr_chat_free(&chat);
    write("tokenizer_config.json",
          "{\"bos_token\": {\"content\": \"<b>\", \"special\": true}, \"eos_token\": \"<e>\", "
          "\"pad_token\": null, \"chat_template\": \"{{ bos_token ~ unk_token ~ eos_token }}{{ "
          "pad_token is defined }}{{ tools is none }}\"}");
    write("special_tokens_map.json", "{\"unk_token\": \"<u>\", \"bos_token\": \"<old>\"}");
    asks(NULL, "<b><u><e>FalseTrue");
    asks("auto", "<b><u><e>FalseTrue");
    forget("special_tokens_map.json");
    write("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"tools\", \"template\": "
                                   "\"?\"}, {\"name\": \"default\", \"template\": \"its own\"}]}");
    asks(NULL, "its own");
    write("chat_template.jinja", "{{ strftime_now('%d %b %Y') }}{% if true %}\n\n{% endif %}");
    asks(NULL, "09 Mar 2025\n"); // it wins
    write("other.jinja", "{{ messages[0].content }} of a file");
    snprintf(path, sizeof path, "%s/other.jinja", directory);
    asks(path, "Q of a file");
    asks("llama2", "[INST] Q [/INST]");
    write("chat_template.jinja", "{{ 'unclosed");
    assert_int_equal(zr_chat_load(directory, NULL, NULL, &chat, NULL), ZERO_OK);
    assert_null(chat.template);
    zr_chat_free(&chat);
    asks(NULL,
         "f:3: the chat template of this model cannot be read: chat_template.jinja:1:4: a "
         "string that does not end: its second quote is missing; --chat FORMAT names another");
    write("other.jinja", "{% if x %}");
    snprintf(line, sizeof line,
             "%s:1:11: the template ends within a block: {%% elif %%} is missing", path);
    asks(path, line);
    assert_int_equal(zr_chat_load(directory, "alpaca", NULL, &chat, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "alpaca"));
    assert_int_equal(zr_chat_load(directory, "no.jinja", NULL, &chat, &error), ZERO_ERR_IO);
    write("tokenizer_config.json", "{");
    assert_int_equal(zr_chat_load(directory, NULL, NULL, &chat, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "tokenizer_config.json"));
    forget("tokenizer_config.json");
    forget("chat_template.jinja");
}

static void test_dates(void **state)
{
    static const char *const wrong[] = {"2025-3-9",   "2025-02-29", "2025-13-01", "2025-00-10",
                                        "25-01-01",   "today",      "",           "2025-01-01x",
                                        "2025/01/01", "0000-01-01"};
    char text[16];
    zr_chat chat;
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_error error = {0};
        assert_int_equal(zr_chat_load(NULL, "chatml", wrong[i], &chat, &error), ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, "--chat-date"));
    }
    assert_int_equal(zr_chat_load(NULL, "chatml", "2024-02-29", &chat, NULL), ZERO_OK);
    assert_false(zr_chat_asks_date(&chat, text));
    assert_string_equal(text, "2024-02-29");
    zr_chat_free(&chat);
    write("d.jinja", "{{ strftime_now('%Y') }}");
    char *path = zr_sprintf(NULL, "%s/d.jinja", directory);
    assert_int_equal(zr_chat_load(NULL, path, NULL, &chat, NULL), ZERO_OK); // today
    assert_true(zr_chat_asks_date(&chat, text));
    assert_true(chat.date.year > 2024);
    zr_chat_free(&chat);
    zr_free(path);
}

static void test_no_memory(void **state)
{
    zr_chat chat;
    zr_document document = {0};
    int64_t before = zr_alloc_count();
    for (int64_t nth = 0, all = 1; nth <= all; nth++) {
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        zero_status status = zr_chat_load(NULL, "llama3", NULL, &chat, &error);
        if (status == ZERO_OK)
            status = zr_chat_ask(&chat, "Hi", "x", &document, &error);
        zr_alloc_fail_at(0);
        zr_chat_free(&chat);
        if (nth == 0)
            all = zr_alloc_count() - before;
        // What only looks for the mark that ends an answer may fail, and then there is none.
        assert_true(nth == 0
                        ? status == ZERO_OK
                        : status == ZERO_OK || status == ZERO_ERR_MEMORY || document.text.failed);
        zr_document_free(&document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_templates), cmocka_unit_test(test_named_formats),
        cmocka_unit_test(test_questions),           cmocka_unit_test(test_templates_for_exports),
        cmocka_unit_test(test_a_models_directory),  cmocka_unit_test(test_dates),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, read_golden, forget_golden);
}
