// Text files as one stream of tokens, and the micro-batches cut from it.
//
// Training: sample s (s = 0, 1, ...) is a window of T+1 tokens. Windows of epoch e tile the stream from a random phase in
// [0, T) and are visited in a pseudo-random permutation; both are pure functions of (seed, e): no memory a sample, and any
// position is reached at once. Micro-batch g of step t with batch b takes samples (t*G + g)*b .. +b-1, G = micro-batches of a step.
// Evaluation: window i starts at i*T, i < floor((n-1)/T).
#ifndef ZR_DATA_DATASET_H
#define ZR_DATA_DATASET_H

#include "base/file.h"
#include "data/tokenizer.h"

typedef struct zr_text { // the files' bytes, one after another
    char *data;
    size_t length;
    int files;
    uint64_t hash; // xxh64 of the bytes
} zr_text;

// One file, mapped (zr_file_unmap); refused as below.
zero_status zr_text_map(const char *path, zr_mapped_file *out, zero_error *error);
// Reads and joins the files in the order given. Missing file: ZERO_ERR_IO; empty file or directory: ZERO_ERR_DATA; each named.
zero_status zr_text_load(const char *const *paths, int count, zr_text *out, zero_error *error);
void zr_text_free(zr_text *text);

typedef struct zr_dataset {
    int32_t *tokens; // (count)
    int64_t count;
    int64_t seq;     // T
    uint64_t seed;
} zr_dataset;

// Encodes text[first, first+length). Shorter than one window (seq+1 tokens): ZERO_ERR_DATA with both numbers. `beat` (may be NULL)
// is called now and then, so that a rank that tokenises gives signs of life.
zero_status zr_dataset_create(const zr_tokenizer *tokenizer, const char *text, size_t length, const char *name, int64_t seq, uint64_t seed,
                              void (*beat)(void *user), void *user, zr_dataset *out, zero_error *error);
void zr_dataset_free(zr_dataset *dataset);

int64_t zr_dataset_windows(const zr_dataset *dataset);      // of an epoch, training: max(1, floor(n/T) - 1)
int64_t zr_dataset_eval_windows(const zr_dataset *dataset); // floor((n-1)/T)
// tokens, targets: (batch, T)
void zr_dataset_train_batch(const zr_dataset *dataset, int64_t first_sample, int64_t batch, int32_t *tokens, int32_t *targets);
void zr_dataset_eval_batch(const zr_dataset *dataset, int64_t first_window, int64_t batch, int32_t *tokens, int32_t *targets);

// Where the last tenth begins, moved to a character boundary: training takes [0, split), validation [split, length).
size_t zr_text_split(const zr_text *text);

#endif
