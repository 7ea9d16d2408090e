// Which parts of a conversation are trained on: by {% generation %}, or by what an answer adds; and
// the marks at which a text is cut.
#include "base/file.h"
#include "chat/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TURNS                                                                                      \
    "[{\"role\": \"user\", \"content\": \"Q1\"}, {\"role\": \"assistant\", \"content\": \"A1\"}, " \
    "{\"role\": \"user\", \"content\": \"Q2\"}, {\"role\": \"assistant\", \"content\": \"A2\"}]"
#define THOUGHTS                                                                                   \
    "[{\"role\": \"user\", \"content\": \"Q1\"}, {\"role\": \"assistant\", \"content\": \"A1\", "  \
    "\"reasoning_content\": \"R1\"}, {\"role\": \"user\", \"content\": \"Q2\"}, {\"role\": "       \
    "\"assistant\", \"content\": \"A2\", \"reasoning_content\": \"R2\"}]"

static char marked_text[4096];

// The document with [trained parts] marked.
static const char *marked(const zr_document *document)
{
    size_t at = 0, start = 0;
    bool trained = false;
    for (int i = 0; i < document->count; i++) {
        const zr_document_part *part = &document->segments[i];
        if (part->trained != trained)
            marked_text[at++] = part->trained ? '[' : ']';
        trained = part->trained;
        at += (size_t)snprintf(marked_text + at, sizeof marked_text - at, "%.*s",
                               (int)(part->end - start), document->text.data + start);
        start = part->end;
    }
    if (trained)
        marked_text[at++] = ']';
    marked_text[at] = 0;
    return marked_text;
}

static zero_status render(zr_chat *chat, const char *messages, size_t trained_from,
                          zero_error *error)
{
    zr_document document = {0};
    json_t *list = json_loads(messages, 0, NULL);
    zr_conversation of = {.messages = list, .trained_from = trained_from, .name = "f:1"};
    assert_non_null(list);
    zero_status status = zr_chat_render(chat, &of, &document, error);
    if (status == ZERO_OK)
        marked(&document);
    zr_document_free(&document);
    json_decref(list);
    return status;
}

static void check(zr_chat *chat, const char *messages, size_t trained_from, const char *expected)
{
    zero_error error = {0};
    if (render(chat, messages, trained_from, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_string_equal(marked_text, expected);
}

static void check_format(const char *format, size_t trained_from, const char *expected)
{
    zr_chat chat;
    assert_int_equal(zr_chat_load(NULL, format, NULL, &chat, NULL), ZERO_OK);
    check(&chat, TURNS, trained_from, expected);
    assert_int_equal(chat.counts->rewritten, 0);
    zr_chat_free(&chat);
}

static void test_formats(void **state)
{
    check_format("chatml", 0,
                 "<|im_start|>user\nQ1<|im_end|>\n<|im_start|>assistant\n[A1<|im_end|>]\n"
                 "<|im_start|>user\nQ2<|im_end|>\n<|im_start|>assistant\n[A2<|im_end|>]\n");
    check_format("chatml", 2,
                 "<|im_start|>user\nQ1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n"
                 "<|im_start|>user\nQ2<|im_end|>\n<|im_start|>assistant\n[A2<|im_end|>]\n");
    check_format("llama2", 0, "<s>[INST] Q1 [/INST][ A1 </s>]<s>[INST] Q2 [/INST][ A2 </s>]");
    check_format("llama3", 0,
                 "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nQ1<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n[A1<|eot_id|>]"
                 "<|start_header_id|>user<|end_header_id|>\n\nQ2<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n[A2<|eot_id|>]");
    check_format("mistral", 0, "<s>[INST] Q1 [/INST][A1</s>][INST] Q2 [/INST][A2</s>]");
    check_format("mistral-spaced", 0, "<s>[INST] Q1 [/INST][A1</s>] [INST] Q2 [/INST][A2</s>] ");
    check_format("mistral-2024", 0, "<s> [INST] Q1 [/INST][ A1</s>] [INST] Q2 [/INST][ A2</s>]");
}

static zr_chat chat_of(const char *text, const char *end)
{
    zr_chat chat = {.tokens = json_pack("{s:s}", "eos_token", end),
                    .counts = zr_alloc(sizeof(zr_chat_counts), NULL)};
    zero_error error;
    if (zr_template_parse(text, strlen(text), "x.jinja", &chat.template, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return chat;
}

static void check_template(const char *text, const char *messages, size_t trained_from,
                           const char *expected, int rewritten)
{
    zr_chat chat = chat_of(text, "</s>");
    check(&chat, messages, trained_from, expected);
    assert_int_equal(chat.counts->rewritten, rewritten);
    zr_chat_free(&chat);
}

#define PLAIN "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}"
#define PROMPT "{% if add_generation_prompt %}<assistant>{% endif %}"
#define MARKED                                                                                     \
    "{% for m in messages %}{% if m.role == 'assistant' %}<a>{% generation %}{{ m.content "        \
    "}}<end>{% endgeneration %}{% else %}<u>{{ m.content }}{% endif %}{% endfor %}"

static void test_other_templates(void **state)
{
    check_template(PLAIN PROMPT, TURNS, 0,
                   "<user>Q1<end>\n<assistant>[A1<end>]\n<user>Q2<end>\n<assistant>[A2<end>]\n", 0);
    // It knows no prompt: the header is left out.
    check_template(PLAIN, TURNS, 0,
                   "<user>Q1<end>\n<assistant>[A1<end>]\n<user>Q2<end>\n<assistant>[A2<end>]\n", 0);
    // It ends the whole text with the end token.
    check_template(
        PLAIN "{% if add_generation_prompt %}<assistant>{% else %}</s>{% endif %}", TURNS, 0,
        "<user>Q1<end>\n<assistant>[A1<end>]\n<user>Q2<end>\n<assistant>[A2<end>]\n</s>", 0);
    // It writes something before the first message alone.
    check_template("{% for m in messages %}{% if loop.first %}<s>{% endif %}<{{ m.role }}>{{ "
                   "m.content }}<end>{% endfor %}" PROMPT,
                   "[{\"role\": \"assistant\", \"content\": \"A\"}]", 0, "<s><assistant>[A<end>]",
                   0);
    // The prompt opens a thought that an answer need not have.
    check_template(PLAIN "{% if add_generation_prompt %}<assistant><think>\n{% endif %}", TURNS, 0,
                   "<user>Q1<end>\n<assistant>[A1<end>]\n<user>Q2<end>\n<assistant>[A2<end>]\n", 0);
}

// Both: an end token after all messages, and a prompt that opens a thought.
static void test_a_trailer_and_a_thought(void **state)
{
    check_template(
        PLAIN "{% if add_generation_prompt %}<assistant><think>\n{% else %}</s>{% endif %}", TURNS,
        0, "<user>Q1<end>\n<assistant>[A1<end>]\n<user>Q2<end>\n<assistant>[A2<end>]\n</s>", 0);
}

static void test_generation_marks(void **state)
{
    check_template(MARKED, TURNS, 0, "<u>Q1<a>[A1<end>]<u>Q2<a>[A2<end>]", 0);
    check_template(MARKED, TURNS, 2, "<u>Q1<a>A1<end><u>Q2<a>[A2<end>]", 0);
    // In a macro their place is unknown; what an answer adds is not.
    check_template(
        "{% macro say(m) %}{% generation %}{{ m.content }}<end>{% endgeneration %}"
        "{% endmacro %}{% for m in messages %}<{{ m.role }}>{{ say(m) }}{% endfor %}" PROMPT,
        TURNS, 0, "<user>Q1<end><assistant>[A1<end>]<user>Q2<end><assistant>[A2<end>]", 0);
}

// A template that drops earlier thoughts: only the last answer is as it was given.
static void test_thoughts_that_are_dropped(void **state)
{
    zr_chat chat;
    zero_error error = {0};
    assert_int_equal(zr_chat_load(NULL, TEMPLATES "/thoughts.jinja", NULL, &chat, NULL), ZERO_OK);
    check(&chat, THOUGHTS, 0,
          "<|im_start|>user\nQ1<|im_end|>\n<|im_start|>assistant\nA1<|im_end|>\n<|im_start|>user\n"
          "Q2<|im_end|>\n<|im_start|>assistant\n[<think>\nR2\n</think>\n\nA2<|im_end|>]\n");
    assert_int_equal(chat.counts->rewritten, 1);
    check(&chat, THOUGHTS, 2, marked_text); // what is prompt anyway does not count
    assert_int_equal(chat.counts->rewritten, 1);
    zr_chat_free(&chat);
    chat = chat_of("{% for m in messages %}{{ m.content ~ loop.length }}{% endfor %}", "</s>");
    assert_int_equal(render(&chat, TURNS, 0, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "f:1: message 3: the chat template writes this answer in "
                                          "another form"));
    zr_chat_free(&chat);
}

static void test_a_template_that_refuses(void **state)
{
    zr_chat chat;
    zero_error error = {0};
    assert_int_equal(zr_chat_load(NULL, "mistral", NULL, &chat, NULL), ZERO_OK);
    assert_int_equal(render(&chat,
                            "[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", "
                            "\"content\": \"b\"}]",
                            0, &error),
                     ZERO_ERR_DATA);
    assert_non_null(strstr(error.message,
                           "f:1: the chat template refuses: message 1 is of the role "
                           "\"user\": user and assistant must take turns (mistral, "
                           "line 4, column"));
    zr_chat_free(&chat);
}

static zr_tokenizer *load_tokenizer(const char *name)
{
    char *file = zr_sprintf(NULL, "%s/%s.json", TOKENIZERS, name);
    zr_tokenizer *tokenizer;
    assert_int_equal(zr_tokenizer_load(file, &tokenizer, NULL), ZERO_OK);
    zr_free(file);
    return tokenizer;
}

static void test_marks(void **state)
{
    zr_tokenizer *tokenizer = load_tokenizer("qwen2");
    zr_chat chat;
    zero_error error = {0};
    assert_int_equal(zr_chat_load(NULL, "chatml", NULL, &chat, NULL), ZERO_OK);
    assert_int_equal(zr_chat_check_marks(&chat, "chatml", tokenizer, &error), ZERO_OK);
    assert_int_equal(chat.mark_count, 2);
    assert_string_equal(zr_chat_turn_end(&chat), "<|im_end|>");
    zr_chat_free(&chat);
    assert_int_equal(zr_chat_load(NULL, "llama3", NULL, &chat, NULL), ZERO_OK);
    assert_int_equal(zr_chat_check_marks(&chat, "llama3", tokenizer, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "the chat format llama3 needs the tokens "
                                          "<|start_header_id|>, <|end_header_id|>, which the "
                                          "tokenizer lacks"));
    zr_chat_free(&chat);
    // A model's own template is refused when messages are rendered.
    chat = chat_of("{% for m in messages %}<|none|>{{ m.content }}{% endfor %}", "</s>");
    chat.name = zr_strdup("the model's own template", NULL);
    assert_int_equal(zr_chat_check_marks(&chat, NULL, tokenizer, &error), ZERO_OK);
    assert_null(chat.template);
    assert_int_equal(render(&chat, TURNS, 0, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(error.message, "f:1: the model's own template needs the token <|none|>"));
    zr_chat_free(&chat);
    zr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_other_templates),
        cmocka_unit_test(test_a_trailer_and_a_thought),
        cmocka_unit_test(test_generation_marks),
        cmocka_unit_test(test_thoughts_that_are_dropped),
        cmocka_unit_test(test_a_template_that_refuses),
        cmocka_unit_test(test_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
