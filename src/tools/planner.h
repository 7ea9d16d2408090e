// `zero plan` of a model: what plan_model.c (what is planned, and the answer), plan_rows.c (the
// plans of several stages and ranks) and plan_words.c (the answer in words) share.
#ifndef ZR_TOOLS_PLANNER_H
#define ZR_TOOLS_PLANNER_H

#include "config/config.h"
#include "layers/layers.h"
#include "model/unit.h"
#include "plan/full_plan.h"
#include "setup/part.h"
#include "tools/plan_report.h"

enum { ZR_PLANNER_USUAL = 6, ZR_PLANNER_MOST_ROWS = 64 };

typedef struct zr_planner {
    const zero_plan_options *options;
    char *model_path; // directory to which options.model leads
    zr_lm_config model_config;
    zr_lm_shape shape;
    zero_model *model;
    zr_model_part part; // what the first tensor rank has of it, which is the most
    bool assumed_vocabulary;
    zr_config *config;
    zr_queue *queue;
    zr_machine machine;
    zr_settings settings;
    int64_t seq;
} zr_planner;

const char *zr_planner_model(const zr_planner *p); // as the options give it
int zr_planner_job(const zr_planner *p);           // ranks of the job, or those of one model
int zr_planner_threads(const zr_planner *p);       // threads of a rank

// Implemented in plan_rows.c.
//
// Writes the numbers of ranks to show, and returns how many there are: the one asked for, or the
// usual ones; under elasticity the first ones that can share its batch. They are ranks of a job, a
// multiple of those of a model.
int zr_planner_ranks(const zr_planner *p, int out[ZR_PLANNER_USUAL]);
// Returns a rank's micro-batch if the memory does not determine it.
int64_t zr_planner_batch(const zr_planner *p, int ranks);
// Returns whether the offload of the configuration is possible at a stage: what a stage does not
// divide cannot leave the device there.
bool zr_planner_has_stage(const zr_planner *p, int stage);
bool zr_planner_is_limited(const zr_planner *p); // whether memory is limited
// Makes one plan; the caller frees it with zr_plan_destroy.
zero_status zr_planner_make(const zr_planner *p, int stage, int ranks, int64_t batch, zr_plan **out,
                            zero_error *error);
zero_status zr_planner_rows(const zr_planner *p, zr_plan_row rows[ZR_PLANNER_MOST_ROWS], int *count,
                            zero_error *error);
// Returns the smallest row that fits: fewest ranks, then the lowest stage; NULL if none does.
const zr_plan_row *zr_planner_least(const zr_planner *p, const zr_plan_row *rows, int count);

// Implemented in plan_words.c.
void zr_planner_title(const zr_planner *p, zr_buffer *out);
// Writes the table, what fits, and the command to run.
void zr_planner_text(const zr_planner *p, const zr_plan_row *rows, int count, zr_buffer *out);
// Writes the command of the run that the options describe; row NULL: the run chooses its stage when
// it starts.
void zr_planner_command(const zr_planner *p, const zr_plan_row *row, zr_buffer *out);

#endif
