// One training, in its parts: what is asked, what it is about, what was resolved, and what runs.
// Each part says who fills it; from then on the others only read it.
#ifndef ZR_TRAIN_TRAIN_PARTS_H
#define ZR_TRAIN_TRAIN_PARTS_H

#include "config/config.h"
#include "corpus/corpus.h"
#include "files/run_record.h"
#include "infer/reading.h"
#include "observe/observe.h"
#include "setup/threads.h"
#include "train/outputs.h"
#include <zero/tools.h>

typedef struct zr_train_asked { // filled before anything is read: training.c, train_resume.c
    const zero_train_options *options;
    // zero_train's: what it was given, with the model's and the tokenizer's own directories
    struct {
        zero_train_options options;
        char *model_dir, *tokenizer;
    } own;
    int64_t replay_to;    // a replay ends after so many steps, and keeps nothing; 0: a training
    bool resume;          // it goes on with what lies in out_dir; the same on every rank
    bool has_checkpoint;  // rank 0: out_dir has one that is whole
    zr_run_before before; // of what it goes on from
} zr_train_asked;

typedef struct zr_train_subject {   // what is trained, on what: train_read.c
    zr_corpus *corpus, *val_corpus; // val_corpus only where --val names a file
    zr_reading_progress reading;
    zr_chat chat; // how messages are written
    zr_tokenizer *tokenizer;
    zr_dataset data, val; // val.count 0: nothing is held out
    bool val_is_tenth;
    char data_hash[17]; // of the streams of tokens to train and to evaluate on, and of
                        // the tokenizer, hexadecimal; from zr_train_hash_data on
    zr_lm_config model_config;
    zr_lm_shape shape; // what follows from it
    zero_model *model;
    int64_t parameters;
    char *generation; // generation_config.json of the model that is trained further,
                      // for the one that is written; NULL: none
} zr_train_subject;

typedef struct zr_train_resolved { // how: train_configure.c
    char *file_text;               // of the configuration file; NULL: none
    size_t file_length;
    int64_t seq, steps, seed;
    zr_config *config;       // the engine's from zr_train_make_engine on
    char *config_text;       // the same, as JSON, with what else the run was made with
    bool keeps_weight_decay; // the value of the run before holds, as the configuration gives none:
                             // what goes on from this run keeps it, too
    zr_threads threads;
    zr_step_range profiled; // steps of --profile; first 0: none
} zr_train_resolved;

typedef struct zr_train_saves { // checkpoints: train_checkpoint.c
    int64_t saved_step;         // of the newest
    int64_t saving_step;        // of the one that is being written, or was last
    int64_t left_step;          // of the last older one that stayed because its folder holds
                                // something else; 0: none, and none was told
    zero_checkpoint *saving;    // NULL: none is being written
    double saved_at;            // seconds of zr_clock_seconds, when the last one was begun
    double longest;             // seconds
} zr_train_saves;

typedef struct zr_train_evals { // over the held-out text: train_loop.c
    double best;                // lowest loss; INFINITY: none yet
    int64_t best_windows;       // that an evaluation which decides over it reads; 0: unknown
    double last;                // at the end, over the whole of it; INFINITY: none
    char text[48];              // what those between steps read: "132 windows"; "": none was made
    char failure[ZERO_MESSAGE_BYTES]; // why the best model could not be written last, "": it could
} zr_train_evals;

typedef struct zr_train_run { // what runs: training.c, train_outputs.c, train_loop.c
    zero_engine *engine;
    zr_observation *observed; // the engine's; NULL: nothing is asked for
    zr_outputs_place place;   // rank 0: where it writes, and what it may not replace there
    zr_outputs outputs;       // rank 0
    int64_t first_step;       // steps that were made before this run: of the checkpoint
    int64_t first_lines;      // of metrics.jsonl, then
    bool owed;                // what comes after the first step (evaluation, sample) has not been
                              // done; of a save: of the step that is saved
    bool metrics_failed;      // it has been told that lines are missing
    double longest_step;      // seconds
    zr_train_saves saves;
    zr_train_evals evals;
} zr_train_run;

typedef struct zr_train {
    zero_comm *comm;
    zero_logger logger; // silent on ranks above 0
    zr_train_asked asked;
    zr_train_subject subject;
    zr_train_resolved resolved;
    zr_train_run run;
} zr_train;

#endif
