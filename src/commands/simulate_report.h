// What the files of zero_simulate share.
#ifndef ZR_COMMANDS_SIMULATE_REPORT_H
#define ZR_COMMANDS_SIMULATE_REPORT_H

#include "simulate/catalogue.h"
#include "simulate/failures.h"
#include "simulate/step.h"
#include <zero/simulation.h>

typedef struct zr_simulate_saving { // what failures cost
    bool asked;
    int nodes;
    double bytes, rate;       // bytes of a checkpoint; bytes a second of the whole storage
    zr_sim_failures failures; // of the whole machine
    zr_sim_survival survival; // its interval and goodput are those of whole steps
    double steps;             // of the interval
} zr_simulate_saving;

typedef struct zr_simulate_length { // of the whole training
    bool asked;
    double steps, tokens;
    double seconds, low, high; // 80% of runs like these lie between
    double device_hours;
} zr_simulate_length;

typedef struct zr_simulate_answer {
    const char *model; // as the options give it
    zr_sim_run run;    // complete
    zr_sim_step step;
    bool fits;
    zr_simulate_saving saving;
    zr_simulate_length length;
    // If it does not fit: the least changes with which it would, with any length of samples and
    // with the length kept; "" if there are none.
    zr_sim_remedy remedy, remedy_of_length;
} zr_simulate_answer;

// Reads stage, batch, precision, offload, activation checkpoints and numbers of ranks from a
// configuration and the flags that override it. In simulate_config.c. Keys for features that this
// build lacks are no errors here. ZERO_ERR_CONFIG as zr_config_parse.
zero_status zr_simulate_configure(const zero_simulate_options *options, zr_sim_run *run,
                                  zero_error *error);

// Finds what failures cost the run of *answer. In simulate_saving.c. ZERO_ERR_USAGE: the storage's
// rate is unknown, or no step would ever last.
zero_status zr_simulate_save(const zero_simulate_options *options, zr_simulate_answer *answer,
                             zero_error *error);

// Write the answer. In simulate_words.c and simulate_json.c.
void zr_simulate_text(const zr_simulate_answer *answer, zr_buffer *out);
void zr_simulate_json(const zr_simulate_answer *answer, zr_buffer *out);

#endif
