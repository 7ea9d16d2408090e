// Rotary embedding and the gated silu: ref compared with their definitions, cpu with ref; rotating
// back is the inverse; in place, and between rows of different strides.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

typedef struct shape {
    int64_t batch, seq, heads, dim, first;
} shape;

static const shape shapes[] = {
    {1, 1, 1, 2, 0}, {2, 5, 3, 8, 7}, {1, 40, 2, 34, 0}, {2, 70, 9, 64, 100}, {1, 9, 2, 130, 5000}};

static zr_rotary rotary_of(zero_dtype from, zero_dtype to, shape s, float *frequency)
{
    for (int64_t j = 0; j < s.dim / 2; j++)
        frequency[j] = 1 / powf(10000, (float)(2 * j) / (float)s.dim);
    return (zr_rotary){.from = from,
                       .to = to,
                       .batch = s.batch,
                       .seq = s.seq,
                       .rotated = s.dim,
                       .first = s.first,
                       .factor = 1.25f,
                       .heads = s.heads,
                       .x_step = s.heads * s.dim,
                       .y_step = s.heads * s.dim,
                       .x_head = s.dim,
                       .y_head = s.dim};
}

// Complex numbers of each pair, turned.
static void ref_turns(void **state)
{
    zr_queue *ref = check_queue("ref", NULL, 1);
    const shape s = {2, 6, 3, 10, 11};
    float frequency[5], *table = floats_new(s.seq * s.dim), *x = floats_random(2 * 6 * 40, 3, 1),
                        *y = floats_new(2 * 6 * 30);
    zr_rotary rotary = rotary_of(ZERO_F32, ZERO_F32, s, frequency);
    rotary.x_step = 40;
    zr_run(ref, zr_op_rotary_table(&rotary, frequency, table));
    // a fourth head stays behind
    zr_run(ref, zr_op_rotate(&rotary, table, x, y));
    for (int64_t row = 0; row < 12; row++)
        for (int64_t h = 0; h < 3; h++)
            for (int64_t j = 0; j < 5; j++) {
                double angle = (double)(11 + row % 6) * (double)frequency[j];
                double a = x[row * 40 + h * 10 + j], b = x[row * 40 + h * 10 + 5 + j];
                float want[] = {(float)(1.25 * (a * cos(angle) - b * sin(angle))),
                                (float)(1.25 * (b * cos(angle) + a * sin(angle)))};
                check_close("first half", y + row * 30 + h * 10 + j, &want[0], 1, 1e-5, 1e-6);
                check_close("second half", y + row * 30 + h * 10 + 5 + j, &want[1], 1, 1e-5, 1e-6);
            }
    floats_free(table), floats_free(x), floats_free(y);
    check_queue_close(ref);
}

static void rotate_compare(zr_queue *queue, zr_queue *ref, zero_dtype from, zero_dtype to, shape s)
{
    float frequency[65], *table[2];
    zr_queue *queues[] = {queue, ref};
    int64_t rows = s.batch * s.seq, width = s.heads * s.dim, wide = width + 13;
    zr_rotary rotary = rotary_of(from, to, s, frequency);
    rotary.x_step = wide;
    for (int q = 0; q < 2; q++) {
        table[q] = floats_new(s.seq * s.dim);
        zr_run(queues[q], zr_op_rotary_table(&rotary, frequency, table[q]));
    }
    check_close("table", table[0], table[1], s.seq * s.dim, 1e-7, 1e-7);
    for (int back = 0; back < 2; back++) {
        void *x = array_random(from, rows * wide, 5, 2), *got = array_new(to, rows * width),
             *want = array_new(to, rows * width);
        void *packed = array_random(from, rows * wide, 5, 2);
        rotary.back = back;
        rotary.y_step = width;
        zr_run(queue, zr_op_rotate(&rotary, table[1], x, got));
        zr_run(ref, zr_op_rotate(&rotary, table[1], x, want));
        check_close_as("rotated", to, got, want, rows * width, 2e-7, 4e-7);
        rotary.y_step = wide;
        if (from == to)
            zr_run(queue, zr_op_rotate(&rotary, table[1], packed, packed));
        for (int64_t row = 0; row < rows && from == to; row++) {
            check_same_array("in place", to, array_at(to, packed, row * wide),
                             array_at(to, got, row * width), width);
            check_same_array("what is behind", to, array_at(to, packed, row * wide + width),
                             array_at(to, x, row * wide + width), 13);
        }
        array_free(x), array_free(got), array_free(want), array_free(packed);
    }
    floats_free(table[0]), floats_free(table[1]);
}

// Queries that are woven with keys and values, of which a part is rotated, become dense and go
// back.
static void woven_compare(zr_queue *queue, zr_queue *ref, zero_dtype type, shape s, int64_t rotated)
{
    float frequency[65], *table = floats_new(s.seq * s.dim);
    int64_t rows = s.batch * s.seq, width = s.heads * s.dim, head = 3 * s.dim, wide = 3 * width;
    shape part = s;
    part.dim = rotated;
    zr_rotary rotary = rotary_of(type, type, part, frequency);
    void *x = array_random(type, rows * wide, 5, 2), *got = array_new(type, rows * width),
         *want = array_new(type, rows * width), *again = array_new(type, rows * wide);
    rotary.factor = 1;
    rotary.rest = s.dim - rotated;
    rotary.x_step = wide, rotary.x_head = head;
    rotary.y_step = width, rotary.y_head = s.dim;
    zr_run(ref, zr_op_rotary_table(&rotary, frequency, table));
    zr_run(queue, zr_op_rotate(&rotary, rotated ? table : NULL, array_at(type, x, s.dim), got));
    zr_run(ref, zr_op_rotate(&rotary, rotated ? table : NULL, array_at(type, x, s.dim), want));
    check_close_as("woven", type, got, want, rows * width, 2e-7, 4e-7);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t h = 0; h < s.heads; h++)
            check_same_array(
                "what is not rotated", type, array_at(type, got, row * width + h * s.dim + rotated),
                array_at(type, x, row * wide + h * head + s.dim + rotated), s.dim - rotated);
    rotary.back = true;
    rotary.x_step = width, rotary.x_head = s.dim;
    rotary.y_step = wide, rotary.y_head = head;
    zr_run(queue, zr_op_rotate(&rotary, rotated ? table : NULL, got, again));
    double off = type == ZERO_F32 ? 1e-6 : 2e-2; // two roundings to the type
    for (int64_t i = 0; i < rows * s.heads; i++)
        check_close_as("back", type, array_at(type, again, i * head),
                       array_at(type, x, i * head + s.dim), s.dim, off, off);
    floats_free(table), array_free(x), array_free(got), array_free(want), array_free(again);
}

static void woven_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(shapes); s++)
            for (int quarters = 0; quarters <= 4; quarters++)
                woven_compare(queue, ref, storage_types[t], shapes[s],
                              shapes[s].dim * quarters / 4 / 2 * 2);
}

static void cpu_turns_a_part(void **state) { check_each_kernels(woven_body); }

static void rotate_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(shapes); s++)
            for (int f = 0; f < STORAGE_TYPES; f++)
                rotate_compare(queue, ref, storage_types[f], storage_types[t], shapes[s]);
}

static void cpu_turns(void **state) { check_each_kernels(rotate_body); }

// ---- silu(gate) * up ----

static const int64_t sizes[] = {0, 1, 15, 64, 1000, 70000};

static double gated(void *argument)
{
    const float *v = argument; // gate, up, d
    return (double)v[2] * (double)v[0] / (1 + exp(-(double)v[0])) * (double)v[1];
}

static void ref_gates(void **state)
{
    const zr_elements one = {.dtype = ZERO_F32, .n = 1};
    zr_queue *ref = check_queue("ref", NULL, 1);
    for (int i = 0; i < 40; i++) {
        float v[3] = {(float)(i - 20) * 0.37f, (float)(i % 7) - 3, 0.5f + (float)(i % 3)}, out,
              d_gate, d_up;
        zr_run(ref, zr_op_silu_gate_forward(&one, &v[0], &v[1], &out));
        float want = (float)(gated(v) / (double)v[2]);
        check_close("silu gate", &out, &want, 1, 1e-6, 1e-7);
        zr_run(ref, zr_op_silu_gate_backward(&one, &v[0], &v[1], &v[2], &d_gate, &d_up));
        float slopes[] = {(float)check_slope(gated, v, &v[0], 1.0f / 1024),
                          (float)check_slope(gated, v, &v[1], 1.0f / 1024)};
        check_close("d_gate", &d_gate, &slopes[0], 1, 1e-4, 1e-5);
        check_close("d_up", &d_up, &slopes[1], 1, 1e-4, 1e-5);
    }
    check_queue_close(ref);
}

static void gate_compare(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype dtype,
                         int64_t n)
{
    void *gate = array_random(dtype, n, 1, 12), *up = array_random(dtype, n, 2, 3),
         *d = array_random(dtype, n, 3, 1);
    const zr_elements all = {.dtype = dtype, .n = n};
    void *got[3], *want[3];
    for (int i = 0; i < 3; i++) {
        got[i] = array_new(dtype, n);
        want[i] = array_new(dtype, n);
    }
    if (n > 20) { // far out, where e^x is 0 or infinite
        float far[] = {-300, 300, -88, 88};
        for (int i = 0; i < 4; i++) {
            void *one = array_of(dtype, &far[i], 1);
            memcpy(array_at(dtype, gate, i), one, zero_dtype_bytes(dtype));
            array_free(one);
        }
    }
    zr_run(queue, zr_op_silu_gate_forward(&all, gate, up, got[0]));
    zr_run(ref, zr_op_silu_gate_forward(&all, gate, up, want[0]));
    zr_run(queue, zr_op_silu_gate_backward(&all, gate, up, d, got[1], got[2]));
    zr_run(ref, zr_op_silu_gate_backward(&all, gate, up, d, want[1], want[2]));
    check_close_as("silu gate", dtype, got[0], want[0], n, 1e-6, 1e-6);
    check_close_as("d_gate", dtype, got[1], want[1], n, 1e-6, 3e-6);
    check_close_as("d_up", dtype, got[2], want[2], n, 1e-6, 1e-6);
    zr_run(single, zr_op_silu_gate_forward(&all, gate, up, want[0]));
    check_same_array("at any number of threads", dtype, got[0], want[0], n);
    zr_run(queue, zr_op_silu_gate_backward(&all, gate, up, d, d, up));
    check_same_array("d_gate over d", dtype, d, got[1], n);
    check_same_array("d_up over up", dtype, up, got[2], n);
    for (int i = 0; i < 3; i++) {
        array_free(got[i]);
        array_free(want[i]);
    }
    array_free(gate), array_free(up), array_free(d);
}

static void gate_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int s = 0; s < ZR_COUNT(sizes); s++)
            gate_compare(queue, single, ref, storage_types[t], sizes[s]);
}

static void cpu_gates(void **state) { check_each_kernels(gate_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_turns),        cmocka_unit_test(cpu_turns),
        cmocka_unit_test(cpu_turns_a_part), cmocka_unit_test(ref_gates),
        cmocka_unit_test(cpu_gates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
