// Attention over a slice of a model's heads: it draws the masks and computes the bits of the whole;
// gradients of keys and values that slices share come unrounded, so that their sum is rounded once.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

static const zr_step_values step = {.seed = 99, .step = 3};

typedef struct pass { // what forward and backward get and give
    zr_attention a;
    void *qkv, *dout;
    void *out, *dqkv;
    float *lse, *d_shared; // d_shared: NULL where nothing is shared
} pass;

static int64_t rows_of(const zr_attention *a) { return a->batch * a->seq; }

static int64_t width_of(const zr_attention *a) { return a->heads * a->head_dim; }

static int64_t keys_of(const zr_attention *a) { return a->kv_heads * a->head_dim; }

static pass pass_new(const zr_attention *a, bool shared)
{
    int64_t rows = rows_of(a);
    return (pass){
        .a = *a,
        .qkv = array_new(a->dtype, rows * zr_attention_row(a)),
        .dout = array_new(a->dtype, rows * width_of(a)),
        .out = array_new(a->dtype, rows * width_of(a)),
        .dqkv = array_new(a->dtype, rows * zr_attention_row(a)),
        .lse = floats_new(rows * a->heads),
        .d_shared = shared ? floats_new(rows * zr_attention_shared_row(a)) : NULL,
    };
}

static void pass_free(pass *p)
{
    void *arrays[] = {p->qkv, p->dout, p->out, p->dqkv, p->lse, p->d_shared};
    for (int i = 0; i < ZR_COUNT(arrays); i++)
        array_free(arrays[i]);
}

static void pass_run(zr_queue *queue, pass *p)
{
    void *scratch =
        scratch_new(queue, (zr_op){.kind = ZR_OP_attention_backward, .shape.attention = p->a});
    zr_run(queue, zr_op_attention_forward(&p->a, p->qkv, p->out, p->lse, NULL, &step, scratch));
    zr_run(queue, zr_op_attention_backward(&p->a, p->qkv, p->out, p->lse, p->dout, p->dqkv,
                                           p->d_shared, NULL, &step, scratch));
    array_free(scratch);
}

static pass whole_new(zero_dtype dtype, int64_t heads, int64_t kv_heads, float dropout)
{
    const zr_attention a = {.dtype = dtype,
                            .batch = 2,
                            .seq = 53,
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .head_dim = 20,
                            .scale = 0.25f,
                            .dropout = dropout,
                            .mask = {.micro_batch = 1, .unit = 2, .site = 4}};
    pass whole = pass_new(&a, false);
    array_free(whole.qkv);
    array_free(whole.dout);
    whole.qkv = array_random(dtype, rows_of(&a) * zr_attention_row(&a), 1, 2);
    whole.dout = array_random(dtype, rows_of(&a) * width_of(&a), 2, 1);
    return whole;
}

// Some columns of rows, in elements.
typedef struct columns {
    void *array;
    int64_t row, first;
} columns;

static void columns_copy(zero_dtype dtype, int64_t rows, int64_t count, columns from, columns to)
{
    for (int64_t i = 0; i < rows; i++)
        memcpy(array_at(dtype, to.array, i * to.row + to.first),
               array_at(dtype, from.array, i * from.row + from.first),
               (size_t)count * zero_dtype_bytes(dtype));
}

// Compares columns of `got` with those of `want`, bit for bit.
static void columns_same(const char *what, zero_dtype dtype, int64_t rows, int64_t count,
                         columns got, columns want)
{
    for (int64_t i = 0; i < rows; i++)
        check_same_array(what, dtype, array_at(dtype, got.array, i * got.row + got.first),
                         array_at(dtype, want.array, i * want.row + want.first), count);
}

// A slice of the heads of a whole: where it begins in q and out, and in k and v of the whole.
typedef struct slice {
    pass own;
    int64_t q, k;
} slice;

// Cuts slice `t` of `slices` out of the whole; its keys are all that its queries read.
static slice slice_new(const pass *whole, int64_t t, int64_t slices)
{
    const zr_attention *a = &whole->a;
    zr_attention own = *a;
    int64_t rows = rows_of(a), row = zr_attention_row(a), sharing = a->heads / a->kv_heads;
    own.heads = a->heads / slices;
    own.kv_heads = ZR_MAX(1, a->kv_heads / slices);
    own.first_head = t * own.heads;
    own.all_heads = a->heads;
    slice s = {
        .own = pass_new(&own, slices > a->kv_heads),
        .q = own.first_head * a->head_dim,
        .k = own.first_head / sharing * a->head_dim,
    };
    int64_t own_row = zr_attention_row(&own), q = width_of(&own), k = keys_of(&own);
    columns_copy(a->dtype, rows, q, (columns){whole->qkv, row, s.q},
                 (columns){s.own.qkv, own_row, 0});
    columns_copy(a->dtype, rows, k, (columns){whole->qkv, row, width_of(a) + s.k},
                 (columns){s.own.qkv, own_row, q});
    columns_copy(a->dtype, rows, k, (columns){whole->qkv, row, width_of(a) + keys_of(a) + s.k},
                 (columns){s.own.qkv, own_row, q + k});
    columns_copy(a->dtype, rows, q, (columns){whole->dout, width_of(a), s.q},
                 (columns){s.own.dout, q, 0});
    return s;
}

static void slice_is_of(const slice *s, const pass *whole)
{
    const zr_attention *a = &whole->a, *own = &s->own.a;
    int64_t rows = rows_of(a), row = zr_attention_row(a), own_row = zr_attention_row(own),
            q = width_of(own), k = keys_of(own);
    columns_same("out", a->dtype, rows, q, (columns){s->own.out, q, 0},
                 (columns){whole->out, width_of(a), s->q});
    columns_same("lse", ZERO_F32, a->batch, own->heads * a->seq,
                 (columns){s->own.lse, own->heads * a->seq, 0},
                 (columns){whole->lse, a->heads * a->seq, own->first_head * a->seq});
    columns_same("dq", a->dtype, rows, q, (columns){s->own.dqkv, own_row, 0},
                 (columns){whole->dqkv, row, s->q});
    if (s->own.d_shared)
        return;
    columns_same("dk", a->dtype, rows, k, (columns){s->own.dqkv, own_row, q},
                 (columns){whole->dqkv, row, width_of(a) + s->k});
    columns_same("dv", a->dtype, rows, k, (columns){s->own.dqkv, own_row, q + k},
                 (columns){whole->dqkv, row, width_of(a) + keys_of(a) + s->k});
}

// Adds what a slice found for the keys and values to sums(rows, 2*kv_heads*head_dim) of the whole.
static void shared_add(const slice *s, const pass *whole, float *sums)
{
    int64_t row = zr_attention_shared_row(&whole->a), own_row = zr_attention_shared_row(&s->own.a),
            own_keys = keys_of(&s->own.a);
    for (int64_t i = 0; i < rows_of(&whole->a); i++)
        for (int64_t c = 0; c < own_keys; c++) {
            sums[i * row + s->k + c] += s->own.d_shared[i * own_row + c];
            sums[i * row + keys_of(&whole->a) + s->k + c] +=
                s->own.d_shared[i * own_row + own_keys + c];
        }
}

// Where slices share heads of keys, their sum rounds to about what the whole has.
static void shared_is_of(const pass *whole, const float *sums)
{
    const zr_attention *a = &whole->a;
    int64_t rows = rows_of(a), row = zr_attention_shared_row(a);
    void *want = array_new(a->dtype, rows * row), *got = array_of(a->dtype, sums, rows * row);
    columns_copy(a->dtype, rows, row, (columns){whole->dqkv, zr_attention_row(a), width_of(a)},
                 (columns){want, row, 0});
    check_close_as("shared dk and dv", a->dtype, got, want, rows * row, 2e-6, 1e-5);
    array_free(want);
    array_free(got);
}

static void slices_are_the_whole(zr_queue *queue, zero_dtype dtype, int64_t kv_heads,
                                 int64_t slices)
{
    pass whole = whole_new(dtype, 8, kv_heads, 0.4f);
    int64_t shared = rows_of(&whole.a) * zr_attention_shared_row(&whole.a);
    float *sums = floats_new(shared);
    memset(sums, 0, sizeof(float) * (size_t)shared);
    pass_run(queue, &whole);
    for (int64_t t = 0; t < slices; t++) {
        slice s = slice_new(&whole, t, slices);
        pass_run(queue, &s.own);
        slice_is_of(&s, &whole);
        if (s.own.d_shared)
            shared_add(&s, &whole, sums);
        pass_free(&s.own);
    }
    if (slices > kv_heads)
        shared_is_of(&whole, sums);
    floats_free(sums);
    pass_free(&whole);
}

static void slices_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t kv_heads[] = {8, 2, 1};
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int k = 0; k < ZR_COUNT(kv_heads); k++)
            for (int64_t slices = 2; slices <= 8; slices *= 2) {
                slices_are_the_whole(queue, storage_types[t], kv_heads[k], slices);
                if (queue->threads == 1 && slices == 4)
                    slices_are_the_whole(ref, storage_types[t], kv_heads[k], slices);
            }
}

static void a_slice_of_heads_is_that_of_the_whole(void **state) { check_each_kernels(slices_body); }

// Rounded, d_shared is what dqkv has without it; with it, the columns of dqkv are left alone.
static void shared_rounds_to(zr_queue *queue, zero_dtype dtype, int64_t heads, int64_t kv_heads)
{
    pass plain = whole_new(dtype, heads, kv_heads, 0.1f),
         shared = whole_new(dtype, heads, kv_heads, 0.1f);
    const zr_attention *a = &plain.a;
    int64_t rows = rows_of(a), row = zr_attention_row(a), keys = zr_attention_shared_row(a);
    void *untouched = array_new(dtype, rows * row);
    shared.d_shared = floats_new(rows * keys);
    pass_run(queue, &plain);
    pass_run(queue, &shared);
    void *rounded = array_of(dtype, shared.d_shared, rows * keys);
    columns_same("rounded d_shared", dtype, rows, keys, (columns){rounded, keys, 0},
                 (columns){plain.dqkv, row, width_of(a)});
    columns_same("columns of k and v", dtype, rows, keys, (columns){shared.dqkv, row, width_of(a)},
                 (columns){untouched, row, width_of(a)});
    columns_same("columns of q", dtype, rows, width_of(a), (columns){shared.dqkv, row, 0},
                 (columns){plain.dqkv, row, 0});
    array_free(untouched);
    array_free(rounded);
    pass_free(&plain);
    pass_free(&shared);
}

static void shared_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int64_t kv_heads = 1; kv_heads <= 4; kv_heads *= 2) {
            shared_rounds_to(queue, storage_types[t], 4, kv_heads);
            if (queue->threads == 1)
                shared_rounds_to(ref, storage_types[t], 4, kv_heads);
        }
}

static void shared_gradients_come_unrounded(void **state) { check_each_kernels(shared_body); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_of_heads_is_that_of_the_whole),
        cmocka_unit_test(shared_gradients_come_unrounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
