// zero_convert from and to GGUF while each allocation in turn fails: it fails with a message, and
// leaves nothing where it should have written.
#include "../base/scratch_directory.h"

#include "base/alloc.h"
#include <zero/commands.h>

static zero_status convert(scratch *made, const char *from, const char *to, zero_error *error)
{
    char source[512], target[512];
    snprintf(source, sizeof source, "%s/%s", CORPUS, from);
    snprintf(target, sizeof target, "%s/%s", made->directory, to);
    return zero_convert(&(zero_convert_options){.from = source, .to = target}, error);
}

static void nothing_is_left(scratch *made, const char *to)
{
    assert_false(zr_path_exists(scratch_path(made, to)));
    assert_int_equal(scratch_entries(made->directory), 0);
}

static void try_each_allocation(scratch *made, const char *from, const char *to)
{
    zero_error error = {0};
    int64_t before = zr_alloc_count();
    if (convert(made, from, to, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    int64_t count = zr_alloc_count() - before;
    assert_int_equal(zr_directory_empty(made->directory, NULL), ZERO_OK);
    assert_true(count > 20);
    for (int64_t n = 1; n <= count; n++) {
        error = (zero_error){0};
        zr_alloc_fail_at(n);
        zero_status status = convert(made, from, to, &error);
        zr_alloc_fail_at(0);
        if (status != ZERO_OK && !error.message[0])
            fail_msg("%s: allocation %d of %d fails without a message", from, (int)n, (int)count);
        if (status != ZERO_OK)
            nothing_is_left(made, to);
        assert_int_equal(zr_directory_empty(made->directory, NULL), ZERO_OK);
    }
}

static void a_file_becomes_a_file(void **state)
{
    static const char *const files[] = {"llama.gguf", "gpt2.gguf", "qwen3.gguf", "gptneox.gguf"};
    for (int i = 0; i < ZR_COUNT(files); i++)
        try_each_allocation(*state, files[i], "out.gguf");
}

static void a_file_becomes_a_directory(void **state)
{
    try_each_allocation(*state, "llama.gguf", "out");
    try_each_allocation(*state, "gpt2.gguf", "out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_becomes_a_file, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(a_file_becomes_a_directory, scratch_in_ram, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
