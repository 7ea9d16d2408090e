// Tells which sanitizer a test is built with, on compilers that report it in either way, and of
// which long matrices a sample is tried.
#ifndef TESTS_SANITIZERS_H
#define TESTS_SANITIZERS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#define UNDER_TSAN __has_feature(thread_sanitizer)
#define UNDER_ASAN __has_feature(address_sanitizer)
#else
#ifdef __SANITIZE_THREAD__
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif
#ifdef __SANITIZE_ADDRESS__
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif
#endif

// Says whether the file's long matrices are sampled: ZERO_TEST_PART, 0 to 2, names the third of the
// test files that are tried whole; unset, all are. tests/cli/lib.sh does the same.
static inline bool tests_sample(const char *file)
{
    const char *part = getenv("ZERO_TEST_PART"), *name = strrchr(file, '/');
    int sum = 0;
    for (const char *at = name ? name + 1 : file; *at; at++)
        sum += (unsigned char)*at;
    return part && *part && sum % 3 != atoi(part);
}

// Of cases that a whole run of the release build tries completely, a sample is enough: under a
// sanitizer, which makes the build slow, and where only a part is asked for.
#define SANITIZED (UNDER_TSAN || UNDER_ASAN || tests_sample(__FILE__))

#endif
