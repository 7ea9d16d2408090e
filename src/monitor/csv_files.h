// DeepSpeed's CSV files: one per scalar, DIRECTORY/Train_Samples_lr.csv, with lines that end in CR
// LF.
//
//   step,lr
//   768,1e-05
//   ...
//
// A run that starts anew writes the header again after what the file already has, as DeepSpeed
// does, so that nothing of an earlier run is lost. A run that continues cuts the rows after the
// last header back to the samples that it continues from.
#ifndef ZR_MONITOR_CSV_FILES_H
#define ZR_MONITOR_CSV_FILES_H

#include "base/alloc.h"
#include "monitor/scalars.h"

typedef struct zr_csv_files zr_csv_files;

// Opens the files in `directory`, which must exist. done: the run continues from that many samples;
// 0: it starts anew. owes: the evaluation after these samples will be repeated, so its row is
// removed. A file is only created once its scalar is written.
zero_status zr_csv_files_open(const char *directory, int64_t done, bool owes, zr_csv_files **out,
                              zero_error *error);
// Writes one row per scalar, at once.
zero_status zr_csv_files_write(zr_csv_files *files, int64_t samples, const zr_scalar *scalars,
                               int count, zero_error *error);
// The first returns the file of a scalar, to be freed with zr_free. The second tells whether `path`
// is such a file: rows after a header, or after the part of one that an interrupted write has left.
char *zr_csv_files_path(const char *directory, zr_scalar_name name, zero_error *error);
bool zr_csv_files_is_one(const char *path);
void zr_csv_files_close(zr_csv_files *files); // NULL is allowed

// Returns how many bytes of text[0..length) stay if a run continues from `done` samples: whole
// rows, of which those of the last part have a step of at most `done`.
size_t zr_csv_keep(const char *text, size_t length, int64_t done);

#endif
