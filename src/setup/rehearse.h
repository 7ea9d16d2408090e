// What a run would be, before there is one: the one way from a resolved configuration to the plans
// of its ranks, whether they fit, and how long a step takes. Used by zero plan, zero train, zero
// tune, zero compare and libzero.offload auto. Not collective.
#ifndef ZR_SETUP_REHEARSE_H
#define ZR_SETUP_REHEARSE_H

#include "config/config.h"
#include "model/architecture.h"
#include "plan/pipeline_part.h"
#include "predict/forecast.h"
#include "setup/part.h"

typedef struct zr_rehearsal_question {
    const zr_lm_config *shape; // the model, with the tiles of the configuration; NULL: `model`
    const zero_model *model;
    const char *name;         // of the model, for messages
    const zr_config *config;  // resolved
    int64_t seq, micro_batch; // 0: the configuration's
    int ranks;                // of the job
    int together;             // of these, on one machine: 0: all
    int threads;              // of a rank
    // Facts of this machine, or of one that is imagined: scratch of products, memory of a rank
    // (0: unknown) and budgets. `ranks` and what follows from it is filled in here.
    zr_machine machine;
} zr_rehearsal_question;

typedef struct zr_rehearsed { // of one pipeline stage: the rank of it that needs most
    zr_pipeline_part part;
    zero_model *model; // what was cut; NULL: the part's
    zr_plan *plan;
} zr_rehearsed;

typedef struct zr_rehearsal {
    zero_model *whole; // NULL: the question's
    zr_model_part part;
    zr_pipeline_part *division; // NULL: there is no pipeline
    zr_rehearsed *at;           // (stages)
    int stages;
    bool fits;
    char excess[256];               // if it does not: of which stage what is too much
    zr_plan_operations *operations; // (stages) NULL: not found yet
} zr_rehearsal;

// Makes all plans. What cannot be planned at all is an error: ZERO_ERR_CONFIG, ZERO_ERR_LIMIT, as
// in planning; what does not fit is an answer. The caller frees *out with zr_rehearsal_free, also
// after an error.
zero_status zr_rehearse(const zr_rehearsal_question *question, zr_rehearsal *out,
                        zero_error *error);
void zr_rehearsal_free(zr_rehearsal *rehearsal);
// Predicts a step, with the corrections of the book.
zero_status zr_rehearsal_forecast(const zr_rehearsal_question *question, zr_rehearsal *rehearsal,
                                  const char *backend, const zr_rate_book *book, zr_forecast *out,
                                  zero_error *error);

#endif
