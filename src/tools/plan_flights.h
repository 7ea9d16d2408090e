// What a pass begins and ends later: exchanges between ranks, transfers between tiers.
#ifndef ZR_TOOLS_PLAN_FLIGHTS_H
#define ZR_TOOLS_PLAN_FLIGHTS_H

#include "plan/program.h"

typedef enum zr_lane {
    ZR_LANE_EXCHANGES, // GATHER and REDUCE
    ZR_LANE_TRANSFERS, // FETCH and STORE
} zr_lane;

typedef struct zr_flight { // from the instruction that begins it to the AWAIT of its slot
    int from, to;          // instructions; `to` is the pass's count where it goes on after the pass
    int row;               // the lowest that nothing else of its lane is in meanwhile
} zr_flight;

typedef struct zr_flights {
    zr_flight *at; // (count) in the order in which they begin
    int count, rows;
} zr_flights;

// ZERO_ERR_MEMORY. A GATHER of what is here already begins nothing, so it is no flight.
// *out is freed with zr_flights_free, also after an error.
zero_status zr_flights_of(const zr_pass *pass, zr_lane lane, zr_flights *out, zero_error *error);
void zr_flights_free(zr_flights *flights);

#endif
