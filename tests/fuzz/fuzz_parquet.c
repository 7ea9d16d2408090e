// Parquet files: rows are objects, as many as the footer says.
#include "fuzz.h"

#include "data/parquet.h"

enum { MOST_ROWS = 2000 }; // a few bytes can say that there are 2^40, all of them null

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_parquet *file;
    json_t *row = NULL;
    int64_t rows = 0;
    ZERO_TRY(zr_parquet_open("x", (const char *)data, size, &file, error));
    zero_status status = ZERO_OK;
    for (bool more = true; status == ZERO_OK && more && rows < MOST_ROWS;) {
        status = zr_parquet_next(file, "x: row", &row, error);
        fuzz_must(status == ZERO_OK || !row);
        more = row != NULL;
        rows += more;
        fuzz_must(!row || json_is_object(row));
        json_decref(row);
    }
    fuzz_must(status != ZERO_OK || rows == ZR_MIN(zr_parquet_rows(file), (int64_t)MOST_ROWS));
    zr_parquet_close(file);
    return status;
}
