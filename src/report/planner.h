// `zero plan` of a model: what plan_model.c (what is planned, and the answer), plan_rows.c (the
// plans of several stages and ranks) and plan_text.c (the answer in words) share.
#ifndef ZR_REPORT_PLANNER_H
#define ZR_REPORT_PLANNER_H

#include "config/config.h"
#include "layers/layers.h"
#include "model/unit.h"
#include "setup/estimate.h"
#include "setup/model_choice.h"
#include "report/plan_report.h"

enum { ZR_PLANNER_USUAL = 6, ZR_PLANNER_MOST_ROWS = 64 };

typedef struct zr_plan_point { // what is planned for
    int stage, ranks;          // of ZeRO; of the job
    int64_t batch;             // micro-batch
} zr_plan_point;

typedef struct zr_plan_asked { // what a point's estimate is made from; it stays where it is
    zr_config config;
    zr_estimate_question question;
} zr_plan_asked;

typedef struct zr_planner {
    const zero_plan_options *options;
    zr_model_choice subject; // its model has the tiles of the configuration, once that is read
    zero_model *model;
    zr_plan_machines *machines; // NULL: all ranks are on one
    zr_config *config;
    zr_queue *queue;
    zr_machine machine;
    zr_settings settings;
    struct zr_plan_time *time; // with which rows are predicted; NULL: they are not
} zr_planner;

int zr_planner_job(const zr_planner *p);                 // ranks of the job, or those of one model
int zr_planner_threads(const zr_planner *p);             // threads of a rank
int zr_planner_together(const zr_planner *p, int ranks); // of the job, the most on a machine
// Bytes that such a rank has of what the options say a machine has; 0: nothing is said.
int64_t zr_planner_memory(const zr_planner *p, int ranks);

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
// Writes `count` rows, which the caller frees with zr_plan_rows_free, also after an error.
zero_status zr_planner_rows(const zr_planner *p, zr_plan_row rows[ZR_PLANNER_MOST_ROWS], int *count,
                            zero_error *error);
// Returns the smallest row that fits: fewest ranks, then the lowest stage; NULL if no row fits.
const zr_plan_row *zr_planner_least(const zr_planner *p, const zr_plan_row *rows, int count);

// Writes the least change with which a point fits that does not. Returns false if none is known.
bool zr_planner_advise(const zr_planner *p, const zr_plan_point *at, char *out, size_t size);

// Asks for an estimate of a point, whose ranks have `threads` threads.
void zr_planner_ask(const zr_planner *p, const zr_plan_point *at, int threads, zr_plan_asked *out);

// Implemented in plan_pipeline_stages.c: what a pipeline adds.
//
// Makes what a row says of a division of the model's units, with nothing of the stages yet. It
// takes over the division, unless there is an error. Freed with zr_plan_pipeline_free.
zero_status zr_plan_pipeline_make(const zero_model *model, zr_pipeline_part *division,
                                  zr_plan_pipeline **out, zero_error *error);
void zr_plan_pipeline_free(zr_plan_pipeline *pipeline); // NULL is allowed
// Fills in what the plan says of its pipeline stage.
void zr_plan_pipeline_fill(const zr_rank_plan *of, zr_plan_pipeline *pipeline);
// Draws the schedule of the pipeline, as SVG or as letters.
zero_status zr_planner_draw_pipeline(const zr_planner *p, const zr_plan_point *at, zr_buffer *out,
                                     zero_error *error);

// Implemented in plan_text.c.
void zr_planner_title(const zr_planner *p, zr_buffer *out);
// Writes the table, what fits, and the command to run.
void zr_planner_text(const zr_planner *p, const zr_plan_row *rows, int count, zr_buffer *out);
// Writes the command of the run that the options describe; row NULL: the run chooses its stage when
// it starts.
void zr_planner_command(const zr_planner *p, const zr_plan_row *row, zr_buffer *out);

#endif
