// Attention with a cache: positions one at a time, in runs, and together with those of other
// sequences, compared with the forward pass over all of them at once; and the bits of a row, which
// depend on its sequence alone.
#include "compute/compute.h"
#include "compute_check.h"

#include <string.h>

typedef struct cached_case {
    int64_t sequences, seq, heads, dim, kv, window;
} cached_case;

typedef struct cached { // a case, and what its sequences look like whole
    zr_attention a;     // batch: sequences
    void *qkv, *want;   // (sequences, seq, row) and (sequences, seq, width)
    int64_t row, width, capacity;
} cached;

static cached cached_new(zr_queue *ref, zero_dtype dtype, cached_case s)
{
    cached c = {.a = {.dtype = dtype,
                      .batch = s.sequences,
                      .seq = s.seq,
                      .heads = s.heads,
                      .kv_heads = s.kv ? s.kv : s.heads,
                      .head_dim = s.dim,
                      .window = s.window,
                      .scale = 1 / sqrtf((float)s.dim)},
                .width = s.heads * s.dim,
                .capacity = s.seq + 3};
    c.a.sequences = s.sequences;
    c.a.capacity = c.capacity;
    c.row = zr_attention_row(&c.a);
    c.qkv = array_random(dtype, s.sequences * s.seq * c.row, 1, 2);
    c.want = array_new(dtype, s.sequences * s.seq * c.width);
    void *scratch =
        scratch_new(ref, (zr_op){.kind = ZR_OP_attention_forward, .shape.attention = c.a});
    zr_run(ref, zr_op_attention_forward(&c.a, c.qkv, c.want, NULL, NULL, NULL, scratch));
    array_free(scratch);
    return c;
}

static void cached_free(cached *c)
{
    array_free(c->qkv);
    array_free(c->want);
}

typedef struct caches {
    float *k, *v;
} caches;

static caches caches_new(const cached *c)
{
    int64_t count = c->a.batch * c->a.kv_heads * c->capacity * c->a.head_dim;
    return (caches){floats_new(count), floats_new(count)};
}

static void caches_free(caches *of)
{
    floats_free(of->k);
    floats_free(of->v);
}

// Sequences [first, first+count), of which sequence s takes cut + s positions a step (cut 0: one,
// and everything after three steps).
static void decode_all(zr_queue *queue, const cached *c, int64_t first, int64_t count, int64_t cut,
                       const caches *to, void *out)
{
    enum { SEQUENCES = 4 };
    zr_attention all = c->a;
    int64_t done[SEQUENCES] = {0}, size = c->a.dtype == ZERO_F32 ? 4 : 2;
    all.batch = 1;
    all.seq = count * c->a.seq;
    void *packed = array_new(c->a.dtype, all.seq * c->row),
         *given = array_new(c->a.dtype, all.seq * c->width);
    void *scratch =
        scratch_new(queue, (zr_op){.kind = ZR_OP_attention_decode, .shape.attention = all});
    for (int64_t turn = 0;; turn++) {
        zr_attention_run runs[SEQUENCES];
        int count_of_runs = 0;
        all.seq = 0;
        for (int64_t s = first + count - 1; s >= first; s--) {
            int64_t rows = ZR_MIN(c->a.seq - done[s], cut ? cut + s : turn < 3 ? 1 : c->a.seq);
            memcpy(array_at(c->a.dtype, packed, all.seq * c->row),
                   array_at(c->a.dtype, c->qkv, (s * c->a.seq + done[s]) * c->row),
                   (size_t)(rows * c->row * size));
            if (rows)
                runs[count_of_runs++] =
                    (zr_attention_run){.sequence = s, .first = done[s], .rows = rows};
            all.seq += rows;
        }
        if (!count_of_runs)
            break;
        all.run_count = count_of_runs;
        zr_run(queue, zr_op_attention_decode(&all, runs, to->k, to->v, packed, given, scratch));
        int64_t row = 0;
        for (int r = 0; r < count_of_runs; r++) {
            int64_t s = runs[r].sequence;
            memcpy(array_at(c->a.dtype, out, (s * c->a.seq + done[s]) * c->width),
                   array_at(c->a.dtype, given, row * c->width),
                   (size_t)(runs[r].rows * c->width * size));
            row += runs[r].rows;
            done[s] += runs[r].rows;
        }
    }
    array_free(scratch);
    array_free(packed);
    array_free(given);
}

// The cache holds what was stored.
static void check_caches(const cached *c, const caches *found)
{
    const zr_attention *a = &c->a;
    int64_t dim = a->head_dim, keys = a->kv_heads * dim;
    float *qkv = array_floats(a->dtype, c->qkv, a->batch * a->seq * c->row);
    for (int64_t s = 0; s < a->batch; s++)
        for (int64_t h = 0; h < a->kv_heads; h++)
            for (int64_t at = 0; at < a->seq; at++) {
                const float *position = qkv + (s * a->seq + at) * c->row + c->width + h * dim;
                int64_t element = ((s * a->kv_heads + h) * c->capacity + at) * dim;
                check_same_bits("cached k", found->k + element, position, dim * 4);
                check_same_bits("cached v", found->v + element, position + keys, dim * 4);
            }
    floats_free(qkv);
}

// Together, and each sequence alone with the same cuts: the same bits.
static void check_case(zr_queue *queue, zr_queue *single, zr_queue *ref, zero_dtype dtype,
                       cached_case shape)
{
    static const int64_t cuts[] = {1, 2, 7, 50, 1000, 0};
    cached c = cached_new(ref, dtype, shape);
    int64_t count = c.a.batch * c.a.seq * c.width;
    for (int i = 0; i < ZR_COUNT(cuts); i++) {
        caches together = caches_new(&c), apart = caches_new(&c);
        void *out = array_new(dtype, count), *alone = array_new(dtype, count);
        decode_all(queue, &c, 0, c.a.batch, cuts[i], &together, out);
        check_close_as("decode", dtype, out, c.want, count, 2e-6, 2e-6);
        check_caches(&c, &together);
        for (int64_t s = 0; s < c.a.batch; s++)
            decode_all(single, &c, s, 1, cuts[i], &apart, alone);
        if (queue != ref)
            check_same_array("beside others", dtype, alone, out, count);
        caches_free(&together);
        caches_free(&apart);
        array_free(out);
        array_free(alone);
    }
    cached_free(&c);
}

static void body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    for (int t = 0; t < STORAGE_TYPES; t++) {
        check_case(queue, single, ref, storage_types[t], (cached_case){1, 20, 3, 7});
        check_case(queue, single, ref, storage_types[t], (cached_case){2, 300, 1, 64});
        check_case(queue, single, ref, storage_types[t], (cached_case){3, 30, 6, 16, 2});
        check_case(queue, single, ref, storage_types[t], (cached_case){2, 300, 1, 64, 0, 100});
        check_case(queue, single, ref, storage_types[t], (cached_case){3, 30, 6, 16, 2, 5});
        check_case(ref, ref, ref, storage_types[t], (cached_case){3, 20, 6, 7, 3});
        check_case(ref, ref, ref, storage_types[t], (cached_case){3, 20, 6, 7, 3, 4});
    }
}

// Runs of several rows give the same bits however a sequence is cut into them, also where the
// window leaves out whole blocks of keys.
static void cuts_body(zr_queue *queue, zr_queue *single, zr_queue *ref)
{
    static const int64_t cuts[] = {2, 9, 50, 333, 1200};
    static const int64_t windows[] = {0, 1, 100, 700};
    for (int w = 0; w < ZR_COUNT(windows); w++) {
        cached c = cached_new(ref, ZERO_F32, (cached_case){1, 1100, 1, 8, 0, windows[w]});
        caches to = caches_new(&c);
        int64_t count = c.a.seq * c.width;
        float *first = array_new(ZERO_F32, count), *out = array_new(ZERO_F32, count);
        for (int i = 0; i < ZR_COUNT(cuts); i++) {
            decode_all(queue, &c, 0, 1, cuts[i], &to, i ? out : first);
            if (i)
                check_same_array("cut otherwise", ZERO_F32, out, first, count);
        }
        check_close_as("decode", ZERO_F32, first, c.want, count, 5e-6, 5e-6);
        array_free(first);
        array_free(out);
        caches_free(&to);
        cached_free(&c);
    }
}

static void cuts_do_not_matter(void **state) { check_each_kernels(cuts_body); }

static void decoding_is_forward(void **state) { check_each_kernels(body); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoding_is_forward),
                                       cmocka_unit_test(cuts_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
