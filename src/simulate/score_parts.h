// Lines of a table's score beside those of time: memory, and choosing by prediction. Pure.
#ifndef ZR_SIMULATE_SCORE_PARTS_H
#define ZR_SIMULATE_SCORE_PARTS_H

#include "simulate/runs_table.h"

// Writes how far memory is from what was measured: where that is the peak of what was allocated,
// and, in a line of its own, where it is something else (reserved, or all that a device shows).
void zr_sim_score_memory(const zr_sim_table *table, zr_buffer *out);
// Writes what choosing by prediction costs: among rows of one model, number of devices and batch,
// how much longer than the fastest the row takes that is predicted to be the fastest.
void zr_sim_score_choice(const zr_sim_table *table, zr_buffer *out);

#endif
