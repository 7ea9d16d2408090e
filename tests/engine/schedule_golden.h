// The rates of 100 updates by transformers' schedules, as tests/oracle/schedules.py writes them.
#ifndef ZR_TESTS_SCHEDULE_GOLDEN_H
#define ZR_TESTS_SCHEDULE_GOLDEN_H

enum { SCHEDULE_GOLDENS = 7, SCHEDULE_GOLDEN_UPDATES = 100 };

typedef struct schedule_golden {
    const char *params;                 // of libzero.schedule: the text between its braces
    double lr[SCHEDULE_GOLDEN_UPDATES]; // of updates 1 to 100, with an optimizer's lr of 3e-4
} schedule_golden;

extern const schedule_golden schedule_goldens[SCHEDULE_GOLDENS];

#endif
