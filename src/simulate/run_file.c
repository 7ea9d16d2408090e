// Runs as JSON: what a file says of a run, a row a key.
#include "simulate/run.h"

#include "base/file.h"
#include "simulate/fields.h"

#include <stddef.h>
#include <string.h>

typedef struct run_file { // what the rows fill in
    zr_sim_run run;
    bool unchecked;
} run_file;

static const char *const products[] = {"fp32", "bf16", "fp8", "fp4", NULL};
static const char *const recomputes[] = {"none", "selective", "operators", "full", NULL};

#define AT(field) .at = offsetof(run_file, field), .optional = true
// A whole number of an int field, of an int64_t field, and a flag, each with its key.
#define FEW(field, limit, text)                                                                    \
    {                                                                                              \
        .path = #field, .kind = ZR_SIM_COUNT, AT(run.field), .most = limit, .wants = text          \
    }
#define MANY(field, limit, text)                                                                   \
    {                                                                                              \
        .path = #field, .kind = ZR_SIM_LARGE, AT(run.field), .most = limit, .wants = text          \
    }
#define FLAG(field, text)                                                                          \
    {                                                                                              \
        .path = #field, .kind = ZR_SIM_FLAG, AT(run.field), .wants = text                          \
    }

// The limits keep products of these numbers below 2^63.
static const zr_sim_field rows[] = {
    MANY(layers, 1e5, "layers of the model"),
    MANY(width, 1e7, "elements of a token's vector"),
    MANY(heads, 1e5, "heads of attention; 0: of about 128 elements"),
    MANY(kv_heads, 1e5, "heads of keys and values; 0: as heads"),
    MANY(ffn, 1e8, "the width of the MLP; 0: as usual"),
    MANY(vocab, 1e8, "tokens of the vocabulary; 0: 50304"),
    MANY(seq, 1e9, "tokens of a sample; 0: 2048"),
    FLAG(gated, "whether the MLP has three products, not two"),
    FLAG(tied, "whether the head has the weights of the embedding"),
    {.path = "parameters",
     .kind = ZR_SIM_REAL,
     .unit = 1,
     AT(run.parameters),
     .most = 1e18,
     .wants = "parameters whose states are kept; 0: those of the shape"},
    FEW(devices, 1e7, "devices of the run"),
    FEW(tensor, 1e4, "tensor ranks"),
    FEW(context, 1e4, "context ranks"),
    FEW(pipeline, 1e4, "stages of the pipeline"),
    FEW(chunks, 1e5, "chunks of each stage of an interleaved pipeline"),
    FLAG(sequence_parallel, "whether tensor ranks divide tokens between their products"),
    {.path = "overlaps_tensor",
     .kind = ZR_SIM_FLAG,
     AT(run.framework.overlaps_tensor),
     .wants = "whether tensor ranks exchange during products; else as the framework does"},
    MANY(global_batch, 1e15, "samples of a step; 0: one micro-batch, or four for each stage"),
    MANY(micro_batch, 1e5, "samples of a micro-batch; 0: 1"),
    {.path = "stage",
     .kind = ZR_SIM_COUNT,
     AT(run.stage),
     .most = 3,
     .wants = "the stage of ZeRO, 0 to 3"},
    FLAG(fully_sharded_in_node, "whether each node keeps a copy of the parameters (hpZ)"),
    FEW(wire_bits_parameters, 32, "bits of a parameter that is sent; 0: as computed"),
    FEW(wire_bits_gradients, 32, "bits of a gradient that is sent; 0: as computed"),
    {.path = "products",
     .kind = ZR_SIM_CHOICE,
     AT(run.number),
     .choices = products,
     .wants = "fp32, bf16, fp8 or fp4"},
    FLAG(block_scales, "whether numbers of 8 and 4 bits have a scale for every few elements"),
    {.path = "recompute",
     .kind = ZR_SIM_CHOICE,
     AT(run.recompute),
     .choices = recomputes,
     .wants = "none, selective (the scores of attention), operators (every second product) or "
              "full"},
    FEW(recompute_every, 1e5, "one in this many layers is computed again; 0: 1"),
    FLAG(frozen, "whether only small added matrices learn (LoRA)"),
    FLAG(checkpoints_on_host, "whether what full recomputation keeps is on the host"),
    FLAG(optimizer_on_host, "whether the optimizer's states are on the host"),
    FLAG(optimizer_on_nvme, "whether the optimizer's states are on NVMe"),
    FLAG(parameters_on_host, "whether parameters are on the host"),
    FLAG(parameters_on_nvme, "whether parameters are on NVMe"),
    {.path = "unchecked",
     .kind = ZR_SIM_FLAG,
     AT(unchecked),
     .wants = "whether a grid that does not divide the model is simulated nevertheless"},
};

static zero_status read_key(const zr_sim_text *file, const char *key, const json_t *value,
                            run_file *out, zero_error *error)
{
    for (int i = 0; i < ZR_COUNT(rows); i++)
        if (!strcmp(rows[i].path, key))
            return zr_sim_field_read(file, &rows[i], value, out, error);
    return zr_sim_refuse_key(file, key, "is no key of a run", "docs/scale.md lists them", error);
}

zero_status zr_sim_run_parse(const zr_sim_text *file, zr_sim_run *run, zero_error *error)
{
    json_t *root, *value;
    const char *key;
    run_file read = {.run = *run};
    zero_status status = zr_sim_file_parse(file, &root, error);
    if (status != ZERO_OK)
        return status;
    json_object_foreach(root, key, value)
    {
        status = read_key(file, key, value, &read, error);
        if (status != ZERO_OK)
            break;
    }
    json_decref(root);
    if (status == ZERO_OK)
        status = zr_sim_run_complete(&read.run, error);
    if (status == ZERO_OK && !read.unchecked)
        status = zr_sim_run_check(&read.run, error);
    if (status == ZERO_OK)
        *run = read.run;
    return status;
}

zero_status zr_sim_run_read(const char *path, zr_sim_run *run, zero_error *error)
{
    char *text;
    zr_sim_text file = {.name = path};
    ZERO_TRY(zr_file_read(path, 1 << 20, &text, &file.length, error));
    file.text = text;
    zero_status status = zr_sim_run_parse(&file, run, error);
    zr_free(text);
    return status;
}
