// The options of the program: ONE table of rows drives parsing, checking, --help, man pages and
// completion.
//
// A row names an option, its argument, the subcommands that have it, its default and its help.
// options.c refuses what no row allows, and suggests the nearest name. It checks the form and range
// of values, so that a subcommand gets numbers.
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <zero/zero.h>

typedef enum cli_option_id {
    OPT_NEW,
    OPT_MODEL,
    OPT_LORA,
    OPT_PREFERENCE,
    OPT_TASK,
    OPT_REFERENCE,
    OPT_ADAPTER,
    OPT_ATTENTION,
    OPT_PARAMS,
    OPT_DATA,
    OPT_VAL,
    OPT_FIELD,
    OPT_MAP,
    OPT_CHAT,
    OPT_CHAT_DATE,
    OPT_TOKENIZER,
    OPT_VOCAB,
    OPT_SPECIAL,
    OPT_OUT,
    OPT_CONFIG,
    OPT_ALLOW_UNKNOWN,
    OPT_RANKS,
    OPT_TENSOR,
    OPT_SEQUENCE_PARALLEL,
    OPT_PIPELINE,
    OPT_SCHEDULE,
    OPT_SPLIT,
    OPT_MACHINES,
    OPT_PREDICT,
    OPT_MACHINE,
    OPT_RUN_FILE,
    OPT_CONTEXT,
    OPT_GLOBAL_BATCH,
    OPT_RECOMPUTE,
    OPT_PRODUCTS,
    OPT_FRAMEWORK,
    OPT_ORDER,
    OPT_MTBF,
    OPT_CHECKPOINT_RATE,
    OPT_CHECKPOINT_ASYNC,
    OPT_RESTART_TIME,
    OPT_THREADS,
    OPT_COMM,
    OPT_TIMEOUT,
    OPT_BACKEND,
    OPT_DTYPE,
    OPT_STAGE,
    OPT_MICRO_BATCH,
    OPT_ACCUMULATION,
    OPT_SEQ,
    OPT_STEPS,
    OPT_EPOCHS,
    OPT_LR,
    OPT_OPTIMIZER,
    OPT_OPTIMIZER_STATES,
    OPT_EMA,
    OPT_SCHEDULE_LR,
    OPT_WARMUP,
    OPT_DECAY,
    OPT_SEED,
    OPT_EVAL_EVERY,
    OPT_SAMPLE_EVERY,
    OPT_PROFILE,
    OPT_DRY_RUN,
    OPT_STRICT,
    OPT_EXPLAIN,
    OPT_QUIET,
    OPT_OVERWRITE,
    OPT_SAVE_EVERY,
    OPT_SAVE_SECONDS,
    OPT_KEEP,
    OPT_NO_FINAL_CHECKPOINT,
    OPT_NO_LEARN,
    OPT_RESUME,
    OPT_ALLOW_CHANGE,
    OPT_GRACE,
    OPT_RESTARTS,
    OPT_MIN_RANKS,
    OPT_FROM_STEP,
    OPT_TO_STEP,
    OPT_PROMPT,
    OPT_PROMPTS,
    OPT_BATCH,
    OPT_STOP,
    OPT_IGNORE_END,
    OPT_IGNORE_UNUSED,
    OPT_TOKENS,
    OPT_TEMPERATURE,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_FROM,
    OPT_TO,
    OPT_FORMAT,
    OPT_SHARD_SIZE,
    OPT_TYPE,
    OPT_BASE,
    OPT_SUMS,
    OPT_VERIFY,
    OPT_MEMORY,
    OPT_DEVICE_MEMORY,
    OPT_HOST_MEMORY,
    OPT_JSON,
    OPT_PROGRAM,
    OPT_DRAW,
    OPT_SECONDS,
    OPT_TRIALS,
    OPT_METRIC,
    OPT_PATH,
    OPT_BLOCK,
    OPT_DEPTH,
    OPT_BYTES,
    OPT_WRITE_MACHINE,
    OPT_HELP,
    CLI_OPTIONS
} cli_option_id;

typedef struct cli_command cli_command; // commands.h

typedef struct cli_arguments {
    const cli_command *command;
    bool given[CLI_OPTIONS];
    const char *text[CLI_OPTIONS]; // as written, or the default
    int64_t integer[CLI_OPTIONS];  // of integers and sizes
    double real[CLI_OPTIONS];      // of reals and counts
    const char **data;             // (data_count) the values of --data or --prompt, or the paths
    int data_count;
    const char **stops; // (stop_count) the values of --stop
    int stop_count;
    const char *operand;  // "comm", "gemm", ...; or a path
    char *const *program; // NULL-terminated: the program that `zero run` starts
    char *const *argv;    // the program's own arguments, for starting it again
} cli_arguments;

// Parses argv; argv[1] names the command. A failure is one line in `error`. Call cli_arguments_free
// afterwards in any case.
zero_status cli_parse(const cli_command *command, int argc, char *const *argv, cli_arguments *out,
                      zero_error *error);
void cli_arguments_free(cli_arguments *arguments);

// Returns where the command writes: what --out (of convert, --to) says, or the command's default.
const char *cli_out(const cli_arguments *arguments);
// What the options say of the fields of records: --map's text, --field's, or NULL.
const char *cli_field(const cli_arguments *arguments);

// ---- overrides.c: the options that set keys of the configuration, in the form that the library
// takes

enum { CLI_MOST_OVERRIDES = 26 }; // rows in overrides.c

typedef struct cli_overrides {
    zero_override at[CLI_MOST_OVERRIDES];
    char number[CLI_MOST_OVERRIDES][32]; // the value of at[i], if it is a number
    int count;
} cli_overrides;

// Fills *out with the options that are given. *out must not move afterwards, because it points into
// itself.
void cli_overrides_fill(const cli_arguments *arguments, cli_overrides *out);

// Returns how ranks are divided, for a command that takes this in place of overrides, because it
// has no configuration, or one that its flags replace.
zero_parallel cli_parallel(const cli_arguments *arguments);

// ---- output_names.c: checks the names of what a command writes, before it does anything

// Returns ZERO_ERR_USAGE if an option names its output by an extension that stands for something
// else than what is written: a drawing as x.png, a model's directory as q.gguf. A name without an
// extension and one with an unknown one promise nothing. Where a directory is to be, what is there
// already is judged by the command.
zero_status cli_check_output_names(const cli_arguments *arguments, zero_error *error);

#endif
