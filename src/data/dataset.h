// Streams of tokens, and the micro-batches cut from them.
//
// Training: sample s (s = 0, 1, ...) of a stream is a window of T+1 tokens. The windows of epoch e
// tile the stream from a random phase in [0, T) and are visited in a pseudo-random permutation.
// Both are pure functions of (seed, e), so they need no memory for each sample, and any position is
// reached at once. Micro-batch g of step t with batch b takes samples (t*G + g)*b .. +b-1, where G
// is the number of micro-batches of a step. Each of several streams has windows of its own, and
// mixture.c says which stream a sample comes from. Evaluation: window i of a stream starts at i*T,
// i < floor((n-1)/T); streams come one after another. A stream that is packed has windows of whole
// examples instead (packing.h), which every epoch visits in another order.
#ifndef ZR_DATA_DATASET_H
#define ZR_DATA_DATASET_H

#include "data/packing.h"
#include "data/spill.h"
#include "data/token_file.h"
#include "data/watch.h"

#define ZR_MASKED (-100) // the target that the loss does not count, as in PyTorch

// Tokens of a stream that are contiguous: in memory, in a spill, or in a token file.
typedef struct zr_token_span {
    int64_t first, count;  // position in the stream
    const int32_t *tokens; // (count); ~id if the token is not a target; NULL if they are elsewhere
    zr_spill *spill;       // int32, as `tokens`; NULL if they are in `file`
    const zr_token_file *file;
    int64_t at;       // position of its first token in the spill or the file
    const char *name; // name of the file or files that they come from
} zr_token_span;

// Of preferences, what an example is. In a window it stands next to its partner: examples 2n and 2n
// + 1 are a chosen answer and the rejected one, or, of answers with labels, an answer and a
// mismatched one: the prompt of the first with another example's answer.
typedef struct zr_example_mark {
    int64_t role;   // zero_role
    int64_t shared; // tokens at its beginning that are those of the example before it
} zr_example_mark;

typedef struct zr_stream {
    zr_token_span *spans; // (span_count), in order
    int span_count, capacity;
    int64_t count;    // tokens
    const char *name; // the argument that it comes from; the first one if there are several
    // Of a stream that is packed: its examples (example_count), and their windows; otherwise NULL.
    zr_example *examples;
    int example_count, example_capacity;
    zr_packing packing;
    // Of preferences, else NULL: (example_count); and what the reference gives to each answer.
    zr_example_mark *marks;
    float *references;
    int64_t dropped; // pairs that are left out, because a window has no room for both answers
} zr_stream;

typedef struct zr_dataset {
    zr_stream *streams; // (stream_count); 0 streams if there is nothing to read
    int stream_count;
    double *weights; // (stream_count) the streams' shares of the samples
    int64_t count;   // tokens of all streams
    int64_t masked;  // number of these that are not targets
    int64_t bare;    // windows without any target, if they tile the streams from their starts
    int64_t seq;     // T
    uint64_t seed;
    bool documents;   // micro-batches have positions, which begin anew in each example
    bool preferences; // micro-batches have roles and references
    bool prompt_loss; // prompts of chosen answers are targets
} zr_dataset;

// Reads tokens [first, first+count) of the span; masked ones are ~id.
void zr_token_span_read(const zr_token_span *span, int64_t first, int64_t count, int32_t *out);
// Returns the first token of [first, end) that is a target, or is none; `end` if there is none.
int64_t zr_token_span_find(const zr_token_span *span, int64_t first, int64_t end, bool target);

// Appends the span's `count` tokens; its `first` is set here.
zero_status zr_stream_add(zr_stream *stream, const zr_token_span *span, zero_error *error);
// Appends an example of a stream that is to be packed. zr_stream_pack makes its windows.
zero_status zr_stream_add_example(zr_stream *stream, int64_t first, int64_t count,
                                  zero_error *error);
zero_status zr_stream_pack(zr_stream *stream, int64_t seq, zero_error *error);
// Reads tokens [from, from + count) of an example.
void zr_stream_read_example(const zr_stream *stream, int64_t number, int64_t from, int64_t count,
                            int32_t *out);
// Reads tokens [first, first+count) of the stream; masked ones are ~id.
void zr_stream_read(const zr_stream *stream, int64_t first, int64_t count, int32_t *out);
// Return how many windows the stream has: in an epoch of training max(1, floor(n/T) - 1), in an
// evaluation floor((n-1)/T). One that is packed has those of its packing in both.
int64_t zr_stream_windows(const zr_stream *stream, int64_t seq);
int64_t zr_stream_eval_windows(const zr_stream *stream, int64_t seq);
// Counts the windows of an evaluation that have no target.
int64_t zr_stream_bare_windows(const zr_stream *stream, int64_t seq);

void zr_dataset_free(zr_dataset *dataset); // frees the streams, not the tokens

typedef struct zr_token_window { // the T+1 tokens from `first` on
    int stream;
    int64_t first; // of a stream that is packed, the number of the window
} zr_token_window;
zr_token_window zr_dataset_train_window(const zr_dataset *dataset, int64_t sample);
zr_token_window zr_dataset_eval_window(const zr_dataset *dataset, int64_t window);
int64_t zr_dataset_eval_windows(const zr_dataset *dataset); // of all streams
// Returns the tokens of an epoch of training, of all streams: rows of packed windows count as such.
int64_t zr_dataset_epoch(const zr_dataset *dataset);
typedef struct zr_rows { // of a micro-batch, each (batch, T)
    // Targets that do not count are ZR_MASKED. positions: of each row in its example; NULL: they
    // are not wanted. Rows that no example has are a document of token 0 without targets.
    int32_t *tokens, *targets, *positions;
    int32_t *roles; // of preferences: <zero/preference.h>; NULL: not wanted, as the next
    float *reference;
    float *losses; // where the last unit writes the losses of rows; NULL: nowhere
    // Of labels: where it writes the logits of rows with a target (scored, labels); NULL: nowhere
    float *scores;
    int64_t scored, labels;
} zr_rows;
// Returns the rows of a window that a stream or examples fill.
int64_t zr_dataset_window_rows(const zr_dataset *dataset, zr_token_window window);
// Returns the number, among the examples of all streams in their order, of the one that has a row
// of a packed window of an evaluation; -1: none.
int64_t zr_dataset_example_of(const zr_dataset *dataset, int64_t eval_window, int64_t row);
int64_t zr_dataset_examples(const zr_dataset *dataset); // of all streams
zr_rows zr_rows_from(zr_rows rows, int64_t row);        // those from row `row` of all on
void zr_dataset_train_batch(const zr_dataset *dataset, int64_t first_sample, int64_t batch,
                            zr_rows out);
void zr_dataset_eval_batch(const zr_dataset *dataset, int64_t first_window, int64_t batch,
                           zr_rows out);
// Calls zr_token_file_check_length for each file, and zr_spill_check for each spill.
zero_status zr_dataset_check_files(const zr_dataset *dataset, zero_error *error);
// Hashes all data that samples consist of: each stream's length, weight, ids and masks. Each block
// of tokens is hashed by itself, and block b belongs to share b mod `shares`. The sum of all
// shares, modulo 2^64, is the hash; it does not depend on the number of shares. Each block is read
// once.
uint64_t zr_dataset_hash(const zr_dataset *dataset, int share, int shares, const zr_watch *watch);
// From dataset_fingerprint.c. Hashes length, weight and ids of each span that this caller has. All
// ids of texts and records are hashed; of the token files, ZR_SAMPLED_BLOCKS blocks of 1,024 ids in
// all, at positions that follow from the seed.
typedef void (*zr_span_fingerprint)(void *user, const zr_token_span *span, double weight,
                                    uint64_t hash);
void zr_dataset_fingerprint(const zr_dataset *dataset, uint64_t seed, const zr_watch *watch,
                            zr_span_fingerprint take, void *user);
int64_t zr_count_targets(const int32_t *targets, int64_t count);

// From mixture.c. Returns the source of a sample; *of_source is the sample's number within it.
// weights: (count), all above 0.
int zr_mixture_source(const double *weights, int count, int64_t sample, int64_t *of_source);

#endif
