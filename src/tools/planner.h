// `zero plan` of a model, between plan_model.c (what is planned, and the answer), plan_rows.c (the
// plans of several stages and ranks) and plan_words.c (the answer in words).
#ifndef ZR_TOOLS_PLANNER_H
#define ZR_TOOLS_PLANNER_H

#include "config/config.h"
#include "layers/layers.h"
#include "model/unit.h"
#include "plan/full_plan.h"
#include "tools/plan_report.h"

enum { ZR_PLANNER_USUAL = 6, ZR_PLANNER_MOST_ROWS = 64 };

typedef struct zr_planner {
    const zero_plan_options *options;
    char *model_path; // of options.model itself
    zr_lm_config model_config;
    zr_lm_shape shape;
    zero_model *model;
    bool assumed_vocabulary;
    zr_config *config;
    zr_queue *queue;
    zr_machine machine;
    zr_settings settings;
    int64_t seq;
} zr_planner;

const char *zr_planner_model(const zr_planner *p); // as the options name it
int zr_planner_threads(const zr_planner *p);       // of a rank

// plan_rows.c
// The numbers of ranks to show, of which it returns how many: the one that is asked for, or usual
// ones; under elasticity the first that can share its batch.
int zr_planner_ranks(const zr_planner *p, int out[ZR_PLANNER_USUAL]);
// A rank's micro-batch, where the memory does not decide.
int64_t zr_planner_batch(const zr_planner *p, int ranks);
// What is not divided at a stage cannot leave the device there.
bool zr_planner_has_stage(const zr_planner *p, int stage);
bool zr_planner_is_limited(const zr_planner *p); // in its memory
// zr_plan_destroy afterwards.
zero_status zr_planner_make(const zr_planner *p, int stage, int ranks, int64_t batch, zr_plan **out,
                            zero_error *error);
zero_status zr_planner_rows(const zr_planner *p, zr_plan_row rows[ZR_PLANNER_MOST_ROWS], int *count,
                            zero_error *error);
// The least that fits: fewest ranks, then the lowest stage; NULL where nothing does.
const zr_plan_row *zr_planner_least(const zr_planner *p, const zr_plan_row *rows, int count);

// plan_words.c
void zr_planner_title(const zr_planner *p, zr_buffer *out);
// The table, what fits, and the command to run.
void zr_planner_text(const zr_planner *p, const zr_plan_row *rows, int count, zr_buffer *out);
// The run that the options describe; row NULL: one whose stage is chosen when it starts.
void zr_planner_command(const zr_planner *p, const zr_plan_row *row, zr_buffer *out);

#endif
