// Evaluation for the rooms above, besides zero_evaluate.
#ifndef ZR_ENGINE_EVALUATE_H
#define ZR_ENGINE_EVALUATE_H

#include <zero/engine.h>

// As zero_evaluate, but in a pipeline only ranks of the last stage get the loss, and the others go
// on with the next evaluation meanwhile. Collective.
zero_status zr_engine_evaluate(zero_engine *engine, const zero_tensors *batch, double *loss,
                               zero_error *error);

#endif
