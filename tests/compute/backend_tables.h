// The tables of a backend and the slots of each. A test takes its rows from them, so that a slot
// without a row fails by name.
#ifndef TESTS_COMPUTE_BACKEND_TABLES_H
#define TESTS_COMPUTE_BACKEND_TABLES_H

#include "../table_slots.h"
#include "compute/compute.h"

typedef struct slot_called { // offsets in bytes
    size_t table;            // of the pointer to the table, in zr_backend
    size_t slot;             // in the table
} slot_called;

#define SLOT_CALLED(backend, table, slot)                                                          \
    ((slot_called){offsetof(zr_backend, table),                                                    \
                   slot_offset((backend)->table, &(backend)->table->slot)})

static inline size_t slot_offset(const void *table, const void *slot)
{
    return (size_t)((const char *)slot - (const char *)table);
}

enum { BACKEND_TABLES = 5 };

typedef struct slot_coverage {
    bool slot[BACKEND_TABLES][MOST_SLOTS];
} slot_coverage;

void slot_covered(slot_coverage *covered, const slot_called *called);
void check_every_slot_covered(const slot_coverage *covered);
// Checks that every slot has a function in the backend, and another one in `wrapper` that takes its
// place.
void check_every_slot_wrapped(const zr_backend *backend, const zr_backend *wrapper);

#endif
