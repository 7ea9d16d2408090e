// The loss over held-out windows: over all of them, over a given number of batches, and no further
// than the caller wants to read.
#include "../setup/tiny_engine.h"

#include "base/alloc.h"
#include "infer/window_loss.h"

enum { WINDOWS = 20 };

static zr_dataset dataset_new(void)
{
    int64_t count = WINDOWS * TINY_SEQ + 1;
    zr_dataset dataset = {.streams = zr_alloc(sizeof *dataset.streams, NULL),
                          .stream_count = 1,
                          .count = count,
                          .seq = TINY_SEQ};
    int32_t *tokens = zr_alloc((size_t)count * sizeof *tokens, NULL);
    for (int64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(i * 7 % TINY_VOCABULARY);
    assert_int_equal(zr_stream_add(&dataset.streams[0],
                                   &(zr_token_span){.count = count, .tokens = tokens}, NULL),
                     ZERO_OK);
    return dataset;
}

static void dataset_free(zr_dataset *dataset)
{
    zr_free((void *)dataset->streams[0].spans[0].tokens);
    zr_dataset_free(dataset);
}

// until: the asking that wants the end
typedef struct patience {
    int asked, until;
} patience;

static bool is_over(void *user)
{
    patience *p = user;
    return ++p->asked >= p->until;
}

static void leaving_ends_at_the_next_batch(void **state)
{
    tiny t = tiny_create();
    zr_dataset dataset = dataset_new();
    zr_windows_result all, some, left;
    patience p = {.until = 4};
    assert_int_equal(zr_windows_loss(t.engine, &dataset, TINY_BATCH, 0, NULL, &all, NULL), ZERO_OK);
    assert_int_equal(all.windows, WINDOWS);
    assert_int_equal(all.tokens, WINDOWS * TINY_SEQ);
    assert_false(all.left);
    assert_int_equal(zr_windows_loss(t.engine, &dataset, TINY_BATCH, 3, NULL, &some, NULL),
                     ZERO_OK);
    assert_int_equal(some.windows, 3 * TINY_BATCH);
    assert_int_equal(zr_windows_loss(t.engine, &dataset, TINY_BATCH, 0,
                                     &(zr_windows_leave){is_over, &p}, &left, NULL),
                     ZERO_OK);
    assert_true(left.left);
    assert_int_equal(left.windows, 3 * TINY_BATCH);
    assert_int_equal(p.asked, 4);
    p = (patience){.until = 1000};
    assert_int_equal(zr_windows_loss(t.engine, &dataset, TINY_BATCH, 0,
                                     &(zr_windows_leave){is_over, &p}, &left, NULL),
                     ZERO_OK);
    assert_true(!left.left && left.loss == all.loss && left.windows == all.windows);
    dataset_free(&dataset);
    tiny_destroy(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(leaving_ends_at_the_next_batch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
