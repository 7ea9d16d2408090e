// What a person sees of a training: a block at the start, then one line per step in the style of
// llm.c, and a bar on a terminal that no launcher stands before.
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <zero/zero.h>

typedef struct cli_console {
    bool quiet;
    bool explains; // prints reasons (ZERO_LOG_DEBUG) too
    bool terminal; // a person sees standard output: a bar is drawn instead of lines
    bool bar_shown;
    bool stepped;        // a step has been printed, so the next one has a loss to compare with
    int64_t print_every; // steps between two lines
    double bar_drawn_at; // seconds
} cli_console;

void cli_console_init(cli_console *console, bool quiet, bool explains);
// A zero_progress callback; `console` is a cli_console.
int cli_console_progress(void *console, const zero_event *event);
// A zero_logger callback.
void cli_console_log(void *console, zero_log_level level, const char *message);
// Clears the bar; call it before printing anything else.
void cli_console_clear(cli_console *console);

// Writes UTF-8 text that a model wrote to stdout. If that is a terminal, control characters other
// than new line and tab become dots, so that it does not take them for commands. Returns false if
// writing failed.
bool cli_put_text(const char *text, size_t length);

// Returns the columns of the terminal to which stdout goes; 0 if it goes elsewhere.
int cli_columns(void);

#endif
