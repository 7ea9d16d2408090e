// Attention with a first position for each query, as documents in one window have it, and sliding
// windows: ref gives each document the bits that it has alone, and cpu agrees with ref; starts of 0
// are causal attention, bit for bit, and a window is the starts that it gives.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

static const zr_step_values step = {.seed = 7, .step = 2};

typedef struct pass {
    zr_attention a;
    void *qkv, *out, *dout, *dqkv;
    float *lse;
} pass;

static int64_t packed(const zr_attention *a) { return a->batch * a->seq * zr_attention_row(a); }

static pass pass_new(zero_dtype dtype, int64_t seq, int64_t heads, int64_t kv_heads, float dropout)
{
    pass p = {.a = {.dtype = dtype,
                    .batch = 2,
                    .seq = seq,
                    .heads = heads,
                    .kv_heads = kv_heads,
                    .head_dim = 24,
                    .scale = 0.2f,
                    .dropout = dropout,
                    .mask = {.micro_batch = 1, .unit = 2, .site = 3}}};
    p.qkv = array_random(dtype, packed(&p.a), 1, 1);
    p.dout = array_random(dtype, zr_attention_out(&p.a), 2, 1);
    p.out = array_new(dtype, zr_attention_out(&p.a));
    p.dqkv = array_new(dtype, packed(&p.a));
    p.lse = floats_new(p.a.batch * p.a.heads * p.a.seq);
    return p;
}

static void pass_free(pass *p)
{
    void *const arrays[] = {p->qkv, p->dout, p->out, p->dqkv};
    for (int i = 0; i < ZR_COUNT(arrays); i++)
        array_free(arrays[i]);
    floats_free(p->lse);
}

// forward: whose out and lse backward gets.
static void pass_run(zr_queue *queue, pass *p, const pass *forward, const int32_t *starts)
{
    void *scratch =
        scratch_new(queue, (zr_op){.kind = ZR_OP_attention_backward, .shape.attention = p->a});
    zr_run(queue, zr_op_attention_forward(&p->a, p->qkv, p->out, p->lse, starts, &step, scratch));
    zr_run(queue, zr_op_attention_backward(&p->a, p->qkv, forward->out, forward->lse, p->dout,
                                           p->dqkv, NULL, starts, &step, scratch));
    array_free(scratch);
}

enum { MOST = 700 };

// Fills starts (2, seq). kind 0: all are 0; 1: documents of other lengths in each sample; 2: of one
// position; above: sliding windows of so many positions.
static void fill_starts(int64_t seq, int kind, int32_t *starts)
{
    for (int64_t b = 0; b < 2; b++) {
        int64_t begin = 0, length = b ? 3 : 11;
        for (int64_t i = 0; i < seq; i++) {
            if (i - begin == length) {
                begin = i;
                length = length * 7 % 43 + 1;
            }
            starts[b * seq + i] = (int32_t)(kind == 0   ? 0
                                            : kind == 1 ? begin
                                            : kind == 2 ? i
                                                        : ZR_MAX(i + 1 - kind, 0));
        }
    }
}

// Copies rows [first, first+count) of sample b.
static void copy_rows(const void *from, int64_t seq, int64_t width, int64_t b, int64_t first,
                      int64_t count, float *to)
{
    memcpy(to, (const float *)from + (b * seq + first) * width,
           sizeof(float) * (size_t)(count * width));
}

static void documents_are_as_alone(void **state)
{
    enum { SEQ = 60 };
    static int32_t starts[2 * SEQ];
    zr_queue *ref = check_queue("ref", NULL, 1);
    pass all = pass_new(ZERO_F32, SEQ, 4, 2, 0);
    fill_starts(SEQ, 1, starts);
    pass_run(ref, &all, &all, starts);
    int64_t width = all.a.heads * all.a.head_dim, row = zr_attention_row(&all.a);
    int documents = 0;
    for (int64_t at = 0, count; at < 2 * SEQ; at += count, documents++) {
        int64_t b = at / SEQ, first = at % SEQ;
        for (count = 1; (at + count) % SEQ && starts[at + count] == first;)
            count++;
        pass alone = pass_new(ZERO_F32, count, 4, 2, 0);
        alone.a.batch = 1;
        copy_rows(all.qkv, SEQ, row, b, first, count, alone.qkv);
        copy_rows(all.dout, SEQ, width, b, first, count, alone.dout);
        pass_run(ref, &alone, &alone, NULL);
        assert_memory_equal((float *)all.out + at * width, alone.out,
                            sizeof(float) * (size_t)(count * width));
        assert_memory_equal((float *)all.dqkv + at * row, alone.dqkv,
                            sizeof(float) * (size_t)(count * row));
        pass_free(&alone);
    }
    assert_true(documents > 6);
    pass_free(&all);
    check_queue_close(ref);
}

static void check_starts(zr_queue *queue, zr_queue *ref, zero_dtype dtype, int64_t seq, int kind,
                         float dropout)
{
    static int32_t starts[2 * MOST];
    pass want = pass_new(dtype, seq, 4, seq % 2 ? 1 : 4, dropout),
         got = pass_new(dtype, seq, 4, seq % 2 ? 1 : 4, dropout);
    double tolerance = dtype == ZERO_F32 ? 2e-5 : dtype == ZERO_F16 ? 4e-3 : 3e-2;
    fill_starts(seq, kind, starts);
    pass_run(ref, &want, &want, starts);
    pass_run(queue, &got, &want, starts);
    check_close("lse", got.lse, want.lse, 2 * 4 * seq, tolerance, tolerance);
    check_close_as("out", dtype, got.out, want.out, zr_attention_out(&got.a), tolerance, tolerance);
    check_close_as("dqkv", dtype, got.dqkv, want.dqkv, packed(&got.a), 5 * tolerance,
                   5 * tolerance);
    if (kind == 0) {
        pass causal = pass_new(dtype, seq, 4, seq % 2 ? 1 : 4, dropout);
        pass_run(queue, &causal, &want, NULL);
        check_same_array("out", dtype, got.out, causal.out, zr_attention_out(&got.a));
        check_same_array("dqkv", dtype, got.dqkv, causal.dqkv, packed(&got.a));
        pass_free(&causal);
    }
    pass_free(&want);
    pass_free(&got);
}

// A window in the shape has the bits of the starts that it means, alone and with documents; one
// that no position fills has those of causal attention.
static void check_window(zr_queue *queue, zero_dtype dtype, int64_t seq, int64_t window,
                         float dropout)
{
    static int32_t starts[2 * MOST], both[2 * MOST];
    int64_t kv_heads = seq % 2 ? 1 : 4;
    for (int documents = 0; documents < 2; documents++) {
        pass want = pass_new(dtype, seq, 4, kv_heads, dropout),
             got = pass_new(dtype, seq, 4, kv_heads, dropout);
        fill_starts(seq, documents, starts);
        fill_starts(seq, documents, both);
        for (int64_t i = 0; i < 2 * seq; i++)
            both[i] = (int32_t)ZR_MAX(both[i], i % seq + 1 - window);
        got.a.window = window;
        pass_run(queue, &want, &want, both);
        pass_run(queue, &got, &got, documents ? starts : NULL);
        check_same_array("out", dtype, got.out, want.out, zr_attention_out(&got.a));
        check_same_array("dqkv", dtype, got.dqkv, want.dqkv, packed(&got.a));
        assert_memory_equal(got.lse, want.lse, sizeof(float) * (size_t)(2 * 4 * seq));
        pass_free(&want);
        pass_free(&got);
    }
}

static void windows_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t lengths[] = {1, 7, 48, 97, 300, 515};
    static const int64_t windows[] = {1, 3, 50, 97, 260, INT64_MAX};
    for (int n = 0; n < ZR_COUNT(lengths); n++)
        for (int w = 0; w < ZR_COUNT(windows); w++)
            for (int t = 0; t < STORAGE_TYPES; t++) {
                float dropout = (w + n) % 4 == 3 ? 0.2f : 0;
                if (lengths[n] < 200 || (n + w + t) % 3 == 0)
                    check_window(queue, storage_types[t], lengths[n], windows[w], dropout);
                if (lengths[n] < 98 && (n + w + t) % 3 == 0)
                    check_window(ref, storage_types[t], lengths[n], windows[w], dropout);
            }
}

static void windows_are_starts(void **state) { check_each_kernels(windows_body); }

// The operations count as many pairs of positions as there are.
static void pairs_are_counted(void **state)
{
    for (int64_t window = 0; window < 12; window++)
        for (int64_t first = 0; first < 9; first++)
            for (int64_t rows = 0, pairs = 0; rows < 9; rows++) {
                const zr_attention a = {.window = window};
                assert_int_equal(zr_attention_seen(&a, first, rows), pairs);
                int64_t seen = first + rows + 1;
                assert_int_equal(seen - zr_attention_window_start(&a, first + rows),
                                 window ? ZR_MIN(seen, window) : seen);
                pairs += window ? ZR_MIN(seen, window) : seen;
            }
}

static void starts_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t lengths[] = {1, 7, 48, 97, 300, 515};
    static const int kinds[] = {0, 1, 2, 3, 50, 260};
    for (int n = 0; n < ZR_COUNT(lengths); n++)
        for (int k = 0; k < ZR_COUNT(kinds); k++)
            for (int t = 0; t < STORAGE_TYPES; t++)
                if (lengths[n] < 200 || (n + k + t) % 3 == 0) // ref is slow
                    check_starts(n % 2 ? queue : single, ref, storage_types[t], lengths[n],
                                 kinds[k], (k + n) % 4 == 3 ? 0.2f : 0);
}

static void cpu_agrees(void **state) { check_each_kernels(starts_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_as_alone), cmocka_unit_test(cpu_agrees),
        cmocka_unit_test(windows_are_starts), cmocka_unit_test(pairs_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
