// What a run would be, before there is one: the one way from a resolved configuration to the plans
// of its ranks, whether they fit, and how long a step takes. zero plan, zero train, zero tune, zero
// compare and libzero.offload auto come here. Not collective.
#ifndef ZR_SETUP_ESTIMATE_H
#define ZR_SETUP_ESTIMATE_H

#include "model/architecture.h"
#include "plan/network.h"
#include "predict/forecast.h"
#include "setup/model_part.h"
#include "setup/rank_plan.h"

typedef struct zr_estimate_question {
    // The model: one of this shape, in the tiles of the configuration; NULL: `model`.
    const zr_lm_config *shape;
    const zero_model *model;
    const char *name;        // of the model, for messages
    const zr_config *config; // resolved
    int64_t seq;
    int64_t micro_batch; // samples of a rank; 0: the configuration's
    int ranks;           // of the job
    int together;        // of these on one machine, the most; 0: all
    // Who is on which machine, with `together` on the largest; NULL: each has `together`.
    const zr_job_machines *job;
    int replicas;        // of a job on such machines, as for zr_machine_imagine
    int threads;         // of a rank
    const char *backend; // as zr_queue_open takes it; NULL: cpu
    // Of a rank, here or imagined: the scratch of products and the memory limit (0: unknown). What
    // follows from ranks and budgets is filled in here.
    zr_machine machine;
    bool unlimited; // the units are divided among pipeline stages as if there were memory enough
    bool advise;    // to say what would fit, where it does not
    // How a run that is there already has divided its units among pipeline stages, which outlives
    // the estimate; NULL: they are divided within the memory.
    const zr_pipeline_part *division;
} zr_estimate_question;

typedef struct zr_estimate {
    const zr_estimate_question *question;
    zero_model *whole;                // if it was made from a shape
    zr_model_part part;               // of the first tensor rank, which has most
    const zr_pipeline_part *division; // NULL: there is no pipeline
    zr_pipeline_part *made;           // the same, unless it is the question's
    int *places;                      // of machines that the question does not list
    zr_job_machines machines; // where ranks are; count 0: on one, and the question lists none
    zr_rank_plan *at;         // (stages) of pipeline stages
    int stages;
    bool fits;
    char excess[288]; // if it does not: what is too much, and in which pipeline stage
    char advice[256]; // what would fit instead, if that was asked; empty: nothing that is known
    zr_plan_operations *operations; // (stages) NULL: not found yet
} zr_estimate;

// Finds what the first tensor rank has of the model, and divides the units among pipeline stages:
// within the memory, or, if nothing is, as without limit. `question` outlives *out, which the
// caller frees with zr_estimate_free, also after an error.
zero_status zr_estimate_begin(const zr_estimate_question *question, zr_estimate *out,
                              zero_error *error);
// Makes the plan of a tensor rank in a pipeline stage. part: what that rank has of the model; NULL:
// as the first one. `out` as for zr_rank_plan_make.
zero_status zr_estimate_plan(const zr_estimate *estimate, int stage, int tensor_rank,
                             const zr_model_part *part, zr_rank_plan *out, zero_error *error);
// Begins, and makes the plans of the first tensor ranks. What cannot be planned at all is an error,
// as in planning (ZERO_ERR_CONFIG, ZERO_ERR_LIMIT, ...); what does not fit is an answer.
zero_status zr_estimate_make(const zr_estimate_question *question, zr_estimate *out,
                             zero_error *error);
void zr_estimate_free(zr_estimate *estimate);

// Predicts a step; of a program's own units by the products that they list.
zero_status zr_estimate_forecast(zr_estimate *estimate, const zr_rate_book *book, zr_forecast *out,
                                 zero_error *error);
// Predicts, likewise, the seconds of evaluating so many micro-batches of a rank, without the book's
// correction of evaluations; 0: most of it would be a guess.
zero_status zr_estimate_evaluation(zr_estimate *estimate, const zr_rate_book *book,
                                   int64_t micro_batches, double *out, zero_error *error);
// Predicts the seconds of generating one token of one sequence in the middle of a window, without
// choosing it; 0: there is a pipeline, or too much is of operations that nobody has measured.
zero_status zr_estimate_token(zr_estimate *estimate, const zr_rate_book *book, double *out,
                              zero_error *error);
// Times here what the run does and the book does not know, in about a second, and keeps it for
// later ones (predict/measure_kernels.h). With a pipeline, of its first and last stages.
zero_status zr_estimate_measure(zr_estimate *estimate, const zero_logger *logger,
                                zr_rate_book *book, zero_error *error);

#endif
