// zero convert: writes a checkpoint as a model directory, or a checkpoint of DeepSpeed as one of
// libzero or as a model directory.
#include "commands.h"
#include "failure.h"

#include <unistd.h>

// The percentage that was shown last.
typedef struct bar {
    int percent;
} bar;

static void progress(void *user, int64_t done, int64_t total)
{
    bar *shown = user;
    int percent = total > 0 ? (int)(100 * ((double)done / (double)total)) : 100;
    if (percent == shown->percent)
        return;
    shown->percent = percent;
    fprintf(stderr, "\r\033[K%d%%", percent);
    fflush(stderr);
}

static void say_convert(void *user, zero_log_level level, const char *message)
{
    const cli_arguments *a = user;
    if (level <= ZERO_LOG_WARNING)
        fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", message);
    else if (level == ZERO_LOG_INFO && !a->given[OPT_QUIET])
        printf("%s%s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", message);
}

int cli_convert(const cli_arguments *a)
{
    if (!a->given[OPT_FROM])
        return cli_fail_usage(a->command,
                              "convert what? --from PATH is missing; usage: zero convert %s",
                              a->command->usage);
    bar shown = {-1};
    bool shows = isatty(STDERR_FILENO) && !a->given[OPT_QUIET];
    zero_convert_options options = {.from = a->text[OPT_FROM],
                                    .to = cli_out(a),
                                    .format = a->text[OPT_FORMAT],
                                    .dtype = a->text[OPT_DTYPE],
                                    .shard_bytes = a->integer[OPT_SHARD_SIZE],
                                    .model_dir = a->text[OPT_MODEL],
                                    .overwrite = a->given[OPT_OVERWRITE],
                                    .logger = {.write = say_convert, .user = (void *)a},
                                    .progress = shows ? progress : NULL,
                                    .progress_user = &shown};
    zero_error error = {0};
    zero_status status = zero_convert(&options, &error);
    if (shows)
        fputs("\r\033[K", stderr);
    return status == ZERO_OK ? 0 : cli_fail(a->command, &error);
}
