// The configuration of a run: a DeepSpeed JSON file, the flags and the facts of the run go in, and
// plain numbers come out.
//
//   parse -> override (each flag) -> defaults_apply (program's defaults) -> resolve -> read fields
//
// Only the settings are valid until resolve has returned ZERO_OK; after that the fields are too.
// Every bad value is refused or reported here, so no later stage meets one that is out of range.
// setup/ and train/ call this. Nothing here is collective: every rank that passes the same text,
// flags and facts gets the same fields.
#ifndef ZR_CONFIG_CONFIG_H
#define ZR_CONFIG_CONFIG_H

#include "config/config_facts.h"
#include "config/config_offload.h"
#include "config/elastic.h"
#include "config/keys.h"
#include "config/optimizer_spec.h"
#include "config/pipeline_spec.h"
#include <zero/tensor.h>

#define ZR_CONFIG_MAX_BYTES ((size_t)64 << 20)
#define ZR_CONFIG_MOST_SLICES 65536 // of a model

typedef enum zr_origin {
    ZR_FROM_DEFAULT, // DeepSpeed's default, because no value was given
    ZR_FROM_FILE,
    ZR_FROM_FLAG,
    ZR_FROM_AUTO,    // "auto" in the file, resolved from the facts or our default
    ZR_FROM_PROGRAM, // the program's own default, or the batch arithmetic
} zr_origin;

typedef struct zr_setting { // one for each row of the key table
    json_t *value;          // in its normal form; NULL: not given
    zr_origin origin;
    const zr_key *spelled; // the deprecated row under which it was written, or NULL
    char *flag;            // "--stage" where origin is ZR_FROM_FLAG
    int line, column;      // position in the file; 0: the value is not from there
} zr_setting;

// What a run reports about itself.
typedef struct zr_flops_profiler {
    bool enabled, detailed;
    int64_t step;      // the step that is profiled, 1-based
    char *output_file; // NULL: the log
    double recompute_factor;
} zr_flops_profiler;

typedef struct zr_comms_logger {
    // verbose: a log line for each operation of the first step, in addition to the table at the
    // end.
    bool enabled, verbose;
    uint32_t ops; // one bit for each zero_comm_op
} zr_comms_logger;

typedef struct zr_monitor_config {
    bool enabled;
    char *directory; // output_path and job_name joined; NULL unless enabled
} zr_monitor_config;

// libzero.attention: whether it looks across the examples of a window.
enum zr_attention_across { ZR_ATTENTION_AUTO, ZR_ATTENTION_CAUSAL, ZR_ATTENTION_DOCUMENT };

typedef struct zr_config {
    char *name;           // name of the file, for messages
    zr_setting *settings; // (zr_key_count())
    zr_buffer unknown;    // a line for each unknown key at the top of the file
    // The ranks of the job are a grid: rank = (pipeline stage x data + data rank) x tensor + tensor
    // rank. Tensor ranks compute one layer together, data ranks share a batch, pipeline stages have
    // different layers.
    int world;  // ranks of the job
    int tensor; // tensor ranks; 1: none. tensor x pipeline.stages divides world
    int ranks;  // data ranks: world / (tensor x pipeline.stages)
    // Its split is empty if no key or flag gives one. `regex` belongs to the configuration.
    zr_pipeline_spec pipeline;
    // Slices into which a model is cut: a multiple of `tensor`; 1: none.
    int64_t exact_tensor;
    bool for_inference;         // the keys of tensor ranks are ignored; only --tensor counts
    bool exact_tensor_said;     // the bits are those of any number of tensor ranks that divides it
    bool sequence_parallel;     // tensor ranks divide rows where they need no others
    bool partition_activations; // tensor ranks divide activation checkpoints

    int64_t stage;                                  // 0..3
    int64_t train_batch, micro_batch, accumulation; // samples: train = micro x accumulation x ranks
    double clipping;                                // largest gradient norm; 0: off
    int64_t reduce_bucket;                          // elements sealed but not yet reduced, at most
    int64_t prefetch_bucket;                        // elements gathered ahead, at most
    // Ranks of one machine, which keeps what it gathers until the step ends; 0 or 1: it does not.
    int64_t kept_by;
    // ZeRO++: trained and frozen weights are gathered, gradients summed as blocks of codes, these
    // of 4 or 8 bits.
    bool quantised_weights, quantised_frozen, quantised_gradients;
    int64_t gradient_bits;
    double carry_beta;       // of LoCo
    int64_t carry_reset;     // steps; 0: there is no LoCo
    int64_t steps_per_print; // 0: the program's choice
    int64_t seed;            // seeds weights, dropout and data order
    zr_optimizer_spec optimizer;
    zr_lr_schedule schedule;
    zero_dtype dtype;             // F32, BF16 or F16, of parameters and activations
    zero_dtype accumulator_dtype; // data_types.grad_accum_dtype, if accumulator_given
    zero_dtype wire_dtype;        // communication_data_type, if wire_given
    bool accumulator_given, wire_given;
    bool exact_world; // the results have the same bits on any power of two of ranks
    int attention;    // of zr_attention_across
    int base;         // 0: weights as their files have them, else of zr_weight_format
    // Of optimizer states: F32, BF16 or U8 (codes of 8 bits with scales).
    zero_dtype states_dtype;
    int loss_mean;                 // mean over 0: the step's targets, 1: its micro-batches
    zr_loss_scale_spec loss_scale; // of fp16; kind ZR_SCALE_NONE otherwise
    bool wall_clock_breakdown, memory_breakdown;
    zr_flops_profiler flops_profiler;
    zr_comms_logger comms_logger;
    zr_monitor_config tensorboard, csv_monitor;
    zr_elastic *elastic; // NULL: elasticity is off
    zr_offload_config offload;

    bool adam_w_mode; // as given; optimizer.kind already includes it
} zr_config;

// Parses text[0..length), which is JSON with comments and trailing commas; NULL is an empty
// configuration. Messages call the file `name`. Returns ZERO_ERR_CONFIG with name:line:column for
// bad syntax, unknown keys of sections, repeated keys, wrong types, and values out of range.
zero_status zr_config_parse(const char *text, size_t length, const char *name, zr_config **out,
                            zero_error *error);
void zr_config_destroy(zr_config *config); // NULL is allowed

// Sets a key from a flag. The flag wins over the file, and a log line says so; with `strict` a flag
// that differs from the file is ZERO_ERR_USAGE instead. "libzero.dtype" (--dtype) also wins over
// fp16.enabled, bf16.enabled and data_types.param_dtype. `key` is a path of the key table, `value`
// the text from the command line, and `flag` the flag's name ("--stage").
zero_status zr_config_override(zr_config *config, const char *key, const char *value,
                               const char *flag, bool strict, const zero_logger *logger,
                               zero_error *error);

// After the flags: refuses an unknown key at the top, or warns of each (libzero.allow_unknown).
zero_status zr_config_refuse_unknown(const zr_config *config, const zero_logger *logger,
                                     zero_error *error);

// Forgets what only training reads (batches, optimizer, schedule, gradients, its own offload) and
// sets stage 3: parameters are divided among the ranks, and lie where offload_param says. It is
// called after the parse and before any flag; defaults_apply is not needed then.
zero_status zr_config_keep_inference(zr_config *config, zero_error *error);

// Fills in and prints the program's defaults for what neither file nor flags name: an optimizer
// (AdamW 0.9/0.95, eps 1e-8, decay 0.1, lr from the facts), a schedule (warm-up from lr / its
// updates, then cosine to a tenth) and clipping (1.0). A file that names an optimizer gets no
// schedule, because in a DeepSpeed file an optimizer without a schedule means a constant rate.
zero_status zr_config_defaults_apply(zr_config *config, const zr_config_facts *facts,
                                     const zero_logger *logger, zero_error *error);

// Refuses what is not built; resolves "auto" (and prints the result), the batch arithmetic, the
// optimizer and the schedule; fills the fields. It warns of each flag, and of the number of keys,
// without effect, and names these with the reasons at ZERO_LOG_DEBUG. It is called once.
zero_status zr_config_resolve(zr_config *config, const zr_config_facts *facts,
                              const zero_logger *logger, zero_error *error);

// Returns ZERO_ERR_CONFIG, with the key and the update, if the schedule of a resolved configuration
// takes beta1 out of [0, 1) within the first `updates` updates.
zero_status zr_config_check_length(const zr_config *config, int64_t updates, zero_error *error);

// Returns an error if a resolved configuration has a schedule of the program's own, and the run is
// shorter than its warm-up and decay, or of unknown length where they need one.
zero_status zr_config_check_schedule(const zr_config *config, zero_error *error);

// Returns the micro-batch for a configuration that names none, once find_ranks has been called; 0:
// the facts do not say it.
int64_t zr_config_usual_micro_batch(const zr_config *config, const zr_config_facts *facts);
// Fills `elastic` if the configuration asks for it, to learn which numbers of data ranks it allows.
// It may be called before resolve, once find_ranks has been called.
zero_status zr_config_find_elastic(zr_config *config, zero_error *error);

// Sets an integer key that has a field, after resolve, once the program knows enough to choose its
// value. The written file contains it like any other value.
zero_status zr_config_choose(zr_config *config, const char *path, int64_t value, zero_error *error);
// Writes the resolved configuration as JSON that resolves to the same again. Check out->failed.
void zr_config_write(const zr_config *config, zr_buffer *out);
// Writes the key table as markdown, for docs/configuration.md. Check out->failed.
void zr_config_document(zr_buffer *out);

const zr_setting *zr_config_setting(const zr_config *config, const char *path); // NULL: no such key
// Returns whether the key has a value, from the file or from anywhere else.
bool zr_config_has_value(const zr_config *config, const char *path);

#endif
