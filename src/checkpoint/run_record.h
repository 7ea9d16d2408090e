// The record of a run. Only this file and its .c know these keys:
//
//   RUN/config.json               "libzero": {"run": {...}}    how it was made: zr_run_record
//   CHECKPOINT/manifest.json      "state": {"train": {...}}    where it was: zr_run_state
//
// Keys are only ever added. The value of a key that an earlier program did not write is 0, NULL or
// false.
#ifndef ZR_CHECKPOINT_RUN_RECORD_H
#define ZR_CHECKPOINT_RUN_RECORD_H

#include "base/alloc.h"
#include "base/json.h"

typedef struct zr_run_record {    // settings outside of the configuration file
    const char *new_spec, *model; // one of the two
    const char *tokenizer;        // as a value for --tokenizer
    bool tokenizer_of_model;      // it came with the model, so --tokenizer is not needed
    const char *const *data;      // (data_count)
    int data_count;
    // A value for --val: NULL means the last tenth of the data; "none".
    const char *val;
    const char *field, *chat; // NULL if not given
    // What the chat template took for today, "2026-03-09"; NULL if it does not ask for it.
    const char *chat_date;
    const char *allow_change; // NULL if not given
    const char *backend, *comm;
    const char *instructions; // the arithmetic's path: "avx2"
    const char *data_hash;    // hexadecimal; of the token streams and the tokenizer
    int64_t vocabulary, parameters, seq, steps;
    int ranks, threads; // ranks of the job; threads of each rank
    // Tensor ranks and pipeline stages of a model; 1 if it is not split, as in a run of an earlier
    // program.
    int tensor, stages;
} zr_run_record;

void zr_run_record_write(const zr_run_record *record, zr_buffer *out); // writes a JSON object
// Returns the data ranks of a record that has been read.
int64_t zr_run_data_ranks(const zr_run_record *record);

typedef struct zr_run_config_file { // config.json of a run
    char *path;
    json_t *root;
    zr_run_record run; // its strings are root's
    const char **data; // (run.data_count)
    int64_t train_batch, micro_batch;
    // It knew neither libzero.loss_mean nor instructions by their names.
    bool of_earlier_program;
} zr_run_config_file;

// Reads it even if it contains nothing of a run; ZERO_ERR_DATA: it names no files as data. Free
// *out with the last function, also after a failure.
zero_status zr_run_config_read(const char *run, zr_run_config_file *out, zero_error *error);
// ZERO_ERR_DATA unless it has everything that determines the steps, as zero train writes it.
zero_status zr_run_config_check(const zr_run_config_file *config, zero_error *error);
bool zr_run_config_is_at(const char *path); // Returns whether it is a file with a record in it.
void zr_run_config_free(zr_run_config_file *config); // a zeroed one is allowed

typedef struct zr_run_state { // facts of the steps up to a checkpoint
    const char *data_hash;    // NULL if unknown; valid as long as the state
    const char *base_hash;    // of the model that adapters adapt; NULL if unknown or there are none
    int64_t seq;
    int64_t lines; // lines of metrics.jsonl
    int64_t micro_batch, ranks;
    int64_t tensor, stages; // tensor ranks and pipeline stages of a model; 1 if it is not split
    // The step from which the run of these steps resumed; 0 if it did not resume.
    int64_t resumed_from;
    bool owed; // what follows the step (evaluation, sample) is still to be done
    // The value is that of the run before, as no configuration gave one.
    bool keeps_weight_decay;
    // The lowest loss over held-out text; INFINITY: none yet.
    double best;
    int64_t best_windows; // windows over which it was taken; 0 if unknown
} zr_run_state;

// Returns {"train": {...}}, to update a state with; NULL if there is no memory.
json_t *zr_run_state_pack(const zr_run_state *state);
// Returns false, with *out empty, if the state is another program's.
bool zr_run_state_read(const json_t *state, zr_run_state *out);

// Which tensors a checkpoint's run decayed: libzero.decay_all true, false, or neither (for
// DeepSpeed's groups).
typedef enum zr_decay_before {
    ZR_DECAY_UNKNOWN,
    ZR_DECAY_ALL,
    ZR_DECAY_MATRICES,
    ZR_DECAY_OTHER,
} zr_decay_before;

// Settings that a resumed run may keep, as plain numbers; 0 if unknown.
typedef struct zr_run_before {
    int64_t batch, micro_batch; // samples of a step; of a micro-batch
    int64_t seq;                // tokens of a window
    int64_t ranks;              // data ranks
    int64_t tensor, stages;     // tensor ranks and pipeline stages of a model
    zr_decay_before decay;
    bool has_weight_decay; // DeepSpeed's, or kept by the run before
    double weight_decay;
    // libzero.loss_mean was micro_batch, the only one that earlier programs knew.
    bool has_loss_mean;
    bool has_rate_0;    // libzero.schedule_from_one was false; false if unknown
    char chat_date[16]; // of the record; "" if unknown
    char backend[40];   // that it was made with; "" if unknown
} zr_run_before;

// Read it from a checkpoint, or from a run that ended before its first one. What cannot be read
// stays 0.
void zr_run_before_of_checkpoint(const char *checkpoint, zr_run_before *out);
void zr_run_before_read(const char *run, zr_run_before *out);
void zr_run_words_before(const char *run, zr_run_before *out); // reads chat_date and backend alone

#endif
