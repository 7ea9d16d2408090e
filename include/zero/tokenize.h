// Text as a file of tokens.
#ifndef ZERO_TOKENIZE_H
#define ZERO_TOKENIZE_H

#include <zero/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_tokenize_options {
    size_t struct_size;
    // "bytes", a directory (tokenizer.json, or vocab.json and merges.txt), a tokenizer.json, or the
    // directory of a run
    const char *tokenizer;
    // (data_count) texts and JSONL, as in zero_train_options; the tokenizer's end token, where it
    // has one, follows each text and record
    const char *const *data;
    int data_count;
    const char *field, *chat; // of JSONL, as in zero_train_options
    // llm.c's format: uint16 where ids fit, else uint32; out.json next to it says which tokenizer
    // they are of
    const char *out;
    // 1: what spells a special token in the text is that token; 0: it is text
    int special;
    int threads; // 0: the cores this machine allows
    // 0: an `out` that exists is refused; 1: unless it is no token file of ours
    int overwrite;
    zero_logger logger;
    zero_bytes_done progress; // may be NULL
    void *user;
} zero_tokenize_options;

typedef struct zero_tokenize_result {
    int64_t bytes, tokens, documents;
    int token_bytes;
    double seconds;
} zero_tokenize_result;

// One rank. The file holds its old content or the whole new one. The ids are those that a training
// reads of these data.
// ZERO_ERR_DATA: data that hold tokens already; ZERO_ERR_USAGE: weights; ZERO_ERR_UNSUPPORTED:
// records of which some parts are no targets, which a token file cannot say.
ZERO_API zero_status zero_tokenize(const zero_tokenize_options *options, zero_tokenize_result *out,
                                   zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
