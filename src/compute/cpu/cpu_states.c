// Adam's update of states in eight bits, a block at a time (compute/state_blocks.h says what is
// computed). Each block is decoded into the fastest cache, updated there, and encoded again.
//
// A map is nearly linear in each decade, and its slope falls from decade to decade. So the place of
// a number among the codes is the least of seven lines; its whole part and its 256ths, rounded to
// the nearest, are bytes. A border is a whole place; only the first code of a decade begins 0.2
// later, and the last of all codes 0.75. Where the 256th is that of a border the map decides.
#include "compute/state_blocks.h"

#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_storage.h"

#define BLOCK ZR_STATE_BLOCK
#define WORTH (1 << 14) // elements worth a thread
#define DECADES 7
#define GROUP (LANES == 4 ? 16 : 32) // elements that are encoded together

typedef uint8_t vb __attribute__((vector_size(GROUP)));

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
    line lines[DECADES]; // whose least is a number's place, in 256ths
    bool has_sign;
} coder;

// From 10^(decade - 7) to 10 times that there are `codes` codes; the first begins at the place
// `codes`.
#define AT(slope, start)                                                                           \
    {                                                                                              \
        256 * (slope), 256 * (start)                                                               \
    }
#define LINE(codes, power) AT((codes)*power / 0.9f, (codes)*8 / 9.0f)
// In the first decade the border to code 0 is moved to where those of other decades are: 0.2 above
// the place.
static const coder signed_coder = {
    .map = zr_signed_map,
    .lines = {AT(1e6f / 0.9f, 1.2f - 0.275f / 0.9f), LINE(2, 1e5f), LINE(4, 1e4f), LINE(8, 1e3f),
              LINE(16, 1e2f), LINE(32, 1e1f), LINE(64, 1)},
    .has_sign = true,
};
static const coder unsigned_coder = {
    .map = zr_unsigned_map,
    .lines = {AT(0.8f / 3.875e-7f, 2.2f - 0.8f / 3.875f * 1.625f), LINE(4, 1e5f), LINE(8, 1e4f),
              LINE(16, 1e3f), LINE(32, 1e2f), LINE(64, 1e1f), LINE(128, 1)},
};

INLINE vf on_line(line of, vf x) // how it is rounded does not matter
{
    return vf_scaled_plus(x, of.slope, vf_all(of.start));
}

INLINE vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }

typedef struct places { // of a group of numbers, the bytes in the order of `in_order`'s argument
    vb whole, part;     // part: 256ths, rounded to the nearest
    vb negative;        // the top bit says so
} places;

INLINE vf place_of(const coder *to, vf x)
{
    vf size = to->has_sign ? magnitude(x) : x, place = on_line(to->lines[0], size);
    for (int d = 1; d < DECADES; d++)
        place = vf_min(on_line(to->lines[d], size), place);
    return place;
}

// Places are below 128 if there is a sign, and below 256; those at an end are just below it, and
// what is no number has part 0.
#if LANES == 8
INLINE places places_of(const coder *to, const float *values, float by)
{
    __m256i v[4], x[4], low = _mm256_set1_epi16(255);
    for (int k = 0; k < 4; k++) {
        vf of = vf_load(values + k * LANES) * by;
        x[k] = (__m256i)of;
        v[k] = _mm256_cvtps_epi32(place_of(to, of));
    }
    __m256i a = to->has_sign ? _mm256_packs_epi32(v[0], v[1]) : _mm256_packus_epi32(v[0], v[1]),
            b = to->has_sign ? _mm256_packs_epi32(v[2], v[3]) : _mm256_packus_epi32(v[2], v[3]);
    return (places){
        .whole = (vb)_mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)),
        .part = (vb)_mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low)),
        .negative =
            (vb)_mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]))};
}

INLINE vb in_order(vb of)
{
    return (vb)_mm256_permutevar8x32_epi32((__m256i)of, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#else
INLINE places places_of(const coder *to, const float *values, float by)
{
    float most = to->has_sign ? 32767 : 65535;
    uint8_t whole[GROUP], part[GROUP], negative[GROUP];
    for (int k = 0; k < GROUP; k += LANES) {
        vf x = vf_load(values + k) * by, v = vf_min(vf_all(most), place_of(to, x));
        for (int i = 0; i < LANES; i++) {
            int place = v[i] >= 0 ? (int)(v[i] + 0.5f) : 0;
            whole[k + i] = (uint8_t)(place >> 8);
            part[k + i] = (uint8_t)place;
            negative[k + i] = (uint8_t)(((vi)x)[i] >> 24);
        }
    }
    places at;
    memcpy(&at.whole, whole, sizeof whole);
    memcpy(&at.part, part, sizeof part);
    memcpy(&at.negative, negative, sizeof negative);
    return at;
}

INLINE vb in_order(vb of) { return of; }
#endif

INLINE uint32_t bits_of(vb mask) // bytes of -1 or 0
{
#if defined(__AVX2__)
    return (uint32_t)_mm256_movemask_epi8((__m256i)mask);
#else
    uint32_t bits = 0;
    for (int k = 0; k < GROUP; k++)
        bits |= (mask[k] & UINT32_C(1)) << k;
    return bits;
#endif
}

// Changes the codes that the bits name, which are near, to the nearest ones.
static __attribute__((noinline)) void settle(const float *map, const float *values, float by,
                                             uint32_t bits, uint8_t *codes)
{
    for (; bits; bits &= bits - 1) {
        int k = __builtin_ctz(bits), code = codes[k];
        float x = values[k] * by;
        while (code < ZR_DYNAMIC_CODES - 1 && 0.5f * (map[code] + map[code + 1]) < x)
            code++;
        while (code > 0 && !(0.5f * (map[code - 1] + map[code]) < x))
            code--;
        codes[k] = (uint8_t)code;
    }
}

// The border of the last two codes is 3/4 above the last place.
INLINE void encode_group(const coder *to, const float *values, float by, uint8_t *codes)
{
    const places at = places_of(to, values, by);
    vb first = (at.whole & (at.whole - 1)) == 0,
       last = at.whole == (uint8_t)(to->has_sign ? 127 : 255), negative = at.negative >= 128;
    vb close = (at.part == 0) | (first & (at.part == 51)) | (last & (at.part == 192));
    vb place = at.whole + (first & (at.part < 52)), above = last & (at.part >= 192);
    vb code = to->has_sign ? ((place - (above & ~negative)) ^ negative) - negative + 127
                           : place - above - 1;
    code = in_order(code);
    memcpy(codes, &code, GROUP);
    uint32_t bits = bits_of(in_order(close));
    if (__builtin_expect(bits != 0, 0))
        settle(to->map, values, by, bits, codes);
}

INLINE void encode(const coder *to, const float *values, float by, int64_t count, uint8_t *codes)
{
    int64_t i = 0;
    for (; i + GROUP <= count; i += GROUP)
        encode_group(to, values + i, by, codes + i);
    if (i < count) {
        uint8_t some[GROUP];
        encode_group(to, values + i, by, some);
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
