// Reads metrics.jsonl line by line, so that only one line is in memory however long the run was. A
// last line without its newline is not read, because its writer was killed or is still writing.
#ifndef ZR_MONITOR_METRICS_READ_H
#define ZR_MONITOR_METRICS_READ_H

#include "base/json.h"
#include <stdio.h>
#include <sys/types.h>

enum { ZR_METRICS_MOST_LINE = 1 << 20 }; // bytes

typedef struct zr_metrics_reader {
    char *path, *text; // text: ZR_METRICS_MOST_LINE and its end
    FILE *file;
    off_t read;   // bytes of the lines that were read
    int64_t line; // number of the line that was read last
} zr_metrics_reader;

// Opens RUN/metrics.jsonl. Close the reader in any case, also after a failure.
zero_status zr_metrics_reader_open(const char *run, zr_metrics_reader *out, zero_error *error);
// Returns the next line's object (free it with json_decref), or NULL after the last; asked again
// later, it goes on with what was written meanwhile. ZERO_ERR_DATA names the line that is not an
// object or is too long; or ZERO_ERR_IO.
zero_status zr_metrics_reader_next(zr_metrics_reader *reader, json_t **out, zero_error *error);
void zr_metrics_reader_close(zr_metrics_reader *reader); // a zeroed reader is allowed

#endif
