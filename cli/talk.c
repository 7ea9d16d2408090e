// zero generate --chat without prompts: a conversation. Each line of standard input is a message,
// and is answered; /reset begins another conversation; the end of the input ends it. With --json
// each answer is a line of JSON.
#define _GNU_SOURCE // getline
#include "answer.h"
#include "commands.h"
#include "running.h"
#include "console.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct talk {
    char *line; // what the user said last
    size_t room;
    bool prompts;      // a person types at a terminal
    bool failed;       // standard input cannot be read
    bool json;         // an answer is printed when it is whole
    cli_answer answer; // with json
    int64_t answered;
} talk;

static int take_part(void *user, int64_t prompt, const char *text, size_t length)
{
    talk *t = user;
    if (t->json)
        return !cli_answer_add(&t->answer, text, length);
    return !cli_put_text(text, length) || fflush(stdout) != 0;
}

static void end_answer(void *user, int64_t prompt, zero_finish why, int64_t tokens)
{
    talk *t = user;
    if (t->json)
        cli_answer_put_json(&t->answer, t->answered++, t->line, why, tokens);
    else
        putchar('\n');
    t->answer.length = 0;
    fflush(stdout);
}

// Reads the next line that is not blank, without its end.
static bool read_line(talk *t)
{
    do {
        if (t->prompts) {
            fputs("> ", stderr);
            fflush(stderr);
        }
        ssize_t length = getline(&t->line, &t->room, stdin);
        if (length < 0) {
            t->failed = ferror(stdin) != 0;
            return false;
        }
        while (length > 0 && (t->line[length - 1] == '\n' || t->line[length - 1] == '\r'))
            t->line[--length] = 0;
    } while (!t->line[strspn(t->line, " \t")]);
    return true;
}

static zero_turn ask_user(void *user, const char **text)
{
    talk *t = user;
    zero_turn turn = ZERO_TURN_ON;
    while (read_line(t)) {
        if (strcmp(t->line, "/reset")) {
            *text = t->line;
            return turn;
        }
        turn = ZERO_TURN_ANEW;
    }
    return ZERO_TURN_END;
}

int cli_talk(const cli_arguments *a, zero_generate_options *options)
{
    talk t = {.prompts = isatty(STDIN_FILENO) && isatty(STDERR_FILENO), .json = a->given[OPT_JSON]};
    zero_error error = {0};
    options->emit = take_part;
    options->finish = end_answer;
    options->ask = ask_user;
    options->user = &t;
    zero_status status = zero_generate(options, &error);
    free(t.line);
    cli_answer_free(&t.answer);
    if (status == ZERO_OK && t.failed) {
        status = error.status = ZERO_ERR_IO;
        snprintf(error.message, sizeof error.message, "standard input cannot be read");
    }
    return status == ZERO_OK ? 0 : cli_fail_rank(a->command, options->comm, &error);
}
