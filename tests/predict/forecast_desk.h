// A question for a forecast: a machine on which every byte of an activity takes the same time, and
// plans whose units make one operation a call, so that what a step takes can be written down.
#ifndef TEST_FORECAST_DESK_H
#define TEST_FORECAST_DESK_H

#include "pipeline_fixture.h"
#include "predict/forecast.h"

// Seconds of a byte, by what is done with it.
#define OPTIMIZER 1e-9
#define ELEMENT 2e-9
#define SQUARES 3e-9
#define NORM 4e-9
#define REDUCE 5e-9
#define GATHER 6e-9
#define SCALARS 7e-9
#define EXCHANGE 8e-9
// Bytes of the norms which stand for the calls of a unit; of a split backward, WEIGHT are those of
// the weights. EXCHANGED: of each of two exchanges of tensor ranks.
enum { FORWARD = 1000000, BACKWARD = 2000000, WEIGHT = 700000, EXCHANGED = 10000 };

typedef struct desk { // a question with all that it points to
    zr_rate_book book;
    zr_forecast_question question;
    const zr_plan *plans[PIPELINE_MOST_STAGES];
    zr_plan_operations operations[PIPELINE_MOST_STAGES];
    zr_rates link; // of a network
} desk;

void open_desk(desk *d); // no plans yet; two ranks, one thread each
void close_desk(desk *d);
void describe(desk *d, const zr_plan *plan); // adds the plan of the next pipeline stage
void forget_plans(desk *d);
void make_nothing(desk *d, int stage); // units of the stage have no operations
// Returns a network on which every exchange takes `latency`, and its bytes over the rate.
zr_link_speed link_of(desk *d, double rate, double latency);
// Asks, and checks what holds of every forecast: its parts are not negative, and add up.
zr_forecast ask(const desk *d);
zr_forecast ask_of(desk *d, const zr_plan *plan); // of one stage

void near(double got, double wanted);
// Elements of the tensors of the first rank's shards, or of whole flat parameters, without padding.
double elements_of(const zr_plan *plan, bool whole);
double unit_seconds(const zr_plan *plan); // of forward and backward of a micro-batch
double scalars_of(int others);            // of the sums of a step

#endif
