// What a run takes besides its steps, before there is one: where earlier runs have taught it, in
// one line, which zero plan and zero train share. Not collective.
#ifndef ZR_SETUP_BESIDES_H
#define ZR_SETUP_BESIDES_H

#include "predict/task_amounts.h"
#include "setup/estimate.h"

typedef struct zr_besides_question {
    zr_task_subject subject;
    bool loads;         // the run begins with weights that it loads
    int64_t vocabulary; // ids among which a token is chosen
} zr_besides_question;

typedef struct zr_besides {   // seconds; 0: unknown
    double start;             // before the first step; without reading, if the text is unknown
    double micro_batch;       // evaluating one of a rank
    double checkpoint, model; // saving one
    double token;             // generating one, in the middle of a window
} zr_besides;

// Finds what the book knows. estimate: of the run; NULL: tasks alone are looked up. What cannot be
// predicted stays unknown.
void zr_besides_find(const zr_besides_question *question, zr_estimate *estimate,
                     const zr_rate_book *book, zr_besides *out);
bool zr_besides_are_known(const zr_besides *besides); // Says whether anything is known.
// Writes what is known in one line without its end, "besides steps: 0.42 s before the first one,
// 12.3 ms to evaluate a micro-batch, ..."; nothing, if nothing is known.
void zr_besides_text(const zr_besides *besides, zr_buffer *out);
// Writes the seconds as a JSON object; null: unknown.
void zr_besides_json(const zr_besides *besides, zr_buffer *out);

#endif
