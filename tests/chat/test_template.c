// Templates render what jinja2 renders: template_golden.json has the texts, the spans of
// {% generation %}, and which conversations a template refuses (tests/oracle/chat_templates.py).
//
// Usage: test_template [FILE]   another file of the same form; prints every difference
#include "base/file.h"
#include "chat/template.h"
#include "chat/unicode_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static json_t *golden;
static int differences, compared, refused;

static const zr_template_options options = {.date = {2025, 3, 9}};

// Prints where two texts part.
static void show(const char *name, size_t number, const char *got, const char *wanted)
{
    size_t at = 0;
    while (got[at] && got[at] == wanted[at])
        at++;
    size_t from = at > 60 ? at - 60 : 0;
    fprintf(stderr, "%s, case %zu: at byte %zu:\n  got    %.160s\n  wanted %.160s\n", name, number,
            at, got + from, wanted + from);
}

// Compares spans of bytes with spans of characters.
static bool same_spans(const zr_rendered *got, const json_t *wanted)
{
    if ((size_t)got->span_count != json_array_size(wanted))
        return false;
    for (int i = 0; i < got->span_count; i++) {
        const json_t *pair = json_array_get(wanted, (size_t)i);
        size_t begin = zr_text_offset(got->text.data, got->text.length,
                                      (size_t)json_integer_value(json_array_get(pair, 0)));
        size_t end = zr_text_offset(got->text.data, got->text.length,
                                    (size_t)json_integer_value(json_array_get(pair, 1)));
        // A misplaced span may reach beyond the text in characters.
        if (got->spans[i].begin != begin || (got->spans[i].end != end && !got->misplaced))
            return false;
    }
    return true;
}

static void compare(const char *name, size_t number, const zr_template *template, bool parsed,
                    const json_t *variables, const json_t *wanted, zr_rendered *rendered,
                    zero_error *error)
{
    const char *text = json_string_value(json_object_get(wanted, "text"));
    zero_status status =
        parsed ? zr_template_render(template, variables, &options, rendered, error) : error->status;
    compared++;
    refused += !text;
    if (status == ZERO_OK && text && !strcmp(rendered->text.data, text)) {
        if (same_spans(rendered, json_object_get(wanted, "spans")))
            return;
        fprintf(stderr, "%s, case %zu: other spans\n", name, number);
    } else if (status == ZERO_OK) {
        show(name, number, rendered->text.data,
             text ? text : json_string_value(json_object_get(wanted, "error")));
    } else if (!text) {
        return;
    } else {
        fprintf(stderr, "%s, case %zu: refused here: %s\n", name, number, error->message);
    }
    differences++;
}

static void compare_template(const char *name, const json_t *text, const json_t *variables,
                             const json_t *results, zr_rendered *rendered)
{
    zr_template *template;
    zero_error error = {0};
    bool parsed = zr_template_parse(json_string_value(text), json_string_length(text), name,
                                    &template, &error) == ZERO_OK;
    for (size_t i = 0; i < json_array_size(results); i++)
        compare(name, i, template, parsed, json_array_get(variables, i), json_array_get(results, i),
                rendered, &error);
    zr_template_free(template);
}

static void test_templates(void **state)
{
    zr_rendered rendered = {0};
    json_t *entry;
    size_t i;
    json_array_foreach(json_object_get(golden, "templates"), i, entry) compare_template(
        json_string_value(json_object_get(entry, "name")), json_object_get(entry, "text"),
        json_object_get(golden, "cases"), json_object_get(entry, "results"), &rendered);
    zr_rendered_free(&rendered);
    printf("%zu templates, %d renderings (%d refused), %d differences\n", i, compared, refused,
           differences);
    assert_true(compared > 0);
    assert_int_equal(differences, 0);
}

// Small templates, each for one construct of the language.
static void test_snippets(void **state)
{
    zr_rendered rendered = {0};
    json_t *entry;
    size_t i;
    int before = differences;
    json_array_foreach(json_object_get(golden, "snippets"), i, entry)
    {
        json_t *variables = json_pack("[O]", json_object_get(golden, "variables")),
               *results = json_pack("[O]", json_array_get(entry, 1));
        compare_template(json_string_value(json_array_get(entry, 0)), json_array_get(entry, 0),
                         variables, results, &rendered);
        json_decref(variables);
        json_decref(results);
    }
    zr_rendered_free(&rendered);
    printf("%zu snippets, %d differences\n", i, differences - before);
    assert_int_equal(differences, before);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_templates),
                                       cmocka_unit_test(test_snippets)};
    zero_error error;
    if (zr_json_load(count > 1 ? arguments[1] : GOLDEN, (size_t)1 << 30, &golden, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    json_decref(golden);
    return failed;
}
