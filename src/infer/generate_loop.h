// Generates text from a model: prompts go through it in chunks, answers token by token, several at
// once. What is emitted consists of whole UTF-8 characters.
//
// Up to `batch` prompts have a place each; when an answer is complete, the next prompt takes its
// place. How a prompt is cut into chunks, and which random numbers its answer draws, depends on
// that prompt alone. So an answer does not depend on what else is answered at the same time (in
// fp32 bit by bit), nor on the number of threads. When the model's context is full, its later half
// is read again from the first position on.
#ifndef ZR_INFER_GENERATE_LOOP_H
#define ZR_INFER_GENERATE_LOOP_H

#include "infer/generation_times.h"
#include "infer/prompts.h"
#include "infer/stop_texts.h"
#include "model/architecture.h"
#include <zero/comm.h>
#include <zero/engine.h>
#include <zero/generate.h>

typedef struct zr_sampling {
    const zr_prompts *prompts;
    int64_t tokens;     // to generate for each prompt
    int64_t batch;      // the most prompts at once
    double temperature; // 0: always the likeliest token
    int top_k;          // 0: off
    double top_p;       // 1: off
    uint64_t seed;
    // Ids that complete an answer, and are not part of it; NULL: none.
    const zr_ids *ends;
    zr_stop_texts stops;        // texts that end an answer, before which it ends
    const zero_logger *logger;  // gets a line when a context is full; may be NULL
    zr_generation_times *times; // takes what steps take; NULL: nothing is measured
} zr_sampling;

typedef struct zr_sample_sink { // as in zero_generate_options
    int (*emit)(void *user, int64_t prompt, const char *text, size_t length);
    void (*finish)(void *user, int64_t prompt, zero_finish why, int64_t tokens); // may be NULL
    void *user;
    // Its ranks all stop once `emit` has stopped one of them; NULL: `emit` never does.
    zero_comm *together;
} zr_sample_sink;

// Generates the answers. Collective if the engine has several ranks, which all draw the same
// tokens. Between steps only.
zero_status zr_generate_loop(zero_engine *engine, const zr_lm_config *config,
                             const zr_tokenizer *tokenizer, const zr_sampling *how,
                             const zr_sample_sink *sink, zero_error *error);
// Checks that the memory that zr_generate_loop adds to the engine's fits into the budgets of its
// configuration. Not collective.
zero_status zr_generate_check_memory(zero_engine *engine, const zr_lm_config *config,
                                     const zr_sampling *how, zero_error *error);

#endif
