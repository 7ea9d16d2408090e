// The words that graph.c is called with.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zero/zero.h>

typedef struct words {
    int stage, steps, symmetric, sampled;
    const char *file; // NULL: none
} words;

static int number(const char *word, int most) // -1 if it is none of 0 to most
{
    char *end;
    long value = strtol(word, &end, 10);
    return isdigit((unsigned char)*word) && !*end && value <= most ? (int)value : -1;
}

static int choice(const char *word, const char *first, const char *second) // 0, 1; -1: neither
{
    return strcmp(word, first) == 0 ? 0 : strcmp(word, second) == 0 ? 1 : -1;
}

static zero_status take_words(int argc, char **argv, words *out, zero_error *error)
{
    static const char *const right[] = {"STAGE, 0 to 3", "STEPS, 0 to 1000000",
                                        "WEIGHTS, mean or symmetric", "NODES, full or sampled"};
    *out = (words){.stage = argc > 1 ? number(argv[1], 3) : 3,
                   .steps = argc > 2 ? number(argv[2], 1000000) : 50,
                   .symmetric = argc > 3 ? choice(argv[3], "mean", "symmetric") : 1,
                   .sampled = argc > 4 ? choice(argv[4], "full", "sampled") : 0,
                   .file = argc > 5 ? argv[5] : NULL};
    const int taken[] = {out->stage, out->steps, out->symmetric, out->sampled};
    for (int i = 0; i < 4; i++)
        if (taken[i] < 0) {
            snprintf(error->message, sizeof error->message, "word %d is %s, not \"%s\"", i + 1,
                     right[i], argv[i + 1]);
            return ZERO_ERR_USAGE;
        }
    if (argc <= 6)
        return ZERO_OK;
    snprintf(error->message, sizeof error->message,
             "at most 5 words are taken, STAGE, STEPS, WEIGHTS, NODES and FILE; \"%s\" is one more",
             argv[6]);
    return ZERO_ERR_USAGE;
}
