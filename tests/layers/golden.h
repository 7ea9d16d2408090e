// Golden files: records, each one line "f32|i32 NAME DIMENSIONS...\n" followed by the elements,
// little-endian (tests/oracle/ writes them);
// and what a network made of one is compared by.
#ifndef TEST_LAYERS_GOLDEN_H
#define TEST_LAYERS_GOLDEN_H

#include "layers_harness.h"

typedef struct golden {
    const char *path;
    char *data;
    size_t bytes;
    const char *prefix; // before the names of records: "llama/"
} golden;

void golden_open(golden *file, const char *path);
void golden_close(golden *file);
// Elements of a record; fails the test where there is none. golden_copy: exactly so many.
int64_t golden_elements(const golden *file, const char *name);
void golden_copy(const golden *file, const char *name, void *to, int64_t elements);

// Weights and batch (2, 7) of the file into a network.
void golden_load(const golden *file, harness *net);
void golden_assert_loss(const golden *file, double loss, double tolerance);
// Every gradient: max|a-b|/max|b| of each tensor below the tolerance.
void golden_assert_gradients(const golden *file, harness *net, double tolerance);
// Over all gradients together: that of 16-bit precision errs by at most `factor` times as much as
// autocast's, of records "KIND.grad.NAME".
void golden_assert_like_autocast(const golden *file, harness *net, const char *kind, double factor);
// Both sequences together, by steps of several lengths, against record "logits".
void golden_assert_decoded(const golden *file, harness *net, double tolerance);
// Generation: `sequences` of `length` tokens each, one after another; each step takes up to `cut`
// positions of the first, one more of the next and so on. logits (sequences, length, V): written
// where wanted, which is everywhere or, where `last`, in the last row of each run.
void golden_decode(harness *net, const int32_t *tokens, int64_t sequences, int64_t length,
                   int64_t cut, bool last, float *logits);

#endif
