// The state of one training, in parts: the request, its subject, what was resolved, and what runs.
// Each part names the file that fills it; afterwards it is only read.
#ifndef ZR_TRAIN_TRAIN_STATE_H
#define ZR_TRAIN_TRAIN_STATE_H

#include "base/clock.h"
#include "checkpoint/run_record.h"
#include "config/config.h"
#include "data/corpus.h"
#include "infer/generation_times.h"
#include "infer/token_reading.h"
#include "monitor/observe.h"
#include "predict/forecast.h"
#include "predict/run_tasks.h"
#include "setup/estimate.h"
#include "setup/machine_facts.h"
#include "setup/resolve.h"
#include "train/outputs.h"
#include <zero/tools.h>
#include <zero/train.h>

typedef struct zr_train_asked { // filled before anything is read, by training.c and train_resume.c
    const zero_train_options *options;
    // For zero_train: the options that it was given, with model and tokenizer as directories, and
    // with every flag among the overrides.
    struct {
        zero_train_options options;
        char *model_dir, *tokenizer;
        zr_flag_list flags;
    } own;
    int64_t replay_to;        // a replay ends after this step and keeps nothing; 0: a training
    bool resume;              // the run continues what is in out_dir; the same on every rank
    bool has_checkpoint;      // rank 0: out_dir has a whole checkpoint
    zr_run_before before;     // the run that this one continues
    zr_lora lora;             // the adapters that the configuration asks for
    zr_weight_format base;    // and in which codes it keeps what they adapt
    zr_preference preference; // the loss that it asks for
    bool classifies;          // it gives texts labels
    zr_pack pack;             // which data it wants packed
} zr_train_asked;

typedef struct zr_train_subject {   // what is trained, on what; filled by train_inputs.c
    zr_corpus *corpus, *val_corpus; // val_corpus only if --val names a file
    zr_reading_progress reading;
    zr_chat chat; // how messages are written
    zr_tokenizer *tokenizer;
    zr_dataset data, val; // val.count 0: nothing is held out
    bool val_is_tenth;
    // Hash of the token streams to train and to evaluate on, and of the tokenizer, in hexadecimal;
    // filled by zr_train_hash_data.
    char data_hash[17];
    char base_hash[17]; // the same of the model that adapters adapt; "": there are none
    zr_lm_config model_config;
    zr_lm_shape shape; // derived from model_config
    zero_model *model;
    int64_t parameters;
    // generation_config.json of the model that is trained further, for the one that is written;
    // NULL: there is none.
    char *generation;
    char *template; // of the format that --chat names, for the exports; NULL: the tokenizer's own
} zr_train_subject;

typedef struct zr_train_resolved { // how it is trained; filled by train_configure.c
    char *file_text;               // text of the configuration file; NULL: none
    size_t file_length;
    int64_t seq, steps, seed;
    zr_config *config; // owned by the engine from zr_train_make_engine on
    char *config_text; // the same as JSON, with what else the run was made with
    // The value is that of the run before, because the configuration gives none; a run that
    // continues this one keeps it too.
    bool keeps_weight_decay;
    char instructions[256]; // what computes (zr_queue_instructions)
    bool chose_card;        // "auto" stands for a card
    zr_rank_threads threads;
    zr_step_range profiled; // steps that --profile records; first 0: none
    zr_forecast forecast;   // rank 0: of a step; seconds 0: there is none
    zr_overheads overheads; // rank 0: of everything but steps
    zr_busy busy;           // rank 0: what other programs did before the first step
    // Rank 0: predicted seconds of evaluating one micro-batch of a rank, and two at once, without a
    // correction; 0: unknown.
    double evaluations[2];
} zr_train_resolved;

typedef struct zr_train_saves { // the checkpoints; filled by train_checkpoint.c
    int64_t saved_step;         // step of the newest
    int64_t saving_step;        // step of the one being written, or of the last one begun
    // Step of the last older checkpoint that was kept because its folder has other files; reported
    // once; 0: none.
    int64_t left_step;
    zero_checkpoint *saving; // NULL if none is being written
    double saved_at;         // zr_clock_seconds when the last one was begun
    double longest;          // longest time that one took, in seconds
    bool at_once;            // the one being written does not overlap steps
} zr_train_saves;

typedef struct zr_train_evals { // evaluations of the held-out text; filled by train_loop.c
    double best;                // lowest loss; INFINITY: none yet
    int64_t best_windows; // windows read by the evaluations that decide on the best; 0: unknown
    int64_t calls, micro_batches; // evaluations, and what a rank evaluated in all of them
    // Whether an evaluation that decides on the best had the best's loss, and whether one had
    // another.
    bool equalled, differed;
    double last;   // loss over the whole held-out text at the end; INFINITY: none
    char text[48]; // what evaluations between steps read: "132 windows"; "": none was made
    // Why the best model could not be written the last time; "": it was.
    char failure[ZERO_MESSAGE_BYTES];
} zr_train_evals;

typedef struct zr_train_run { // what runs; filled by training.c, train_outputs.c, train_loop.c
    zero_engine *engine;
    zr_queue *card;           // keeps a card open that the engine computes on; NULL: there is none
    zr_observation *observed; // owned by the engine; NULL if nothing is observed
    zr_measured *measured;    // what the run measures of itself; NULL: a replay does not
    zr_run_clock clock;
    zr_turns turns;              // when the run began, of this rank
    zr_run_pace pace;            // rank 0
    double length;               // rank 0: predicted seconds of the whole run; 0: unknown
    zr_run_tasks tasks;          // of rank 0
    zr_generation_times samples; // rank 0: the steps of all samples; engine NULL: none was made
    zr_outputs_place place;      // rank 0: where the run writes, and what it may not replace there
    zr_outputs outputs;          // rank 0
    int64_t first_step;          // steps made before this run, as the checkpoint says
    int64_t first_lines;         // lines of metrics.jsonl at that step
    // What comes after the first step (evaluation, sample) has not been done yet. During a save it
    // means the step that is saved.
    bool owed;
    bool metrics_failed;           // missing lines have been reported
    double longest_step;           // seconds
    double first_loss;             // of this start
    bool has_first_loss, diverges; // diverges: which was logged
    int64_t idle_steps;            // steps of this start that had no target
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
