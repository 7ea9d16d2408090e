// Checkpoints written beside the steps: one at a time, and every save that is begun is ended.
#include "../setup/tiny_engine.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void one_at_a_time(void **state)
{
    char directory[] = "/tmp/zero-saving-XXXXXX", first[64], second[64];
    tiny t = tiny_create();
    zero_checkpoint *saving, *other;
    zero_error error = {0};
    assert_non_null(mkdtemp(directory));
    snprintf(first, sizeof first, "%s/first", directory);
    snprintf(second, sizeof second, "%s/second", directory);
    assert_int_equal(zero_begin_checkpoint(t.engine, first, &saving, &error), ZERO_OK);
    assert_int_equal(zero_begin_checkpoint(t.engine, second, &other, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "zero_end_checkpoint comes first"));
    assert_null(other);
    assert_false(zr_path_exists(second));
    assert_int_equal(zero_end_checkpoint(saving, &error), ZERO_OK);
    assert_int_equal(zero_begin_checkpoint(t.engine, second, &other, &error), ZERO_OK);
    assert_int_equal(zero_end_checkpoint(other, &error), ZERO_OK);
    assert_int_equal(zero_load_checkpoint(t.engine, first, &error), ZERO_OK);
    assert_int_equal(zero_load_checkpoint(t.engine, second, &error), ZERO_OK);
    tiny_destroy(&t);
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_at_a_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
