// Instructions of a pass as text, so that a test can say which ones it expects, and in which order.
//
//   AWAIT readers 1 | GATHER 1 if stale | BIND 1 gathered | CALL backward 2 | UPDATE groups
//   SCALARS stage | TAKE 4 | SCALARS give 4
//
// A number is a flat parameter; for a CALL it is the unit, for an AWAIT, FETCH or STORE the index
// of its slot, and for what is done with a slot of a link the link.
#ifndef TEST_PLAN_PASS_TEXT_H
#define TEST_PLAN_PASS_TEXT_H

#include "plan/program.h"

#define BIT(x) (1u << (x))

typedef struct pass_concern { // the instructions that a test looks at, one bit each
    uint32_t codes;
    uint32_t slots;   // of AWAIT, FETCH and STORE
    uint32_t buffers; // of BIND and UNBIND
} pass_concern;

// Checks that those of the pass, from instruction `first` up to but not including `end`, are these.
// Otherwise the test fails, and prints what they are.
void expect_between(const zr_pass *pass, int first, int end, const pass_concern *concern,
                    const char *expected);
void expect_pass(const zr_pass *pass, const pass_concern *concern, const char *expected);
void expect_place(zr_buffer_ref place, zr_buffer_ref expected);
// Returns the number of the nth instruction (from 0) of this code and flat parameter; the test
// fails if there is none.
int find_instruction(const zr_pass *pass, zr_code code, int flat_param, int nth);

#endif
