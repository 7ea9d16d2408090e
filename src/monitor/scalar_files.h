// The numbers that monitors show, under DeepSpeed's names (tag "Train/Samples/lr", file
// "Train_Samples_lr.csv", column "lr"), and the files that hold them. Their x axis is the number of
// samples that all ranks have trained on so far.
#ifndef ZR_MONITOR_SCALAR_FILES_H
#define ZR_MONITOR_SCALAR_FILES_H

#include "base/alloc.h"

// Numbers of every step, of evaluations, and of the step's timers (milliseconds, summed over its
// micro-batches).
#define ZR_SCALARS(X)                                                                              \
    X(train_loss)                                                                                  \
    X(lr)                                                                                          \
    X(loss_scale)                                                                                  \
    X(eval_loss)                                                                                   \
    X(elapsed_time_ms_forward)                                                                     \
    X(elapsed_time_ms_backward)                                                                    \
    X(elapsed_time_ms_backward_inner)                                                              \
    X(elapsed_time_ms_backward_allreduce)                                                          \
    X(elapsed_time_ms_step)

typedef enum zr_scalar_name {
#define ZR_SCALAR_ENUM(name) ZR_SCALAR_##name,
    ZR_SCALARS(ZR_SCALAR_ENUM)
#undef ZR_SCALAR_ENUM
        ZR_SCALAR_COUNT
} zr_scalar_name;

typedef struct zr_scalar {
    zr_scalar_name name;
    double value;
} zr_scalar;

// csv_files.c: DeepSpeed's CSV files, one per scalar, DIRECTORY/Train_Samples_lr.csv, with lines
// that end in CR LF.
//
//   step,lr
//   768,1e-05
//   ...
//
// A run that starts anew writes the header again after what the file already has, as DeepSpeed
// does, so that nothing of an earlier run is lost. A run that continues cuts the rows after the
// last header back to the samples that it continues from.
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
// rows; those after the last header have a step of at most `done`.
size_t zr_csv_kept_bytes(const char *text, size_t length, int64_t done);

// event_file.c: a TensorBoard event file,
// DIRECTORY/events.out.tfevents.<seconds>.<host>.<process>.<n>.
//
//   record   u64 length | u32 masked crc32c of those 8 bytes | data | u32 masked crc32c of data
//            (little-endian)
//   data     an Event in protobuf's encoding:
//              09 f64 wall_time | 10 varint step | then one of
//              1a "brain.Event:2"                                  the first record
//              2a Summary{0a Value{0a tag, 15 f32 simple_value}}   a scalar
//              3a SessionLog{08 01}                                START: readers drop what they
//                                                                  have from this step on

// Append one record each; pure. wall_time: seconds since 1970. Check out->failed.
void zr_event_append_version(zr_buffer *out, double wall_time);
void zr_event_append_start(zr_buffer *out, double wall_time, int64_t step);
void zr_event_append_scalar(zr_buffer *out, double wall_time, int64_t step,
                            const zr_scalar *scalar);

typedef struct zr_event_file zr_event_file;

// Creates a new file in the directory, which must exist. done: the run continues from that many
// samples, and readers must drop what earlier files show beyond them; 0: it starts anew.
zero_status zr_event_file_open(const char *directory, int64_t done, zr_event_file **out,
                               zero_error *error);
// Writes the scalars at once. After a failure the file ends with its last complete record.
zero_status zr_event_file_write(zr_event_file *file, int64_t samples, const zr_scalar *scalars,
                                int count, zero_error *error);
void zr_event_file_close(zr_event_file *file); // NULL is allowed

#endif
