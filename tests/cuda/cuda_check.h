// Runs operations on a card and under "ref", and compares. The card is the emulated driver's, whose
// libraries the loader finds (LD_LIBRARY_PATH); on a machine with a GPU the same tests run on that.
#ifndef TESTS_CUDA_CHECK_H
#define TESTS_CUDA_CHECK_H

#include "../compute/compute_check.h"

// How far results may be from ref's: |got - want| <= relative |want| + absolute, and one step of
// the type that is stored. Both 0: the same bits.
typedef struct cuda_tolerance {
    double relative, absolute;
} cuda_tolerance;

// Opens the card and a queue, and closes them; nothing of the card's may be left then.
void cuda_check_begin(void);
void cuda_check_end(void);
// The same, for a group of tests.
int cuda_check_setup(void **state);
int cuda_check_teardown(void **state);
zr_queue *cuda_check_queue(void);

// Runs the operation, whose operands lie in the host's memory (compute_check.h), three times on the
// card: each in another order of threads, each operand in memory of its own that ends where it
// ends, results and scratch poisoned. All three must have the same bits, and be as near to ref's as
// said. Operands at one address, or inside of another, stay so. The host's operands are unchanged
// afterwards.
void cuda_check(const char *what, zr_op op, cuda_tolerance tolerance);
// The same bits as those of "cpu", where that fuses multiplies and additions (cpu_fuses.h);
// elsewhere nothing is checked.
void cuda_check_as_cpu(const char *what, zr_op op);
// The same where an operand, by its number in the declaration, has a tolerance of its own.
void cuda_check_one(const char *what, zr_op op, cuda_tolerance tolerance, int operand,
                    cuda_tolerance its);

#endif
