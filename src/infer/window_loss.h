// Computes the mean loss over windows of a text. Batches of windows are divided among the ranks and
// summed exactly, so that the result does not depend on the number of ranks.
#ifndef ZR_INFER_WINDOW_LOSS_H
#define ZR_INFER_WINDOW_LOSS_H

#include "data/dataset.h"
#include "layers/preference.h"
#include <zero/engine.h>

typedef struct zr_windows_result {
    double loss;     // nats per token
    int64_t windows; // that were read
    int64_t tokens;  // those of their targets that count
    bool left;       // it ended early, and the other fields mean nothing
    // Of a model that is trained on preferences: `loss` is the mean over pairs (KTO: examples). Of
    // one with labels, `pairs` counts texts, and `accuracy` is the share that got their labels.
    int64_t pairs;
    double accuracy; // the share of pairs whose chosen answer has the larger reward; NaN: there is
                     // none, or the examples are no pairs
    double margin; // mean reward of chosen answers minus that of rejected ones; NaN: one is missing
} zr_windows_result;

// Called on each rank between batches: whether to end early.
typedef struct zr_windows_leave {
    bool (*wanted)(void *user);
    void *user;
} zr_windows_leave;

// Reads batches of at most `batch` windows (the engine's micro-batch or less); at most `most` of
// these batches, spread evenly over the text (0: all). leave: as soon as any rank wants to leave,
// all end early; may be NULL. Collective, between steps only.
zero_status zr_windows_loss(zero_engine *engine, const zr_dataset *dataset, int64_t batch,
                            int64_t most, const zr_windows_leave *leave, zr_windows_result *out,
                            zero_error *error);

typedef struct zr_text_score { // of a text with a label, in numbers of labels
    float read;                // 1; 0: it was not, and nothing is known of it
    float label, predicted;    // predicted: the one with the largest logit; -1: one is not finite
    float probability;         // of `predicted`; NaN: there is none
} zr_text_score;

// The same over a whole text, of a model with labels, with what it says of each example: scores are
// (zr_dataset_examples), zeroed, and are filled on every rank.
zero_status zr_windows_label(zero_engine *engine, const zr_dataset *dataset, int64_t batch,
                             zr_text_score *scores, zr_windows_result *out, zero_error *error);

// Computes the logarithms of the probabilities that the engine's model gives to the answers of a
// dataset of preferences, into the references of its streams, on every rank. Collective, between
// steps only.
typedef struct zr_windows_watch {
    // Called on each rank after a batch, with the windows that are done; returns whether to end
    // early. If any rank wants that, all end with ZERO_ERR_STOPPED and an empty message.
    bool (*ended)(void *user, int64_t done);
    void *user;
} zr_windows_watch;
zero_status zr_windows_reference(zero_engine *engine, zr_dataset *dataset, int64_t batch,
                                 const zr_windows_watch *watch, zero_error *error);

// Returns a batch as the engine takes it: tokens, targets and, where there are any, positions and
// what else preferences have (<zero/preference.h>), each (rows, seq), which remain the caller's.
zero_tensors zr_windows_batch(zr_rows of, int64_t rows, int64_t seq);
// Returns the first `rows` rows of a batch, and what the engine has written of them, as losses of
// preferences are computed of them.
zr_preference_rows zr_windows_preference_rows(zr_rows of, int64_t rows);
// Reserves what a dataset's batches of `rows` windows need. Free *out whatever this returns.
zero_status zr_windows_alloc(const zr_dataset *dataset, int64_t rows, zr_rows *out,
                             zero_error *error);
// The same, with a place for the losses of rows if it is a dataset of preferences.
zero_status zr_windows_alloc_losses(const zr_dataset *dataset, int64_t rows, zr_rows *out,
                                    zero_error *error);
void zr_windows_free(zr_rows *rows); // a zeroed one is allowed

// Checks, after a batch was read and before it is used, that the files it comes from are still as
// long as they were. If not, this rank's failure ends the waits of the others. Not collective.
zero_status zr_windows_check_files(zero_comm *comm, const zr_dataset *dataset, zero_error *error);

#endif
