// zero plan --draw of a pipeline: what each pipeline stage does when, as it was simulated.
#ifndef ZR_TOOLS_PIPELINE_DRAW_H
#define ZR_TOOLS_PIPELINE_DRAW_H

#include "base/alloc.h"
#include "plan/simulate.h"

typedef struct zr_pipeline_picture {
    const char *title; // of the model, say; the schedule and its numbers stand below it
    const zr_pipeline *pipeline;
    const zr_simulation *simulation; // of this pipeline, without an error
    const zr_lane *lanes;            // (stages) those that were simulated
} zr_pipeline_picture;

// Draws as SVG: a lane for each stage, time to the right. At most 4,000 pixels wide and with as
// many boxes as have a pixel; *out becomes `failed` without memory.
void zr_pipeline_draw(const zr_pipeline_picture *picture, zr_buffer *out);
// Draws the same as a line of letters for each stage, and one of chunks if it has several
// (pipeline_letters.c). At most 400 columns of time; *out becomes `failed` without memory.
void zr_pipeline_draw_letters(const zr_pipeline_picture *picture, zr_buffer *out);

// Returns the time of the shortest action that takes any; 0: none does.
double zr_picture_shortest(const zr_pipeline_picture *picture);
// Writes "1f1b, 4 pipeline stages, 8 micro-batches; 33 ms, of which ... do nothing for 27.3%".
void zr_picture_heading(const zr_pipeline_picture *picture, zr_buffer *out);
// Writes "27.3% bubble, 4 sets" of a stage.
void zr_picture_stage(const zr_pipeline_picture *picture, int stage, zr_buffer *out);

#endif
