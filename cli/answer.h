// An answer of a model that is kept until it is whole, and how JSON writes it.
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include <stdbool.h>
#include <zero/generate.h>

typedef struct cli_answer {
    char *text; // (length), without an end; NULL while empty
    size_t length, room;
} cli_answer;

bool cli_answer_add(cli_answer *answer, const char *text, size_t length); // false: no memory
void cli_answer_free(cli_answer *answer);                                 // afterwards it is empty
// Prints a line, {"index": .., "prompt": .., "text": .., "tokens": .., "finish": ..}, to stdout.
void cli_answer_put_json(const cli_answer *answer, int64_t index, const char *prompt,
                         zero_finish why, int64_t tokens);

#endif
