// The parameters of each optimizer after 20 updates, as tests/oracle/optimizers.py computes them.
#ifndef ZR_TESTS_OPTIMIZER_GOLDEN_H
#define ZR_TESTS_OPTIMIZER_GOLDEN_H

enum { OPTIMIZER_GOLDENS = 12 };

typedef struct optimizer_golden {
    const char *type, *params; // of the configuration; params: the text between its braces
    double p[100];
} optimizer_golden;

extern const optimizer_golden optimizer_goldens[OPTIMIZER_GOLDENS];

#endif
