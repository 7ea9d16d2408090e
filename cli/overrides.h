// The options that set keys of the configuration, in the form that the library takes.
#ifndef CLI_OVERRIDES_H
#define CLI_OVERRIDES_H

#include "options.h"

enum { CLI_MOST_OVERRIDES = 14 }; // rows in overrides.c

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

#endif
