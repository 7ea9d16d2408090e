// What a run says of itself. Nobody else knows these keys:
//
//   RUN/config.json               "libzero": {"run": {...}}    how it was made: zr_run_record
//   CHECKPOINT/manifest.json      "state": {"train": {...}}    where it was: zr_run_state
//
// A key is only ever added. What an earlier program did not write is 0, NULL or false here.
#ifndef ZR_FILES_RUN_RECORD_H
#define ZR_FILES_RUN_RECORD_H

#include "base/alloc.h"
#include "base/json.h"

typedef struct zr_run_record {    // what was chosen or given outside of the configuration
    const char *new_spec, *model; // one of them
    const char *tokenizer;        // as --tokenizer gives it again
    bool tokenizer_of_model;      // it came with the model, so that none has to be given
    const char *const *data;      // (data_count)
    int data_count;
    const char *val;          // as --val: NULL: the last tenth of the data; "none"
    const char *field, *chat; // NULL: not given
    const char *allow_change; // NULL: not given
    const char *backend, *comm;
    const char *instructions; // the path that the arithmetic took: "avx2"
    const char *data_hash;    // of the streams of tokens and of the tokenizer, hexadecimal
    int64_t vocabulary, parameters, seq, steps;
    int ranks, threads; // threads of a rank
} zr_run_record;

void zr_run_record_write(const zr_run_record *record, zr_buffer *out); // an object, as JSON

typedef struct zr_run_config { // config.json of a run
    char *path;
    json_t *root;
    zr_run_record run; // strings of root's
    const char **data; // (run.data_count)
    int64_t train_batch, micro_batch;
    bool of_earlier_program; // which knew neither libzero.loss_mean nor instructions by their names
} zr_run_config;

// Whatever it says, even if that is nothing of a run. Freed by the last function, also on failure.
zero_status zr_run_config_read(const char *run, zr_run_config *out, zero_error *error);
// ZERO_ERR_DATA unless it says all that the steps follow from, as zero train writes it.
zero_status zr_run_config_check(const zr_run_config *config, zero_error *error);
bool zr_run_config_is_at(const char *path);     // a file, with a record in it
void zr_run_config_free(zr_run_config *config); // zeroed ones are fine

typedef struct zr_run_state { // of the steps up to a checkpoint
    const char *data_hash;    // of the state's, while that is there; NULL: unknown
    int64_t seq;
    int64_t lines; // of metrics.jsonl
    int64_t micro_batch, ranks;
    int64_t resumed_from;    // the step that the run of them went on from; 0: none
    bool owed;               // what comes after the step (evaluation, sample) has not been done
    bool keeps_weight_decay; // the value is that of the run before, as no configuration gave one
    double best;             // lowest loss over held-out text; INFINITY: none yet
    int64_t best_windows;    // that it was taken over; 0: unknown
} zr_run_state;

// {"train": {...}}, for a state to be updated with; NULL: no memory.
json_t *zr_run_state_pack(const zr_run_state *state);
// false: the state is another program's, and *out is empty.
bool zr_run_state_read(const json_t *state, zr_run_state *out);

// Which tensors a checkpoint's run decayed: libzero.decay_all true, false, or (of DeepSpeed's
// groups) neither.
typedef enum zr_decay_before {
    ZR_DECAY_UNKNOWN,
    ZR_DECAY_ALL,
    ZR_DECAY_MATRICES,
    ZR_DECAY_OTHER,
} zr_decay_before;

typedef struct zr_run_before {  // what a run that goes on may keep; plain numbers; 0: unknown
    int64_t batch, micro_batch; // samples of a step, of a micro-batch
    int64_t ranks;
    zr_decay_before decay;
    bool has_weight_decay; // DeepSpeed's, or kept by the run before
    double weight_decay;
    bool has_loss_mean; // libzero.loss_mean micro_batch; all that earlier programs knew
    bool has_rate_0;    // libzero.schedule_from_one false; likewise
} zr_run_before;

// Of a checkpoint; and of a run that ended before its first one. What cannot be read leaves zeros.
void zr_run_before_of_checkpoint(const char *checkpoint, zr_run_before *out);
void zr_run_before_of_run(const char *run, zr_run_before *out);

#endif
