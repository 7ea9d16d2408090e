// A card's memory and queues: what is copied and computed there comes back.
#include "cuda_check.h"

static const cuda_tolerance exact = {0, 0};

static void sums_come_back(void **state)
{
    enum { N = 1003 };
    for (int t = 0; t < STORAGE_TYPES; t++) {
        const zr_sum shape = {.stream = storage_types[t], .dtype = storage_types[t], .n = N};
        void *x = array_random(shape.stream, N, 1, 2), *y = array_random(shape.dtype, N, 2, 2),
             *out = array_new(shape.stream, N);
        cuda_check("add", zr_op_add(&shape, x, y, out), exact);
        cuda_check("add in place", zr_op_add(&shape, x, y, x), exact);
        array_free(x);
        array_free(y);
        array_free(out);
    }
}

static void copies_and_fills_come_back(void **state)
{
    enum { N = 12345 };
    char *from = array_random(ZERO_F32, N / 4 + 1, 3, 1), *to = array_new(ZERO_F32, N / 4 + 1);
    cuda_check("copy", zr_op_copy(&(zr_bytes){.bytes = N}, from, to), exact);
    cuda_check("fill", zr_op_fill(&(zr_bytes){.bytes = N, .value = 7}, to), exact);
    array_free(from);
    array_free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_come_back),
        cmocka_unit_test(copies_and_fills_come_back),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
