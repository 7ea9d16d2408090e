// What zero inspect finds, as one JSON object, and that object in words.
#ifndef ZR_COMMANDS_INSPECT_REPORT_H
#define ZR_COMMANDS_INSPECT_REPORT_H

#include "formats/source.h"
#include <zero/commands.h>

// Makes {"path", "kind", "files_bytes", "parameters", "state"?,
//  "vectors": [{"name", "elements", "bytes",
//               "tensors": [{"name", "dtype", "shape", "bytes", "sums"?}]}],
//  "verify"?: {"checksums", "bytes", "damaged": [message]}}; json_decref.
zero_status zr_inspect_report(zr_source *source, const zero_inspect_options *options, json_t **out,
                              zero_error *error);
// Reads every byte that has a checksum, and puts "verify" into the report.
zero_status zr_inspect_verify(zr_source *source, json_t *report, zero_error *error);
void zr_inspect_text(const json_t *report, zr_buffer *out);
void zr_inspect_run_text(const json_t *run, zr_buffer *out); // for inspect_path.c

#endif
