// Tells which sanitizer a test is built with, on compilers that report it in either way.
#ifndef TESTS_SANITIZERS_H
#define TESTS_SANITIZERS_H

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

// The build is slow: of cases that the release build tries completely, a sample is enough.
#define SANITIZED (UNDER_TSAN || UNDER_ASAN)

#endif
