// What the tests of the book of rates share.
#ifndef TESTS_PREDICT_RATES_SUPPORT_H
#define TESTS_PREDICT_RATES_SUPPORT_H

#include "predict/rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define PRODUCT ZR_ACTIVITY_product
#define NORM ZR_ACTIVITY_norm

static const zr_rate_setting two_ranks = {"avx512_bf16", ZERO_BF16, 1, 2};

static inline void assert_close(double a, double b)
{
    if (fabs(a - b) > 1e-9 * fabs(b))
        fail_msg("%.17g is not %.17g", a, b);
}

static inline zr_rates *new_rates(void)
{
    zr_rates *rates = calloc(1, sizeof *rates);
    assert_non_null(rates);
    return rates;
}

static inline double seconds(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops)
{
    double unknown;
    return zr_rates_seconds(rates, what, bytes, flops, &unknown);
}

static inline double unknown(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops)
{
    double out;
    zr_rates_seconds(rates, what, bytes, flops, &out);
    return out;
}

static inline void fill(zr_rate_book *book, double norm)
{
    zr_rates *rates = zr_rate_book_take(book, &two_ranks, NULL);
    assert_non_null(rates);
    zr_rates_add(rates, NORM, 1000, 0, norm, 2);
    zr_rates_add(rates, PRODUCT, 1000, 123456789012, 1.0 / 3, 2);
    zr_correction_learn(&book->corrections[ZR_TIME_UPDATE], 1, 1.25);
    zr_correction_learn(&book->whole, 1, 1.5);
    const zr_storage_rates disk = {.host = "h",
                                   .disk = "8:1 /a \"b\"",
                                   .measured = 5,
                                   .read = 1e9,
                                   .write = 2e9,
                                   .mix = 1.0 / 3,
                                   .direct = true,
                                   .block = 4096,
                                   .depth = 2},
                           memory = {.host = "h", .measured = 6, .copy = 1e10, .update = 2e10};
    assert_int_equal(zr_rate_book_set_storage(book, &disk, NULL), ZERO_OK);
    assert_int_equal(zr_rate_book_set_storage(book, &memory, NULL), ZERO_OK);
    book->read = 1e9, book->write = 5e8, book->mix = 7e8, book->checksum = 3e9;
    zr_task_rates_add(&book->tasks, ZR_TASK_RESERVE,
                      &(zr_task_sample){.together = 2, .amount = 1000, .seconds = 0.5, .seen = 1});
}

#endif
