// What a training reads: its data as text, before a run.
#ifndef ZERO_DATA_H
#define ZERO_DATA_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zero_data_mark {
    // a line about the sample that begins here: its number, file, place, and how much of it counts
    ZERO_DATA_SAMPLE,
    ZERO_DATA_TRAINED,
    // the loss does not count it: prompt, or the first token of a window, which nothing comes
    // before
    ZERO_DATA_MASKED,
    ZERO_DATA_END, // an end token, as the tokenizer spells it: a document ends here
} zero_data_mark;

typedef struct zero_data_options {
    size_t struct_size;
    const char *const *data; // (data_count) as in zero_train_options, as the three after it
    int data_count;
    const char *val, *field, *chat;
    // whose tokenizer, vocabulary, context and chat template count; or NULL
    const char *model_dir;
    const char *tokenizer; // as in zero_train_options
    int64_t seq;           // tokens of a window; 0: the model's context, or 128
    int64_t micro_batch;   // samples; 0: 2
    int64_t seed;          // of the order; -1: 1337
    int threads;           // that read text; 0: what this machine allows
    zero_logger logger;
    // valid UTF-8, not 0-terminated; non-zero stops
    int (*emit)(void *user, zero_data_mark mark, const char *text, size_t length);
    void *user;
} zero_data_options;

// The samples of micro-batch 0 of step 0, as zero_train with these options would take them, passed
// to `emit` in order. Not collective.
// ZERO_ERR_USAGE, ZERO_ERR_IO, ZERO_ERR_DATA as of zero_train.
ZERO_API zero_status zero_data_show(const zero_data_options *options, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
