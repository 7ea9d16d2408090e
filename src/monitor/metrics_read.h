// metrics.jsonl read line by line: however long the run was, one line is in memory. A last line
// without its end is none: its writer was killed, or is writing.
#ifndef ZR_MONITOR_METRICS_READ_H
#define ZR_MONITOR_METRICS_READ_H

#include "base/json.h"
#include <stdio.h>

enum { ZR_METRICS_MOST_LINE = 1 << 20 }; // bytes

typedef struct zr_metrics_reader {
    char *path, *text; // text: ZR_METRICS_MOST_LINE and its end
    FILE *file;
    int64_t line; // that was read last
} zr_metrics_reader;

// RUN/metrics.jsonl. Closed whatever it answers.
zero_status zr_metrics_reader_open(const char *run, zr_metrics_reader *out, zero_error *error);
// The next line's object (json_decref); NULL after the last. ZERO_ERR_DATA with the line that is no
// object, or too long; ZERO_ERR_IO.
zero_status zr_metrics_reader_next(zr_metrics_reader *reader, json_t **out, zero_error *error);
void zr_metrics_reader_close(zr_metrics_reader *reader); // zeroed ones are fine

#endif
