// zero tokenize and zero tokenizer train: make token files and tokenizers from text and records.
#include "commands.h"
#include "running.h"

#include <time.h>
#include <unistd.h>

typedef struct shown { // on a terminal
    int percent;       // -1: nothing yet
    double began_at;   // seconds
} shown;

static double monotonic_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Rewrites one line on a terminal; writes nothing elsewhere.
static void show_percent(void *user, int64_t done, int64_t total)
{
    shown *shown = user;
    double part = total > 0 ? (double)done / (double)total : 0, at = monotonic_seconds();
    int percent = (int)(part * 100);
    if (shown->percent < 0)
        shown->began_at = at;
    if (isatty(STDERR_FILENO) && percent != shown->percent) {
        fprintf(stderr, "\r\033[K%3d%%", percent);
        if (part > 0 && at - shown->began_at > 1)
            fprintf(stderr, ", about %.0f s left", (at - shown->began_at) * (1 / part - 1));
    }
    shown->percent = percent;
}

static void clear_percent(const shown *shown)
{
    if (isatty(STDERR_FILENO) && shown->percent >= 0)
        fputs("\r\033[K", stderr);
}

static zero_tokenize_options tokenize_options(const cli_arguments *a, shown *shown)
{
    return (zero_tokenize_options){
        .tokenizer = a->text[OPT_TOKENIZER],
        .data = a->data,
        .data_count = a->data_count,
        .out = cli_out(a),
        .field = cli_field(a),
        .chat = a->text[OPT_CHAT],
        .chat_date = a->text[OPT_CHAT_DATE],
        .logger = {.write = cli_log_stderr},
        .special = a->given[OPT_SPECIAL],
        .threads = (int)a->integer[OPT_THREADS],
        .overwrite = a->given[OPT_OVERWRITE],
        .progress = show_percent,
        .user = shown,
    };
}

int cli_tokenize(const cli_arguments *a)
{
    shown shown = {.percent = -1};
    zero_error error = {0};
    zero_tokenize_result result;
    if (!a->given[OPT_TOKENIZER] || !a->data_count)
        return cli_fail_usage(a->command, "%s is missing; usage: zero tokenize %s",
                              a->given[OPT_TOKENIZER] ? "--data" : "--tokenizer",
                              a->command->usage);
    const zero_tokenize_options options = tokenize_options(a, &shown);
    zero_status status = zero_tokenize(&options, &result, &error);
    clear_percent(&shown);
    if (status != ZERO_OK)
        return cli_fail(a->command, &error);
    fprintf(stderr, "%s: %lld tokens of %d bytes, from %lld bytes in %lld %s; %.1f MB/s\n",
            options.out, (long long)result.tokens, result.token_bytes, (long long)result.bytes,
            (long long)result.documents, result.documents == 1 ? "document" : "documents",
            (double)result.bytes / 1e6 / result.seconds);
    return 0;
}

static zero_tokenizer_train_options tokenizer_train_options(const cli_arguments *a, shown *shown)
{
    return (zero_tokenizer_train_options){
        .struct_size = sizeof(zero_tokenizer_train_options),
        .data = a->data,
        .data_count = a->data_count,
        .field = cli_field(a),
        .vocabulary = (int32_t)a->integer[OPT_VOCAB],
        .out_dir = cli_out(a),
        .overwrite = a->given[OPT_OVERWRITE],
        .progress = show_percent,
        .user = shown,
    };
}

int cli_tokenizer(const cli_arguments *a)
{
    shown shown = {.percent = -1};
    zero_error error = {0};
    zero_tokenizer_train_result result;
    if (!a->operand || !a->data_count)
        return cli_fail_usage(a->command, "%s is missing; usage: zero tokenizer %s",
                              a->operand ? "--data" : "the word train", a->command->usage);
    const zero_tokenizer_train_options options = tokenizer_train_options(a, &shown);
    zero_status status = zero_tokenizer_train(&options, &result, &error);
    clear_percent(&shown);
    if (status != ZERO_OK)
        return cli_fail(a->command, &error);
    fprintf(stderr, "%s/tokenizer.json: %d tokens learnt from %lld bytes in %.1f s%s\n",
            options.out_dir, result.vocabulary, (long long)result.bytes, result.seconds,
            result.vocabulary < options.vocabulary ? "; no other pair occurs twice" : "");
    return 0;
}
