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
    DIFF = 1 << CLI_DIFF,
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

// A row is a kind of cli_kind, an option of cli_option_id, its name, its argument (a flag has
// none), the commands that have it, and any of cli_option's other fields:
//
//   OPTION(INTEGER, STEPS, "--steps", "N", TRAIN | SIMULATE, RANGE(1, 1e12), .help = "updates",
//       .differs = {FOR(SIMULATE, .help = "updates of the training")}),
#define OPTION(kind_, id_, name_, argument_, commands_, ...)                                       \
    {                                                                                              \
        .kind = CLI_##kind_, .id = OPT_##id_, .name = name_, .argument = argument_,                \
        .commands = commands_, __VA_ARGS__                                                         \
    }
#define FLAG(id_, name_, commands_, ...)                                                           \
    {                                                                                              \
        .kind = CLI_FLAG, .id = OPT_##id_, .name = name_, .commands = commands_, __VA_ARGS__       \
    }
#define RANGE(least_, most_) .least = least_, .most = most_
#define UNFIT(commands_, why) .unfit_for = commands_, .unfit = why
#define FOR(commands_, ...)                                                                        \
    {                                                                                              \
        .commands = commands_, __VA_ARGS__                                                         \
    }

// The tables, joined by option_table.c.
extern const cli_option cli_options_model[], cli_options_machine[], cli_options_training[],
    cli_options_simulation[], cli_options_reports[];
extern const int cli_options_model_count, cli_options_machine_count, cli_options_training_count,
    cli_options_simulation_count, cli_options_reports_count;

#endif
