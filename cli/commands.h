// The subcommands of the program: their names, their texts, and the function that runs each.
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "options.h"

#include <stdio.h>

typedef struct cli_option cli_option; // option_table.h

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

typedef struct cli_general { // a word that may stand in a command's place
    const char *name;
    const char *argument; // NULL: none. "[COMMAND]", or values separated by '|'
    const char *help;
} cli_general;

extern const cli_general cli_generals[]; // ends with a name NULL

void cli_help(FILE *out);
void cli_help_command(const cli_command *command, FILE *out);
// Writes "The words of the help (choices) [default: ...]" for one row, as `command` words it.
void cli_help_option(const cli_option *row, const cli_command *command, char *out, size_t size);

// ---- man_page.c, whose examples and files manual_rows.c has

typedef struct cli_example {
    cli_command_id command;
    const char *words;   // the command line
    const char *purpose; // a sentence that ends with ':'
} cli_example;

typedef struct cli_file {
    unsigned commands; // bit 1 << cli_command_id; 0: only the page of zero itself has it
    const char *path;
    const char *content;
} cli_file;

extern const cli_example cli_examples[]; // ends with words NULL
extern const cli_file cli_files[];       // ends with a path NULL

// Writes the man page of a command, or zero.1, which describes what many commands share, if it is
// NULL.
void cli_man_page(const cli_command *command, FILE *out);

// ---- completion.c: scripts by which shells complete command lines

typedef struct cli_completion_script {
    const char *name; // of the shell
    const char *text; // with @TABLE@ where the commands and their options go
} cli_completion_script;

extern const cli_completion_script cli_completion_scripts[]; // completion/*.in; ends with {0}

// Returns false if the name, which may be NULL, is of no shell that there is a script for.
bool cli_completion(const char *shell, FILE *out);

int cli_train(const cli_arguments *arguments);
int cli_run(const cli_arguments *arguments);
int cli_eval(const cli_arguments *arguments);
int cli_generate(const cli_arguments *arguments);
// Of zero generate: a conversation on standard input and output (talk.c).
int cli_talk(const cli_arguments *arguments, zero_generate_options *options);
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
