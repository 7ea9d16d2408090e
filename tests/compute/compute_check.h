// What the tests of compute/ share: queues of every backend and path, poisoned and guarded buffers,
// and comparisons.
#ifndef COMPUTE_CHECK_H
#define COMPUTE_CHECK_H

#include "compute/compute.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <zero/tensor.h>

// Returns a vector of NaN, 64-byte aligned but at changing offsets in its page, followed by a guard
// that floats_free checks.
float *floats_new(int64_t count);
float *floats_copy(const float *from, int64_t count);
float *floats_random(int64_t count, uint64_t seed, float size); // uniform in (-size, size)
void floats_free(float *p);                                     // NULL is allowed

// The same for any storage type; values are rounded to it by the scalar conversions of base/.
#define STORAGE_TYPES 3
extern const zero_dtype storage_types[STORAGE_TYPES];
void *array_new(zero_dtype dtype, int64_t count);
void *array_of(zero_dtype dtype, const float *values, int64_t count);
void *array_random(zero_dtype dtype, int64_t count, uint64_t seed, float size);
// Returns the values of the array; free them with floats_free.
float *array_floats(zero_dtype dtype, const void *array, int64_t count);
void *array_at(zero_dtype dtype, void *array, int64_t i); // address of element i
void array_free(void *p);                                 // NULL is allowed

// Calls `test` for every path of backend "cpu" that this processor offers, with 1, 2 and 3 threads,
// and with 3 for path "emulated", which has the kernels of avx512_bf16 where there is AVX2.
// `single` has the same path and one thread. All queues have scratch for every product of these
// tests.
typedef void check_body(zr_queue *queue, zr_queue *single, zr_queue *ref);
void check_each_cpu(check_body *test);
// The same without paths whose kernels, apart from products, are those of a path that was called
// before.
void check_each_kernels(check_body *test);
// Returns NULL where the path is not offered.
zr_queue *check_queue(const char *name, const char *isa, int threads);
void check_queue_close(zr_queue *queue); // fails if an operation failed and nobody checked
// Runs an operation, and returns how it ended.
zero_status check_run(zr_queue *queue, zr_op op, zero_error *error);
// Returns a guarded array of exactly the scratch that an operation of this kind and shape needs;
// free it with floats_free.
void *scratch_new(zr_queue *queue, zr_op op);

// Checks |got - want| <= relative*|want| + absolute for each element; NaN is allowed only where
// `want` is NaN.
void check_close(const char *what, const float *got, const float *want, int64_t count,
                 double relative, double absolute);
// The same for arrays of a storage type, which may also differ by one step between neighbours in
// that type (none in fp32).
void check_close_as(const char *what, zero_dtype dtype, const void *got, const void *want,
                    int64_t count, double relative, double absolute);
void check_same_bits(const char *what, const void *got, const void *want, int64_t bytes);
// Asserts added(count) = before + sum, each sum rounded before it is added.
void check_added(const char *what, const float *added, const float *before, const float *sum,
                 int64_t count);
void check_same_array(const char *what, zero_dtype dtype, const void *got, const void *want,
                      int64_t count);
// Checks that `got` holds exactly what `want` becomes when it is stored as dtype.
void check_stored(const char *what, zero_dtype dtype, const void *got, const float *want,
                  int64_t count);

// Returns the central difference of f at *at. f must sum in double; the step is a power of two.
typedef double check_function(void *argument);
double check_slope(check_function *f, void *argument, float *at, float step);

#endif
