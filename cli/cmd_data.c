// zero data show: writes the first batch in a readable form.
#include "commands.h"
#include "running.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int emit_data(void *user, const char *text, size_t length)
{
    return fwrite(text, 1, length, stdout) != length;
}

static bool wants_color(void)
{
    const char *no_color = getenv("NO_COLOR");
    return !(no_color && *no_color);
}

static zero_data_options data_options_of(const cli_arguments *a)
{
    bool terminal = isatty(STDOUT_FILENO) && !a->given[OPT_JSON];
    return (zero_data_options){
        .data = a->data,
        .data_count = a->data_count,
        .val = a->text[OPT_VAL],
        .field = cli_field(a),
        .chat = a->text[OPT_CHAT],
        .chat_date = a->text[OPT_CHAT_DATE],
        .attention = a->text[OPT_ATTENTION],
        .preference = a->text[OPT_PREFERENCE],
        .task = a->text[OPT_TASK],
        .model_dir = a->text[OPT_MODEL],
        .tokenizer = a->text[OPT_TOKENIZER],
        .seq = a->integer[OPT_SEQ],
        .micro_batch = a->integer[OPT_MICRO_BATCH],
        .seed = a->given[OPT_SEED] ? a->integer[OPT_SEED] : -1,
        .threads = (int)a->integer[OPT_THREADS],
        .json = a->given[OPT_JSON],
        .color = terminal && wants_color(),
        .terminal = terminal,
        .logger = {.write = cli_log_stderr},
        .emit = emit_data,
    };
}

int cli_data(const cli_arguments *a)
{
    if (!a->operand)
        return cli_fail_usage(a->command, "what to do with them? usage: zero data %s",
                              a->command->usage);
    if (!a->data_count)
        return cli_fail_usage(a->command, "no data: --data FILE names what to show");
    const zero_data_options options = data_options_of(a);
    zero_error error = {0};
    return zero_data_show(&options, &error) == ZERO_OK ? 0 : cli_fail(a->command, &error);
}
