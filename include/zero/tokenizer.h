// zero_tokenizer_train: makes a tokenizer from a text of your own.
#ifndef ZERO_TOKENIZER_H
#define ZERO_TOKENIZER_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// Reports that `done` of `total` bytes are done. Called from time to time, on the caller's thread.
typedef void (*zero_bytes_done)(void *user, int64_t done, int64_t total);

typedef struct zero_tokenizer_train_options {
    size_t struct_size;
    // (data_count) texts and JSONL, as in zero_train_options; messages are refused
    const char *const *data;
    int data_count;
    const char *field;  // of JSONL, as in zero_train_options
    int32_t vocabulary; // tokens wanted: 256 bytes, the end of a text, and the learned ones
    int64_t least;      // a pair that occurs less often is not learned; 0: 2
    // The directory for tokenizer.json and tokenizer_config.json; created if it does not exist.
    const char *out_dir;
    // 0 to refuse an existing tokenizer.json; 1 to replace it if libzero wrote it.
    int overwrite;
    // Reports the text that was read, then the tokens that were learned; may be NULL.
    zero_bytes_done progress;
    void *user;
} zero_tokenizer_train_options;

typedef struct zero_tokenizer_train_result {
    int64_t bytes;
    int32_t vocabulary;
    double seconds;
} zero_tokenizer_train_result;

// Trains a byte-level BPE with GPT-2's pre-tokenizer. Takes one rank. The same text gives the same
// file.
ZERO_API zero_status zero_tokenizer_train(const zero_tokenizer_train_options *options,
                                          zero_tokenizer_train_result *out, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
