// Names, exit codes and messages of statuses.
#include "scratch_directory.h"

#include <errno.h>

static void every_status_has_name_text_and_code(void **state)
{
    static const zero_status all[] = {
#define VALUE(name, code, text) ZERO_##name,
        ZERO_STATUS_LIST(VALUE)
#undef VALUE
    };
    for (int i = 0; i < ZR_COUNT(all); i++) {
        assert_int_equal(all[i], i);
        assert_true(strlen(zero_status_name((zero_status)i)) > 0);
        assert_true(strlen(zero_status_text((zero_status)i)) > 0);
        assert_int_equal(zero_status_exit_code((zero_status)i) == 0, i == ZERO_OK);
    }
    assert_string_equal(zero_status_name(ZERO_ERR_CONFIG), "ERR_CONFIG");
    assert_int_equal(zero_status_exit_code(ZERO_ERR_CONFIG), 78);
    assert_int_equal(zero_status_exit_code(ZERO_ERR_CANCELLED), 75);
    assert_string_equal(zero_status_name((zero_status)-1), "ERR_INTERNAL");
    assert_string_equal(zero_status_name((zero_status)1000), "ERR_INTERNAL");
}

static void version_is_the_project_s(void **state)
{
    assert_string_equal(zero_version(), ZERO_EXPECTED_VERSION);
}

static void fail_writes_status_and_message(void **state)
{
    zero_error error = {0};
    assert_int_equal(zr_fail(&error, ZERO_ERR_DATA, "row %d of \"%s\"", 7, "x"), ZERO_ERR_DATA);
    assert_int_equal(error.status, ZERO_ERR_DATA);
    assert_string_equal(error.message, "row 7 of \"x\"");
    assert_int_equal(zr_fail(NULL, ZERO_ERR_DATA, "nobody listens"), ZERO_ERR_DATA);
    assert_int_equal(zr_fail(&error, ZERO_ERR_IO, "again: %s", error.message), ZERO_ERR_IO);
    assert_string_equal(error.message, "again: row 7 of \"x\"");
}

static void errno_and_prefix_are_added(void **state)
{
    zero_error error = {0};
    zr_fail_errno(&error, ZERO_ERR_IO, ENOENT, "cannot open \"%s\"", "a");
    assert_string_equal(error.message, "cannot open \"a\": No such file or directory");
    zr_error_prefix(&error, "rank %d", 3);
    assert_string_equal(error.message, "rank 3: cannot open \"a\": No such file or directory");
    assert_int_equal(error.status, ZERO_ERR_IO);
    zr_error_prefix(NULL, "rank %d", 3);
}

static void long_messages_are_cut_between_characters(void **state)
{
    char text[2 * ZERO_MESSAGE_BYTES];
    // three-byte characters, at each position to the end of the message
    for (int start = 0; start < 3; start++) {
        memset(text, 'a', sizeof text);
        for (size_t i = (size_t)start; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 3);
        text[sizeof text - 1] = 0;
        zero_error error = {0};
        zr_fail(&error, ZERO_ERR_DATA, "%s", text);
        size_t length = strlen(error.message);
        assert_in_range(length, ZERO_MESSAGE_BYTES - 3, ZERO_MESSAGE_BYTES - 1);
        assert_int_equal((length - (size_t)start) % 3, 0);
    }
}

static void count_call(void *user, zero_log_level level, const char *message)
{
    assert_int_equal(level, ZERO_LOG_WARNING);
    assert_string_equal(message, "2 left");
    ++*(int *)user;
}

static void log_goes_to_the_callback_only(void **state)
{
    int calls = 0;
    zero_logger logger = {.write = count_call, .user = &calls};
    zr_log(&logger, ZERO_LOG_WARNING, "%d left", 2);
    zr_log(NULL, ZERO_LOG_WARNING, "dropped");
    logger.write = NULL;
    zr_log(&logger, ZERO_LOG_WARNING, "dropped");
    assert_int_equal(calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_name_text_and_code),
        cmocka_unit_test(version_is_the_project_s),
        cmocka_unit_test(fail_writes_status_and_message),
        cmocka_unit_test(errno_and_prefix_are_added),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(log_goes_to_the_callback_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
