// DeepSpeed's CSV files: one a scalar, DIRECTORY/Train_Samples_lr.csv, lines that end in CR LF.
//
//   step,lr
//   768,1e-05
//   ...
//
// A run that begins writes the header anew, after what the file already has, as DeepSpeed does:
// nothing of an earlier run is lost. A run that goes on cuts the rows after the last header back to
// the samples that it goes on from.
#ifndef ZR_MONITOR_CSV_FILES_H
#define ZR_MONITOR_CSV_FILES_H

#include "base/alloc.h"
#include "monitor/scalars.h"

typedef struct zr_csv_files zr_csv_files;

// The directory is there. done: the run goes on from that many samples; 0: it begins. owes: the
// evaluation after these is made again, and its row goes.
// Files that there is no scalar for yet are not created.
zero_status zr_csv_files_open(const char *directory, int64_t done, bool owes, zr_csv_files **out,
                              zero_error *error);
// A row each, written out at once.
zero_status zr_csv_files_write(zr_csv_files *files, int64_t samples, const zr_scalar *scalars,
                               int count, zero_error *error);
// The file of a scalar, zr_free; and whether `path` is one: of rows, after a header or what a write
// that was cut short has left of one.
char *zr_csv_files_path(const char *directory, zr_scalar_name name, zero_error *error);
bool zr_csv_files_is_one(const char *path);
void zr_csv_files_close(zr_csv_files *files); // NULL is allowed

// Bytes of text[0..length) that stay where a run goes on from `done` samples: whole rows of its
// last part with a step of at most that.
size_t zr_csv_keep(const char *text, size_t length, int64_t done);

#endif
