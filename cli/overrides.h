// The options that stand for keys of the configuration, as the library takes them.
#ifndef CLI_OVERRIDES_H
#define CLI_OVERRIDES_H

#include "options.h"

enum { CLI_MOST_OVERRIDES = 6 }; // rows in overrides.c

typedef struct cli_overrides {
    zero_override at[CLI_MOST_OVERRIDES];
    char number[CLI_MOST_OVERRIDES][24]; // the value of at[i], where it is bytes
    int count;
} cli_overrides;

// of those that are given; *out stays where it is
void cli_overrides_fill(const cli_arguments *arguments, cli_overrides *out);

#endif
