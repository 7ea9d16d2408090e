// What the tests of the book of rates share.
#ifndef TESTS_PREDICT_RATES_SUPPORT_H
#define TESTS_PREDICT_RATES_SUPPORT_H

#include "base/file.h"
#include "predict/rates.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

// A cache directory of a test's own, the file in it that the test looks at, and the warnings about
// its rates.
typedef struct desk {
    char directory[64], file[96];
    int warnings;
    zero_logger logger;
} desk;

static inline void count_warning(void *user, zero_log_level level, const char *message)
{
    desk *d = user;
    assert_int_equal(level, ZERO_LOG_WARNING);
    assert_non_null(strstr(message, "measured rates"));
    d->warnings++;
}

static inline desk *open_cache(void)
{
    desk *d = calloc(1, sizeof *d);
    assert_non_null(d);
    strcpy(d->directory, "/tmp/zero-rates-XXXXXX");
    assert_non_null(mkdtemp(d->directory));
    assert_int_equal(setenv("XDG_CACHE_HOME", d->directory, 1), 0);
    d->logger = (zero_logger){.write = count_warning, .user = d};
    return d;
}

static inline int close_desk(void **state)
{
    desk *d = *state;
    assert_int_equal(zr_directory_remove(d->directory, NULL), ZERO_OK);
    free(d);
    return 0;
}

#endif
