// Prints text that a model wrote, without letting a terminal take it for commands.
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

// Writes UTF-8 text to stdout. If that is a terminal, control characters other than new line and
// tab become dots. Returns false if writing failed.
bool cli_put_text(const char *text, size_t length);

// Returns the columns of the terminal to which stdout goes; 0: it goes elsewhere.
int cli_columns(void);

#endif
