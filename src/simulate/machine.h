// A machine as data, for `zero simulate`: the rates of its devices, links, host and disks. It is
// built in, or read from machines/NAME.json. Pure.
#ifndef ZR_SIMULATE_MACHINE_H
#define ZR_SIMULATE_MACHINE_H

#include "simulate/fields.h"

enum { ZR_SIM_NAME = 48, ZR_SIM_CONSTANTS = 6, ZR_SIM_FRAMEWORK_CONSTANTS = 2 };

typedef enum zr_sim_number { // what products compute in
    ZR_SIM_FP32,
    ZR_SIM_16_BIT,
    ZR_SIM_8_BIT,
    ZR_SIM_4_BIT,
    ZR_SIM_NUMBERS
} zr_sim_number;

typedef enum zr_sim_reach { // a class of links
    ZR_SIM_IN_NODE,
    ZR_SIM_RAIL,  // between nodes, below one switch or between equal positions of nodes
    ZR_SIM_SPINE, // between such groups of nodes
    ZR_SIM_REACHES
} zr_sim_reach;

typedef struct zr_sim_link { // of one device, in one direction
    double rate;    // bytes a second, while no other device of the node uses the shared link
    double latency; // seconds of a step of a collective
    int sharers;    // devices that share this rate (a NIC); 1: it is the device's alone
} zr_sim_link;

typedef struct zr_sim_machine {
    char name[ZR_SIM_NAME], device[ZR_SIM_NAME]; // "h100-hgx", "H100-80GB"
    int devices;                                 // of a node
    int processors;                              // of a device: what tiles of products fill
    double memory;                               // bytes of a device
    double peak[ZR_SIM_NUMBERS];                 // FLOP/s of a device's products; 0: it has none
    double memory_rate;                          // bytes a second of a device's memory
    zr_sim_link links[ZR_SIM_REACHES];
    int rail_nodes;                // below one switch; 0: all of them
    double taper;                  // part of the rail's rate that all have over the spine at once
    double host_memory, host_rate; // of a node: bytes, bytes a second of its memory
    double host_link;              // bytes a second between a device and its host
    double nvme_read, nvme_write;  // of a node, bytes a second; 0: there is none
    // Fitted to published runs (tools/fit-machines), in the order of zr_sim_constant_names.
    double constants[ZR_SIM_CONSTANTS];
    char fit[160]; // the number of runs and the error; "": they are estimates
} zr_sim_machine;

typedef struct zr_sim_framework {
    char name[ZR_SIM_NAME];
    bool flash;            // its attention keeps scores out of memory, where the device can
    bool native_attention; // its attention has kernels made for each device
    bool balanced;         // its pipeline stages have equal work, head and all, not equal layers
    bool wide_gradients;   // it sums gradients in 32 bits
    bool overlaps_tensor;  // its tensor ranks exchange during products
    bool by_weight;        // it gathers each weight of a layer by itself, not a layer at a time
    bool recomputes;       // it computes layers again by default
    bool whole_states;     // its default is stage 0 of ZeRO
    bool interleaved;      // its pipelines have two chunks a stage by default
    double constants[ZR_SIM_FRAMEWORK_CONSTANTS]; // as zr_sim_framework_constant_names
    char fit[160];
} zr_sim_framework;

typedef enum zr_sim_constant {
    ZR_SIM_REACHED,  // part of the peak that large products in 16 bits reach
    ZR_SIM_HALF,     // elements of a dimension at which a product takes twice as long
    ZR_SIM_STREAMED, // part of the memory's rate that other kernels reach
    ZR_SIM_ATTENDED, // part of the peak in 16 bits that attention reaches
    ZR_SIM_LAUNCH,   // seconds that a kernel takes at least
    ZR_SIM_NARROW,   // part of the peak that large products in 8 and 4 bits reach
} zr_sim_constant;
typedef enum zr_sim_framework_constant {
    ZR_SIM_KERNELS, // bytes that kernels other than products move, as a multiple of the fewest
    ZR_SIM_HIDDEN,  // part of exchanges of data ranks that overlaps with products at no cost
} zr_sim_framework_constant;

extern const char *const zr_sim_reach_names[ZR_SIM_REACHES];
extern const char *const zr_sim_constant_names[ZR_SIM_CONSTANTS];
extern const char *const zr_sim_framework_constant_names[ZR_SIM_FRAMEWORK_CONSTANTS];

// Machines and frameworks as JSON: the files machines/NAME.json and machines/frameworks.json. A key
// carries its unit ("memory_GB"), and every key but nvme's, "about" and "fit" must be there. A
// machine's name is that of its file.

// Reads a machine, but for its name. ZERO_ERR_CONFIG, with file, position and key: an unknown or
// missing key, a wrong type, a number out of its range. ZERO_ERR_DATA: it is no JSON.
zero_status zr_sim_machine_parse(const zr_sim_text *file, zr_sim_machine *out, zero_error *error);
void zr_sim_machine_write(const zr_sim_machine *machine, zr_buffer *out);
// Reads all frameworks of a file, in its order. The caller frees *out with zr_free, also after an
// error. Errors as above.
zero_status zr_sim_frameworks_parse(const zr_sim_text *file, zr_sim_framework **out, int *count,
                                    zero_error *error);

#endif
