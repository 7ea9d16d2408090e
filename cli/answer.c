#include "answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_answer_add(cli_answer *answer, const char *text, size_t length)
{
    if (answer->length + length > answer->room) {
        size_t room = 2 * (answer->length + length);
        char *larger = realloc(answer->text, room);
        if (!larger)
            return false;
        answer->text = larger;
        answer->room = room;
    }
    if (length)
        memcpy(answer->text + answer->length, text, length);
    answer->length += length;
    return true;
}

void cli_answer_free(cli_answer *answer)
{
    free(answer->text);
    *answer = (cli_answer){0};
}

static void put_json_text(const char *text, size_t length)
{
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

void cli_answer_put_json(const cli_answer *answer, int64_t index, const char *prompt,
                         zero_finish why, int64_t tokens)
{
    printf("{\"index\": %lld, \"prompt\": ", (long long)index);
    put_json_text(prompt, strlen(prompt));
    printf(", \"text\": ");
    put_json_text(answer->text, answer->length);
    printf(", \"tokens\": %lld, \"finish\": \"%s\"}\n", (long long)tokens,
           why == ZERO_FINISH_END ? "end" : "length");
}
