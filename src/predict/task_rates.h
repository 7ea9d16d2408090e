// How long a run takes for its tasks, which are everything but its steps: reading text, making the
// engine, saving. The time of a task is a constant and a rate, fitted to what earlier runs took. A
// part of the book of rates (rates.h).
#ifndef ZR_PREDICT_TASK_RATES_H
#define ZR_PREDICT_TASK_RATES_H

#include "base/alloc.h"
#include "base/report.h"

// name, what people read, what its amount is (NULL: it has none)
#define ZR_TASK_LIST(X)                                                                            \
    X(BEGIN, begin, "beginning a run", "parameters")                                               \
    X(READ, read, "reading text", "bytes")                                                         \
    X(RESERVE, reserve, "reserving memory", "bytes")                                               \
    X(SHARE, share, "reserving shared memory", "bytes")                                            \
    X(DRAW, draw, "drawing weights", "parameters")                                                 \
    X(FORECAST, forecast, "forecasting a step", "units")                                           \
    X(LOAD, load, "loading weights", "parameters")                                                 \
    X(RESUME, resume, "loading a checkpoint", "bytes")                                             \
    X(ARRANGE, arrange, "samples of a step", "tokens")                                             \
    X(CHECKPOINT, checkpoint, "saving a checkpoint", "bytes")                                      \
    X(OVERLAPPED, checkpoint_overlapped, "a checkpoint during steps", "bytes")                     \
    X(MODEL, model, "saving a model", "parameters")                                                \
    X(CHOOSE, choose, "choosing a token", "ids")

typedef enum zr_task {
#define ZR_TASK_ENUM(task, name, text, of) ZR_TASK_##task,
    ZR_TASK_LIST(ZR_TASK_ENUM)
#undef ZR_TASK_ENUM
        ZR_TASKS
} zr_task;

enum { ZR_TASK_SAMPLES = 32 };

typedef struct zr_task_sample {
    int together;   // ranks of the machine
    int64_t amount; // of a rank, or of what all write together
    int element;    // bytes of a parameter's type; 0: the task does not depend on it
    double seconds;
    int64_t seen; // runs
    double quiet; // as of a zr_rate_sample; 0: 1
} zr_task_sample;

// Returns the weight of a later sample, which is `usual` if the machine was as quiet as before, 1
// if it was clearly quieter, and little if it was clearly busier.
double zr_quiet_weight(double known, double later, double usual);

typedef struct zr_task_rates {
    zr_task_sample at[ZR_TASKS][ZR_TASK_SAMPLES];
    int count[ZR_TASKS];
} zr_task_rates;

// Adds what a run has taken. Of equal amounts later runs count more. If there is no room, the
// sample that is most like another one is dropped. A time that is not positive and finite is
// ignored.
void zr_task_rates_add(zr_task_rates *rates, zr_task task, const zr_task_sample *sample);
typedef struct zr_task_facts { // of the machine
    double read, write;        // bytes a second of its disk; 0: unknown
} zr_task_facts;

// Returns the seconds of a task of this kind and amount; 0 if unknown, also because the amount is
// far beyond the samples. The constant and the rate are the most likely ones, given what such tasks
// usually take (with `facts`, which may be NULL), and given the logarithms of the samples; the
// nearest amounts count most. Samples are those of the nearest number of ranks, then of the
// nearest type.
double zr_task_rates_seconds(const zr_task_rates *rates, zr_task task, const zr_task_sample *of,
                             const zr_task_facts *facts);
bool zr_task_rates_are_empty(const zr_task_rates *rates);
void zr_task_rates_merge(zr_task_rates *into, const zr_task_rates *from);

// Read and write the member "quiet" of a sample, which is absent if the machine was quiet.
double zr_json_quiet(const json_t *entry);
void zr_json_put_quiet(double quiet, zr_json_writer *w);
// As JSON, `key` NULL if it stands alone: {"draw": [{"together": 2, "amount": N, "element": N,
// "seconds": S, "seen": N}, ...], ...}. Reading ignores tasks of other versions; it returns false
// if a sample is damaged.
bool zr_task_rates_read(const json_t *tasks, zr_task_rates *out);
void zr_task_rates_json(const zr_task_rates *rates, const char *key, zr_json_writer *w);
void zr_task_rates_report(const zr_task_rates *rates, zr_report *r); // for zero doctor

#endif
