// What a command reads, so that nothing of it is replaced or removed by what the command writes.
#ifndef ZR_FILES_READS_H
#define ZR_FILES_READS_H

#include "base/errors.h"

typedef struct zr_read {
    char *path;
    const char *option;
} zr_read;
// zeroed: nothing is read
typedef struct zr_reads {
    zr_read *at;
    int count, capacity;
} zr_reads;

// option: what named it ("--model"), for messages; a path that is NULL, or where nothing lies, is
// left out.
zero_status zr_reads_add(zr_reads *reads, const char *path, const char *option, zero_error *error);
// (count) [KIND:]PATH[:WEIGHT] each, patterns too. What cannot be parsed is left to the caller that
// opens it.
zero_status zr_reads_add_data(zr_reads *reads, const char *const *written, int count,
                              const char *option, zero_error *error);
void zr_reads_free(zr_reads *reads);
// ZERO_ERR_USAGE where `doomed`, a file or a directory that is to be replaced or removed, is read:
// it holds what is read, in a file of its own or by a link. That it lies in a directory that is
// read is no reason: what libzero replaces there, as an earlier conversion, is not read. reads
// NULL: fine.
zero_status zr_reads_spare(const zr_reads *reads, const char *doomed, zero_error *error);

#endif
