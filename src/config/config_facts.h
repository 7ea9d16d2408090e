// What a configuration's file cannot know: the facts of the run, which its caller fills in; and how
// messages name its ranks.
#ifndef ZR_CONFIG_CONFIG_FACTS_H
#define ZR_CONFIG_CONFIG_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <zero/configuration.h>
#include <zero/grid.h>
#include <zero/tensor.h>

typedef struct zr_config_facts {
    int world; // ranks of the job; 0: not known yet, which resolve refuses
    // Flags that are not among the overrides of the configuration.
    zero_parallel parallel;
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

// The flags of a zero_parallel as overrides of their keys.
enum { ZR_PARALLEL_FLAGS = 5 };
typedef struct zr_parallel_flags {
    zero_override at[ZR_PARALLEL_FLAGS]; // (count)
    int count;
    char tensor[16], pipeline[16]; // values of `at`
} zr_parallel_flags;
// *out must not move afterwards, because it points into itself; it uses the texts of `parallel`.
void zr_parallel_flags_fill(const zero_parallel *parallel, zr_parallel_flags *out);

// The ranks of a job by what they do: job = stages x data x tensor (config.h).
typedef struct zr_job_grid {
    int64_t stages; // pipeline stages; 1: there is no pipeline
    int64_t data;   // ranks that share a batch
    int64_t tensor; // ranks that compute one layer together
} zr_job_grid;

// How a message calls the ranks that share a batch.
typedef struct zr_ranks_words {
    const char *kind; // "ranks", or "data ranks" where others compute the same samples
    // "4 ranks", "2 data ranks (4 ranks, 2 a model)" or, with a pipeline, "2 data ranks (8 ranks: 2
    // pipeline stages x 2 tensor)".
    char text[112];
} zr_ranks_words;
zr_ranks_words zr_ranks_in_words(zr_job_grid grid);

typedef struct zr_grid_words {
    char text[80]; // "2 pipeline stages x 2 data x 4 tensor"; empty: they all share the batch
} zr_grid_words;
// Describes how the ranks of a job are divided.
zr_grid_words zr_grid_in_words(zr_job_grid grid);

#endif
