// What a run would be, before there is one: the one way from a resolved configuration to the plans
// of its ranks, whether they fit, and how long a step takes. zero plan, zero train, zero tune, zero
// compare and libzero.offload auto come here. Not collective.
#ifndef ZR_SETUP_REHEARSE_H
#define ZR_SETUP_REHEARSE_H

#include "model/architecture.h"
#include "plan/network.h"
#include "predict/forecast.h"
#include "setup/part.h"
#include "setup/rank_plan.h"

typedef struct zr_rehearsal_question {
    // The model: one of this shape, in the tiles of the configuration; NULL: `model`.
    const zr_lm_config *shape;
    const zero_model *model;
    const char *name;        // of the model, for messages
    const zr_config *config; // resolved
    int64_t seq;
    int64_t micro_batch; // samples of a rank; 0: the configuration's
    int ranks;           // of the job
    int together;        // of these on one machine, the most; 0: all
    int threads;         // of a rank
    const char *backend; // as zr_queue_open takes it; NULL: cpu
    // Of a rank, here or imagined: the scratch of products and the memory limit (0: unknown). What
    // follows from ranks and budgets is filled in here.
    zr_machine machine;
} zr_rehearsal_question;

typedef struct zr_rehearsal {
    const zr_rehearsal_question *question;
    zero_model *whole;          // if it was made from a shape
    zr_model_part part;         // of the first tensor rank, which has most
    zr_pipeline_part *division; // NULL: there is no pipeline
    int *places;                // of the job's machines; NULL: there is one
    zr_job_machines machines;   // where its ranks are
    zr_rank_plan *at;           // (stages) of pipeline stages
    int stages;
    bool fits;
    char excess[288];               // if it does not: what is too much, and in which pipeline stage
    zr_plan_operations *operations; // (stages) NULL: not found yet
} zr_rehearsal;

// Makes all plans. What cannot be planned at all is an error, as in planning (ZERO_ERR_CONFIG,
// ZERO_ERR_LIMIT, ...); what does not fit is an answer. `question` outlives *out, which the caller
// frees with zr_rehearsal_free, also after an error.
zero_status zr_rehearse(const zr_rehearsal_question *question, zr_rehearsal *out,
                        zero_error *error);
void zr_rehearsal_free(zr_rehearsal *rehearsal);

// Returns the setting whose rates the run is predicted with.
zr_rate_setting zr_rehearsal_setting(const zr_rehearsal *rehearsal);
// Predicts a step; of a program's own units by the products that they list. Exchanges with other
// machines are guessed unless the book knows a network (zr_rate_book_knows_network).
zero_status zr_rehearsal_forecast(zr_rehearsal *rehearsal, const zr_rate_book *book,
                                  zr_forecast *out, zero_error *error);
// Predicts, likewise, the seconds of evaluating so many micro-batches of a rank, without the book's
// correction of evaluations.
zero_status zr_rehearsal_evaluation(zr_rehearsal *rehearsal, const zr_rate_book *book,
                                    int64_t micro_batches, double *out, zero_error *error);
// Times here what the run does and the book does not know, in about a second, and keeps it for
// later ones (measure/unit_rates.h). With a pipeline, of its first and last stages.
zero_status zr_rehearsal_measure(zr_rehearsal *rehearsal, const zero_logger *logger,
                                 zr_rate_book *book, zero_error *error);

#endif
