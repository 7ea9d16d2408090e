// The lines of test_null.c: a function, and what it says without one of its pointers.
#ifndef NULL_CASES_H
#define NULL_CASES_H

#include "../setup/tiny_engine.h"

#include "base/errors.h"
#include <zero/zero.h>

#include <string.h>

enum { MOST = 200 };
static const char *covered[MOST];
static int covered_count;
static zero_error said;

// The lines that follow are of this function, which must exist.
#define FUNCTION(name) cover(#name, (void (*)(void))name)
static void cover(const char *name, void (*function)(void))
{
    assert_non_null(function);
    assert_true(covered_count < MOST);
    covered[covered_count++] = name;
}

static void check_refusal(zero_status status, const zero_error *error, const char *argument)
{
    const char *function = covered[covered_count - 1];
    if (status != ZERO_ERR_USAGE ||
        (error && (!strstr(error->message, function) || !strstr(error->message, argument))))
        fail_msg("%s without %s: status %d, \"%s\"", function, argument, status,
                 error ? error->message : "");
}

// The call, with `e` for the error object: once with one, once with NULL.
#define REFUSES(argument, call)                                                                    \
    do {                                                                                           \
        zero_error *e = &said;                                                                     \
        said = (zero_error){0};                                                                    \
        check_refusal((call), e, argument);                                                        \
        e = NULL;                                                                                  \
        check_refusal((call), e, argument);                                                        \
    } while (0)

#endif
