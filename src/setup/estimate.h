// What a run will be: from a resolved configuration to the plans of its ranks, whether they fit,
// how long a step takes, and what the run does besides steps. zero plan, zero train, zero tune,
// zero compare and libzero.offload auto call this. Not collective.
#ifndef ZR_SETUP_ESTIMATE_H
#define ZR_SETUP_ESTIMATE_H

#include "config/config.h"
#include "model/architecture.h"
#include "plan/network.h"
#include "plan/plan.h"
#include "predict/forecast.h"
#include "predict/run_tasks.h"
#include "setup/run_setup.h"

typedef struct zr_estimate_question {
    // A model of this shape is made, with the tiles of the configuration; NULL: `model` is used.
    const zr_lm_config *shape;
    const zero_model *model;
    const char *name;        // of the model, for messages
    const zr_config *config; // resolved
    int64_t seq;
    int64_t micro_batch; // samples of a rank; 0: the configuration's
    int ranks;           // of the job
    int together;        // the most of them on one machine; 0: all
    // Which ranks are on which machine (the largest has `together`); NULL: each has `together`.
    const zr_job_machines *job;
    int replicas;        // as for zr_machine_imagine_groups
    int threads;         // of a rank
    const char *backend; // as zr_queue_open takes it; NULL: cpu
    // Of a rank: the scratch of products and the memory limit (0 if unknown). The estimate fills in
    // what follows from ranks and budgets.
    zr_machine machine;
    bool unlimited; // divide the units among pipeline stages as if memory were unlimited
    bool advise;    // fill in what would fit, if the plan does not
    // How an existing run divides its units among pipeline stages; it outlives the estimate. NULL:
    // the estimate divides them within the memory.
    const zr_pipeline_part *division;
} zr_estimate_question;

typedef struct zr_estimate {
    const zr_estimate_question *question;
    zero_model *whole;        // NULL unless it was made from a shape
    zr_run_setup run;         // with the part of the first tensor rank, which has most
    int *places;              // memory of `machines`, unless the question lists them
    zr_job_machines machines; // where ranks are; count 0: all on one, and the question lists none
    zr_rank_plan *at;         // (stages) of pipeline stages
    int stages;
    bool fits;
    char excess[288]; // if it does not fit: what is too large, and in which pipeline stage
    char advice[256]; // with `advise`: what would fit instead; empty if nothing is known
    zr_plan_operations *operations; // (stages); NULL until a time is predicted
} zr_estimate;

// Finds the first tensor rank's part of the model, and divides the units among pipeline stages
// within the memory, or without a limit if nothing fits. `question` outlives *out, which the caller
// frees with zr_estimate_free, also after an error.
zero_status zr_estimate_begin(const zr_estimate_question *question, zr_estimate *out,
                              zero_error *error);
// Makes the plan of a tensor rank in a pipeline stage. part: that rank's part of the model; NULL:
// the first tensor rank's. `out` as for zr_run_setup_plan.
zero_status zr_estimate_plan(const zr_estimate *estimate, int stage, int tensor_rank,
                             const zr_model_part *part, zr_rank_plan *out, zero_error *error);
// Begins an estimate, and makes the plans of the first tensor ranks. A configuration that cannot be
// planned is an error, as in planning (ZERO_ERR_CONFIG, ZERO_ERR_LIMIT, ...); a plan that does not
// fit is a result.
zero_status zr_estimate_make(const zr_estimate_question *question, zr_estimate *out,
                             zero_error *error);
void zr_estimate_free(zr_estimate *estimate);

// Predicts a step. Of units that a program made, only the products that they list are counted.
zero_status zr_estimate_forecast(zr_estimate *estimate, const zr_rate_book *book, zr_forecast *out,
                                 zero_error *error);
// Predicts the seconds in which a rank evaluates `micro_batches`, without the book's correction of
// evaluations; 0 if most of them would be guessed.
zero_status zr_estimate_evaluation(zr_estimate *estimate, const zr_rate_book *book,
                                   int64_t micro_batches, double *out, zero_error *error);
// Predicts the seconds in which the model computes one token of one sequence in the middle of a
// window; 0 if there is a pipeline, or if too many of its operations were never measured.
zero_status zr_estimate_token(zr_estimate *estimate, const zr_rate_book *book, double *out,
                              zero_error *error);
// Measures on this machine, in about a second, the operations of the run that the book lacks, and
// stores them for later runs (predict/measure_kernels.h). Of a pipeline it measures the first and
// the last stage.
zero_status zr_estimate_measure(zr_estimate *estimate, const zero_logger *logger,
                                zr_rate_book *book, zero_error *error);

// overheads.c: how long a run takes for everything but its steps, as far as earlier runs have
// shown.
typedef struct zr_overheads_question {
    zr_task_subject subject;
    bool loads;         // the run begins with weights that it loads
    int64_t vocabulary; // ids among which a token is chosen
} zr_overheads_question;

typedef struct zr_overheads { // seconds; 0 if unknown
    double start;             // before the first step; without reading text whose size is unknown
    double micro_batch;       // evaluating one of a rank
    double checkpoint, model; // saving one
    double token;             // generating one, in the middle of a window
} zr_overheads;

// Finds what the book knows. estimate: of the run; NULL: only the book's tasks are looked up.
void zr_overheads_find(const zr_overheads_question *question, zr_estimate *estimate,
                       const zr_rate_book *book, zr_overheads *out);
bool zr_overheads_are_known(const zr_overheads *overheads); // whether any of them is
// Writes what is known in one line without its end, "besides steps: 0.42 s before the first one,
// 12.3 ms to evaluate a micro-batch, ..."; writes nothing if nothing is known.
void zr_overheads_text(const zr_overheads *overheads, zr_buffer *out);
// Writes the seconds as a JSON object; null if unknown.
void zr_overheads_json(const zr_overheads *overheads, zr_json_writer *w, const char *key);

#endif
