// What a person sees of a training: the start block, one line a step as readers of llm.c know it, a
// bar on a terminal.
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

#include <stdbool.h>
#include <zero/zero.h>

typedef struct cli_console {
    bool quiet;
    bool explains; // reasons (ZERO_LOG_DEBUG) too
    bool terminal; // standard output is one: a bar instead of lines
    bool bar_shown;
    bool stepped;        // a step has been told of: the next one has a difference
    int64_t print_every; // steps between lines
    double bar_drawn_at; // seconds
} cli_console;

void cli_console_init(cli_console *console, bool quiet, bool explains);
// a zero_progress
int cli_console_progress(void *console, const zero_event *event);
// a zero_logger
void cli_console_log(void *console, zero_log_level level, const char *message);
// before anything else is printed
void cli_console_clear(cli_console *console);

#endif
