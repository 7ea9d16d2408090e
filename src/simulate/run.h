// A training run as numbers: the shape of its model, its batch, its grid of devices, and how it
// keeps states. The question of `zero simulate`; libzero need not be able to run it. Pure except
// for zr_sim_run_read.
#ifndef ZR_SIMULATE_RUN_H
#define ZR_SIMULATE_RUN_H

#include "config/pipeline_spec.h"
#include "model/architecture.h"
#include "simulate/machine.h"

typedef enum zr_sim_recompute {
    ZR_SIM_KEEP,      // nothing is computed again
    ZR_SIM_SELECTIVE, // the scores of attention
    ZR_SIM_OPERATORS, // every second product, and what is cheap
    ZR_SIM_FULL,      // every layer, from its boundary
} zr_sim_recompute;

typedef enum zr_sim_attention {
    ZR_SIM_SCORES, // scores are written to memory
    ZR_SIM_FLASH,  // they are not
} zr_sim_attention;

typedef struct zr_sim_run {
    // Model. ffn: width of the MLP; gated: it has three products (SwiGLU), else two.
    int64_t layers, width, heads, kv_heads, ffn, vocab, seq;
    bool gated, tied;
    double parameters; // 0: follows from the shape
    // Grid: devices = tensor * pipeline * context * data.
    int devices, tensor, pipeline, chunks, context, data;
    zr_pipeline_kind schedule;
    int flush_every; // steps after which an asynchronous schedule drains; 0: 8
    bool sequence_parallel;
    // Batch: samples of a step, of a micro-batch; global = micro * accumulation * data.
    int64_t global_batch, micro_batch, accumulation;
    // States.
    int stage;                                     // of ZeRO
    bool fully_sharded_in_node;                    // hpZ: parameters are gathered inside a node
    int wire_bits_parameters, wire_bits_gradients; // of an element on the wire; 0: as computed
    zr_sim_number number;
    bool block_scales; // numbers of 8 and 4 bits have a scale for every few elements, not a tensor
    zr_sim_recompute recompute;
    int recompute_every; // one in this many layers is computed again; 0: 1
    bool frozen;         // only small added matrices learn (LoRA): no gradients of weights
    zr_sim_attention attention;
    bool divided_checkpoints; // tensor ranks divide what full recomputation keeps (P_a)
    bool checkpoints_on_host; // and it is kept there (P_a+cpu)
    bool optimizer_on_host, parameters_on_host, optimizer_on_nvme, parameters_on_nvme;
    // The mesh over the nodes: a permutation of "tensor,context,data,pipeline", the default;
    // neighbouring devices differ in the first axis.
    char order[40];
    zr_sim_framework framework;
    zr_sim_machine machine;
} zr_sim_run;

// Sets whether attention writes scores, from the run's framework and machine, which are set before.
// Frameworks that write scores on older devices use flash attention on devices with 8-bit products.
void zr_sim_run_set_attention(zr_sim_run *run);
// Fills in the fields that are 0 and follow from the others. ZERO_ERR_USAGE, with the numbers and a
// remedy: the fields contradict each other.
zero_status zr_sim_run_complete(zr_sim_run *run, zero_error *error);
// Refuses a complete run whose grid does not divide its model: heads by tensor ranks, samples by
// context ranks, layers by chunks; and one whose schedule refuses its batch or its stage of ZeRO,
// as a training would. Published runs have such grids; a run's file may ask for them.
zero_status zr_sim_run_check(const zr_sim_run *run, zero_error *error);
// Reads the complete run that a JSON file describes (docs/scale.md lists its keys; all are
// optional). *run has the machine, the framework, the attention and the order already, and keeps
// what the file does not set; after an error it is as it was. zr_sim_run_check is part of it unless
// the file says "unchecked". ZERO_ERR_CONFIG, with file, position and key; ZERO_ERR_DATA: it is no
// JSON; else as zr_sim_run_complete.
zero_status zr_sim_run_parse(const zr_sim_text *file, zr_sim_run *run, zero_error *error);
zero_status zr_sim_run_read(const char *path, zr_sim_run *run, zero_error *error); // ZERO_ERR_IO
// Returns the parameters of its shape.
double zr_sim_run_parameters(const zr_sim_run *run);
// Sets the model of a run from one of our own specs.
void zr_sim_run_set_model(const zr_lm_config *model, int64_t seq, zr_sim_run *run);

#endif
