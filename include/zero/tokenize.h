// zero_tokenize: turns text into a file of tokens.
#ifndef ZERO_TOKENIZE_H
#define ZERO_TOKENIZE_H

#include <zero/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_tokenize_options {
    size_t struct_size;
    // "bytes", a directory (tokenizer.json, or vocab.json and merges.txt), a tokenizer.json, or the
    // directory of a run.
    const char *tokenizer;
    // (data_count) texts and JSONL, as in zero_train_options. The tokenizer's end token, if it has
    // one, follows each text and record.
    const char *const *data;
    int data_count;
    const char *field, *chat; // of JSONL, as in zero_train_options
    // The file to write, in llm.c's format: uint16 if the ids fit, otherwise uint32. out.json next
    // to it tells which tokenizer made it.
    const char *out;
    // 1: the spelling of a special token in the text becomes that token; 0: it is ordinary text.
    int special;
    int threads; // 0: the cores that this machine allows
    // 0: an `out` that exists is refused; 1: it is replaced, if it is a token file of libzero.
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

// Writes the token file. Takes one rank. After a failure the file still holds its old content, and
// a training that reads it gets the ids that it would have made of these data itself.
// Returns ZERO_ERR_DATA for data that hold tokens already, ZERO_ERR_USAGE for data with weights,
// and ZERO_ERR_UNSUPPORTED for records of which some parts are not targets, because a token file
// cannot express that.
ZERO_API zero_status zero_tokenize(const zero_tokenize_options *options, zero_tokenize_result *out,
                                   zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
