// Checks the names of what a command writes, before it does anything.
#ifndef CLI_OUTPUT_NAMES_H
#define CLI_OUTPUT_NAMES_H

#include "options.h"

// Returns ZERO_ERR_USAGE if an option names its output by an extension that stands for something
// else than what is written: a drawing as x.png, a model's directory as q.gguf. A name without an
// extension and one with an unknown one promise nothing. Where a directory is to be, what is there
// already is judged by the command.
zero_status cli_check_output_names(const cli_arguments *arguments, zero_error *error);

#endif
