// Packing whole examples into windows: each that has a row is in one window once, no window has
// more rows than it can, and no fewer windows would do for lengths where that is known.
#include "data/dataset.h"

#include "base/alloc.h"
#include "base/random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 2000 };

static zr_packing pack(const int64_t *lengths, int64_t count, int64_t seq, zr_example *examples)
{
    zr_packing packing;
    for (int64_t e = 0, first = 0; e < count; first += lengths[e++])
        examples[e] = (zr_example){first, lengths[e]};
    assert_int_equal(zr_packing_make(examples, count, 1, seq, &packing, NULL), ZERO_OK);
    return packing;
}

static int64_t check_packing(const zr_packing *packing, const zr_example *examples, int64_t count,
                             int64_t seq)
{
    static int seen[MOST];
    int64_t all = 0, cut = 0;
    memset(seen, 0, sizeof seen);
    for (int64_t w = 0; w < packing->windows; w++) {
        int64_t rows = 0;
        for (int64_t i = packing->begins[w]; i < packing->begins[w + 1]; i++) {
            int64_t e = packing->numbers[i];
            assert_true(e >= 0 && e < count && !seen[e]++);
            rows += zr_example_rows(&examples[e], seq);
        }
        assert_true(rows > 0 && rows <= seq);
        all += rows;
    }
    for (int64_t e = 0; e < count; e++) {
        assert_int_equal(seen[e], examples[e].count > 1);
        cut += examples[e].count - 1 > seq;
    }
    assert_int_equal(packing->cut, cut);
    return all;
}

static void lengths_that_are_known(void **state)
{
    static const struct {
        int64_t seq, windows, count, lengths[8];
    } cases[] = {
        {10, 0, 0, {0}},      {10, 0, 3, {1, 0, 1}}, {10, 1, 1, {2}},
        {10, 1, 1, {99}},     {10, 1, 3, {5, 4, 4}}, {10, 2, 4, {8, 7, 5, 4}},
        {10, 2, 2, {11, 11}}, {1, 3, 3, {2, 9, 2}},  {7, 4, 6, {8, 4, 5, 5, 4, 2}},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_example examples[8];
        zr_packing p = pack(cases[i].lengths, cases[i].count, cases[i].seq, examples);
        assert_int_equal(p.windows, cases[i].windows);
        check_packing(&p, examples, cases[i].count, cases[i].seq);
        zr_packing_free(&p);
    }
}

static void any_lengths(void **state)
{
    static const int64_t seqs[] = {1, 2, 63, 64, 65, 300, 5000};
    static zr_example examples[MOST];
    static int64_t lengths[MOST];
    for (int s = 0; s < ZR_COUNT(seqs); s++)
        for (uint64_t run = 0; run < 20; run++) {
            int64_t count = (int64_t)(zr_philox4x32(run, 0, (uint64_t)s).v[0] % MOST);
            for (int64_t e = 0; e < count; e++)
                lengths[e] = zr_philox4x32(run, 1, (uint64_t)e).v[0] % (uint32_t)(seqs[s] + 3);
            zr_packing p = pack(lengths, count, seqs[s], examples);
            int64_t rows = check_packing(&p, examples, count, seqs[s]),
                    least = (rows + seqs[s] - 1) / seqs[s];
            assert_true(p.windows >= least);
            // best fit decreasing needs at most 11/9 of the best and 4 more
            assert_true(p.windows <= least * 11 / 9 + least / 2 + 4);
            zr_packing_free(&p);
        }
}

// Token i is i, masked if i % 3 is 0; examples are of 2 to 9 tokens, and windows of 12 rows.
static void windows_of_a_stream(void **state)
{
    enum { TOKENS = 900, SEQ = 12 };
    static int32_t ids[TOKENS], rows[3][SEQ];
    static int visits[TOKENS];
    zr_stream stream = {.name = "x"};
    for (int i = 0; i < TOKENS; i++)
        ids[i] = i % 3 ? i : ~i;
    const zr_token_span span = {.count = TOKENS, .tokens = ids, .name = "x"};
    assert_int_equal(zr_stream_add(&stream, &span, NULL), ZERO_OK);
    for (int64_t at = 0, count = 2; at + count <= TOKENS; at += count, count = count % 8 + 2)
        assert_int_equal(zr_stream_add_example(&stream, at, count, NULL), ZERO_OK);
    assert_int_equal(zr_stream_pack(&stream, SEQ, NULL), ZERO_OK);
    double weight = 1;
    const zr_dataset data = {.streams = &stream,
                             .stream_count = 1,
                             .weights = &weight,
                             .count = TOKENS,
                             .seq = SEQ,
                             .seed = 3,
                             .documents = true};
    int64_t windows = zr_stream_windows(&stream, SEQ);
    assert_int_equal(zr_dataset_epoch(&data), windows * SEQ);
    for (int64_t sample = 0; sample < 2 * windows; sample++) {
        zr_dataset_train_batch(&data, sample, 1, (zr_rows){rows[0], rows[1], rows[2]});
        int64_t filled = zr_dataset_window_rows(&data, zr_dataset_train_window(&data, sample));
        for (int64_t i = 0; i < SEQ; i++) {
            assert_int_equal(rows[2][i] == 0 || rows[2][i] == rows[2][i - 1] + 1, 1);
            if (i >= filled) {
                assert_true(rows[0][i] == 0 && rows[1][i] == ZR_MASKED);
                continue;
            }
            assert_int_equal(rows[0][i], rows[2][i] ? rows[0][i - 1] + 1 : rows[0][i]);
            assert_int_equal(rows[1][i], (rows[0][i] + 1) % 3 ? rows[0][i] + 1 : ZR_MASKED);
            visits[rows[0][i]]++;
        }
    }
    // Every token but the last of an example has been a row in both epochs.
    for (int e = 0; e < stream.example_count; e++)
        for (int64_t i = 0; i < stream.examples[e].count; i++)
            assert_int_equal(visits[stream.examples[e].first + i],
                             i + 1 < stream.examples[e].count ? 2 : 0);
    zr_free(stream.spans);
    zr_free(stream.examples);
    zr_packing_free(&stream.packing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_that_are_known),
                                       cmocka_unit_test(any_lengths),
                                       cmocka_unit_test(windows_of_a_stream)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
