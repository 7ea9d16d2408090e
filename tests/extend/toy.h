// What is required of every toy that runs below an engine: a training with it is the same as
// without it.
#ifndef TEST_EXTEND_TOY_H
#define TEST_EXTEND_TOY_H

#include "harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

// Runs the case without the toy and with it (*chosen). Checks that the bits, the messages and the
// bytes that move between tiers are the same, and that what is planned is held. Returns the result
// of the toy's run.
static inline const harness_result *toy_trains_alike(const harness_case *c, bool *chosen)
{
    static harness_result usual, other;
    *chosen = false;
    harness_run(c, &usual);
    *chosen = true;
    harness_run(c, &other);
    assert_true(harness_equal(&usual, &other));
    assert_memory_equal(&usual.traffic, &other.traffic, sizeof usual.traffic);
    assert_memory_equal(&usual.io, &other.io, sizeof usual.io);
    harness_expect_held(&other);
    return &other;
}

#endif
