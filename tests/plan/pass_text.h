// Instructions of a pass as text, so that a test says which it expects, in which order.
//
//   AWAIT readers 1 | GATHER 1 if stale | BIND 1 gathered | CALL backward 2 | UPDATE groups
//
// A number is a piece; of a CALL the unit, of an AWAIT, FETCH or STORE the index of its slot.
#ifndef TEST_PLAN_PASS_TEXT_H
#define TEST_PLAN_PASS_TEXT_H

#include "plan/program.h"

#define BIT(x) (1u << (x))

typedef struct pass_concern { // the instructions that a test looks at, a bit each
    uint32_t codes;
    uint32_t slots;  // of AWAIT, FETCH and STORE
    uint32_t spaces; // of BIND and UNBIND
} pass_concern;

// Those of the pass, from instruction `first` to before `end`, are these; else the test fails and
// says what they are.
void expect_between(const zr_pass *pass, int first, int end, const pass_concern *concern,
                    const char *expected);
void expect_pass(const zr_pass *pass, const pass_concern *concern, const char *expected);
void expect_place(zr_place place, zr_place expected);
// The number of the nth instruction (from 0) of this code and piece; the test fails without one.
int find_instruction(const zr_pass *pass, zr_code code, int piece, int nth);

#endif
