// Lists of actions as text: "F0 B0 F1.2 U0@1", for forward, backward (B), weight (W), norm (N) or
// update (U) of a micro-batch; of another chunk than the first, this one's number and a point come
// before. After an @ stands the version of the parameters, if it is not 0.
#ifndef TEST_PLAN_LANE_TEXT_H
#define TEST_PLAN_LANE_TEXT_H

#include "plan/pipeline/schedules.h"

// Reads a list into `out`, and returns how many actions it has.
int lane_read(const char *text, zr_action *out);
// Fails the test if the list is not this one.
void assert_lane(const zr_action *list, int count, const char *expected);

#endif
