// The user's file of measured rates. A book that is accepted is written to a file that says the
// same, has times for every operation, and can be shown and merged.
#include "fuzz.h"

#include "predict/rates.h"

#include <math.h>
#include <string.h>

#define PROCESSOR "a processor"

static void check_times(const zr_rate_book *book)
{
    double unknown;
    for (int s = 0; s < book->count; s++)
        for (int a = 0; a < ZR_ACTIVITY_COUNT; a++)
            for (int64_t bytes = 0; bytes < (int64_t)1 << 40; bytes = 3 * bytes + 1) {
                double seconds = zr_rates_seconds(&book->settings[s], (zr_activity)a, bytes,
                                                  2 * bytes, &unknown);
                fuzz_must(isfinite(seconds) && seconds >= 0 && unknown >= 0 && unknown <= 1);
            }
    for (int p = 0; p < ZR_TIME_PARTS; p++)
        fuzz_must(isfinite(zr_correction_factor(&book->corrections[p])));
}

static zero_status write_again(const zr_rate_book *book, zero_error *error)
{
    zr_buffer text = {0}, twice = {0}, shown = {0};
    zr_rate_book again = {0};
    zr_rate_book_json(book, PROCESSOR, &text);
    zero_status status =
        text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a book of rates")
                    : zr_rate_book_parse(text.data, text.length, "again", PROCESSOR, &again, error);
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY);
    if (status == ZERO_OK) {
        zr_rate_book_json(&again, PROCESSOR, &twice);
        fuzz_must(twice.failed || !strcmp(text.data, twice.data));
        zr_report *r = zr_report_create(NULL);
        zr_rate_book_report(&again, r);
        zr_report_finish(r, ZR_REPORT_TEXT, 0, &shown);
        status = zr_rate_book_merge(&again, book, error);
    }
    zr_rate_book_free(&again);
    zr_buffer_free(&text);
    zr_buffer_free(&twice);
    zr_buffer_free(&shown);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_rate_book book = {0};
    zero_status status =
        zr_rate_book_parse((const char *)data, size, "rates.json", PROCESSOR, &book, error);
    if (status == ZERO_OK) {
        check_times(&book);
        status = write_again(&book, error);
    }
    zr_rate_book_free(&book);
    return status;
}
