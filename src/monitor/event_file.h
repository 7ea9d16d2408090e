// A TensorBoard event file: DIRECTORY/events.out.tfevents.<seconds>.<host>.<process>.<n>.
//
//   record   u64 length | u32 masked crc32c of those 8 bytes | data | u32 masked crc32c of data
//            (little-endian)
//   data     an Event in protobuf's encoding:
//              09 f64 wall_time | 10 varint step | then one of
//              1a "brain.Event:2"                                  the first record
//              2a Summary{0a Value{0a tag, 15 f32 simple_value}}   a scalar
//              3a SessionLog{08 01}                                START: readers drop what they
//                                                                  have from this step on
#ifndef ZR_MONITOR_EVENT_FILE_H
#define ZR_MONITOR_EVENT_FILE_H

#include "base/alloc.h"
#include "monitor/scalars.h"

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
