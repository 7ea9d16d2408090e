// How long a step of a plan takes: the plan's program, run on virtual time. Instructions take what
// the rates predict; what they begin overlaps with the rank until it is awaited, as in the engine,
// so overlap, prefetch, bubbles and waits count as they happen. Pure.
#ifndef ZR_PREDICT_FORECAST_H
#define ZR_PREDICT_FORECAST_H

#include "base/json_writer.h"
#include "plan/network.h"
#include "plan/pipeline/simulate.h"
#include "predict/operations.h"
#include "predict/rates.h"

typedef struct zr_link_speed { // to other ranks; zeroed: they share this machine's memory
    const zr_rates *rates;     // of exchanges over it; NULL where there are strangers: unknown
    const zr_rates *one_copy;  // of gathers that ranks of a machine share; NULL: `rates` have them
    int together;   // ranks of a machine that exchange over it at once; 0: as many as of its rates
    zr_reach reach; // which of the group's ranks are there; zeroed: all others
} zr_link_speed;

typedef struct zr_forecast_question {
    // The plans of one data rank and tensor rank, one for each pipeline stage, with their work.
    const zr_plan *const *plans;          // (stages)
    const zr_plan_operations *operations; // (stages)
    int stages;                           // 1: there is no pipeline
    const zr_rate_book *book;
    zr_rate_setting setting;
    bool overlaps;                        // exchanges of data ranks overlap computing
    zr_link_speed data, tensor, pipeline; // where ranks exchange by messages
    const int *machines;                  // (stages) of pipeline stages; NULL: each has its own
    int kv_replicas;                      // ranks of this machine, which share its disk
    // Cores of this machine; 0: enough. If its ranks' threads take them all, what overlaps with a
    // rank takes the rank's time.
    int cores;
} zr_forecast_question;

typedef struct zr_forecast {     // seconds of a step
    double parts[ZR_TIME_PARTS]; // compute, exchange, update, disk: they add up to `seconds`
    double plain[ZR_TIME_PARTS]; // the same without the book's corrections, to learn these
    double bubble;               // of a pipeline: in which its slowest stage waits; in `exchange`
    double seconds, low, high;   // 80% of runs lie between low and high
    double tokens;               // a second, of all ranks
    double unknown;              // part of the time whose operations nobody has measured
    double flops;                // of a step and all ranks: zr_flops_of_token
    const char *bound;           // the name of the largest part
} zr_forecast;

// Returns the FLOPs of a token of training, as PaLM counts them: 6 a parameter, 4 of the base of
// adapters, and of our own models' attention 12 a layer, channel and position, as if it were not
// causal; of a layer with a window, the part of that which it sees of what causal attention does.
double zr_flops_of_token(const zr_plan *plan);
// ZERO_ERR_MEMORY; a pipeline's lists are simulated (plan/pipeline/simulate.h).
zero_status zr_forecast_find(const zr_forecast_question *question, zr_forecast *out,
                             zero_error *error);
// Finds the seconds in which each data rank evaluates `micro_batches`, without corrections.
// *unknown: the part of them whose operations were never measured; may be NULL.
// ZERO_ERR_MEMORY.
zero_status zr_forecast_evaluation(const zr_forecast_question *question, int64_t micro_batches,
                                   double *out, double *unknown, zero_error *error);

// Makes all times of a forecast those of a machine on which other programs work: a job takes
// `slowdown` times as long (base/clock.h). These come and go, so the interval reaches from what the
// step takes without them to what it takes with more.
void zr_forecast_slow(zr_forecast *forecast, double slowdown);
// Say whether no figure is to be shown, because most of it would be a guess, and whether one that
// is shown has no more than one digit that counts.
bool zr_forecast_is_unknown(const zr_forecast *forecast);
bool zr_forecast_is_rough(const zr_forecast *forecast);

// forecast_text.c: in one line without its end, "a step takes 12.3 ms (11.0 ms to 13.8 ms), ...",
// "a step takes roughly 10 ms; 40% of it is guessed" or "how long a step takes is not known yet
// (75% of it would be guessed)", and as a JSON object, whose times are null where they are unknown.
void zr_forecast_text(const zr_forecast *forecast, zr_buffer *out);
void zr_forecast_json(const zr_forecast *forecast, zr_json_writer *w, const char *key);

#endif
