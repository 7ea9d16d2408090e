// Text that a model wrote, on its way to a person: a terminal must not take it for commands.
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Writes UTF-8 text to stdout; where that is a terminal, control characters other than new line and
// tab become dots.
// False where writing failed.
bool cli_put_text(const char *text, size_t length);

#endif
