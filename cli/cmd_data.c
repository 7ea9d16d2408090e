// zero data show: writes the first batch in a readable form.
#include "commands.h"
#include "running.h"
#include "console.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct look {
    bool color; // output is a terminal that may be written to in colors
    bool begun; // a sample has been written
} look;

static void put_data(const char *text, size_t length) { cli_put_text(text, length); }

// Explains the marks, once, before the first sample.
static void explain_data(const look *l)
{
    if (l->color)
        printf("The loss counts what is not \033[2mdimmed\033[0m; an \033[7mend token\033[0m "
               "stands out, and a new line follows it.\n\n");
    else
        printf("The loss does not count what is in [brackets]; a new line follows each end "
               "token.\n\n");
}

static int emit_data(void *user, zero_data_mark mark, const char *text, size_t length)
{
    look *l = user;
    if (mark == ZERO_DATA_SAMPLE) {
        if (!l->begun)
            explain_data(l);
        printf("%s--- ", l->begun ? "\n\n" : "");
        put_data(text, length);
        printf(" ---\n");
        l->begun = true;
    } else if (mark == ZERO_DATA_TRAINED) {
        put_data(text, length);
    } else {
        bool masked = mark == ZERO_DATA_MASKED;
        fputs(l->color ? masked ? "\033[2m" : "\033[7m" : masked ? "[" : "", stdout);
        put_data(text, length);
        fputs(l->color ? "\033[0m" : masked ? "]" : "", stdout);
        fputs(masked ? "" : "\n", stdout);
    }
    return ferror(stdout);
}

static zero_data_options data_options_of(const cli_arguments *a, look *l)
{
    return (zero_data_options){
        .data = a->data,
        .data_count = a->data_count,
        .val = a->text[OPT_VAL],
        .field = a->text[OPT_FIELD],
        .chat = a->text[OPT_CHAT],
        .model_dir = a->text[OPT_MODEL],
        .tokenizer = a->text[OPT_TOKENIZER],
        .seq = a->integer[OPT_SEQ],
        .micro_batch = a->integer[OPT_MICRO_BATCH],
        .seed = a->given[OPT_SEED] ? a->integer[OPT_SEED] : -1,
        .threads = (int)a->integer[OPT_THREADS],
        .logger = {.write = cli_log_stderr},
        .emit = emit_data,
        .user = l,
    };
}

static bool wants_color(void)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

int cli_data(const cli_arguments *a)
{
    look l = {.color = wants_color()};
    if (!a->operand)
        return cli_fail_usage(a->command, "what to do with them? usage: zero data %s",
                              a->command->usage);
    if (!a->data_count)
        return cli_fail_usage(a->command, "no data: --data FILE names what to show");
    const zero_data_options options = data_options_of(a, &l);
    zero_error error = {0};
    zero_status status = zero_data_show(&options, &error);
    if (l.begun)
        putchar('\n');
    return status == ZERO_OK ? 0 : cli_fail(a->command, &error);
}
