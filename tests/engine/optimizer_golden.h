// What each optimizer's parameters are after 20 updates, of which tests/oracle/optimizers.py
// computes the numbers.
#ifndef ZR_TESTS_OPTIMIZER_GOLDEN_H
#define ZR_TESTS_OPTIMIZER_GOLDEN_H

enum { OPTIMIZER_GOLDENS = 8 };

typedef struct optimizer_golden {
    const char *type, *params; // of the configuration; params: what stands between its braces
    double p[100];
} optimizer_golden;

extern const optimizer_golden optimizer_goldens[OPTIMIZER_GOLDENS];

#endif
