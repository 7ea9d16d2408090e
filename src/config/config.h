// The configuration: a DeepSpeed JSON file, the flags, the facts of the run, and the plain numbers
// that follow.
//
//   parse -> override (each flag) -> defaults_apply (the program's defaults) -> resolve -> read the
//   fields
//
// Until resolve has returned ZERO_OK only the settings mean anything; afterwards the fields do.
// Everything is refused or reported here: a later stage never meets a value that is out of range.
// Called by setup/ and train/; nothing here is collective, and every rank that does it with the
// same text, flags and facts gets the same fields.
#ifndef ZR_CONFIG_CONFIG_H
#define ZR_CONFIG_CONFIG_H

#include "config/config_offload.h"
#include "config/elastic.h"
#include "config/keys.h"
#include "config/loss_scale.h"
#include "config/optimizer_spec.h"
#include "config/profilers.h"
#include "config/schedule.h"
#include <zero/tensor.h>

#define ZR_CONFIG_MAX_BYTES ((size_t)64 << 20)

typedef enum zr_origin {
    ZR_FROM_DEFAULT, // DeepSpeed's default: nobody said anything
    ZR_FROM_FILE,
    ZR_FROM_FLAG,
    ZR_FROM_AUTO,    // "auto" in the file, resolved from the facts or our default
    ZR_FROM_PROGRAM, // the program's own default, or the batch arithmetic
} zr_origin;

typedef struct zr_setting { // one for each row of the key table
    json_t *value;          // normal form; NULL: not said
    zr_origin origin;
    const zr_key *spelled; // the deprecated row it was written as, or NULL
    char *flag;            // "--stage" where origin is ZR_FROM_FLAG
    int line, column;      // in the file; 0: not from there
} zr_setting;

typedef struct zr_config {
    char *name;           // of the file, for messages
    zr_setting *settings; // (zr_key_count())
    int ranks;            // data-parallel

    int64_t stage;                                  // 0..3
    int64_t train_batch, micro_batch, accumulation; // samples: train = micro x accumulation x ranks
    double clipping;                                // largest gradient norm; 0: off
    int64_t reduce_bucket;                          // elements sealed but not yet reduced, at most
    int64_t prefetch_bucket;                        // elements gathered ahead, at most
    // ranks of a machine, which keeps what it gathers for the step; 0 or 1: it does not
    int64_t kept_by;
    int64_t steps_per_print; // 0: the program's choice
    int64_t seed;            // of weights, dropout and data order
    zr_optimizer_spec optimizer;
    zr_schedule schedule;
    zero_dtype dtype;             // F32, BF16 or F16: of parameters and activations
    zero_dtype accumulator_dtype; // data_types.grad_accum_dtype, where accumulator_given
    zero_dtype wire_dtype;        // communication_data_type, where wire_given
    bool accumulator_given, wire_given;
    bool exact_world;              // the same bits on any power of two of ranks
    int loss_mean;                 // 0: over a step's targets, 1: over its micro-batches
    zr_loss_scale_spec loss_scale; // of fp16; kind ZR_SCALE_NONE otherwise
    bool wall_clock_breakdown, memory_breakdown;
    zr_flops_profiler flops_profiler;
    zr_comms_logger comms_logger;
    zr_monitor_config tensorboard, csv_monitor;
    zr_elastic *elastic; // NULL: elasticity is off
    zr_offload_config offload;

    bool adam_w_mode; // as given; optimizer.kind already tells
} zr_config;

typedef struct zr_config_facts { // what the file cannot know
    int ranks;
    int64_t micro_batch;  // where neither file nor flags settle it; 0: then an error
    int64_t total_steps;  // updates of the whole run; 0: unknown
    int64_t warmup_steps; // of "auto" and of the program's schedule; 0: a twentieth of total_steps
    int64_t hidden;       // width of the model, for "auto" bucket sizes; 0: DeepSpeed's default
    // the program's learning rate for this model; 0: the optimizer's own default
    double lr;
    // what precision "auto" means here: BF16 where the processor multiplies it, else F32
    zero_dtype auto_dtype;
} zr_config_facts;

// text[0..length): JSON with comments and trailing commas; NULL: an empty configuration. `name`
// stands in messages.
// ZERO_ERR_CONFIG with name:line:column for what cannot be read: syntax, unknown or repeated keys,
// types, ranges.
zero_status zr_config_parse(const char *text, size_t length, const char *name, zr_config **out,
                            zero_error *error);
void zr_config_destroy(zr_config *config); // NULL is allowed

// A flag wins over the file and says so (logger); strict: ZERO_ERR_USAGE instead where they differ.
// "libzero.dtype" (--dtype) wins over fp16.enabled, bf16.enabled and data_types.param_dtype too.
// `key` is a path of the key table, `value` as written on the command line, `flag` its name
// ("--stage").
zero_status zr_config_override(zr_config *config, const char *key, const char *value,
                               const char *flag, bool strict, const zero_logger *logger,
                               zero_error *error);

// Forgets what only training reads (batches, optimizer, schedule, gradients, its own offload) and
// sets stage 3: parameters are divided, and lie where offload_param says. After the parse, before
// any flag; defaults_apply is not needed then.
zero_status zr_config_keep_inference(zr_config *config, zero_error *error);

// Fills and prints the program's defaults where neither file nor flags name an optimizer (AdamW
// 0.9/0.95, eps 1e-8, decay 0.1, lr from the facts), a schedule (warm-up from lr / its updates on,
// and cosine to a tenth; only where no optimizer is named in the file either, as a DeepSpeed file
// that names one without a schedule means a constant rate) and clipping (1.0).
zero_status zr_config_defaults_apply(zr_config *config, const zr_config_facts *facts,
                                     const zero_logger *logger, zero_error *error);

// Refuses what is not built, resolves "auto" (printing which), the batch arithmetic, optimizer and
// schedule, fills the fields, and prints how many keys have no effect (a warning) and which, for
// which reason (ZERO_LOG_DEBUG). Once per config.
zero_status zr_config_resolve(zr_config *config, const zr_config_facts *facts,
                              const zero_logger *logger, zero_error *error);

// ZERO_ERR_CONFIG, with the key and the update, where the schedule of a resolved configuration
// takes beta1 out of [0, 1) within the first `updates` updates.
zero_status zr_config_check_length(const zr_config *config, int64_t updates, zero_error *error);

// Before it is resolved: fills `elastic` where the configuration asks for it, for the numbers of
// ranks that it allows.
zero_status zr_config_find_elastic(zr_config *config, zero_error *error);

// What the program chooses once more is known, of an integer key that has a field: it stands in the
// written file like any value.
zero_status zr_config_choose(zr_config *config, const char *path, int64_t value, zero_error *error);
// The resolved configuration as JSON that parses and resolves to the same. Check out->failed.
void zr_config_write(const zr_config *config, zr_buffer *out);
// The key table as markdown, for docs/configuration.md. Check out->failed.
void zr_config_document(zr_buffer *out);

// NULL where the table has no such key.
const zr_setting *zr_config_setting(const zr_config *config, const char *path);
// it has a value, from the file or from anywhere else
bool zr_config_says(const zr_config *config, const char *path);

#endif
