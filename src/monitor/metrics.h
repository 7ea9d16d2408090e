// metrics.jsonl: one object per step, written when the step ends.
//
//   {"step":1,"loss":5.54,"lr":1e-05,"grad_norm":2.1,"tokens":768,"ms":36.1,"tok_s":21274,
//    "comm":{"reduce_scatter":{"calls":6,"bytes":1048576},...},
//    "mem":{"parameters":{"planned":1,"held":1},...}}
//
// If something is offloaded, there is also "tiers":{"device":1,"host":1,"nvme":1}, the bytes held,
// and what the step moved: "io":{"host":{"down":1,"up":1},"nvme":{"read":1,"written":1}}.
//
// If several ranks compute the model together, there is also
// "groups":{"data":{...},"tensor":{...},"pipeline":{...},"job":{...}}, the parts of "comm" that the
// ranks of an axis exchange among themselves and that all ranks of the job do, with the same
// members; "pipeline" only if there is one. They add up to it. Messages of a pipeline count their
// bytes where they are sent.
//
// Floats have enough digits to give the same bits when read. Evaluations are objects of their own,
// {"step":100,"val_loss":1.9}, without the key "loss". A run in fp16 has "loss_scale" on every
// line; a step that was skipped has "skipped":true, and its grad_norm is null. The loss of a step
// without any target is null, and so is a val_loss where nothing held out is a target.
#ifndef ZR_MONITOR_METRICS_H
#define ZR_MONITOR_METRICS_H

#include "base/alloc.h"
#include "base/json.h"
#include <zero/grid.h>
#include <zero/memory.h>
#include <zero/traffic.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct zr_metrics zr_metrics;

typedef struct zr_metrics_step {
    int64_t step, tokens;
    double loss, lr, grad_norm, milliseconds, tokens_per_second;
    double loss_scale;    // 0: the precision has none, and the line has no such key
    bool skipped;         // the line says so
    zero_traffic traffic; // of this step alone
    // (ZERO_AXIS_COUNT) of this step, by axis; NULL: the line has no such key.
    const zero_traffic *groups;
    bool pipelined;   // the groups have those of a pipeline
    zero_traffic job; // of this step, among all ranks; written where there are groups
    zero_memory memory;
    zero_io io; // of this step alone
} zr_metrics_step;

// Continues after the first `lines` lines of the file, which must have them; 0: it is created, or
// emptied.
zero_status zr_metrics_open(const char *path, int64_t lines, zr_metrics **out, zero_error *error);
// Counts the steps in the lines of the file, and adds up their times.
void zr_metrics_sum_steps(const char *text, size_t length, int64_t *steps, double *milliseconds);
int64_t zr_metrics_lines(const zr_metrics *metrics); // in the file; 0 for NULL
zero_status zr_metrics_step_write(zr_metrics *metrics, const zr_metrics_step *step,
                                  zero_error *error);
typedef struct zr_metrics_eval {
    int64_t step;
    double loss;
    int64_t
        pairs; // of preferences; 0: the loss is of another kind, which has no accuracy, no margin
    double accuracy, margin; // NaN: there is none
    bool labels;             // they are texts with labels, which have no margin
} zr_metrics_eval;
zero_status zr_metrics_eval_write(zr_metrics *metrics, const zr_metrics_eval *eval,
                                  zero_error *error);
void zr_metrics_close(zr_metrics *metrics);

// metrics_read.c: reads metrics.jsonl line by line, so that only one line is in memory however long
// the run was. A last line without its newline is not read, because its writer was killed or is
// still writing.

enum { ZR_METRICS_MOST_LINE = 1 << 20 }; // bytes

typedef struct zr_metrics_reader {
    char *path, *text; // text: ZR_METRICS_MOST_LINE and its end
    FILE *file;
    off_t read;   // bytes of the lines that were read
    int64_t line; // number of the line that was read last
} zr_metrics_reader;

// Opens RUN/metrics.jsonl. Close the reader in any case, also after a failure.
zero_status zr_metrics_reader_open(const char *run, zr_metrics_reader *out, zero_error *error);
// Returns the next line's object (free it with json_decref), or NULL after the last one; a later
// call continues with what was written meanwhile. ZERO_ERR_DATA names the line that is not an
// object or is too long; or ZERO_ERR_IO.
zero_status zr_metrics_reader_next(zr_metrics_reader *reader, json_t **out, zero_error *error);
void zr_metrics_reader_close(zr_metrics_reader *reader); // a zeroed reader is allowed

#endif
