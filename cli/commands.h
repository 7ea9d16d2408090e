// The subcommands of the program: their names, their texts, and the function that runs each.
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options.h"

#include <stdio.h>

typedef enum cli_command_id {
    CLI_TRAIN,
    CLI_RUN,
    CLI_EVAL,
    CLI_GENERATE,
    CLI_INSPECT,
    CLI_CONVERT,
    CLI_DIFF,
    CLI_VERIFY,
    CLI_TOKENIZE,
    CLI_TOKENIZER,
    CLI_DATA,
    CLI_PLAN,
    CLI_TUNE,
    CLI_COMPARE,
    CLI_SIMULATE,
    CLI_BENCH,
    CLI_DOCTOR,
    CLI_COMMANDS
} cli_command_id;

typedef struct cli_command {
    const char *name;
    const char *usage;   // what follows the name
    const char *purpose; // one line
    const char *detail;  // a paragraph for --help and the man page; may be NULL
    const char *choices; // values of its one operand, separated by '|'; NULL: none
    const char *out;     // where it writes by default; NULL: nowhere
    bool takes_paths;    // its operands are paths, any number of them
    bool takes_path;     // its one operand is a path
    bool runs_program;   // a program and its arguments follow the options
    int (*run)(const cli_arguments *arguments);
} cli_command;

extern const cli_command cli_commands[CLI_COMMANDS];

const cli_command *cli_find_command(const char *name); // NULL if there is none
const char *cli_nearest_command(const char *name);     // NULL if none is close

void cli_help(FILE *out);
void cli_help_command(const cli_command *command, FILE *out);
void cli_manual(FILE *out); // writes the man page, zero.1

int cli_train(const cli_arguments *arguments);
int cli_run(const cli_arguments *arguments);
int cli_eval(const cli_arguments *arguments);
int cli_generate(const cli_arguments *arguments);
int cli_diff(const cli_arguments *arguments);
int cli_verify(const cli_arguments *arguments);
int cli_inspect(const cli_arguments *arguments);
int cli_convert(const cli_arguments *arguments);
int cli_plan(const cli_arguments *arguments);
int cli_tune(const cli_arguments *arguments);
int cli_compare(const cli_arguments *arguments);
int cli_simulate(const cli_arguments *arguments);
int cli_bench(const cli_arguments *arguments);
int cli_tokenize(const cli_arguments *arguments);
int cli_tokenizer(const cli_arguments *arguments);
int cli_data(const cli_arguments *arguments);
int cli_doctor(const cli_arguments *arguments);

#endif
