// What a configuration's file cannot know: the facts of the run, which its caller fills in; and how
// messages name its ranks.
#ifndef ZR_CONFIG_CONFIG_FACTS_H
#define ZR_CONFIG_CONFIG_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <zero/tensor.h>

typedef struct zr_config_facts {
    int world;              // ranks of the job; 0: not known yet, which resolve refuses
    int tensor;             // tensor ranks, as a flag says them (--tensor); 0: none does
    bool sequence_parallel; // a flag (--sequence-parallel) asks for it
    // A rank's micro-batch, used if neither file nor flags settle it; 0: it follows from `batch`.
    int64_t micro_batch;
    int64_t batch;        // samples of a step, which the data ranks share; 0: that is an error
    int64_t total_steps;  // updates of the whole run; 0: unknown
    int64_t warmup_steps; // for "auto" and the program's schedule; 0: a twentieth of total_steps
    int64_t hidden;       // width of the model, for "auto" bucket sizes; 0: DeepSpeed's default
    // The program's learning rate for this model; 0: the optimizer's own default.
    double lr;
    // What precision "auto" means here: BF16 if the processor has instructions for it, else F32.
    zero_dtype auto_dtype;
} zr_config_facts;

// How a message calls the ranks that share a batch.
typedef struct zr_ranks_words {
    const char *kind; // "ranks", or "data ranks" where there are tensor ranks
    char text[96];    // "4 ranks", or "2 data ranks (4 ranks, 2 a model)"
} zr_ranks_words;
// `ranks` are data ranks, each of `tensor` ranks of the job.
zr_ranks_words zr_ranks_in_words(int64_t ranks, int64_t tensor);

typedef struct zr_grid_words {
    char text[48]; // "2 data x 4 tensor"; empty: there are no tensor ranks to speak of
} zr_grid_words;
// Says how the ranks of a job are divided, likewise.
zr_grid_words zr_grid_in_words(int64_t ranks, int64_t tensor);

#endif
