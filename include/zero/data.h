// zero_data_show: shows what a training will read, as text, before the run.
#ifndef ZERO_DATA_H
#define ZERO_DATA_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zero_data_mark {
    // A line about the sample that begins here: its number, its file, its place there, and how much
    // of it counts in the loss.
    ZERO_DATA_SAMPLE,
    ZERO_DATA_TRAINED, // text that counts in the loss
    // Text that does not: a prompt, or the first token of a window, which no token precedes.
    ZERO_DATA_MASKED,
    ZERO_DATA_END, // an end token, as the tokenizer spells it: a document ends here
} zero_data_mark;

typedef struct zero_data_options {
    size_t struct_size;
    const char *const *data; // (data_count) this and the next four are as in zero_train_options
    int data_count;
    const char *val, *field, *chat;
    // The model whose tokenizer, vocabulary, context and chat template are used; or NULL.
    const char *model_dir;
    const char *tokenizer; // as in zero_train_options
    int64_t seq;           // tokens of a window; 0: the model's context, or 128
    int64_t micro_batch;   // samples; 0: 2
    int64_t seed;          // of the order of samples; -1: 1337
    int threads;           // threads that read text; 0: what this machine allows
    zero_logger logger;
    // Gets valid UTF-8 that is not 0-terminated. A non-zero result stops.
    int (*emit)(void *user, zero_data_mark mark, const char *text, size_t length);
    void *user;
} zero_data_options;

// Passes the samples of micro-batch 0 of step 0, as zero_train would take them with these options,
// to `emit` in order. Not collective.
// Returns ZERO_ERR_USAGE, ZERO_ERR_IO or ZERO_ERR_DATA for the same reasons as zero_train.
ZERO_API zero_status zero_data_show(const zero_data_options *options, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
