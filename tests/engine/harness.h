// Runs a few steps of a tiny GPT-2 on thread ranks, and keeps everything that two runs must agree
// on.
#ifndef TEST_ENGINE_HARNESS_H
#define TEST_ENGINE_HARNESS_H

#include <stdbool.h>
#include <zero/engine.h>
#include <zero/gpt2.h>
#include <zero/llama.h>

#define HARNESS_STEPS 4
#define HARNESS_TIMEOUT 20 // seconds without progress, after which ranks give up
#define HARNESS_MAX_ELEMS 1048576

typedef struct harness_case {
    int stage, ranks, accumulation, batch;
    const zero_llama_config *llama;    // NULL: a GPT-2 of the fields below
    const struct zr_lm_config *lm;     // a model of any architecture, in place of these; or NULL
    const struct zr_lm_frozen *frozen; // tensors that do not train; NULL: all do
    // Returns the model that ranks use in place of the case's; NULL: the case's.
    const zero_model *(*tuned)(const zero_model *model);
    int steps;  // the step to end with, also after a load; 0: HARNESS_STEPS; -1: none
    int layers; // 0: 2
    int tiles_embedding, tiles_attention, tiles_mlp; // 0: whole
    int width, vocabulary, heads;                    // 0: 16, HARNESS_VOCAB, 2
    float dropout;
    bool masked;           // each sample has a different number of targets, some have none
    const char *optimizer; // "AdamW", "LAMB", ...; NULL: AdamW
    const char *backend;   // NULL: ref
    // a flat parameter of the configuration: "\"bf16\": {\"enabled\": true}"; NULL: fp32
    const char *precision;
    int64_t bucket; // reduce_bucket_size; 0: the default
    double clipping;
    // More of zero_optimization: "\"offload_param\": {...}, ..."; NULL: nothing is offloaded.
    const char *tiers;
    // Faults of I/O; NULL: buffers are only overwritten before they are read into.
    const struct zr_io_faults *faults;
    bool overlap; // exchanges run on a thread of their own
    // The ranks are one data group of a job twice as large, each of whose ranks holds and computes
    // the same as its neighbour, which counts nothing. ZERO_TEST_TWICE sets it for cases that open
    // no communicators of their own.
    bool twice;
    // The model is cut into `slices`, which `tensor` neighbours for each of `ranks` hold; 0: it is
    // not cut. by_rows: they divide rows, too (sequence parallelism). inexact: their bits depend on
    // `tensor`, as those of a run do that does not ask for exact_tensor.
    int slices, tensor;
    bool by_rows, inexact;
    // The job is `stages` pipelines' stages, each of `ranks` (times tensor) ranks; 0: there is no
    // pipeline. schedule: "1f1b", ...; NULL: the default. split: "0,2"; NULL: as the program does.
    int stages;
    const char *schedule, *split;
    // Changes the part of the model that a tensor rank holds, before its engine is made; may be
    // NULL.
    void (*changes_part)(zero_model *part, zero_comm *comm);
    // Checkpoint directories: load before the first step, save before step save_at. NULL: none.
    const char *load, *save;
    int save_at;
    bool overlapped;                 // the save runs beside step save_at
    void (*open)(zero_comm **comms); // makes the ranks' communicators; NULL: self, or local threads
    // Called on every rank once its engine is made (step -1), and after step 0, 1, ...; may be
    // NULL.
    zero_status (*after)(zero_engine *engine, int step, zero_error *error);
    // Called on every rank before step 0, 1, ..., and after the last; may be NULL.
    void (*at_step)(zero_comm *comm, int step);
    // Trains on every rank in place of the harness, which then tells parameters and memory alone;
    // may be NULL.
    zero_status (*drive)(zero_engine *engine, zero_error *error);
} harness_case;

typedef struct harness_result {
    double loss[HARNESS_STEPS], norm[HARNESS_STEPS];
    float parameters[HARNESS_MAX_ELEMS];
    int64_t elems;
    zero_memory memory; // of rank 0
    zero_traffic traffic;
    zero_io io;
    int skipped;       // number of skipped steps
    int flat_params;   // of the model; a tile counts as one
    double evaluated;  // loss after the last step
    zero_status saved; // result of the save that runs beside a step
} harness_result;

// Says whether the environment's ZERO_TEST_TWICE wants every job twice as large.
bool harness_wants_twice(void);
// Runs the case, and aborts the test program with the message if a rank fails.
void harness_run(const harness_case *c, harness_result *out);
// The same, but ranks may fail; `ranks` tells what each returned: all ranks of a model that is cut,
// the data ranks of any other.
typedef struct harness_failure {
    zero_status status;
    zero_error error;
} harness_failure;
void harness_try(const harness_case *c, harness_result *out, harness_failure *ranks);
// Checks that the bytes held are the bytes planned, on every tier.
void harness_expect_held(const harness_result *result);
// Checks that the case trains at stages 0 to 3, ends in the same bits, and holds what was planned.
void harness_stages_agree(harness_case c);
// Checks that every rank refuses the case, with this status and these words in its message.
void harness_refused(const harness_case *c, zero_status status, const char *words);
// Returns a small Llama for the text of harness_batch: two layers, pairs of whose four heads share
// keys and values.
zero_llama_config harness_llama(void);
// Returns the model of a case; free it with zr_lm_free.
zero_model *harness_model(const harness_case *c);
// Whether losses, norms and parameters have the same bits.
bool harness_equal(const harness_result *a, const harness_result *b);

// Returns a directory for states and checkpoints: in memory, unless the user names another.
const char *harness_scratch(void);
// Returns the zero_optimization that puts states and parameters on these zero_tiers, all of them in
// several sub-groups. Valid until the next call.
const char *harness_tiers(int optimizer, int parameters);

// Fills in micro-batch g of a step: tokens and targets (batch, seq) of a fixed pseudo-random text.
#define HARNESS_SEQ 8
#define HARNESS_VOCAB 29
void harness_batch(int64_t step, int64_t first_sample, int64_t batch, int32_t *tokens,
                   int32_t *targets);
// Masks targets of the same text, so that each sample keeps 0 to HARNESS_SEQ. Returns how many are
// kept.
int64_t harness_mask(int64_t step, int64_t first_sample, int64_t batch, int32_t *targets);
zero_tensors harness_tensors(int64_t batch, int32_t *tokens, int32_t *targets);
typedef struct harness_rows { // of one micro-batch
    int32_t tokens[64 * HARNESS_SEQ], targets[64 * HARNESS_SEQ];
} harness_rows;
// Fills in micro-batch g of a step as the case has it, masked or not.
zero_tensors harness_micro_batch(const harness_case *c, int64_t step, int64_t g, harness_rows *r);

#endif
