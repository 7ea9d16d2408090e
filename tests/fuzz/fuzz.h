// A fuzz target: one reader of the library, given bytes that nobody has vouched for. What must hold
// is checked in the target itself (fuzz_must); memory, leaks and undefined behaviour by the
// sanitizers.
//
//   fuzz_NAME.c + fuzz.c              under libFuzzer (-Dfuzz=enabled, clang): tools/fuzz
//   fuzz_NAME.c + fuzz.c + replay.c   in every build: the corpus and a fixed number of its
//                                     mutations, and every allocation made to fail
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "base/alloc.h"

// Reads the input. ZERO_OK where it is taken for what it should be; any other status must come with
// a message.
zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error);

// A file of a directory of this process, in memory where there is such a file system; removed at
// exit. The path is valid until the next call.
const char *fuzz_put(const char *name, const void *data, size_t size);
const char *fuzz_directory(void);

// Ends the process where something that must hold does not.
#define fuzz_must(condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#include <stdio.h>
#include <stdlib.h>

#endif
