// JSON objects whose keys are fields of a struct: a row for each key says where its value goes and
// which values it may have. The files of machines and of runs are read by such rows. Pure.
#ifndef ZR_SIMULATE_FIELDS_H
#define ZR_SIMULATE_FIELDS_H

#include "base/alloc.h"
#include "base/errors.h"
#include "base/json.h"

typedef struct zr_sim_text { // a file, or what is built in
    const char *name;        // for messages
    const char *text;        // not changed
    size_t length;
} zr_sim_text;

typedef enum zr_sim_field_kind {
    ZR_SIM_TEXT,   // char[room]; with a room of 0 the value is checked and not kept
    ZR_SIM_COUNT,  // int
    ZR_SIM_LARGE,  // int64_t
    ZR_SIM_REAL,   // double
    ZR_SIM_FLAG,   // bool
    ZR_SIM_CHOICE, // an enum: the place of the text in `choices`
} zr_sim_field_kind;

typedef struct zr_sim_field {
    const char *path; // "links.rail.GB_s"; its section is what stands before the last point
    zr_sim_field_kind kind;
    size_t at;          // offset in the struct
    size_t room;        // bytes of a text
    double unit;        // of a real number: what 1 in the file is in the field
    double least, most; // of numbers, in the file's unit; most 0: none, or 2^24 for a ZR_SIM_COUNT
    const char *const *choices; // ends with NULL
    bool optional;              // else the key must be there
    const char *wants;          // "bytes of a device's memory / 10^9"
} zr_sim_field;

// Parses a file whose root is an object. ZERO_ERR_DATA: it is no JSON; ZERO_ERR_CONFIG: it is no
// object. The caller releases *out.
zero_status zr_sim_file_parse(const zr_sim_text *file, json_t **out, zero_error *error);
// Reads a value into its field of the struct at `base`. ZERO_ERR_CONFIG: a wrong type or range.
zero_status zr_sim_field_read(const zr_sim_text *file, const zr_sim_field *field,
                              const json_t *value, void *base, zero_error *error);
// Returns ZERO_ERR_CONFIG with a message: where the key stands, what it is, and what it should be.
zero_status zr_sim_refuse_key(const zr_sim_text *file, const char *path, const char *what,
                              const char *wants, zero_error *error);

#endif
