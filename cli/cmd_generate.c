// zero generate: runs one rank, or starts its ranks as their parent. Rank 0 writes one text to
// standard output as it is generated. With several prompts it prints each answer once those before
// it are complete, or all as JSON.
#include "answer.h"
#include "commands.h"
#include "running.h"
#include "console.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer { // to one of several prompts, kept until it is printed
    cli_answer text;
    bool done;
    zero_finish why;
    int64_t tokens;
} answer;

typedef struct answers {
    const char *const *prompts; // (count)
    answer *at;                 // (count)
    int64_t count, printed;
    bool json, echo, failed; // echo: prints the prompt before its answer
} answers;

typedef struct stream { // one answer, written to standard output as it is generated
    const char *prompt; // printed before it; NULL: prints the answer alone
    bool began;
    zero_logger log; // gets the messages that do not belong to the text
    // Collects messages that would interrupt the text, to print them after it; NULL: no memory.
    FILE *later;
} stream;

static void print_prompt_once(stream *s)
{
    if (!s->began && s->prompt)
        fputs(s->prompt, stdout);
    s->began = true;
}

static int print_text(void *user, int64_t prompt, const char *text, size_t length)
{
    print_prompt_once(user);
    return !cli_put_text(text, length) || fflush(stdout) != 0;
}

static void log_around_text(void *user, zero_log_level level, const char *message)
{
    stream *s = user;
    if (s->began && s->later && level <= ZERO_LOG_WARNING)
        fprintf(s->later, "%s\n", message);
    else
        s->log.write(s->log.user, level, message);
}

static int keep_text(void *user, int64_t prompt, const char *text, size_t length)
{
    answers *all = user;
    all->failed |= !cli_answer_add(&all->at[prompt].text, text, length);
    return all->failed;
}

static void put_answer(const answers *all, int64_t index)
{
    const answer *a = &all->at[index];
    const char *prompt = all->prompts[index];
    if (all->json) {
        cli_answer_put_json(&a->text, index, prompt, a->why, a->tokens);
        return;
    }
    printf("--- prompt %lld: %lld tokens%s ---\n", (long long)index, (long long)a->tokens,
           a->why == ZERO_FINISH_END ? ", ended" : "");
    if (all->echo)
        cli_put_text(prompt, strlen(prompt));
    cli_put_text(a->text.text, a->text.length);
    putchar('\n');
}

static void print_finished_answers(void *user, int64_t prompt, zero_finish why, int64_t tokens)
{
    answers *all = user;
    all->at[prompt].done = true;
    all->at[prompt].why = why;
    all->at[prompt].tokens = tokens;
    for (; all->printed < all->count && all->at[all->printed].done; all->printed++) {
        put_answer(all, all->printed);
        cli_answer_free(&all->at[all->printed].text);
    }
    all->failed |= fflush(stdout) != 0;
}

// The line comes after the text, which may be on the same terminal.
static void print_took_after_text(void *user, const char *text)
{
    stream *s = user;
    fprintf(s->later ? s->later : stderr, "%s\n", text);
}

static void print_took(void *user, const char *text) { fprintf(stderr, "%s\n", text); }

static int stream_one_answer(const cli_arguments *a, zero_generate_options *options)
{
    char *warnings = NULL;
    size_t length = 0;
    stream s = {.prompt = options->prompt_count && !options->chat ? options->prompts[0] : NULL,
                .later = open_memstream(&warnings, &length)};
    zero_error error = {0};
    options->emit = print_text;
    options->user = &s;
    options->took = a->given[OPT_QUIET] ? NULL : print_took_after_text;
    s.log = options->logger;
    options->logger = (zero_logger){.write = log_around_text, .user = &s};
    zero_status status = zero_generate(options, &error);
    if (status == ZERO_OK)
        print_prompt_once(&s);
    if (s.began)
        putchar('\n');
    fflush(stdout);
    if (s.later && fclose(s.later) == 0)
        fputs(warnings, stderr);
    free(warnings);
    return status == ZERO_OK ? 0 : cli_fail_rank(a->command, options->comm, &error);
}

static int collect_answers(const cli_arguments *a, zero_generate_options *options)
{
    static const char *const none[] = {""};
    zero_error error = {0};
    answers all = {.prompts = options->prompt_count ? options->prompts : none,
                   .count = options->prompt_count ? options->prompt_count : 1,
                   .json = a->given[OPT_JSON],
                   .echo = !options->chat};
    all.at = calloc((size_t)all.count, sizeof *all.at);
    options->emit = keep_text;
    options->finish = print_finished_answers;
    options->user = &all;
    options->took = a->given[OPT_QUIET] ? NULL : print_took;
    zero_status status = all.at ? zero_generate(options, &error) : ZERO_ERR_MEMORY;
    for (int64_t i = 0; all.at && i < all.count; i++)
        cli_answer_free(&all.at[i].text);
    free(all.at);
    if (status == ZERO_OK && !all.failed)
        return 0;
    if (status == ZERO_OK || !error.message[0])
        snprintf(error.message, sizeof error.message,
                 "the answers of %lld prompts could not be kept or written", (long long)all.count);
    error.status = status == ZERO_OK ? ZERO_ERR_IO : status;
    return cli_fail_rank(a->command, options->comm, &error);
}

// Generates for the prompts of --prompt, followed by those of the file.
static int answer_all_prompts(const cli_arguments *a, zero_generate_options *options,
                              const zero_prompts *file)
{
    long long count = a->data_count + file->count;
    const char **prompts = calloc((size_t)count + 1, sizeof *prompts);
    if (!prompts) {
        zero_error error = {.status = ZERO_ERR_MEMORY};
        snprintf(error.message, sizeof error.message, "no memory for %lld prompts", count);
        return cli_fail_rank(a->command, options->comm, &error);
    }
    for (int i = 0; i < a->data_count; i++)
        prompts[options->prompt_count++] = a->data[i];
    for (int64_t i = 0; i < file->count; i++)
        prompts[options->prompt_count++] = file->at[i];
    options->prompts = prompts;
    bool several = options->prompt_count > 1 || a->given[OPT_JSON];
    int code = several ? collect_answers(a, options) : stream_one_answer(a, options);
    free(prompts);
    return code;
}

// A chat without prompts is a conversation.
static bool converses(const cli_arguments *a)
{
    return a->given[OPT_CHAT] && !a->given[OPT_PROMPT] && !a->given[OPT_PROMPTS];
}

// `first`: this is the one rank that prints.
static zero_generate_options generate_options(const cli_arguments *a, zero_comm *comm, bool first)
{
    return (zero_generate_options){
        .struct_size = sizeof(zero_generate_options),
        CLI_LOAD_OPTIONS(a, first),
        .chat = a->text[OPT_CHAT],
        .chat_date = a->text[OPT_CHAT_DATE],
        .tokens = a->integer[OPT_TOKENS],
        .batch = a->integer[OPT_BATCH],
        .ignore_end = a->given[OPT_IGNORE_END],
        .temperature = a->real[OPT_TEMPERATURE],
        .top_k = (int)a->integer[OPT_TOP_K],
        .top_p = a->real[OPT_TOP_P],
        .seed = a->given[OPT_SEED] ? (uint64_t)a->integer[OPT_SEED] : 1337,
        .comm = comm,
        .no_learn = a->given[OPT_NO_LEARN],
        .stops = a->stops,
        .stop_count = a->stop_count,
        .converses = converses(a),
    };
}

// Takes part in what rank 0 asks and prints.
static int follow_rank_0(const cli_arguments *a, const zero_generate_options *options)
{
    zero_error error = {0};
    return zero_generate(options, &error) == ZERO_OK
               ? 0
               : cli_fail_rank(a->command, options->comm, &error);
}

static int generate_rank(const cli_arguments *a, zero_comm *comm)
{
    bool first = zero_comm_rank(comm) == 0;
    zero_generate_options options = generate_options(a, comm, first);
    zero_error error = {0};
    zero_prompts file = {0};
    if (!first)
        return follow_rank_0(a, &options);
    if (a->given[OPT_PROMPTS] &&
        zero_prompts_read(a->text[OPT_PROMPTS], a->text[OPT_FIELD], &file, &error) != ZERO_OK)
        return cli_fail_rank(a->command, comm, &error);
    if (options.converses)
        return cli_talk(a, &options);
    int code = answer_all_prompts(a, &options, &file);
    zero_prompts_free(&file);
    return code;
}

// Tokens take hours or days of any model; more are a slip of the pen.
#define MOST_TOKENS 1e6

int cli_generate(const cli_arguments *a)
{
    if (a->real[OPT_TOKENS] != floor(a->real[OPT_TOKENS]))
        return cli_fail_usage(a->command, "--tokens %s: it must be a whole number",
                              a->text[OPT_TOKENS]);
    if (a->real[OPT_TOKENS] > MOST_TOKENS)
        return cli_fail_usage(a->command, "--tokens %s: it must be from 1 to %.0f",
                              a->text[OPT_TOKENS], MOST_TOKENS);
    if (!a->given[OPT_MODEL])
        return cli_fail_usage(a->command, "no model: --model DIR names one");
    if (a->given[OPT_FIELD] && !a->given[OPT_PROMPTS])
        return cli_fail_usage(a->command,
                              "--field is of the records of --prompts, which is missing");
    return cli_run_ranks(a, generate_rank);
}
