// The machines and frameworks that can be named: those built in, and the files of machines/ below
// the working directory, which win.
#ifndef ZR_SIMULATE_CATALOGUE_H
#define ZR_SIMULATE_CATALOGUE_H

#include "simulate/machine.h"

// What is built in: every file of machines/ (a generated file, tools/embed).
typedef struct zr_sim_built_in {
    const char *name; // "h100-hgx"
    const char *text; // of its file
} zr_sim_built_in;
extern const zr_sim_built_in zr_built_ins[]; // ends with a name NULL

typedef struct zr_sim_catalogue {
    zr_sim_machine *machines;     // (machine_count) those built in, or the files of their names
    zr_sim_framework *frameworks; // (framework_count) the last one is a well-made framework
    int machine_count, framework_count;
} zr_sim_catalogue;

// Reads everything once. ZERO_ERR_CONFIG, ZERO_ERR_DATA: a file is wrong, with the key;
// ZERO_ERR_IO, ZERO_ERR_MEMORY.
// The caller frees *out with zr_sim_catalogue_close, also after an error.
zero_status zr_sim_catalogue_open(zr_sim_catalogue *out, zero_error *error);
void zr_sim_catalogue_close(zr_sim_catalogue *catalogue);

// Finds a machine: `name` is a path of a file, the name of machines/NAME.json below the working
// directory, a built-in one, or a name that can mean only one of these ("H100"). ZERO_ERR_USAGE:
// there is no such machine; the message lists them all. ZERO_ERR_CONFIG, ZERO_ERR_DATA: the file is
// wrong, with the key.
zero_status zr_sim_machine_find(const zr_sim_catalogue *catalogue, const char *name,
                                zr_sim_machine *out, zero_error *error);
// Finds the framework whose name is in a free text ("Megatron-DeepSpeed, ZeRO-3 alone"). Returns
// false if the text is NULL or names no framework; *out is a well-made one then.
bool zr_sim_framework_find(const zr_sim_catalogue *catalogue, const char *text,
                           zr_sim_framework *out);
// Writes the machines, a line each: devices, memory, peaks, links; and their constants, if
// `constants` is set.
void zr_sim_machine_list(const zr_sim_catalogue *catalogue, bool constants, zr_buffer *out);
// Writes them as JSON: [{"name": ..., "machine": what a machine's file has}, ...].
void zr_sim_machine_list_json(const zr_sim_catalogue *catalogue, zr_buffer *out);

#endif
