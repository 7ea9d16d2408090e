// A fuzz target: one reader of the library, which is given untrusted bytes. The target itself
// checks what must hold (fuzz_must); the sanitizers check memory, leaks and undefined behaviour.
//
//   fuzz_NAME.c + fuzz.c              under libFuzzer (-Dfuzz=enabled, clang): tools/fuzz
//   fuzz_NAME.c + fuzz.c + replay.c   in every build: the corpus and a fixed number of its
//                                     mutations, and every allocation made to fail
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include "base/alloc.h"

// Reads the input. Returns ZERO_OK if the input is accepted; any other status must come with a
// message.
zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error);

// Writes a file in a directory of this process, in memory if there is such a file system; it is
// removed at exit. The path is valid until the next call.
const char *fuzz_put(const char *name, const void *data, size_t size);
const char *fuzz_directory(void);

// Ends the process if something that must hold does not.
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
