// Attention and rotation on a card, compared with ref: every type, head sizes with kernels of their
// own and without, shared keys, windows, documents, dropout, gradients that stay fp32; decoding,
// whose bits depend on a sequence alone; rotation. ZERO_TEST_ALL=1 takes the whole product of what
// is drawn from otherwise.
#include "cuda_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const zr_step_values step = {.seed = 99, .step = 3};
static const cuda_tolerance usual = {2e-6, 2e-6};

typedef struct attention_case {
    zr_attention a;
    void *qkv, *out, *dout, *dqkv;
    float *lse, *d_shared;
    int32_t *starts;
} attention_case;

// ---- cases ----

typedef struct attention_shape {
    zero_dtype dtype;
    int64_t dim, seq, sharing; // sharing: query heads of a key head
    int variant;               // see vary
} attention_shape;
enum { VARIANTS = 6 };

// Documents of 1, 2, 3, ... positions, and one of the rest.
static int32_t *starts_new(int64_t batch, int64_t seq)
{
    int32_t *starts = array_new(ZERO_I32, batch * seq);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0, start = 0, length = 1 + b; i < seq; i++) {
            if (i - start == length && length < 9 + b) {
                start = i;
                length++;
            }
            starts[b * seq + i] = (int32_t)start;
        }
    return starts;
}

static void vary(attention_case *c, int variant)
{
    zr_attention *a = &c->a;
    bool all_at_once = variant == 5;
    if (variant == 1 || all_at_once)
        a->window = a->seq > 100 ? 50 : 3;
    if (variant == 2 || all_at_once)
        c->starts = starts_new(a->batch, a->seq);
    if (variant == 3 || all_at_once)
        a->dropout = 0.4f;
    if (variant == 4 || all_at_once)
        c->d_shared = floats_new(a->batch * a->seq * zr_attention_shared_row(a));
    if (variant >= 4) { // a slice of a model's heads
        a->first_head = a->heads;
        a->all_heads = 3 * a->heads;
    }
}

static attention_case case_new(attention_shape s)
{
    attention_case c = {.a = {.dtype = s.dtype,
                              .batch = s.seq < 100 ? 2 : 1,
                              .seq = s.seq,
                              .heads = s.sharing == 1 ? 2 : s.sharing,
                              .kv_heads = s.sharing == 1 ? 2 : 1,
                              .head_dim = s.dim,
                              .scale = 1 / sqrtf((float)s.dim),
                              .mask = {.micro_batch = 1, .unit = 2, .site = 4}}};
    if (s.sharing == 3 && s.seq < 100) {
        c.a.heads *= 2;
        c.a.kv_heads *= 2;
    }
    int64_t rows = c.a.batch * c.a.seq;
    vary(&c, s.variant);
    c.qkv = array_random(s.dtype, rows * zr_attention_row(&c.a), 1, 2);
    c.dout = array_random(s.dtype, zr_attention_out(&c.a), 2, 1);
    c.out = array_new(s.dtype, zr_attention_out(&c.a));
    c.lse = floats_new(rows * c.a.heads);
    c.dqkv = array_new(s.dtype, rows * zr_attention_row(&c.a));
    return c;
}

static void case_free(attention_case *c)
{
    void *arrays[] = {c->qkv, c->out, c->dout, c->dqkv, c->lse, c->d_shared, c->starts};
    for (int i = 0; i < ZR_COUNT(arrays); i++)
        array_free(arrays[i]);
}

// Products on tensor cores have factors rounded to the type, probabilities and gradients of scores
// among them; everything else is fp32, rounded where it is stored.
static cuda_tolerance tolerance_of(const zr_attention *a)
{
    bool rounds = a->dtype != ZERO_F32 && a->head_dim <= 128 && a->head_dim % 8 == 0;
    double rounding = !rounds ? 2e-6 : a->dtype == ZERO_BF16 ? 0x1p-8 : 0x1p-11;
    return (cuda_tolerance){rounding, rounding};
}

enum { LSE = 2 };

static void check_case(attention_shape s)
{
    attention_case c = case_new(s);
    const zr_attention *a = &c.a;
    cuda_tolerance near = tolerance_of(a), gradients = {near.relative, 5 * near.absolute};
    char what[120];
    snprintf(what, sizeof what, "type %d, head of %lld, seq %lld, sharing %lld, variant %d",
             (int)s.dtype, (long long)s.dim, (long long)s.seq, (long long)s.sharing, s.variant);
    cuda_check_one(what, zr_op_attention_forward(a, c.qkv, c.out, c.lse, c.starts, &step, NULL),
                   near, LSE, usual);
    zr_queue *ref = check_queue("ref", NULL, 1);
    zr_op forward = zr_op_attention_forward(a, c.qkv, c.out, c.lse, c.starts, &step, NULL);
    forward.at.attention_forward.scratch = scratch_new(ref, forward);
    zr_run(ref, forward);
    array_free(forward.at.attention_forward.scratch);
    check_queue_close(ref);
    cuda_check(what,
               zr_op_attention_backward(a, c.qkv, c.out, c.lse, c.dout, c.dqkv, c.d_shared,
                                        c.starts, &step, NULL),
               gradients);
    case_free(&c);
}

static const int64_t dims[] = {16, 64, 72, 128, 20, 130}, seqs[] = {1, 65, 130},
                     whole_seqs[] = {1, 65, 200}, shared_by[] = {1, 3, 8};

// Each type with each head size and length; of what goes with them every nineteenth, in turn. Three
// tiles of keys, the last of them begun, are enough for that; the whole product has four.
static void attention_agrees(void **state)
{
    const bool all = getenv("ZERO_TEST_ALL");
    int number = 0;
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int d = 0; d < ZR_COUNT(dims); d++)
            for (int n = 0; n < ZR_COUNT(seqs); n++)
                for (int i = 0; i < ZR_COUNT(shared_by) * VARIANTS; i++, number++)
                    if (all || number % 19 == 0)
                        check_case((attention_shape){storage_types[t], dims[d],
                                                     all ? whole_seqs[n] : seqs[n],
                                                     shared_by[i / VARIANTS], i % VARIANTS});
}

// A forward pass that nobody goes back from.
static void lse_may_be_left_out(void **state)
{
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int64_t dim = 20; dim <= 64; dim += 44) {
            attention_case c = case_new((attention_shape){storage_types[t], dim, 40, 1, 0});
            cuda_check("without lse",
                       zr_op_attention_forward(&c.a, c.qkv, c.out, NULL, NULL, NULL, NULL),
                       tolerance_of(&c.a));
            case_free(&c);
        }
}

// Scores of 1000 and more: the exponentials are taken of differences, across tiles of keys too.
static void large_scores_are_borne(void **state)
{
    const cuda_tolerance wide = {1e-2, 4e-1}, of_lse = {1e-6, 1e-3};
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int64_t dim = 20; dim <= 64; dim += 44) {
            attention_case c = case_new((attention_shape){storage_types[t], dim, 150, 1, 0});
            array_free(c.qkv);
            c.qkv = array_random(c.a.dtype, 150 * zr_attention_row(&c.a), 1, 40);
            cuda_check_one("large scores",
                           zr_op_attention_forward(&c.a, c.qkv, c.out, c.lse, NULL, NULL, NULL),
                           wide, LSE, of_lse);
            case_free(&c);
        }
}

// ---- decoding ----

typedef struct cache { // and the rows that enter it
    zr_attention a;
    void *qkv, *out;
    float *k, *v;
} cache;

static cache cache_new(zero_dtype dtype, int64_t sequences, int64_t dim, int64_t rows,
                       int64_t window)
{
    cache c = {.a = {.dtype = dtype,
                     .batch = 1,
                     .seq = rows,
                     .heads = 6,
                     .kv_heads = 2,
                     .head_dim = dim,
                     .scale = 1 / sqrtf((float)dim),
                     .window = window,
                     .sequences = sequences,
                     .capacity = 330}};
    int64_t cached = sequences * 2 * c.a.capacity * dim;
    c.qkv = array_random(dtype, rows * zr_attention_row(&c.a), 1, 2);
    c.out = array_new(dtype, zr_attention_out(&c.a));
    c.k = floats_random(cached, 3, 2);
    c.v = floats_random(cached, 4, 2);
    return c;
}

static void cache_free(cache *c)
{
    array_free(c->qkv);
    array_free(c->out);
    floats_free(c->k);
    floats_free(c->v);
}

static zr_op decode(cache *c, const zr_attention_run *runs, int count)
{
    c->a.run_count = count;
    return zr_op_attention_decode(&c->a, runs, c->k, c->v, c->qkv, c->out, NULL);
}

static void decoding_agrees(void **state)
{
    static const zr_attention_run runs[] = {{2, 0, 3}, {0, 320, 1}, {3, 31, 2}, {1, 0, 1}};
    for (int t = 0; t < STORAGE_TYPES; t++)
        for (int64_t dim = 7; dim <= 64; dim += 57)
            for (int64_t window = 0; window <= 40; window += 40) {
                cache c = cache_new(storage_types[t], 4, dim, 7, window);
                cuda_check("decode", decode(&c, runs, 4), usual);
                cache_free(&c);
            }
}

// More runs than a kernel gets at once.
static void many_runs_are_decoded(void **state)
{
    enum { RUNS = 150 };
    zr_attention_run runs[RUNS];
    cache c = cache_new(ZERO_F32, RUNS, 4, RUNS, 0);
    for (int r = 0; r < RUNS; r++)
        runs[r] = (zr_attention_run){.sequence = RUNS - 1 - r, .first = r % 5, .rows = 1};
    cuda_check("many runs", decode(&c, runs, RUNS), usual);
    cache_free(&c);
}

// Runs `op` once on the card with copies of its operands there; returns out.
static float *decoded_on_card(cache *c, const zr_attention_run *runs, int count)
{
    zr_queue *queue = cuda_check_queue();
    const zr_device_ops *ops = queue->device->ops;
    zr_op op = decode(c, runs, count);
    zr_operand operands[ZR_MOST_OPERANDS];
    void *there[ZR_MOST_OPERANDS] = {0}, *staged[ZR_MOST_OPERANDS] = {0};
    zero_error error = {0};
    int n = zr_op_operands(&op, operands), given = -1;
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)operands[i].elements * zero_dtype_bytes(operands[i].storage);
        if ((operands[i].access & ZR_HOST) == ZR_HOST || !bytes)
            continue;
        assert_int_equal(ops->reserve(queue->device, ZR_MEMORY_DEVICE, bytes, &there[i], &error),
                         ZERO_OK);
        assert_int_equal(ops->reserve(queue->device, ZR_MEMORY_PINNED, bytes, &staged[i], &error),
                         ZERO_OK);
        memcpy(staged[i], operands[i].at, bytes);
        zr_run(queue, zr_op_copy(&(zr_bytes){.bytes = (int64_t)bytes}, staged[i], there[i]));
        op.at.each[i] = there[i];
        given = operands[i].at == c->out ? i : given;
    }
    zr_run(queue, op);
    size_t out_bytes = (size_t)zr_attention_out(&c->a) * zero_dtype_bytes(c->a.dtype);
    zr_run(queue,
           zr_op_copy(&(zr_bytes){.bytes = (int64_t)out_bytes}, there[given], staged[given]));
    assert_int_equal(zr_mark_finish(zr_queue_mark(queue), 60, &error), ZERO_OK);
    float *out = array_floats(c->a.dtype, staged[given], zr_attention_out(&c->a));
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)operands[i].elements * zero_dtype_bytes(operands[i].storage);
        if (there[i])
            ops->release(queue->device, ZR_MEMORY_DEVICE, there[i], bytes);
        if (staged[i])
            ops->release(queue->device, ZR_MEMORY_PINNED, staged[i], bytes);
    }
    return out;
}

// Next to other sequences, and alone: the same bits.
static void other_sequences_do_not_matter(void **state)
{
    static const zr_attention_run runs[] = {{2, 0, 3}, {0, 300, 1}, {1, 70, 3}};
    cache c = cache_new(ZERO_BF16, 3, 24, 7, 0);
    int64_t width = c.a.heads * c.a.head_dim, row = 0, all_rows = c.a.seq;
    void *qkv = c.qkv;
    float *together = decoded_on_card(&c, runs, 3);
    for (int r = 0; r < 3; r++, row += runs[r - 1].rows) {
        c.qkv = array_at(c.a.dtype, qkv, row * zr_attention_row(&c.a));
        c.a.seq = runs[r].rows;
        float *alone = decoded_on_card(&c, &runs[r], 1);
        check_same_bits("beside others", alone, together + row * width,
                        runs[r].rows * width * (int64_t)sizeof(float));
        floats_free(alone);
    }
    c.qkv = qkv;
    c.a.seq = all_rows;
    floats_free(together);
    cache_free(&c);
}

// ---- rotation ----

typedef struct rotary_shape {
    int64_t batch, seq, heads, rotated, rest, first;
} rotary_shape;

static zr_rotary rotary_of(zero_dtype from, zero_dtype to, rotary_shape s)
{
    int64_t head = s.rotated + s.rest;
    return (zr_rotary){.from = from,
                       .to = to,
                       .batch = s.batch,
                       .seq = s.seq,
                       .rotated = s.rotated,
                       .first = s.first,
                       .factor = 1.25f,
                       .rest = s.rest,
                       .heads = s.heads,
                       .x_step = s.heads * head + 13,
                       .y_step = s.heads * head,
                       .x_head = head,
                       .y_head = head};
}

static void check_rotary(zero_dtype from, zero_dtype to, rotary_shape s)
{
    zr_rotary rotary = rotary_of(from, to, s);
    const cuda_tolerance of_table = {1e-7, 1e-7}, rotated = {2e-7, 4e-7};
    float frequency[512], *table = floats_random(s.seq * s.rotated, 7, 1);
    for (int64_t j = 0; j < s.rotated / 2; j++)
        frequency[j] = 1 / powf(10000, (float)(2 * j) / (float)s.rotated);
    if (s.rotated)
        cuda_check("table", zr_op_rotary_table(&rotary, frequency, table), of_table);
    for (int back = 0; back < 2; back++) {
        void *x = array_random(from, s.batch * s.seq * rotary.x_step, 5, 2),
             *y = array_new(to, s.batch * s.seq * rotary.y_step);
        rotary.back = back;
        cuda_check("rotate", zr_op_rotate(&rotary, s.rotated ? table : NULL, x, y), rotated);
        zr_rotary aligned = rotary;
        aligned.x_step -= 13;
        cuda_check("rotate in eights", zr_op_rotate(&aligned, s.rotated ? table : NULL, x, y),
                   rotated);
        aligned.to = from;
        cuda_check("rotate in place", zr_op_rotate(&aligned, s.rotated ? table : NULL, x, x),
                   rotated);
        array_free(x);
        array_free(y);
    }
    floats_free(table);
}

static void rotation_agrees(void **state)
{
    static const rotary_shape shapes[] = {
        {1, 1, 1, 2, 0, 0},    {2, 5, 3, 8, 3, 7},       {1, 20, 2, 64, 16, 100000},
        {2, 9, 2, 48, 0, 500}, {1, 3, 1, 1024, 0, 1000}, {1, 4, 2, 0, 24, 0},
    };
    for (int i = 0; i < STORAGE_TYPES * STORAGE_TYPES; i++)
        for (int s = i % 2; s < ZR_COUNT(shapes); s += 2)
            check_rotary(storage_types[i / STORAGE_TYPES], storage_types[i % STORAGE_TYPES],
                         shapes[s]);
}

// ---- what is refused ----

static void check_refused(zr_op op, const char *part)
{
    zr_queue *queue;
    zero_error error = {0};
    assert_int_equal(zr_queue_open("cuda", NULL, 1, &queue, &error), ZERO_OK);
    assert_int_equal(check_run(queue, op, &error), ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, part));
    zr_queue_close(queue);
}

static void large_heads_are_refused(void **state)
{
    const zr_attention a = {.batch = 1, .seq = 1, .heads = 1, .kv_heads = 1, .head_dim = 257};
    const zr_rotary rotary = {.seq = 1, .rotated = 1026};
    float frequency[513] = {0}, table[1026];
    check_refused(zr_op_attention_forward(&a, table, table, NULL, NULL, NULL, NULL),
                  "more than 256");
    check_refused(zr_op_rotary_table(&rotary, frequency, table), "more than 1024");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rotation_agrees),        cmocka_unit_test(decoding_agrees),
        cmocka_unit_test(many_runs_are_decoded),  cmocka_unit_test(other_sequences_do_not_matter),
        cmocka_unit_test(lse_may_be_left_out),    cmocka_unit_test(attention_agrees),
        cmocka_unit_test(large_scores_are_borne), cmocka_unit_test(large_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, cuda_check_setup, cuda_check_teardown);
}
