// The state of one search: its request, its candidates, its measurements. tuning.c runs it,
// tuning_report.c reports it, tuning_output.c writes its files.
#ifndef ZR_TUNE_TUNING_H
#define ZR_TUNE_TUNING_H

#include "tune/race.h"
#include "tune/trial.h"
#include "tune/tuning_judge.h"

typedef struct zr_finalist { // a candidate that is measured
    int candidate;           // index of it
    double seconds;          // of a step: the median of its trials; 0 before the first
    double low, high;        // quartiles of all of its trials' steps
    int64_t memory;          // bytes that its rank 0 held, at most
    int steps;               // measured
    char why[ZR_TRIAL_WHY];  // if its trial failed
    double *at;              // (steps) seconds
} zr_finalist;

typedef struct zr_tuning {
    const zero_tune_options *options;
    zr_tuning_file file;
    zr_tuning_settings settings;
    zr_model_choice subject;
    zr_tuning_space space;
    zr_tuning_asked asked;
    zr_tuning_judge judge;
    zr_candidates candidates;
    zr_finalist finalists[ZR_RACE_LANES]; // as the lanes of the race
    zr_race race;
    int best;               // finalist; -1: none
    double begun, until;    // zr_clock_seconds
    double wall;            // seconds of the last usable trial; 0 if there is none
    double start;           // seconds of the first usable trial until its first step; 0 if there is
                            // none
    const char *out_dir;    // of the answer
    char *exps_dir;         // of the experiments
    int experiments;        // written
    const char **arguments; // of every trial; NULL-terminated
} zr_tuning;

// Returns the candidate of a finalist.
static inline const zr_run_candidate *zr_tuning_candidate(const zr_tuning *t, int finalist)
{
    return &t->candidates.at[t->finalists[finalist].candidate];
}

// Returns the candidate that would be fastest of those that do not fit, if it is predicted to be
// faster than all that fit; -1 if there is none.
int zr_tuning_too_large(const zr_tuning *t);
int zr_tuning_count(const zr_tuning *t, zr_candidate_state state);

// tuning_trials.c: chooses the finalists among the candidates, in the order in which they are
// measured. ZERO_ERR_MEMORY.
zero_status zr_tuning_choose_finalists(zr_tuning *t, zero_error *error);
// Without a time limit of the user's: allows time for two rounds of trials, if models are slow or
// trials take long to start.
void zr_tuning_allow_rounds(zr_tuning *t);
// Measures them. ZERO_ERR_CANCELLED, ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_tuning_race(zr_tuning *t, zero_error *error);

// tuning_report.c: the answer as a table, and as JSON.
void zr_tuning_table(const zr_tuning *t, zr_buffer *out);
void zr_tuning_json(const zr_tuning *t, zr_buffer *out);
// Writes the command that trains with the best candidate.
void zr_tuning_command(const zr_tuning *t, zr_buffer *out);

// tuning_output.c: makes the directories, or refuses to replace what is in them.
zero_status zr_tuning_open_files(zr_tuning *t, zero_error *error);
// Writes an experiment: what was predicted of a finalist, and what one trial measured.
zero_status zr_tuning_write_experiment(zr_tuning *t, int finalist, const zr_trial_answer *trial,
                                       zero_error *error);
// Writes the files of the answer.
zero_status zr_tuning_write_answer(zr_tuning *t, zero_error *error);

#endif
