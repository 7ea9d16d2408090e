// What a hostile or broken template meets: bounds on steps, nesting, memory and output, errors that
// name the place, and allocations that fail.
#include "chat/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static zero_status render_with(const char *text, const zr_template_options *options,
                               zr_rendered *out, zero_error *error)
{
    zr_template *template;
    json_t *variables = json_pack("{s:[{s:s, s:s}]}", "messages", "role", "user", "content", "hi");
    assert_non_null(variables);
    zero_status status = zr_template_parse(text, strlen(text), "x.jinja", &template, error);
    if (status == ZERO_OK)
        status = zr_template_render(template, variables, options, out, error);
    zr_template_free(template);
    json_decref(variables);
    return status;
}

// Renders a template that must fail, and compares the message.
static void fails(const char *text, const zr_template_options *options, zero_status status,
                  const char *words)
{
    zr_rendered rendered = {0};
    zero_error error = {0};
    zero_status got = render_with(text, options, &rendered, &error);
    if (got != status || !strstr(error.message, words))
        fail_msg("%s: status %d, \"%s\", not \"%s\"", text, got, error.message, words);
    zr_rendered_free(&rendered);
}

static void test_errors_name_the_place(void **state)
{
    static const struct {
        const char *text;
        zero_status status;
        const char *words;
    } cases[] = {
        {"one\n  {{ a b }}", ZERO_ERR_DATA, "x.jinja:2:8: }} is due, and here is \"b\""},
        {"{% if x %}\n", ZERO_ERR_DATA, "{% elif %} is missing"},
        {"ä{{ 'abc }}", ZERO_ERR_DATA, "x.jinja:1:5: a string that does not end"},
        {"{% include 'x' %}", ZERO_ERR_UNSUPPORTED, "{% include %} is not built"},
        {"{% for x in y recursive %}{% endfor %}", ZERO_ERR_UNSUPPORTED, "recursive loops"},
        {"{{ [1 }}", ZERO_ERR_DATA, "x.jinja:1:7: '}' where ']' is due"},
        {"{{ 1 +", ZERO_ERR_DATA, "x.jinja:1:1: a tag that does not end"},
        {"{{ 1) }}", ZERO_ERR_DATA, "x.jinja:1:5: ')' closes nothing"},
        {"{{ 99999999999999999999 }}", ZERO_ERR_DATA, "integers have 64 bits"},
        {"\n{{ raise_exception('no ' ~ messages[0].role) }}", ZERO_ERR_DATA,
         "the chat template refuses: no user (x.jinja, line 2, column 19)"},
        {"{{ messages[0].content + 1 }}", ZERO_ERR_DATA,
         "the chat template fails: + between str and int (x.jinja, line 1, column 24)"},
        {"{{ x.y }}", ZERO_ERR_DATA, "\"x\" is undefined, and \"y\" is asked of it"},
        {"{{ 9223372036854775807 + 1 }}", ZERO_ERR_DATA, "does not fit 64 bits"},
        {"{{ 1e20|int }}", ZERO_ERR_DATA, "does not fit 64 bits"},
        {"{{ '99999999999999999999'|int }}", ZERO_ERR_DATA, "does not fit 64 bits"},
        {"{{ messages|nosuch }}", ZERO_ERR_DATA, "the filter \"nosuch\" is not built"},
        {"{{ strftime_now('%Y') }}", ZERO_ERR_DATA, "asks for the date, and none is known"},
        {"{{ namespace(a=1).b.c }}", ZERO_ERR_DATA, "\"b\" is undefined"},
        {"{{ messages.append(1) }}", ZERO_ERR_DATA, "\"append\" is undefined, or not built"},
        {"a\xff", ZERO_ERR_DATA, "x.jinja:1:2: a byte that is no UTF-8"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++)
        fails(cases[i].text, NULL, cases[i].status, cases[i].words);
}

#define NEST10(x) x x x x x x x x x x

static void test_bounds(void **state)
{
    const zr_template_options few_steps = {.steps = 1000}, small_output = {.output = 1000},
                              small_memory = {.memory = 1 << 20};
    fails("{% for i in range(1000) %}{% set x = i %}{% endfor %}", &few_steps, ZERO_ERR_DATA,
          "it takes more than 1000 steps");
    fails("{% for i in range(1000) %}abc{% endfor %}", &small_output, ZERO_ERR_DATA,
          "it writes more than 1000 bytes");
    fails("{% set x %}{{ 'a' * 2000 }}{% endset %}", &small_output, ZERO_ERR_DATA,
          "it writes more than 1000 bytes");
    fails("{{ 'abc' * 1000000 }}", &small_memory, ZERO_ERR_DATA,
          "its values need more than 1048576 bytes");
    fails("{% set n = namespace(x='ab') %}{% for i in range(40) %}{% set n.x = n.x + n.x %}"
          "{% endfor %}",
          &small_memory, ZERO_ERR_DATA, "its values need more than");
    fails("{% set n = namespace(x='ab') %}{% for i in range(40) %}{% set n.x = n.x.replace('a', "
          "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') %}{% endfor %}",
          &small_memory, ZERO_ERR_DATA, "its values need more than");
    fails("{{ 'x' * 9223372036854775807 }}", NULL, ZERO_ERR_DATA, "its values need more than");
    fails("{{ [1] * 9223372036854775807 }}", NULL, ZERO_ERR_DATA, "it takes more than");
    fails("{{ ' ' ~ 'a'|indent(9223372036854775807, true) }}", NULL, ZERO_ERR_DATA,
          "its values need more than");
    fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL, ZERO_ERR_DATA,
          "more than 64 macros within one another");
    fails("{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor "
          "%}{{ n.x }}",
          NULL, ZERO_ERR_DATA, "levels within one another");
    fails("{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor "
          "%}{{ n.x|tojson }}",
          NULL, ZERO_ERR_DATA, "levels within one another");
    fails("{% set n = namespace() %}{% set n.n = n %}{{ n }}", NULL, ZERO_ERR_DATA,
          "levels within one another");
    fails("{{ " NEST10(NEST10("(")) "1" NEST10(NEST10(")")) " }}", NULL, ZERO_ERR_DATA,
          "more than 64 blocks and brackets within one another");
    fails("{{ " NEST10(NEST10("-")) "1 }}", NULL, ZERO_ERR_DATA, "more than 64 blocks");
    fails("{{ " NEST10(NEST10("not ")) "1 }}", NULL, ZERO_ERR_DATA, "more than 64 blocks");
    fails("{{ x" NEST10(NEST10(".y")) " }}", NULL, ZERO_ERR_DATA, "more than 64 subscripts");
    fails("{{ x" NEST10(NEST10("|d")) " }}", NULL, ZERO_ERR_DATA, "more than 64 filters");
    fails(NEST10(NEST10("{% if 1 %}")), NULL, ZERO_ERR_DATA, "more than 64 blocks");
}

// A long chain of operators, and of elif, is not deep.
static void test_chains_are_not_deep(void **state)
{
    zr_buffer text = {0};
    zr_rendered rendered = {0};
    zero_error error = {0};
    zr_buffer_printf(&text, "{%% if false %%}");
    for (int i = 0; i < 2000; i++)
        zr_buffer_printf(&text, "{%% elif false %%}");
    zr_buffer_printf(&text, "{%% else %%}{{ 0");
    for (int i = 0; i < 2000; i++)
        zr_buffer_printf(&text, " + 1");
    zr_buffer_printf(&text, " }}{%% endif %%}");
    assert_int_equal(render_with(text.data, NULL, &rendered, &error), ZERO_OK);
    assert_string_equal(rendered.text.data, "2000");
    zr_buffer_free(&text);
    zr_rendered_free(&rendered);
}

static const char everything[] =
    "{% macro m(a, b='x') %}{{ a }}{{ b|upper }}{% endmacro %}{% set ns = namespace(t='') %}"
    "{% for k, v in {'a': [1, 2], 'b': 'ab cd'.split()}.items() if k %}{% set ns.t = ns.t ~ k %}"
    "{{ v|map('string')|join(',') }}{{ loop.last }}{% endfor %}{{ m(1, b='q' 'r') }}"
    "{% set x %}{{ ns.t|replace('a', 'bb')|title }}{% endset %}{{ x[::-1] ~ x[1:] }}"
    "{{ messages|tojson(indent=2, sort_keys=true) }}{% generation %}{{ [3, 1]|sort }}"
    "{% endgeneration %}{{ 'a' * 20000 }}{% filter trim %} x {% endfilter %}{{ (1, 2.5, none) }}";

static void test_no_memory(void **state)
{
    zr_rendered whole = {0};
    zero_error error = {0};
    int64_t before = zr_alloc_count();
    if (render_with(everything, NULL, &whole, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    int64_t count = zr_alloc_count() - before;
    assert_true(count > 20);
    for (int64_t i = 1; i <= count; i++) {
        zr_rendered rendered = {0};
        zr_alloc_fail_at(i);
        assert_int_equal(render_with(everything, NULL, &rendered, &error), ZERO_ERR_MEMORY);
        assert_true(error.message[0] != 0);
        zr_rendered_free(&rendered);
    }
    zr_alloc_fail_at(0);
    zr_rendered_free(&whole);
}

static void test_what_a_template_says_of_itself(void **state)
{
    static const char text[] =
        "{{ tools_list }}{% generation %}{{ m.reasoning }}{% endgeneration %}\r\n";
    zr_template *template;
    size_t length;
    zero_error error = {0};
    assert_int_equal(zr_template_parse(text, sizeof text - 1, "x", &template, &error), ZERO_OK);
    assert_false(zr_template_mentions(template, "tools"));
    assert_true(zr_template_mentions(template, "tools_list"));
    assert_true(zr_template_mentions(template, "reasoning"));
    assert_true(zr_template_marks_answers(template));
    assert_string_equal(zr_template_text(template, &length), text);
    assert_int_equal(length, sizeof text - 1);
    zr_template_free(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_name_the_place), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_chains_are_not_deep), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_what_a_template_says_of_itself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
