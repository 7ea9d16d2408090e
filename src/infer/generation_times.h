// What a generation takes, next to what is predicted of the steps that it has taken, and what it
// teaches the book of rates. A step that reads has tokens of a prompt; all others write.
#ifndef ZR_INFER_GENERATION_TIMES_H
#define ZR_INFER_GENERATION_TIMES_H

#include "layers/layers.h"
#include "predict/measured_steps.h"
#include <zero/engine.h>

enum { ZR_GENERATION_READS, ZR_GENERATION_WRITES, ZR_GENERATION_PARTS };

// Steps that differ in their positions alone. What they cost lies on a line from the first to the
// last one.
typedef struct zr_generation_steps {
    int64_t rows, wanted, count;
    int run_count;
    bool reads;
    zr_attention_run *first, *last; // (run_count) each
} zr_generation_steps;

typedef struct zr_generation_times {
    zero_engine *engine;
    zr_measured *measured;
    zr_recorder *recorder;
    zr_generation_steps *steps; // (step_count)
    int step_count, step_capacity;
    int64_t sequences, capacity, vocabulary; // of the decoding; ids that are chosen among, or 0
    // Sums: tokens read and written; seconds, those of choosing tokens among them; of these alone.
    int64_t tokens[ZR_GENERATION_PARTS], choices;
    double seconds[ZR_GENERATION_PARTS], choosing;
    double began; // of the step, or of choosing, under way
    bool recorded, reads;
    bool stopped;        // before all answers were there
    int64_t recorded_at; // zr_clock_nanoseconds
} zr_generation_times;

// Close it also after an error. ZERO_ERR_MEMORY.
zero_status zr_generation_times_open(zero_engine *engine, zr_generation_times *out,
                                     zero_error *error);
// Opens one that counts steps and their time, and records no operations, for an engine that others
// record: it can predict, but not teach.
zero_status zr_generation_times_count(zero_engine *engine, zr_generation_times *out,
                                      zero_error *error);
void zr_generation_times_close(zr_generation_times *times);
// Around each step, and after its tokens were chosen. times NULL: nothing is done.
zero_status zr_generation_begin_step(zr_generation_times *times, zero_error *error);
zero_status zr_generation_end_step(zr_generation_times *times, const zr_decode_step *step,
                                   zero_error *error);
void zr_generation_end_choice(zr_generation_times *times, int64_t chosen, bool stopped);

typedef struct zr_generation_forecast {
    double seconds[ZR_GENERATION_PARTS]; // all 0: nothing is known
    double unknown;                      // seconds in operations that nobody has measured
} zr_generation_forecast;

// Predicts the steps that were taken, as far as the book knows of this machine. backend: as
// zr_queue_open takes it. Not collective.
zero_status zr_generation_predict(const zr_generation_times *times, const zr_rate_book *book,
                                  const char *backend, zr_generation_forecast *out,
                                  zero_error *error);
// Says whether too much of it is of operations that nobody has measured.
bool zr_generation_is_guess(const zr_generation_forecast *forecast);
// Says in one line what the generation took, and what was predicted, or guessed.
void zr_generation_text(const zr_generation_times *times, const zr_generation_forecast *forecast,
                        zr_buffer *out);
// Keeps what it teaches, if it was long enough. Not collective: one rank calls it.
void zr_generation_teach(zr_generation_times *times, const zero_logger *logger);

#endif
