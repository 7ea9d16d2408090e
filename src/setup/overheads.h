// What a run takes besides its steps, before there is one: where earlier runs have taught it, in
// one line, which zero plan and zero train share. Not collective.
#ifndef ZR_SETUP_OVERHEADS_H
#define ZR_SETUP_OVERHEADS_H

#include "base/json_writer.h"
#include "predict/task_amounts.h"
#include "setup/estimate.h"

typedef struct zr_overheads_question {
    zr_task_subject subject;
    bool loads;         // the run begins with weights that it loads
    int64_t vocabulary; // ids among which a token is chosen
} zr_overheads_question;

typedef struct zr_overheads { // seconds; 0: unknown
    double start;             // before the first step; without reading, if the text is unknown
    double micro_batch;       // evaluating one of a rank
    double checkpoint, model; // saving one
    double token;             // generating one, in the middle of a window
} zr_overheads;

// Finds what the book knows. estimate: of the run; NULL: tasks alone are looked up. What cannot be
// predicted stays unknown.
void zr_overheads_find(const zr_overheads_question *question, zr_estimate *estimate,
                       const zr_rate_book *book, zr_overheads *out);
bool zr_overheads_are_known(const zr_overheads *overheads); // Says whether anything is known.
// Writes what is known in one line without its end, "besides steps: 0.42 s before the first one,
// 12.3 ms to evaluate a micro-batch, ..."; nothing, if nothing is known.
void zr_overheads_text(const zr_overheads *overheads, zr_buffer *out);
// Writes the seconds as a JSON object; null: unknown.
void zr_overheads_json(const zr_overheads *overheads, zr_json_writer *w, const char *key);

#endif
