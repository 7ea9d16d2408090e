// zero plan --draw of a pipeline: what each pipeline stage does when, as it was simulated.
#ifndef ZR_REPORT_PIPELINE_DRAW_H
#define ZR_REPORT_PIPELINE_DRAW_H

#include "base/alloc.h"
#include "plan/pipeline/simulate.h"

typedef struct zr_pipeline_picture {
    const char *title; // of the model, say; the schedule and its numbers stand below it
    const zr_pipeline *pipeline;
    const zr_simulation *simulation; // of this pipeline, without an error
    const zr_lane *lanes;            // (stages) those that were simulated
    // Times are not known in seconds: 1 is what a micro-batch takes a rank that has all units.
    bool in_micro_batches;
} zr_pipeline_picture;

// Draws as SVG: a lane for each stage, time to the right. It fits a page (1,200 pixels) unless its
// actions would be narrower than 2 pixels; numbers stand where they have room. It is at most 4,000
// pixels wide, and an action narrower than a pixel is left out, so its size has a bound. What ends
// a step and takes no time, since nobody knows how much, is a thin mark. *out becomes `failed`
// without memory.
void zr_pipeline_draw(const zr_pipeline_picture *picture, zr_buffer *out);
// Draws the same as letters: a line for each stage, and one of its chunks if there are several, or
// of its updates if they take no time (pipeline_letters.c). Time has at most 400 columns. *out
// becomes `failed` without memory.
void zr_pipeline_draw_letters(const zr_pipeline_picture *picture, zr_buffer *out);

// What both drawings share.
//
// Returns the seconds of the shortest action that takes any; 0: none does.
double zr_picture_shortest(const zr_pipeline_picture *picture);
// Writes "1f1b, 4 pipeline stages, 8 micro-batches: 33 ms, bubble 27.3%"; or, in micro-batches,
// "... 2.75 times as long as a micro-batch on one rank, bubble 27.3%".
void zr_picture_heading(const zr_pipeline_picture *picture, zr_buffer *out);
// Says whether there are updates that take no time.
bool zr_picture_has_marks(const zr_pipeline_picture *picture);
// Writes "27.3% bubble, holds 4 micro-batches", of a stage; in asynchronous schedules also
// "4 versions".
void zr_pipeline_stage_caption(const zr_pipeline_picture *picture, int stage, zr_buffer *out);

#endif
