// The rows of options, which options.c parses by and help.c prints. They are in the files
// options_SUBJECT.c, which option_table.c joins, and are printed in the order of cli_option_id.
#ifndef CLI_OPTION_TABLE_H
#define CLI_OPTION_TABLE_H

#include "commands.h"

typedef enum cli_kind {
    CLI_FLAG,
    CLI_TEXT,
    CLI_TEXTS,  // one or more values
    CLI_EACH,   // one value each time the option is given
    CLI_CHOICE, // one of `choices`
    CLI_INTEGER,
    CLI_REAL,
    CLI_COUNT, // 7.5e9, 124M
    CLI_BYTES, // 24GB, 512MiB
} cli_kind;

enum { CLI_MOST_WORDINGS = 8 };

typedef struct cli_wording { // how a command describes an option
    unsigned commands;       // bit 1 << cli_command_id
    // In a row's `differs`, NULL is as in the row.
    const char *help;
    const char *standard_text; // "": no default
    const char *choices, *argument;
} cli_wording;

struct cli_option {
    cli_option_id id;
    const char *name;     // "--stage"
    const char *argument; // "N", as help shows it; NULL: a flag
    cli_kind kind;
    unsigned commands; // bit 1 << cli_command_id
    // "auto|self|local|mpi"; FILE.EXT at its end stands for the names of files that end so. Of
    // another kind than CLI_CHOICE, what completion proposes: FILE stands for the names of files,
    // and a ',' in front says that the value is a list of these.
    const char *choices;
    double least, most;        // the range of numbers
    bool capacity;             // a bare number of so few bytes would be a slip: 80 is 80 bytes
    const char *standard;      // the default, as a user would write it; NULL: none
    const char *standard_text; // the default in words, if it is not a plain value
    const char *help;  // for every command except those in `differs`; it names no other command
    const char *unfit; // what to say of it for a command of `unfit_for`, which lacks it
    unsigned unfit_for;
    cli_wording differs[CLI_MOST_WORDINGS];
};

const cli_option *cli_option_row(cli_option_id id); // every option has a row

// All rows, one subject after another: 0 <= index < cli_option_row_count().
int cli_option_row_count(void);
const cli_option *cli_option_row_at(int index);

bool cli_option_belongs(const cli_option *row, const cli_command *command);
bool cli_option_is_unfit(const cli_option *row, const cli_command *command); // row->unfit says why

// Returns how `command`, which must have the option, describes it. standard_text NULL: no default.
cli_wording cli_option_wording(const cli_option *row, const cli_command *command);

enum { CLI_FOREIGN_TEXT = 200 };
// Writes what an option that other trainers call name[0..length) is for `command`: "here it is
// --ranks", or why there is none. Returns false if the name is not known. In foreign_options.c.
bool cli_foreign_option(const cli_command *command, const char *name, size_t length,
                        char out[static CLI_FOREIGN_TEXT]);

#endif
