// CSV files as DeepSpeed writes them: a run that continues cuts them back, and a run that starts
// anew leaves what is there.
#include "../base/scratch_directory.h"
#include "monitor/scalar_files.h"

#include <math.h>

static void expect_file(scratch *s, const char *name, const char *text)
{
    char *found;
    size_t length;
    assert_int_equal(zr_file_read(scratch_path(s, name), 1 << 20, &found, &length, NULL), ZERO_OK);
    assert_string_equal(found, text);
    zr_free(found);
}

static void test_keep(void **state)
{
    static const struct {
        const char *text;
        int64_t done;
        size_t kept;
    } rows[] = {
        {"", 8, 0},
        {"step,lr\r\n", 8, 9},
        {"step,lr\r\n8,0.5\r\n16,0.25\r\n24,1.0\r\n", 16, 25},
        {"step,lr\r\n8,0.5\r\n16,0.25\r\n24,1.0\r\n", 7, 9},
        {"step,lr\r\n8,0.5\r\n16,0.25\r\n24,1.0\r\n", 99, 33},
        {"step,lr\r\n8,0.5\r\n16,0.2", 16, 16}, // a row cut short
        {"step,lr\r\n8,0.5\r\n16", 99, 16},
        {"step,l", 99, 0},
        // the part of an earlier run stays
        {"step,lr\r\n99,1\r\nstep,lr\r\n8,0.5\r\n16,2\r\n", 8, 31},
        {"8,0.5\r\n16,2\r\n", 8, 7},
        {"step,lr\r\n8,0.5\r\nrubbish\r\n16,2\r\n", 99, 16},
        {"step,lr\r\n8,0.5\r\n99999999999999999999,2\r\n", 99, 16},
        {"step,lr\r\n8,0.5\r\n8,0.75\r\n16,2\r\n", 8, 24},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++)
        if (zr_csv_kept_bytes(rows[i].text, strlen(rows[i].text), rows[i].done) != rows[i].kept)
            fail_msg("row %d: %zu bytes are kept, not %zu", i,
                     zr_csv_kept_bytes(rows[i].text, strlen(rows[i].text), rows[i].done),
                     rows[i].kept);
}

static zr_csv_files *open_files(scratch *s, int64_t done)
{
    zr_csv_files *files;
    assert_int_equal(zr_csv_files_open(s->directory, done, false, &files, NULL), ZERO_OK);
    return files;
}

static void write_one(zr_csv_files *files, int64_t samples, zr_scalar_name name, double value)
{
    assert_int_equal(zr_csv_files_write(files, samples, &(zr_scalar){name, value}, 1, NULL),
                     ZERO_OK);
}

// The bytes of a run of DeepSpeed 0.19.8 (WarmupLR of 10 updates, batches of 8).
static void test_deepspeeds_bytes(void **state)
{
    zr_csv_files *files = open_files(*state, 0);
    write_one(files, 8, ZR_SCALAR_lr, 0);
    write_one(files, 16, ZR_SCALAR_lr, 0.00030102999566398113);
    write_one(files, 24, ZR_SCALAR_lr, 0.0004771212547196624);
    expect_file(*state, "Train_Samples_lr.csv",
                "step,lr\r\n8,0.0\r\n16,0.00030102999566398113\r\n24,0.0004771212547196624\r\n");
    assert_false(zr_path_exists(scratch_path(*state, "Train_Samples_train_loss.csv")));
    write_one(files, 24, ZR_SCALAR_train_loss, NAN);
    write_one(files, 32, ZR_SCALAR_train_loss, INFINITY);
    write_one(files, 40, ZR_SCALAR_train_loss, -INFINITY);
    write_one(files, 48, ZR_SCALAR_train_loss, 1e-5);
    expect_file(*state, "Train_Samples_train_loss.csv",
                "step,train_loss\r\n24,nan\r\n32,inf\r\n40,-inf\r\n48,1e-05\r\n");
    zr_csv_files_close(files);
}

static void test_runs(void **state)
{
    zr_csv_files *files = open_files(*state, 0);
    for (int i = 1; i <= 3; i++)
        write_one(files, 8 * i, ZR_SCALAR_train_loss, i);
    write_one(files, 24, ZR_SCALAR_eval_loss, 5);
    zr_csv_files_close(files);
    // What was written after the checkpoint goes, even where nothing takes its place yet.
    files = open_files(*state, 16);
    expect_file(*state, "Train_Samples_eval_loss.csv", "step,eval_loss\r\n");
    write_one(files, 24, ZR_SCALAR_train_loss, 7);
    write_one(files, 24, ZR_SCALAR_lr, 1);
    zr_csv_files_close(files);
    expect_file(*state, "Train_Samples_train_loss.csv",
                "step,train_loss\r\n8,1.0\r\n16,2.0\r\n24,7.0\r\n");
    expect_file(*state, "Train_Samples_lr.csv", "step,lr\r\n24,1.0\r\n");
    // Another run begins, and goes on.
    files = open_files(*state, 0);
    write_one(files, 8, ZR_SCALAR_lr, 2);
    zr_csv_files_close(files);
    files = open_files(*state, 4);
    write_one(files, 12, ZR_SCALAR_lr, 3);
    zr_csv_files_close(files);
    expect_file(*state, "Train_Samples_lr.csv", "step,lr\r\n24,1.0\r\nstep,lr\r\n12,3.0\r\n");
    // A run was killed before it had written a whole header.
    scratch_write(*state, "Train_Samples_lr.csv", "ste");
    files = open_files(*state, 8);
    write_one(files, 16, ZR_SCALAR_lr, 1);
    zr_csv_files_close(files);
    expect_file(*state, "Train_Samples_lr.csv", "step,lr\r\n16,1.0\r\n");
}

static void test_errors(void **state)
{
    zr_csv_files *files;
    zero_error error = {0};
    assert_int_equal(zr_csv_files_open(scratch_path(*state, "absent"), 0, false, &files, NULL),
                     ZERO_OK);
    assert_int_equal(zr_csv_files_write(files, 8, &(zr_scalar){ZR_SCALAR_lr, 1}, 1, &error),
                     ZERO_ERR_IO);
    assert_contains(error.message, "absent/Train_Samples_lr.csv");
    zr_csv_files_close(files);
    assert_int_equal(zr_directory_create(scratch_path(*state, "Train_Samples_lr.csv"), NULL),
                     ZERO_OK);
    assert_int_equal(zr_csv_files_open(((scratch *)*state)->directory, 8, false, &files, &error),
                     ZERO_ERR_DATA);
    assert_null(files);
}

static void test_no_memory(void **state)
{
    zr_csv_files *files;
    scratch_write(*state, "Train_Samples_lr.csv", "step,lr\r\n8,1.0\r\n");
    for (int64_t nth = 1;; nth++) {
        zr_alloc_fail_at(nth);
        zero_status status =
            zr_csv_files_open(((scratch *)*state)->directory, 8, false, &files, NULL);
        zr_alloc_fail_at(0);
        if (status == ZERO_OK)
            break;
        assert_int_equal(status, ZERO_ERR_MEMORY);
        assert_true(!files && nth < 40);
    }
    zr_csv_files_close(files);
    expect_file(*state, "Train_Samples_lr.csv", "step,lr\r\n8,1.0\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep),
        cmocka_unit_test_setup_teardown(test_deepspeeds_bytes, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_runs, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_errors, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_no_memory, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
