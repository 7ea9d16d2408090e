// Machines and frameworks as JSON: the files machines/NAME.json and machines/frameworks.json. Pure.
//
// A key carries its unit ("memory_GB"), and every key but nvme's, "about" and "fit" must be there.
// A machine's name is that of its file.
#ifndef ZR_SIMULATE_MACHINE_FILE_H
#define ZR_SIMULATE_MACHINE_FILE_H

#include "simulate/machine.h"

typedef struct zr_sim_text { // a file, or what is built in
    const char *name;        // for messages
    const char *text;        // not changed
    size_t length;
} zr_sim_text;

// Reads a machine, but for its name. ZERO_ERR_CONFIG, with file, position and key: an unknown or
// missing key, a wrong type, a number out of its range. ZERO_ERR_DATA: it is no JSON.
zero_status zr_sim_machine_parse(const zr_sim_text *file, zr_sim_machine *out, zero_error *error);
// Reads all frameworks of a file, in its order. The caller frees *out with zr_free, also after an
// error. Errors as above.
zero_status zr_sim_frameworks_parse(const zr_sim_text *file, zr_sim_framework **out, int *count,
                                    zero_error *error);

// What is built in: every file of machines/ (a generated file, tools/embed).
typedef struct zr_sim_built_in {
    const char *name; // "h100-hgx"
    const char *text; // of its file
} zr_sim_built_in;
extern const zr_sim_built_in zr_built_ins[]; // ends with a name NULL

#endif
