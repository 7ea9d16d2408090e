// Golden files, and what a network made from one is compared by. A file has records, each one line
// "f32|i32 NAME DIMENSIONS...\n" followed by the elements, little-endian (tests/oracle/ writes
// them).
#ifndef TEST_LAYERS_GOLDEN_H
#define TEST_LAYERS_GOLDEN_H

#include "layers_harness.h"

typedef struct golden {
    const char *path;
    char *data;
    size_t bytes;
    const char *prefix; // put before the names of records: "llama/"
} golden;

void golden_open(golden *file, const char *path);
void golden_close(golden *file);
// Returns the elements of a record; fails the test if there is none. golden_copy requires exactly
// `elements`.
int64_t golden_elements(const golden *file, const char *name);
void golden_copy(const golden *file, const char *name, void *to, int64_t elements);

// The model that record "config" describes, by the way of a file, as a user's directory has it.
zr_lm_config golden_config(const golden *file);

// Loads the weights and the batch (2, 7) of the file into a network, which may be cut into slices.
void golden_load(const golden *file, harness *net);
void golden_assert_loss(const golden *file, double loss, double tolerance);
// Checks every gradient: max|a-b|/max|b| of each whole tensor must be below the tolerance. The
// network must have every element of the file's gradients once.
void golden_assert_gradients(const golden *file, harness *net, double tolerance);
// Checks all gradients together: those of 16-bit precision may err by at most `factor` times as
// much as autocast's, which are records "KIND.grad.NAME".
void golden_assert_like_autocast(const golden *file, harness *net, const char *kind, double factor);
// Decodes both sequences together, in steps of several lengths, and compares with record "logits".
void golden_assert_decoded(const golden *file, harness *net, double tolerance);
// Generates from `sequences` of `length` tokens each, one after another. Each step takes up to
// `cut` positions of the first sequence, one more of the next, and so on. logits (sequences,
// length, V) are written where they are wanted: everywhere or, if `last`, in the last row of each
// run.
void golden_decode(harness *net, const int32_t *tokens, int64_t sequences, int64_t length,
                   int64_t cut, bool last, float *logits);

#endif
