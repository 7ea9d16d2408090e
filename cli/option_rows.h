// What the files of rows (options_model.c, options_machine.c, ...) share: short names for
// subcommands, so that a row can say `TRAIN | PLAN`, and bounds. Only these files include it.
#ifndef CLI_OPTION_ROWS_H
#define CLI_OPTION_ROWS_H

#include "option_table.h"

enum {
    TRAIN = 1 << CLI_TRAIN,
    RUN = 1 << CLI_RUN,
    EVAL = 1 << CLI_EVAL,
    GENERATE = 1 << CLI_GENERATE,
    VERIFY = 1 << CLI_VERIFY,
    INSPECT = 1 << CLI_INSPECT,
    CONVERT = 1 << CLI_CONVERT,
    PLAN = 1 << CLI_PLAN,
    TUNE = 1 << CLI_TUNE,
    COMPARE = 1 << CLI_COMPARE,
    SIMULATE = 1 << CLI_SIMULATE,
    BENCH = 1 << CLI_BENCH,
    DATA = 1 << CLI_DATA,
    DOCTOR = 1 << CLI_DOCTOR,
    TOKENIZE = 1 << CLI_TOKENIZE,
    TOKENIZER = 1 << CLI_TOKENIZER,
    EVERY = (1 << CLI_COMMANDS) - 1,
};

#define INT_MOST 2147483647.0
#define INT64_SAFE 9007199254740992.0 // 2^53: up to here a double counts exactly
#define NONE ""                       // a standard_text: there is no default

// The tables, joined by option_table.c.
extern const cli_option cli_options_model[], cli_options_machine[], cli_options_training[],
    cli_options_simulation[], cli_options_generation[], cli_options_files[], cli_options_reports[];
extern const int cli_options_model_count, cli_options_machine_count, cli_options_training_count,
    cli_options_simulation_count, cli_options_generation_count, cli_options_files_count,
    cli_options_reports_count;

#endif
