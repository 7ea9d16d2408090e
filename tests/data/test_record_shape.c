// What becomes of a record of each shape, with a chat template and without one; maps of fields.
#include "base/alloc.h"
#include "data/record_document.h"
#include "data/record_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static zr_chat chatml, none;
static zr_document document;
static zr_record_made made;

static int load_chat(void **state)
{
    return zr_chat_load(NULL, "chatml", NULL, &chatml, NULL) != ZERO_OK;
}

static int free_all(void **state)
{
    zr_document_free(&document);
    zr_chat_free(&chatml);
    return 0;
}

static zero_status make(const char *record, const char *map, const zr_chat *chat, zero_error *error)
{
    zr_record_map names = {0};
    json_t *object;
    if (map)
        assert_int_equal(zr_record_map_parse(map, &names, NULL), ZERO_OK);
    assert_int_equal(zr_json_parse(record, strlen(record), "r", &object, NULL), ZERO_OK);
    const zr_record_reading reading = {.map = map ? &names : NULL, .chat = chat, .name = "f:1"};
    zr_document_clear(&document);
    zero_status status = zr_record_document(&reading, object, &document, &made, error);
    json_decref(object);
    zr_record_map_free(&names);
    return status;
}

// Trained parts stand in [].
static void compare(const char *expected)
{
    char marked[1024] = "";
    size_t start = 0;
    for (int i = 0; i < document.count; i++) {
        const zr_document_part *part = &document.segments[i];
        size_t at = strlen(marked);
        snprintf(marked + at, sizeof marked - at, part->trained ? "[%.*s]" : "%.*s",
                 (int)(part->end - start), document.text.data + start);
        start = part->end;
    }
    assert_string_equal(marked, expected);
}

static void check(const char *record, const char *map, const zr_chat *chat, const char *expected)
{
    zero_error error = {0};
    if (make(record, map, chat, &error) != ZERO_OK)
        fail_msg("%s: %s", record, error.message);
    compare(expected);
}

#define TURN(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"
#define USER(text) TURN("user", text)
#define SYSTEM(text) TURN("system", text)
#define ANSWER(text) "<|im_start|>assistant\n[" text "<|im_end|>]\n"

static void test_sharegpt(void **state)
{
    check("{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", "
          "\"value\": \"a\"}]}",
          NULL, &chatml, USER("q") ANSWER("a"));
    assert_false(made.ends || made.plain);
    check("{\"system\": \"s\", \"conversations\": [{\"from\": \"user\", \"value\": \"q\"}, "
          "{\"from\": \"chatgpt\", \"value\": \"a\", \"weight\": 0}, {\"from\": \"human\", "
          "\"value\": \"r\"}, {\"from\": \"bard\", \"value\": \"b\"}]}",
          NULL, &chatml, SYSTEM("s") USER("q") TURN("assistant", "a") USER("r") ANSWER("b"));
    check("{\"system\": \"s\", \"conversations\": [{\"from\": \"system\", \"value\": \"own\"}, "
          "{\"from\": \"human\", \"value\": \"q\"}, {\"from\": \"gpt\", \"value\": \"a\"}]}",
          NULL, &chatml, SYSTEM("own") USER("q") ANSWER("a"));
    check("{\"conversations\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": "
          "\"assistant\", \"content\": \"a\"}]}",
          NULL, &chatml, USER("q") ANSWER("a"));
}

// What is trained on begins with the completion, also where a system message is put before all.
static void test_lists_of_messages(void **state)
{
    check("{\"system_prompt\": \"s\", \"prompt\": [{\"role\": \"assistant\", \"content\": "
          "\"p\"}], \"completion\": [{\"from\": \"gpt\", \"value\": \"c\"}]}",
          NULL, &chatml, SYSTEM("s") TURN("assistant", "p") ANSWER("c"));
}

static void test_alpaca(void **state)
{
    const char *plain = "{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o\"}";
    const char *full = "{\"instruction\": \"i\", \"input\": \"x\", \"output\": \"o\", \"system\": "
                       "\"s\", \"history\": [[\"q\", \"a\"]]}";
    check(plain, NULL, &chatml, USER("i") ANSWER("o"));
    check(full, NULL, &chatml, SYSTEM("s") USER("q") ANSWER("a") USER("i\nx") ANSWER("o"));
    check(plain, NULL, &none,
          "Below is an instruction that describes a task. Write a response that appropriately "
          "completes the request.\n\n### Instruction:\ni\n\n### Response:\n[o]");
    assert_true(made.ends && made.plain);
    check("{\"instruction\": \"i\", \"context\": \"x\", \"response\": \"o\"}", NULL, &none,
          "Below is an instruction that describes a task, paired with an input that provides "
          "further context. Write a response that appropriately completes the request.\n\n### "
          "Instruction:\ni\n\n### Input:\nx\n\n### Response:\n[o]");
    check(full, NULL, &none,
          "s\n\n### Instruction:\nq\n\n### Response:\na\n\n### Instruction:\ni\n\n### "
          "Input:\nx\n\n### Response:\n[o]");
}

static void test_questions_and_answers(void **state)
{
    check("{\"question\": \"q\", \"answer\": \"a\"}", NULL, &chatml, USER("q") ANSWER("a"));
    check("{\"question\": \"q\", \"answer\": \"a\"}", NULL, &none, "q\n[a]");
    check("{\"query\": \"q\", \"response\": \"a\", \"system\": \"s\", \"history\": [[\"r\", "
          "\"b\"]]}",
          NULL, &none, "s\nr\nb\nq\n[a]");
    check("{\"prompt\": \"q\", \"response\": \"a\"}", NULL, &chatml, USER("q") ANSWER("a"));
    check("{\"system_prompt\": \"s\", \"question\": \"q\", \"response\": \"a\"}", NULL, &chatml,
          SYSTEM("s") USER("q") ANSWER("a"));
    check("{\"prompt\": \"q\", \"completion\": \"a\"}", NULL, &chatml, "q[a]");
    check("{\"question\": \"\", \"answer\": \"\"}", NULL, &chatml, "");
}

// The first shape of the table that a record has is the one that is read.
static void test_the_order_of_shapes(void **state)
{
    check("{\"text\": \"t\", \"question\": \"q\", \"answer\": \"a\"}", NULL, &none, "q\n[a]");
    check("{\"prompt\": \"p\", \"completion\": \"c\", \"response\": \"r\"}", NULL, &none, "p[c]");
    check("{\"instruction\": \"i\", \"output\": \"o\", \"question\": \"q\", \"answer\": \"a\"}",
          NULL, &chatml, USER("i") ANSWER("o"));
    check("{\"instruction\": \"i\", \"output\": null, \"question\": \"q\", \"answer\": \"a\"}",
          NULL, &chatml, USER("q") ANSWER("a"));
}

static void test_maps(void **state)
{
    const char *record = "{\"q\": \"Q\", \"a\": {\"text\": \"A\"}, \"s\": \"S\", \"x\": \"X\", "
                         "\"system\": \"not read\", \"text\": \"nor this\", \"a.b\": \"dot\"}";
    check(record, "user=q,assistant=a.text", &chatml, USER("Q") ANSWER("A"));
    check(record, "user=q,assistant=a.text,system=s,input=x", &chatml,
          SYSTEM("S") USER("Q\nX") ANSWER("A"));
    check(record, "user=q,assistant=a.text", &none, "Q\n[A]");
    check(record, "prompt=q,completion=a.b", &chatml, "Q[dot]");
    check(record, "text=a.text", &chatml, "[A]");
    check(record, "a.text", &chatml, "[A]");
    check("{\"dialog\": [{\"from\": \"gpt\", \"value\": \"a\"}]}", "messages=dialog", &chatml,
          ANSWER("a"));
}

static void refuse(const char *record, const char *map, const char *words)
{
    zero_error error = {0};
    assert_int_equal(make(record, map, &chatml, &error), ZERO_ERR_DATA);
    if (strncmp(error.message, "f:1: ", 5) || !strstr(error.message, words))
        fail_msg("\"%s\" is said of %s, where \"%s\" should be", error.message, record, words);
}

static void test_what_is_refused(void **state)
{
    refuse("{\"conversations\": [{\"from\": \"alien\", \"value\": \"q\"}]}", NULL,
           "message 0 is from \"alien\", where one of these is needed: human, user, gpt");
    refuse("{\"conversations\": [{\"from\": \"gpt\"}]}", NULL, "\"content\" is undefined");
    refuse("{\"conversations\": [\"q\", \"a\"]}", NULL, "message 0 has no \"role\"");
    refuse("{\"conversations\": []}", NULL, "an empty list: it must be a list of at least one");
    refuse("{\"conversations\": \"q\"}", NULL, "\"conversations\" is text: it must be a list");
    refuse("{\"conversations\": [{\"from\": \"function_call\", \"value\": \"f(x)\"}]}", NULL,
           "the call of a function:1:1: ");
    refuse("{\"conversations\": [{\"from\": \"function_call\", \"value\": \"{}\"}]}", NULL,
           "message 0 calls a function, but has no \"name\"");
    refuse("{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"tools\": \"no\"}", NULL,
           "its tools:1:1: ");
    refuse("{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"tools\": {}}", NULL,
           "its tools must be a list");
    refuse("{\"question\": \"q\", \"answer\": [\"a\"]}", NULL, "\"answer\" is a list, where text");
    refuse("{\"instruction\": \"i\", \"output\": \"o\", \"input\": 5}", NULL,
           "\"input\" is a number");
    refuse("{\"instruction\": \"i\", \"output\": \"o\", \"history\": [[\"q\"]]}", NULL,
           "its history must be a list of pairs");
    refuse("{\"data\": [{\"text\": \"t\"}]}", NULL, "write it alone: jq '.[\"data\"]' FILE");
    refuse("{\"q\": \"Q\"}", "user=q,assistant=a", "no field \"a\" (--map assistant=a); it has");
    refuse("{\"q\": \"Q\"}", "body", "no field \"body\" (--field); it has \"q\"");
    refuse("{\"q\": 5, \"a\": \"A\"}", "user=q,assistant=a", "the field \"q\" is a number");
}

// A record of preferences or images is not a conversation alone, unless a map says so.
static void test_what_would_be_left_out(void **state)
{
    static const char *const others[][2] = {{"\"chosen\": {\"from\": \"gpt\"}", "--preference dpo"},
                                            {"\"rejected\": \"b\"", "--preference dpo"},
                                            {"\"label\": false", "--preference kto"},
                                            {"\"kto_tag\": true", "--preference kto"},
                                            {"\"images\": [\"1.jpg\"]", "images"},
                                            {"\"audios\": [\"1.mp3\"]", "sound"}};
    const char *turns = "\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]";
    char record[256];
    for (int i = 0; i < ZR_COUNT(others); i++) {
        zero_error error = {0};
        snprintf(record, sizeof record, "{%s, %s}", turns, others[i][0]);
        assert_int_equal(make(record, NULL, &chatml, &error), ZERO_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, others[i][1]));
        assert_non_null(strstr(error.message, "(--map messages=messages)"));
        check(record, "messages=messages", &chatml, ANSWER("a"));
    }
    snprintf(record, sizeof record, "{%s, \"images\": [], \"label\": 3, \"audio\": null}", turns);
    check(record, NULL, &chatml, ANSWER("a"));
    check("{\"text\": \"t\", \"label\": true}", NULL, &chatml, "[t]");
}

// The call and its result reach the template, which refuses them by name where it has no place.
static void test_tools_are_passed_on(void **state)
{
    refuse("{\"conversations\": [{\"from\": \"function_call\", \"value\": \"{\\\"name\\\": "
           "\\\"f\\\", \\\"arguments\\\": {}}\"}]}",
           NULL, "\"tool_calls\"");
    check("{\"conversations\": [{\"from\": \"observation\", \"value\": \"5\"}]}", NULL, &chatml,
          "<|im_start|>tool\n5<|im_end|>\n");
    zero_error error;
    assert_int_equal(make("{\"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}], \"tools\": "
                          "\"[{\\\"name\\\": \\\"f\\\"}]\"}",
                          NULL, &chatml, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "\"tools\""));
    check("{\"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}], \"tools\": \"[]\"}", NULL,
          &chatml, ANSWER("a"));
}

static void test_tools_get_their_frame(void **state)
{
    static const char *const cases[][2] = {
        {"[{\"name\": \"f\"}]", "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"},
        {"[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]",
         "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"},
        {"\"[{\\\"name\\\": \\\"f\\\"}]\"",
         "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"},
        {"[]", NULL},
        {"\"\"", NULL},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        json_t *tools = json_loads(cases[i][0], JSON_DECODE_ANY, NULL), *out;
        assert_int_equal(zr_turns_tools(tools, "f:1", &out, NULL), ZERO_OK);
        char *text = out ? json_dumps(out, JSON_COMPACT) : NULL;
        if (cases[i][1])
            assert_string_equal(text, cases[i][1]);
        else
            assert_null(text);
        free(text);
        json_decref(out);
        json_decref(tools);
    }
}

static void test_maps_that_are_refused(void **state)
{
    const char *maps[][2] = {{"user=q", "its keys must be those of one shape"},
                             {"user=q,assistant=a,text=t", "its keys must be those of one shape"},
                             {"usr=q,assistant=a", "its keys must be those of one shape"},
                             {"prompt=p,completion=c,history=h", "must be those of one shape"},
                             {"user=q,user=r", "user is given twice"},
                             {"user=q,", "a comma too much"},
                             {"user=,assistant=a", "user= is no KEY=FIELD"},
                             {"text=a,=b", "=b is no KEY=FIELD"},
                             {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "more keys than any shape"}};
    for (int i = 0; i < ZR_COUNT(maps); i++) {
        zr_record_map map;
        zero_error error = {0};
        assert_int_equal(zr_record_map_parse(maps[i][0], &map, &error), ZERO_ERR_USAGE);
        if (!strstr(error.message, maps[i][1]) || !strstr(error.message, maps[i][0]))
            fail_msg("%s: %s", maps[i][0], error.message);
    }
}

// Wherever memory runs out, the record fails, and nothing leaks.
static void test_no_memory(void **state)
{
    const char *record = "{\"instruction\": \"i\", \"output\": \"o\", \"input\": \"x\"}";
    zero_error error;
    json_t *object;
    assert_int_equal(zr_json_parse(record, strlen(record), "r", &object, NULL), ZERO_OK);
    const zr_record_reading reading = {.chat = &chatml, .name = "f:1"};
    for (int nth = 1;; nth++) {
        zr_document_free(&document);
        zr_alloc_fail_at(nth);
        zero_status status = zr_record_document(&reading, object, &document, &made, &error);
        bool failed = status != ZERO_OK || document.text.failed;
        zr_alloc_fail_at(0);
        if (!failed)
            break;
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        assert_true(nth < 100);
    }
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharegpt),
        cmocka_unit_test(test_lists_of_messages),
        cmocka_unit_test(test_alpaca),
        cmocka_unit_test(test_tools_get_their_frame),
        cmocka_unit_test(test_questions_and_answers),
        cmocka_unit_test(test_the_order_of_shapes),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_what_would_be_left_out),
        cmocka_unit_test(test_tools_are_passed_on),
        cmocka_unit_test(test_maps_that_are_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, load_chat, free_all);
}
