// 300 weights after 30 updates by AdamW (lr 0.01, betas 0.9 and 0.95, epsilon 1e-8, decay 0.1) with
// states in eight bits, and those states; and with states in bf16: see tests/oracle/states.py.
#ifndef TESTS_COMPUTE_STATES_GOLDEN_H
#define TESTS_COMPUTE_STATES_GOLDEN_H

#include <stdint.h>

enum { GOLDEN_COUNT = 300, GOLDEN_STEPS = 30, GOLDEN_BLOCKS = 2 };
extern const float golden_p[GOLDEN_COUNT], golden_p_bf16[GOLDEN_COUNT];
extern const float golden_scales0[GOLDEN_BLOCKS], golden_scales1[GOLDEN_BLOCKS];
extern const uint8_t golden_codes0[GOLDEN_COUNT], golden_codes1[GOLDEN_COUNT];

#endif
