// The flights of a pass: what it begins and ends later, which are exchanges between ranks and
// transfers between tiers. A JOIN ends at once.
#ifndef ZR_REPORT_PLAN_IN_FLIGHT_H
#define ZR_REPORT_PLAN_IN_FLIGHT_H

#include "plan/program.h"

typedef enum zr_in_flight_lane {
    ZR_LANE_EXCHANGES, // GATHER, REDUCE and JOIN
    ZR_LANE_TRANSFERS, // FETCH and STORE
} zr_in_flight_lane;

// From the instruction that begins it to the AWAIT of its slot; a JOIN's to the next instruction.
typedef struct zr_in_flight_range {
    int from, to; // instruction numbers; `to` is the pass's count if it lasts beyond the pass
    int row;      // the lowest row in which no other flight of its lane is at that time
} zr_in_flight_range;

typedef struct zr_in_flight {
    zr_in_flight_range *at; // (count) in the order in which they begin
    int count, rows;
} zr_in_flight;

// Lists the flights of one lane. A GATHER of what is already here begins nothing, so it is no
// flight. Returns ZERO_ERR_MEMORY. *out is freed with zr_in_flight_free, also after an error.
zero_status zr_in_flight_of(const zr_pass *pass, zr_in_flight_lane lane, zr_in_flight *out,
                            zero_error *error);
void zr_in_flight_free(zr_in_flight *flights);

#endif
