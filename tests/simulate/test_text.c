// Numbers in free text: separators, units, products, tokens, and sizes in names of models.
#include "simulate/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct example {
    const char *text;
    double number;
} example;

static void check(double read(const char *text), const example *examples, int count)
{
    for (int i = 0; i < count; i++) {
        double found = read(examples[i].text), wanted = examples[i].number;
        if (found < wanted * (1 - 1e-12) || found > wanted * (1 + 1e-12))
            fail_msg("\"%s\": %.17g instead of %.17g", examples[i].text, found, wanted);
    }
}

#define CHECK(read, examples) check(read, examples, sizeof(examples) / sizeof *(examples))

static void texts_begin_with_numbers(void **state)
{
    static const example examples[] = {
        {"150 (their config)", 150},
        {"  0 or 1 (not said)", 0},
        {"1020 (4.19M tokens)", 1020},
        {"8 x 4 x 64", 2048},
        {"2*3", 6},
        {"see config.yaml", 0},
        {"", 0},
        {"1e999", 0},
        {"0.372160", 0.37216},
        {".5", 0.5},
        {"1.5e-3 s", 1.5e-3},
        {"-3", 0},
        {"0x10", 0},
    };
    CHECK(zr_sim_text_number, examples);
}

static void separators_and_units_count(void **state)
{
    static const example examples[] = {
        {"2,048", 2048},
        {"1,234,567.5", 1234567.5},
        {"9,5", 9},
        {"0,125", 0},
        {"1,0245", 1},
        {"4.19M tokens", 4.19e6},
        {"32k", 32000},
        {"3 million", 3e6},
        {"16 MB", 16},
        {"8xH100", 8},
        {"12 Mbit/s", 12},
        {"5kg", 5},
        {"2 x 1.5k", 3000},
        {"2048 (32 x 64)", 2048},
        {"1.2T (all)", 1.2e12},
    };
    CHECK(zr_sim_text_number, examples);
}

static void lengths_are_powers_of_two(void **state)
{
    static const example examples[] = {
        {"8k", 8192},     {"128K", 131072},         {"4M tokens", 4194304},
        {"0.5M", 524288}, {"4.19M tokens", 4.19e6}, {"2,048", 2048},
        {"1.1k", 1100},   {"4 x 1k", 4096},
    };
    CHECK(zr_sim_text_length, examples);
}

static void tokens_are_said(void **state)
{
    static const example examples[] = {
        {"4M tokens", 4194304},
        {"4,194,304 tokens", 4194304},
        {"1024 tokens a GPU", 1024},
        {"2 million tokens", 2 << 20},
        {"32 x 64)", 0},
        {"1 epoch)", 0},
        {"of 4M tokens", 0},
    };
    CHECK(zr_sim_text_tokens, examples);
}

static void parameters_are_billions(void **state)
{
    static const example examples[] = {
        {"125M", 0.125},
        {"1.3T", 1300},
        {"6.7", 6.7},
        {"6.7B", 6.7},
        {"7b", 7},
        {"350m", 0.35},
        {"6738415616", 6.738415616},
        {"", 0},
    };
    CHECK(zr_sim_text_billions, examples);
}

static void names_tell_sizes(void **state)
{
    static const example examples[] = {
        {"LLaMA 65B", 65},      {"Llama 3.1 405B", 405}, {"MPT-30b", 30},
        {"MPT-125m", 0.125},    {"GPT-2 1.5B", 1.5},     {"llama-1B (config.yaml beside it)", 1},
        {"Llama-2-13b-hf", 13}, {"GPT 1T", 1000},        {"GPT-3", 0},
        {"Mixtral 8x7B", 0},    {"GPT-2 large", 0},      {"", 0},
    };
    CHECK(zr_sim_name_billions, examples);
}

static void names_are_compared_by_words(void **state)
{
    assert_true(zr_sim_name_has("Llama-3.1 8B", "llama 3"));
    assert_true(zr_sim_name_has("LLAMA_70b", "llama-70b"));
    assert_false(zr_sim_name_has("Llama 2 7B", "llama 3"));
    assert_true(zr_sim_text_begins("full (all)", "full"));
    assert_false(zr_sim_text_begins("fuller", "full"));
}

// A text of so many factors would overflow a stack that grows with them.
static void many_factors_are_multiplied(void **state)
{
    size_t length = 400000;
    char *text = malloc(length + 1);
    assert_non_null(text);
    for (size_t i = 0; i < length; i++)
        text[i] = i % 2 == 0 ? '1' : 'x';
    text[length] = 0;
    assert_true(zr_sim_text_number(text) == 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_begin_with_numbers),
        cmocka_unit_test(separators_and_units_count),
        cmocka_unit_test(lengths_are_powers_of_two),
        cmocka_unit_test(tokens_are_said),
        cmocka_unit_test(parameters_are_billions),
        cmocka_unit_test(names_tell_sizes),
        cmocka_unit_test(names_are_compared_by_words),
        cmocka_unit_test(many_factors_are_multiplied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
