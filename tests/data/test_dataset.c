// Files become text, text becomes tokens, and tokens become windows: the window rule is checked
// against its definition for every small size.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"
#include "base/random.h"
#include "data/text.h"
#include "data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define EPOCHS 4

static char directory[] = "/tmp/zero-dataset-XXXXXX";
static char paths[3][64];

static int make_files(void **state)
{
    static const char *const texts[] = {"first ", "second", ""};
    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.txt", directory, i);
        assert_int_equal(zr_file_write_durable(paths[i], texts[i], strlen(texts[i]), NULL),
                         ZERO_OK);
    }
    return 0;
}

static int remove_files(void **state) { return zr_directory_remove(directory, NULL) != ZERO_OK; }

static void test_files_are_joined(void **state)
{
    const char *const both[] = {paths[0], paths[1], paths[0]};
    zr_text text;
    assert_int_equal(zr_text_load(both, 3, NULL, &text, NULL), ZERO_OK);
    assert_int_equal(text.files, 3);
    assert_int_equal(text.length, 18);
    assert_memory_equal(text.data, "first secondfirst ", 18);
    assert_int_equal(text.ends[0], 6);
    assert_int_equal(text.ends[1], 12);
    assert_int_equal(text.ends[2], 18);
    zr_text_free(&text);
    assert_null(text.data);
}

static void test_files_that_are_none(void **state)
{
    zr_text text;
    zero_error error;
    const char *const missing[] = {paths[0], "/nonexistent/data.txt"},
                      *const empty[] = {paths[0], paths[2]}, *const folder[] = {directory};
    assert_int_equal(zr_text_load(missing, 2, NULL, &text, &error), ZERO_ERR_IO);
    assert_non_null(strstr(error.message, "/nonexistent/data.txt"));
    assert_int_equal(zr_text_load(empty, 2, NULL, &text, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, paths[2]));
    assert_non_null(strstr(error.message, "empty"));
    assert_int_equal(zr_text_load(folder, 1, NULL, &text, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, directory));
    assert_non_null(strstr(error.message, "directory"));
    assert_int_equal(zr_text_load(NULL, 0, NULL, &text, &error), ZERO_ERR_USAGE);
    assert_null(text.data);
}

static void test_no_memory_for_the_text(void **state)
{
    const char *const both[] = {paths[0], paths[1]};
    for (int nth = 1; nth <= 3; nth++) { // where files end, their maps, the bytes
        zr_text text;
        zero_error error;
        zr_alloc_fail_at(nth);
        assert_int_equal(zr_text_load(both, 2, NULL, &text, &error), ZERO_ERR_MEMORY);
        zr_alloc_fail_at(0);
        assert_int_equal(error.status, ZERO_ERR_MEMORY);
    }
}

static void test_the_last_tenth(void **state)
{
    char plain[1000] = {0};
    for (size_t length = 1; length <= sizeof plain; length++) // nine tenths, rounded down
        assert_int_equal(zr_text_split(&(zr_text){.data = plain, .length = length}),
                         9 * length / 10);
    char mixed[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z\xf0\x9f\x98\x80\xe2\x82\xac\xc3\xa9"
                   "b\xf0\x9f\x98\x80";
    for (size_t length = 1; length < sizeof mixed; length++) {
        size_t split = zr_text_split(&(zr_text){.data = mixed, .length = length});
        assert_true(split <= 9 * length / 10 && split + 3 >= 9 * length / 10);
        assert_true(((unsigned char)mixed[split] & 0xc0) != 0x80);
    }
    char invalid[100];
    memset(invalid, 0x80, sizeof invalid);
    assert_int_equal(zr_text_split(&(zr_text){.data = invalid, .length = 100}), 90);
}

// A stream whose token i is i, so that a window's first token says where it starts.
static zr_dataset counting_dataset(int64_t count, int64_t seq, uint64_t seed)
{
    zr_dataset dataset = {.streams = zr_alloc(sizeof *dataset.streams, NULL),
                          .stream_count = 1,
                          .count = count,
                          .seq = seq,
                          .seed = seed};
    int32_t *tokens = zr_alloc((size_t)count * sizeof *tokens, NULL);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)i;
    assert_int_equal(zr_stream_add(&dataset.streams[0],
                                   &(zr_token_span){.count = count, .tokens = tokens}, NULL),
                     ZERO_OK);
    return dataset;
}

static void free_counting(zr_dataset *dataset)
{
    for (int i = 0; i < dataset->streams[0].span_count; i++)
        zr_free((void *)dataset->streams[0].spans[i].tokens);
    zr_dataset_free(dataset);
}

static int64_t windows_of(const zr_dataset *dataset)
{
    return zr_stream_windows(&dataset->streams[0], dataset->seq);
}

// One epoch: nothing outside the stream, no token an input twice, few never.
static void check_epoch(const zr_dataset *dataset, int64_t epoch)
{
    int64_t windows = windows_of(dataset), seq = dataset->seq, visited = 0;
    int32_t *tokens = zr_alloc((size_t)(windows * seq) * sizeof *tokens, NULL),
            *targets = zr_alloc((size_t)(windows * seq) * sizeof *targets, NULL);
    char *seen = zr_alloc((size_t)dataset->count, NULL);
    zr_dataset_train_batch(dataset, epoch * windows, windows, (zr_rows){tokens, targets, NULL});
    for (int64_t i = 0; i < windows * seq; i++) {
        assert_in_range(tokens[i], 0, dataset->count - 2);
        assert_int_equal(tokens[i], tokens[i - i % seq] + i % seq);
        assert_int_equal(targets[i], tokens[i] + 1);
        assert_false(seen[tokens[i]]);
        seen[tokens[i]] = 1;
        visited++;
    }
    if (dataset->count >= 2 * seq)
        assert_true(dataset->count - visited <= 2 * seq - 1);
    zr_free(seen);
    zr_free(targets);
    zr_free(tokens);
}

static void test_windows_tile_the_stream(void **state)
{
    for (int64_t seq = 1; seq <= 9; seq++) {
        for (int64_t count = seq + 1; count <= 6 * seq + 5; count++) {
            zr_dataset dataset = counting_dataset(count, seq, (uint64_t)count);
            int64_t windows = windows_of(&dataset);
            assert_int_equal(windows, count / seq - 1 > 1 ? count / seq - 1 : 1);
            for (int64_t epoch = 0; epoch < EPOCHS; epoch++)
                check_epoch(&dataset, epoch);
            free_counting(&dataset);
        }
    }
}

static int32_t start_of(const zr_dataset *dataset, int64_t sample)
{
    int32_t tokens[16], targets[16];
    zr_dataset_train_batch(dataset, sample, 1, (zr_rows){tokens, targets, NULL});
    return tokens[0];
}

static void test_every_phase_and_no_other(void **state)
{
    const int64_t seq = 8;
    const struct {
        int64_t count, phases;
    } cases[] = {{9, 1}, {12, 4}, {16, 8}, {23, 8}, {24, 8}, {25, 8}, {400, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zr_dataset dataset = counting_dataset(cases[i].count, seq, 7);
        int64_t windows = windows_of(&dataset), seen[8] = {0}, distinct = 0;
        for (int64_t epoch = 0; epoch < 200; epoch++)
            seen[start_of(&dataset, epoch * windows) % seq]++;
        for (int64_t phase = 0; phase < seq; phase++)
            distinct += seen[phase] > 0;
        assert_int_equal(distinct, cases[i].phases);
        free_counting(&dataset);
    }
}

static void test_samples_are_functions_of_seed_and_number(void **state)
{
    zr_dataset dataset = counting_dataset(1000, 8, 42), other = counting_dataset(1000, 8, 43);
    int32_t tokens[300 * 8], targets[300 * 8];
    int differing_seed = 0, differing_epoch = 0;
    int64_t windows = windows_of(&dataset);
    zr_dataset_train_batch(&dataset, 50, 300,
                           (zr_rows){tokens, targets, NULL}); // across the end of an epoch
    for (int64_t i = 299; i >= 0; i--) {
        assert_int_equal(tokens[i * 8], start_of(&dataset, 50 + i));
        differing_seed += tokens[i * 8] / 8 != start_of(&other, 50 + i) / 8;
        differing_epoch += tokens[i * 8] / 8 != start_of(&dataset, 50 + i + windows) / 8;
    }
    assert_true(differing_seed > 250);
    assert_true(differing_epoch > 250);
    assert_in_range(start_of(&dataset, INT64_C(1) << 60), 0, 1000 - 9);
    free_counting(&dataset);
    free_counting(&other);
}

static void test_evaluation_windows(void **state)
{
    const struct {
        int64_t count, windows;
    } cases[] = {{9, 1}, {16, 1}, {17, 2}, {24, 2}, {25, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        zr_dataset dataset = counting_dataset(cases[i].count, 8, 1);
        int32_t tokens[24], targets[24];
        assert_int_equal(zr_dataset_eval_windows(&dataset), cases[i].windows);
        zr_dataset_eval_batch(&dataset, 0, cases[i].windows, (zr_rows){tokens, targets, NULL});
        for (int64_t j = 0; j < 8 * cases[i].windows; j++) {
            assert_int_equal(tokens[j], j);
            assert_int_equal(targets[j], j + 1);
        }
        zr_dataset_eval_batch(&dataset, cases[i].windows - 1, 1, (zr_rows){tokens, targets, NULL});
        assert_int_equal(tokens[0], 8 * (cases[i].windows - 1));
        free_counting(&dataset);
    }
}

// Spans of a stream do not show, and a token below 0 is one that is no target.
static void test_spans_and_masks(void **state)
{
    enum { COUNT = 40, SEQ = 6 };
    static int32_t tokens[COUNT];
    zr_dataset whole = counting_dataset(COUNT, SEQ, 3),
               parts = {.stream_count = 1, .seq = SEQ, .seed = 3, .count = COUNT};
    parts.streams = zr_alloc(sizeof *parts.streams, NULL);
    for (int i = 0; i < COUNT; i++)
        tokens[i] = i % 3 ? i : ~i;
    for (int at = 0, length = 1; at < COUNT; at += length, length++)
        assert_int_equal(
            zr_stream_add(&parts.streams[0],
                          &(zr_token_span){.count = length < COUNT - at ? length : COUNT - at,
                                           .tokens = tokens + at},
                          NULL),
            ZERO_OK);
    assert_int_equal(parts.streams[0].count, COUNT);
    assert_true(parts.streams[0].span_count > 6);
    for (int64_t sample = 0; sample < 50; sample++) {
        int32_t a[SEQ], b[SEQ], x[SEQ], y[SEQ];
        zr_dataset_train_batch(&whole, sample, 1, (zr_rows){a, x, NULL});
        zr_dataset_train_batch(&parts, sample, 1, (zr_rows){b, y, NULL});
        assert_memory_equal(a, b, sizeof a);
        for (int i = 0; i < SEQ; i++)
            assert_int_equal(y[i], x[i] % 3 ? x[i] : ZR_MASKED);
        assert_int_equal(zr_count_targets(y, SEQ), SEQ - SEQ / 3);
        assert_int_equal(zr_count_targets(x, SEQ), SEQ);
    }
    // windows [6i+1, 6i+6] are the targets of evaluations
    assert_int_equal(zr_stream_bare_windows(&parts.streams[0], SEQ), 0);
    for (int i = 8; i < COUNT; i++)
        tokens[i] = ~i;
    assert_int_equal(zr_stream_eval_windows(&parts.streams[0], SEQ), 6);
    assert_int_equal(zr_stream_bare_windows(&parts.streams[0], SEQ), 4); // 7 is a target
    tokens[24] = 24; // the last target of window 3
    tokens[37] = 37; // behind all windows
    assert_int_equal(zr_stream_bare_windows(&parts.streams[0], SEQ), 3);
    assert_int_equal(zr_stream_bare_windows(&whole.streams[0], SEQ), 0);
    zr_dataset_free(&parts);
    free_counting(&whole);
}

static void count_beats(void *user, const char *name, size_t done, size_t total)
{
    assert_true(done <= total);
    ++*(int *)user;
}

static uint64_t hash_of(const zr_dataset *dataset, int shares)
{
    uint64_t sum = 0;
    for (int share = 0; share < shares; share++)
        sum += zr_dataset_hash(dataset, share, shares, NULL);
    return sum;
}

// However many share the work; another token, mask, weight, length or border of a stream is another
// hash.
static void test_the_hash_of_all_samples(void **state)
{
    const int64_t count = (int64_t)5 << 19; // 2.5 blocks
    double weights[] = {0.5, 0.5};
    zr_dataset dataset = counting_dataset(count, 8, 1);
    int32_t *tokens = (int32_t *)dataset.streams[0].spans[0].tokens;
    int beats = 0;
    const zr_watch watch = {.beat = count_beats, .user = &beats};
    dataset.weights = weights;
    uint64_t hash = zr_dataset_hash(&dataset, 0, 1, &watch);
    assert_int_equal(beats, 3);
    for (int shares = 1; shares < 6; shares++)
        assert_true(hash_of(&dataset, shares) == hash);
    tokens[count - 1] = ~tokens[count - 1];
    assert_true(hash_of(&dataset, 1) != hash);
    tokens[count - 1] = ~tokens[count - 1];
    weights[0] = 0.25;
    assert_true(hash_of(&dataset, 1) != hash);
    weights[0] = 0.5;
    dataset.streams[0].count--;
    assert_true(hash_of(&dataset, 1) != hash);
    dataset.streams[0].count++;
    for (int64_t i = 0; i < 1 << 20; i++) { // two blocks change places
        int32_t other = tokens[i];
        tokens[i] = tokens[i + (1 << 20)];
        tokens[i + (1 << 20)] = other;
    }
    assert_true(hash_of(&dataset, 1) != hash);
    zr_free(tokens);
    dataset.weights = NULL;
    zr_dataset_free(&dataset);
}

static void keep_hash(void *user, const zr_token_span *span, double weight, uint64_t hash)
{
    *(uint64_t *)user = hash;
}

// Of a stream that is one token of the file.
static uint64_t fingerprint_of(const zr_token_file *file, int64_t at, double weight)
{
    zr_token_span span = {.count = 1, .file = file, .at = at};
    zr_stream stream = {.spans = &span, .span_count = 1, .count = 1};
    const zr_dataset dataset = {
        .streams = &stream, .stream_count = 1, .weights = &weight, .count = 1};
    uint64_t hash = 0;
    zr_dataset_fingerprint(&dataset, 7, NULL, keep_hash, &hash);
    return hash;
}

// Ranks that begin elsewhere in a token file, or mix by other weights, do not have the same data.
static void test_fingerprints_of_a_token_file(void **state)
{
    zr_token_file file; // "fi", "rs", "t "
    assert_int_equal(zr_token_file_open(paths[0], ZR_TOKENS_NANOGPT, &file, NULL), ZERO_OK);
    uint64_t hash = fingerprint_of(&file, 0, 0.5);
    assert_true(fingerprint_of(&file, 0, 0.5) == hash);
    assert_true(fingerprint_of(&file, 2, 0.5) != hash);
    assert_true(fingerprint_of(&file, 0, 0.25) != hash);
    zr_token_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_joined),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_no_memory_for_the_text),
        cmocka_unit_test(test_the_last_tenth),
        cmocka_unit_test(test_windows_tile_the_stream),
        cmocka_unit_test(test_every_phase_and_no_other),
        cmocka_unit_test(test_samples_are_functions_of_seed_and_number),
        cmocka_unit_test(test_evaluation_windows),
        cmocka_unit_test(test_spans_and_masks),
        cmocka_unit_test(test_the_hash_of_all_samples),
        cmocka_unit_test(test_fingerprints_of_a_token_file),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
