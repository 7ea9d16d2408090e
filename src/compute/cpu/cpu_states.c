// Adam's update of states in eight bits, a block at a time (compute/state_blocks.h says what is
// computed). Each block is decoded into the fastest cache, updated there, and encoded again.
//
// A map is nearly linear in each decade, and its slope falls from decade to decade. So the place of
// a number among the codes is the least of seven lines, to within CLOSE; the few numbers that lie
// as near to the border of two codes are looked up in the map.
#include "compute/state_blocks.h"

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_storage.h"

#define BLOCK ZR_STATE_BLOCK
#define WORTH (1 << 14) // elements worth a thread
#define DECADES 7
#define CLOSE 0x1p-13f
#define ROUNDING 0x1.8p23f

typedef struct blocks_job {
    zr_block_constants with;
    int64_t n;
    zr_range_states at;
} blocks_job;

typedef struct block { // 64-byte aligned; what lies behind the last element is 0
    float m[BLOCK], v[BLOCK];
} block;

typedef struct line {
    float slope, start;
} line;

typedef struct coder { // how numbers of a map's range become codes
    const float *map;
    line lines[DECADES]; // whose least is a number's place
    float least, end;    // of the numbers, and of the places
    float top;           // the border of the last two codes
} coder;

// From 10^(decade - 7) to 10 times that there are `codes` codes; the first begins at the place
// `codes`.
#define LINE(codes, power)                                                                         \
    {                                                                                              \
        (codes) * power / 0.9f, (codes)*8 / 9.0f                                                   \
    }
// In the first decade the border to code 0 is moved to where those of other decades are: 0.2 above
// the place.
static const coder signed_coder = {
    .map = zr_signed_map,
    .lines = {{1e6f / 0.9f, 1.2f - 0.275f / 0.9f},
              LINE(2, 1e5f),
              LINE(4, 1e4f),
              LINE(8, 1e3f),
              LINE(16, 1e2f),
              LINE(32, 1e1f),
              LINE(64, 1)},
    .least = -1,
    .end = 127.5f,
    .top = 0.99648437f,
};
static const coder unsigned_coder = {
    .map = zr_unsigned_map,
    .lines = {{0.8f / 3.875e-7f, 2.2f - 0.8f / 3.875f * 1.625f},
              LINE(4, 1e5f),
              LINE(8, 1e4f),
              LINE(16, 1e3f),
              LINE(32, 1e2f),
              LINE(64, 1e1f),
              LINE(128, 1)},
    .least = 0,
    .end = 255.5f,
    .top = 0.9982422f,
};

INLINE vf on_line(line of, vf x) // how it is rounded does not matter
{
#if LANES == 16
    return _mm512_fmadd_ps(x, vf_all(of.slope), vf_all(of.start));
#elif LANES == 8 && defined(__FMA__)
    return _mm256_fmadd_ps(x, vf_all(of.slope), vf_all(of.start));
#else
    return x * of.slope + of.start;
#endif
}

INLINE vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }

INLINE bool any(vi mask) // lanes of -1 or 0
{
#if LANES == 16
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif LANES == 8
    return _mm256_movemask_ps((vf)mask) != 0;
#else
    int32_t some = 0;
    for (int k = 0; k < LANES; k++)
        some |= mask[k];
    return some != 0;
#endif
}

// Looks up the codes of those lanes that the mask has.
static __attribute__((noinline)) void look_up(const float *map, const float *values,
                                              const int32_t *mask, uint8_t *codes)
{
    for (int k = 0; k < LANES; k++)
        if (mask[k])
            codes[k] = zr_dynamic_code(map, values[k]);
}

INLINE void bytes_put(uint8_t *to, vi v) // lanes are below 256
{
#if LANES == 16
    __m256i halves = _mm512_cvtepi32_epi16((__m512i)v);
    _mm_storeu_si128((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(halves),
                                                  _mm256_extracti128_si256(halves, 1)));
#elif LANES == 8
    __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v),
                                      _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((void *)to, _mm_packus_epi16(halves, halves));
#else
    for (int k = 0; k < LANES; k++)
        to[k] = (uint8_t)v[k];
#endif
}

// Encodes numbers that are multiplied by the inverse of their scale. What is no number becomes the
// least one. ROUNDING: a sum with it has the rounded place in its lower bits.
INLINE void encode_vector(const coder *to, vf x, uint8_t *codes)
{
    bool has_sign = to->least < 0;
    x = vf_max(x, vf_all(to->least));
    vf size = has_sign ? magnitude(x) : x, place = vf_all(to->end);
    for (int d = 0; d < DECADES; d++)
        place = vf_min(on_line(to->lines[d], size), place);
    vf rounded = place + ROUNDING, from_border = place - (rounded - ROUNDING),
       decade = (vf)((vi)place & 0x7f800000), from_first = place - decade - 0.2f;
    vi code = (vi)rounded - (vi)vf_all(ROUNDING) + ((vi)from_border >> 31) + ((vi)from_first >> 31);
    vi sign = (vi)x >> 31;
    code = has_sign ? ((code ^ sign) - sign) + 127 : code - 1;
    bytes_put(codes, code - (x > to->top));
    vi close = vf_min(magnitude(from_border), magnitude(from_first)) < CLOSE;
    if (__builtin_expect(any(close), 0)) {
        float values[LANES];
        int32_t mask[LANES];
        memcpy(values, &x, sizeof values);
        memcpy(mask, &close, sizeof mask);
        look_up(to->map, values, mask, codes);
    }
}

INLINE void encode(const coder *to, const float *values, float by, int64_t count, uint8_t *codes)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        encode_vector(to, vf_load(values + i) * by, codes + i);
    if (i < count) {
        uint8_t some[LANES];
        encode_vector(to, vf_load(values + i) * by, some);
        memcpy(codes + i, some, (size_t)(count - i));
    }
}

static void decode(const float *map, const uint8_t *codes, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = map[codes[i]];
    for (int64_t i = count; i < BLOCK; i++)
        values[i] = 0;
}

INLINE void update_block(const blocks_job *job, zero_dtype gradient, zero_dtype copy, int64_t k)
{
    const zr_block_constants with = job->with; // which nothing that is written may alter
    const zr_range_states *at = &job->at;
    int64_t first = k * BLOCK, count = ZR_MIN(job->n - first, (int64_t)BLOCK);
    uint8_t *codes0 = (uint8_t *)at->state0 + first, *codes1 = (uint8_t *)at->state1 + first;
    float *master = at->master + first;
    _Alignas(64) block now;
    vf most0 = {0}, most1 = {0}, scale0 = vf_all(at->scales0[k]), scale1 = vf_all(at->scales1[k]);
    decode(zr_signed_map, codes0, count, now.m);
    decode(zr_unsigned_map, codes1, count, now.v);
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t left = count - i;
        vf p = vf_get(master + i, left);
        vf g =
            vf_get_as(gradient, at->gradient, first + i, left) * with.scale + p * with.weight_decay;
        vf m = vf_load(now.m + i) * scale0 * with.keep0 + g * with.take0;
        vf v = vf_load(now.v + i) * scale1 * with.keep1 + g * g * with.take1;
        vf_store(now.m + i, m);
        vf_store(now.v + i, v);
        most0 = vf_max(magnitude(m), most0);
        most1 = vf_max(magnitude(v), most1);
        vf_put(master + i, left,
               p * with.keep_p - with.step * m / (vf_sqrt(v) * with.root + with.epsilon));
    }
    at->scales0[k] = vf_largest(most0);
    at->scales1[k] = vf_largest(most1);
    encode(&signed_coder, now.m, zr_block_inverse(at->scales0[k]), count, codes0);
    encode(&unsigned_coder, now.v, zr_block_inverse(at->scales1[k]), count, codes1);
    for (int64_t i = 0; copy != ZERO_F32 && i < count; i += LANES)
        vf_put_as(copy, at->parameters, first + i, count - i, vf_get(master + i, count - i));
}

INLINE void blocks_over(const blocks_job *job, zero_dtype gradient, zero_dtype copy, int64_t first,
                        int64_t last)
{
    for (int64_t k = first; k < last; k++)
        update_block(job, gradient, copy, k);
}

static void block_tasks(const void *job_, int64_t first, int64_t last, int worker)
{
    const blocks_job *job = job_;
    zero_dtype copied = job->at.parameters ? job->at.parameters_dtype : ZERO_F32;
    WITH_TYPE(GRADIENT, job->at.gradient_dtype,
              WITH_TYPE(COPY, copied, blocks_over(job, GRADIENT, COPY, first, last)));
}

void ZR_CPU_TABLE(zr_cpu_update_blocks)(zr_queue *queue, const zr_update *update,
                                        const zr_update_values *values, const zr_range_states *at)
{
    const blocks_job job = {
        .with = zr_block_constants_of(update, values), .n = update->n, .at = *at};
    zr_cpu_for(queue, zr_update_scales(update), WORTH / BLOCK, block_tasks, &job);
}
