#define _GNU_SOURCE
#include "console.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

// Lines at even distances of a run; before the first of them come those of steps 1, 2, 4, 8, ...
enum { LINES_OF_A_RUN = 25, BAR_CELLS = 24 };

static double monotonic_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void cli_console_init(cli_console *console, bool quiet, bool explains)
{
    int launched = 0;
    // A launcher may give its ranks a pseudo-terminal, and writes what they say into a file.
    bool passed_on = zero_launched_ranks(&launched, NULL) == ZERO_OK && launched > 0;
    *console = (cli_console){.quiet = quiet,
                             .explains = explains,
                             .terminal = isatty(STDOUT_FILENO) && (!passed_on || zero_supervised()),
                             .print_every = 1};
}

void cli_console_clear(cli_console *console)
{
    if (console->bar_shown)
        fputs("\r\033[K", stdout);
    console->bar_shown = false;
}

void cli_console_log(void *user, zero_log_level level, const char *message)
{
    cli_console *console = user;
    if ((level > ZERO_LOG_INFO && !console->explains) || (console->quiet && level > ZERO_LOG_ERROR))
        return;
    cli_console_clear(console);
    fflush(stdout);
    FILE *out = level == ZERO_LOG_INFO ? stdout : stderr;
    fprintf(out, "%s\n", message);
    fflush(out);
}

static int count_digits(int64_t n)
{
    int count = 1;
    while (n >= 10) {
        n /= 10;
        count++;
    }
    return count;
}

static void write_step_name(const zero_event *event, char *out, size_t size)
{
    snprintf(out, size, "step %*lld/%lld", count_digits(event->total_steps), (long long)event->step,
             (long long)event->total_steps);
}

static void write_duration(double seconds, char *out, size_t size)
{
    long long left = (long long)(seconds + 0.5);
    if (left >= 3600)
        snprintf(out, size, "%lld:%02lld:%02lld", left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(out, size, "%lld:%02lld", left / 60, left % 60);
}

// A step without any target has no loss.
static const char *loss_text(double loss, int digits, char text[32])
{
    snprintf(text, 32, isnan(loss) ? "-" : "%.*f", digits, loss);
    return text;
}

static void print_step_line(const zero_event *event, bool first)
{
    // The norm of a step that updated nothing is not finite.
    char name[64], loss[32], change[32] = "      -", norm[32] = "skipped", left[32] = "";
    write_step_name(event, name, sizeof name);
    if (isnan(event->loss))
        snprintf(change, sizeof change, "no target");
    else if (!first)
        snprintf(change, sizeof change, "%+.4f", event->loss - event->previous_loss);
    if (isfinite(event->grad_norm))
        snprintf(norm, sizeof norm, "norm %.4f", event->grad_norm);
    write_duration(event->seconds_left, left, sizeof left);
    printf("%s | loss %s (%s) | lr %.2e | %s | %.1f ms | %.0f tok/s | %s left\n", name,
           loss_text(event->loss, 6, loss), change, event->lr, norm, event->milliseconds,
           event->tokens_per_second, left);
}

// Writes the bar's text; a `columns` too narrow for the cells leaves them out. 0: unknown.
static void write_bar(const zero_event *event, int columns, char *text, size_t size)
{
    char cells[BAR_CELLS + 1], left[32], name[64], loss[32];
    int full = event->total_steps > 0 ? (int)(BAR_CELLS * event->step / event->total_steps) : 0;
    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)full);
    cells[BAR_CELLS] = 0;
    write_duration(event->seconds_left, left, sizeof left);
    write_step_name(event, name, sizeof name);
    loss_text(event->loss, 4, loss);
    int width = snprintf(text, size, "%s [%s] loss %s | %.0f tok/s | %s left", name, cells, loss,
                         event->tokens_per_second, left);
    if (columns <= 1 || width < columns)
        return;
    snprintf(text, size, "%s loss %s | %.0f tok/s | %s left", name, loss, event->tokens_per_second,
             left);
    if (columns < (int)size)
        text[columns - 1] = 0;
}

static void draw_bar(cli_console *console, const zero_event *event)
{
    double at = monotonic_seconds();
    char text[256];
    bool last = event->step == event->total_steps;
    if (console->bar_shown && at - console->bar_drawn_at < 0.1 && !last)
        return;
    console->bar_drawn_at = at;
    write_bar(event, cli_columns(), text, sizeof text);
    printf("\r\033[K%s", text);
    console->bar_shown = true;
}

// Whether the step comes before those at even distances, and is one of 1, 2, 4, 8, ...
static bool is_early(const cli_console *console, int64_t step)
{
    return step < console->print_every && (step & (step - 1)) == 0;
}

static void show_step(cli_console *console, const zero_event *event)
{
    bool first = !console->stepped; // since this start: after a resume it is not step 1
    console->stepped = true;
    if (console->terminal)
        draw_bar(console, event);
    else if (first || is_early(console, event->step) || event->step % console->print_every == 0 ||
             event->step == event->total_steps)
        print_step_line(event, first);
}

static void show_eval(cli_console *console, const zero_event *event)
{
    char name[64], loss[32];
    write_step_name(event, name, sizeof name);
    cli_console_clear(console);
    printf("%s | val loss %s", name, loss_text(event->loss, 6, loss));
    if (event->pairs && !isnan(event->accuracy))
        printf(", accuracy %.3f", event->accuracy);
    if (event->pairs && !isnan(event->margin))
        printf(", margin %.4g", event->margin);
    printf(" (%s%s)\n", event->text, event->is_best ? ", the best so far" : "");
}

static void show_sample(cli_console *console, const zero_event *event)
{
    char name[64];
    write_step_name(event, name, sizeof name);
    cli_console_clear(console);
    printf("--- %s: a sample ---\n", name);
    cli_put_text(event->text, strlen(event->text));
    printf("\n---\n");
}

static void show_end(cli_console *console, const zero_event *event)
{
    cli_console_clear(console);
    if (event->text)
        printf("%s\n", event->text);
}

int cli_console_progress(void *user, const zero_event *event)
{
    cli_console *console = user;
    if (!console->quiet) {
        switch (event->kind) {
        case ZERO_EVENT_START:
            console->print_every = event->print_every > 0
                                       ? event->print_every
                                       : (event->total_steps + LINES_OF_A_RUN - 1) / LINES_OF_A_RUN;
            break;
        case ZERO_EVENT_STEP: show_step(console, event); break;
        case ZERO_EVENT_EVAL: show_eval(console, event); break;
        case ZERO_EVENT_SAMPLE: show_sample(console, event); break;
        case ZERO_EVENT_END: show_end(console, event);
        }
        fflush(stdout);
    }
    return 0;
}

// Returns the length of the control character at the start of text[0..length), or 0 if there is
// none: C0, DEL, and C1 in UTF-8.
static size_t control_bytes(const unsigned char *text, size_t length)
{
    if (text[0] == '\n' || text[0] == '\t')
        return 0;
    if (text[0] < 0x20 || text[0] == 0x7f)
        return 1;
    return length > 1 && text[0] == 0xc2 && text[1] < 0xa0 ? 2 : 0;
}

bool cli_put_text(const char *text, size_t length)
{
    if (!isatty(STDOUT_FILENO))
        return fwrite(text, 1, length, stdout) == length;
    for (size_t i = 0; i < length;) {
        size_t control = control_bytes((const unsigned char *)text + i, length - i);
        putchar(control ? '.' : text[i]);
        i += control ? control : 1;
    }
    return !ferror(stdout);
}

int cli_columns(void)
{
    struct winsize window = {0};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}
