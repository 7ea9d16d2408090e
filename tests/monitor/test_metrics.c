// metrics.jsonl: the exact form of a line, floats that are read back with the same bits, lines that
// are written at once, and errors that are reported.
#define _GNU_SOURCE
#include "base/file.h"
#include "base/json.h"
#include "monitor/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static json_t *read_line(int number)
{
    char *text, *at;
    size_t length;
    json_t *line = NULL;
    assert_int_equal(zr_file_read(path, 1 << 20, &text, &length, NULL), ZERO_OK);
    at = text;
    for (int i = 0; i < number; i++)
        at = strchr(at, '\n') + 1;
    assert_int_equal(zr_json_parse(at, strcspn(at, "\n"), "line", &line, NULL), ZERO_OK);
    zr_free(text);
    return line;
}

static void test_step_line(void **state)
{
    zr_metrics *metrics;
    zr_metrics_step step = {.step = 7,
                            .tokens = 768,
                            .loss = 0.1 + 0.2,
                            .lr = 1e-5,
                            .grad_norm = nextafter(2, 3),
                            .milliseconds = 36.1,
                            .tokens_per_second = 21274};
    step.traffic.calls[ZERO_COMM_reduce_scatter] = 6;
    step.traffic.bytes[ZERO_COMM_reduce_scatter] = 1048576;
    step.memory.planned[ZERO_TIER_host][ZERO_MEM_parameters] =
        step.memory.held[ZERO_TIER_host][ZERO_MEM_parameters] = 4096;
    assert_int_equal(zr_metrics_open(path, 0, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_step_write(metrics, &step, NULL), ZERO_OK);
    json_t *line = read_line(0); // before it is closed
    assert_int_equal(json_integer_value(json_object_get(line, "step")), 7);
    assert_true(json_number_value(json_object_get(line, "loss")) == 0.1 + 0.2);
    assert_true(json_number_value(json_object_get(line, "grad_norm")) == nextafter(2, 3));
    assert_int_equal(json_integer_value(json_object_get(line, "tokens")), 768);
    json_t *comm = json_object_get(line, "comm"), *mem = json_object_get(line, "mem");
    assert_int_equal(json_object_size(comm), 1); // operations that were not used are left out
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(comm, "reduce_scatter"), "bytes")),
        1048576);
    assert_int_equal(json_object_size(mem), ZERO_MEM_COUNT);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(mem, "parameters"), "held")), 4096);
    json_decref(line);
    assert_int_equal(zr_metrics_eval_write(metrics, &(zr_metrics_eval){7, 1.9}, NULL), ZERO_OK);
    line = read_line(1);
    assert_null(json_object_get(line, "loss"));
    assert_true(json_number_value(json_object_get(line, "val_loss")) == 1.9);
    json_decref(line);
    zr_metrics_close(metrics);
}

static int64_t bytes_of(const json_t *traffic, const char *operation)
{
    return json_integer_value(json_object_get(json_object_get(traffic, operation), "bytes"));
}

// Where there are groups, a line has the parts of the traffic by axis and of the job, besides the
// sum.
static void test_groups(void **state)
{
    zr_metrics *metrics;
    zero_traffic groups[ZERO_AXIS_COUNT] = {0};
    zr_metrics_step step = {.step = 1};
    groups[ZERO_AXIS_data].calls[ZERO_COMM_reduce_scatter] = 2;
    groups[ZERO_AXIS_data].bytes[ZERO_COMM_reduce_scatter] = 64;
    groups[ZERO_AXIS_tensor].calls[ZERO_COMM_all_reduce] = 3;
    groups[ZERO_AXIS_tensor].bytes[ZERO_COMM_all_reduce] = 96;
    assert_int_equal(zr_metrics_open(path, 0, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_step_write(metrics, &step, NULL), ZERO_OK);
    step.groups = groups;
    step.job.calls[ZERO_COMM_all_reduce] = 1;
    step.job.bytes[ZERO_COMM_all_reduce] = 8;
    assert_int_equal(zr_metrics_step_write(metrics, &step, NULL), ZERO_OK);
    zr_metrics_close(metrics);
    json_t *alone = read_line(0), *split = read_line(1),
           *by_axis = json_object_get(split, "groups");
    assert_null(json_object_get(alone, "groups"));
    assert_int_equal(json_object_size(by_axis), 3);
    assert_int_equal(bytes_of(json_object_get(by_axis, "job"), "all_reduce"), 8);
    assert_int_equal(bytes_of(json_object_get(by_axis, "data"), "reduce_scatter"), 64);
    assert_int_equal(bytes_of(json_object_get(by_axis, "tensor"), "all_reduce"), 96);
    assert_int_equal(json_object_size(json_object_get(by_axis, "data")), 1);
    json_decref(alone);
    json_decref(split);
}

static void test_not_finite_is_null(void **state)
{
    zr_metrics *metrics;
    zr_metrics_step step = {.step = 1, .loss = NAN, .grad_norm = INFINITY};
    assert_int_equal(zr_metrics_open(path, 0, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_step_write(metrics, &step, NULL), ZERO_OK);
    json_t *line = read_line(0);
    assert_true(json_is_null(json_object_get(line, "loss")) &&
                json_is_null(json_object_get(line, "grad_norm")));
    json_decref(line);
    zr_metrics_close(metrics);
}

static void test_errors(void **state)
{
    zr_metrics *metrics;
    zero_error error;
    assert_int_equal(zr_metrics_open("/proc/nowhere/metrics.jsonl", 0, &metrics, &error),
                     ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/nowhere"));
    assert_null(metrics);
    assert_int_equal(zr_metrics_open("/dev/full", 0, &metrics, NULL), ZERO_OK);
    assert_int_equal(zr_metrics_eval_write(metrics, &(zr_metrics_eval){1, 1}, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/dev/full"));
    zr_metrics_close(metrics);
    zr_metrics_close(NULL);
}

static void write_lines(const char *run, const char *text, size_t length)
{
    char *file = zr_sprintf(NULL, "%s/metrics.jsonl", run);
    assert_int_equal(zr_file_write_durable(file, text, length, NULL), ZERO_OK);
    zr_free(file);
}

static void expect_line(zr_metrics_reader *reader, int64_t step)
{
    json_t *line;
    assert_int_equal(zr_metrics_reader_next(reader, &line, NULL), ZERO_OK);
    assert_true(step ? json_integer_value(json_object_get(line, "step")) == step : !line);
    json_decref(line);
}

static void test_lines_are_read_one_by_one(void **state)
{
    static const char whole[] = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}",
                      zero[] = "{\"step\":1}\n{\"step\0\":2}\n", list[] = "[1]\n";
    static char run[] = "/tmp/zero-lines-XXXXXX", wide[ZR_METRICS_MOST_LINE + 4];
    zr_metrics_reader r;
    zero_error error;
    json_t *line;
    assert_non_null(mkdtemp(run));
    assert_int_equal(zr_metrics_reader_open(run, &r, &error), ZERO_ERR_IO);
    zr_metrics_reader_close(&r);
    write_lines(run, whole, sizeof whole - 1); // the third has no end
    assert_int_equal(zr_metrics_reader_open(run, &r, &error), ZERO_OK);
    expect_line(&r, 1);
    expect_line(&r, 2);
    expect_line(&r, 0);
    expect_line(&r, 0);
    zr_metrics_reader_close(&r);
    memset(wide, ' ', sizeof wide);
    memcpy(wide, "{\"step\":5}", 10);
    wide[ZR_METRICS_MOST_LINE - 1] = '\n'; // as long as a line may be; then one that is longer
    const struct {
        const char *text;
        size_t length;
        int good;
        const char *words;
    } cases[] = {
        {zero, sizeof zero - 1, 1, "line 2: no object"},
        {list, sizeof list - 1, 0, "line 1: no object"},
        {wide, ZR_METRICS_MOST_LINE, 1, NULL},
        {wide, sizeof wide, 1, NULL}, // the rest has no end
        {wide + 1, sizeof wide - 1, 0, "line 1: no object"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        write_lines(run, cases[i].text, cases[i].length);
        assert_int_equal(zr_metrics_reader_open(run, &r, &error), ZERO_OK);
        for (int good = 0; good < cases[i].good; good++)
            expect_line(&r, i >= 2 ? 5 : 1);
        assert_int_equal(zr_metrics_reader_next(&r, &line, &error),
                         cases[i].words ? ZERO_ERR_DATA : ZERO_OK);
        assert_null(line);
        if (cases[i].words)
            assert_non_null(strstr(error.message, cases[i].words));
        zr_metrics_reader_close(&r);
    }
    wide[ZR_METRICS_MOST_LINE - 1] = ' ';
    wide[sizeof wide - 1] = '\n';
    write_lines(run, wide, sizeof wide);
    assert_int_equal(zr_metrics_reader_open(run, &r, &error), ZERO_OK);
    assert_int_equal(zr_metrics_reader_next(&r, &line, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "line 1: more than 1048576 bytes"));
    zr_metrics_reader_close(&r);
    assert_int_equal(zr_directory_remove(run, NULL), ZERO_OK);
}

// What a writer adds after the end was reached is read, also the rest of a line.
static void test_reading_goes_on_after_the_end(void **state)
{
    static const char *const parts[] = {"{\"step\":1}\n{\"st", "ep\":2}", "\n{\"step\":3}\n"};
    static char run[] = "/tmp/zero-lines-XXXXXX";
    zr_metrics_reader r;
    assert_non_null(mkdtemp(run));
    write_lines(run, "", 0);
    char *name = zr_sprintf(NULL, "%s/metrics.jsonl", run);
    FILE *file = fopen(name, "a");
    assert_non_null(file);
    assert_int_equal(zr_metrics_reader_open(run, &r, NULL), ZERO_OK);
    expect_line(&r, 0);
    for (int i = 0; i < ZR_COUNT(parts); i++) {
        assert_true(fputs(parts[i], file) >= 0 && fflush(file) == 0);
        if (i != 1)
            expect_line(&r, i == 0 ? 1 : 2);
        if (i == 2)
            expect_line(&r, 3);
        expect_line(&r, 0);
    }
    assert_int_equal(r.line, 3);
    zr_metrics_reader_close(&r);
    fclose(file);
    zr_free(name);
    assert_int_equal(zr_directory_remove(run, NULL), ZERO_OK);
}

static int set_up(void **state)
{
    strcpy(path, "/tmp/zero-metrics-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int tear_down(void **state) { return unlink(path); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_step_line),
                                       cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_not_finite_is_null),
                                       cmocka_unit_test(test_errors),
                                       cmocka_unit_test(test_lines_are_read_one_by_one),
                                       cmocka_unit_test(test_reading_goes_on_after_the_end)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
