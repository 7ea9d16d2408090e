// zero plan --draw of a pipeline: what each pipeline stage does when, as it was simulated.
#ifndef ZR_REPORT_PIPELINE_TIMELINE_H
#define ZR_REPORT_PIPELINE_TIMELINE_H

#include "base/alloc.h"
#include "plan/pipeline/simulate.h"

typedef struct zr_pipeline_picture {
    const char *title; // of the model, say; the schedule and its numbers stand below it
    const zr_pipeline *pipeline;
    const zr_simulation *simulation; // of this pipeline, without an error
    const zr_lane *lanes;            // (stages) those that were simulated
    bool in_micro_batches; // times are relative: 1 is one micro-batch through the whole model
} zr_pipeline_picture;

// Draws as SVG: a lane for each stage, time to the right. It fits a page (1,200 pixels) unless its
// actions would be narrower than 2 pixels; numbers stand where they have room. It is at most 4,000
// pixels wide, and an action narrower than a pixel is left out, so its size has a bound. What ends
// a step and takes no time, since nobody knows how much, is a thin mark. *out becomes `failed`
// without memory.
void zr_pipeline_draw(const zr_pipeline_picture *picture, zr_buffer *out);
// Draws the same as letters: a line for each stage, and one of its chunks if there are several, or
// of its updates if they take no time. Time has at most 400 columns. *out becomes `failed` without
// memory.
void zr_pipeline_draw_letters(const zr_pipeline_picture *picture, zr_buffer *out);

#endif
