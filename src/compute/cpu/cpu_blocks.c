// Numbers in blocks: a task encodes or decodes one block (block_ops.h has the format, and why every
// instruction set gives the same bits). Codes of 4 bits become bytes before they are
// decoded.
#include "compute/cpu/cpu_kernels.h"
#include "compute/cpu/cpu_storage.h"

#define WORTH (1 << 14) // elements worth a thread
#define AT_ONCE 32      // codes that are written together

typedef int8_t vb __attribute__((vector_size(LANES)));

INLINE vf vf_from_codes(const int8_t *codes)
{
#if LANES == 16
    vi wide = (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)codes));
#elif LANES == 8
    vi wide = (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)codes));
#else
    vb v;
    memcpy(&v, codes, sizeof v);
    vi wide = __builtin_convertvector(v, vi);
#endif
    return __builtin_convertvector(wide, vf);
}

INLINE vi vi_nearest(vf v) // ties to even
{
#if LANES == 16
    return (vi)_mm512_cvtps_epi32(v);
#elif LANES == 8
    return (vi)_mm256_cvtps_epi32(v);
#elif defined(__SSE2__)
    return (vi)_mm_cvtps_epi32(v);
#else
    vi nearest;
    for (int i = 0; i < LANES; i++)
        nearest[i] = (int32_t)nearbyintf(v[i]);
    return nearest;
#endif
}

// Writes 32 codes, which lie in the range of their bits: as bytes, or two a byte.
INLINE void codes_put(int bits, const vi v[AT_ONCE / LANES], uint8_t *to)
{
#if LANES == 4
    int8_t bytes[AT_ONCE];
    for (int k = 0; k < AT_ONCE / LANES; k++) {
        vb some = __builtin_convertvector(v[k], vb);
        memcpy(bytes + k * LANES, &some, sizeof some);
    }
    if (bits == 8)
        memcpy(to, bytes, sizeof bytes);
    for (int i = 0; i < AT_ONCE / 2 && bits == 4; i++)
        to[i] = (uint8_t)((bytes[2 * i] & 15) | (uint8_t)bytes[2 * i + 1] << 4);
#else
#if LANES == 16
    __m256i bytes =
        _mm256_set_m128i(_mm512_cvtepi32_epi8((__m512i)v[1]), _mm512_cvtepi32_epi8((__m512i)v[0]));
#else
    __m256i words01 = _mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]),
            words23 = _mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]),
            mixed = _mm256_packs_epi16(words01, words23), // fours of 0 1 2 3, then of 0 1 2 3
        bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
#endif
    if (bits == 8) {
        _mm256_storeu_si256((void *)to, bytes);
        return;
    }
    __m256i low = _mm256_and_si256(bytes, _mm256_set1_epi16(0x0f)),
            high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi16(0xf0)),
            pairs = _mm256_or_si256(low, high);
    _mm_storeu_si128((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(pairs),
                                                  _mm256_extracti128_si256(pairs, 1)));
#endif
}

INLINE vi vi_larger(vi a, vi b)
{
#if LANES == 16
    return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif LANES == 8
    return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    vi mask = a > b;
    return (mask & a) | (~mask & b);
#endif
}

INLINE int32_t vi_largest(vi v)
{
    int32_t t[LANES];
    memcpy(t, &v, sizeof t);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            t[i] = ZR_MAX(t[i], t[i + half]);
    return t[0];
}

INLINE vf_half vd_to_half(vd v)
{
#if LANES == 16
    return (vf_half)_mm512_cvtpd_ps(v);
#elif LANES == 8
    return (vf_half)_mm256_cvtpd_ps(v);
#else
    return __builtin_convertvector(v, vf_half);
#endif
}

// The operands of an operation, from a certain block on.
typedef struct blocks_job {
    const zr_blocks *of;
    const void *source; // of blocks_encode
    float *carry;       // NULL: there is none
    float *scale;       // of the block
    uint8_t *codes;
    void *out; // of the others
} blocks_job;

static blocks_job job_of(const zr_blocks *of, const void *encoded)
{
    return (blocks_job){
        .of = of, .scale = (void *)encoded, .codes = (uint8_t *)encoded + ZR_BLOCK_SCALE_BYTES};
}

static void run_blocks(zr_queue *queue, zr_cpu_body *body, const blocks_job *job)
{
    zr_cpu_for(queue, zr_block_count(job->of->n), WORTH / ZR_BLOCK, body, job);
}

INLINE void *moved(const void *p, int64_t bytes) { return p ? (char *)p + bytes : NULL; }

// Returns the operands from block k on. `type`: of the numbers.
INLINE blocks_job block_at(zero_dtype type, const blocks_job *job, int64_t k)
{
    int64_t first = k * ZR_BLOCK, bytes = first * (type == ZERO_F32 ? 4 : 2);
    blocks_job block = *job;
    block.source = moved(job->source, bytes);
    block.carry = moved(job->carry, first * (int64_t)sizeof(float));
    block.codes = job->codes + k * zr_block_stride(job->of->bits);
    block.scale = moved(job->scale, k * zr_block_stride(job->of->bits));
    block.out = moved(job->out, bytes);
    return block;
}

// A short block is computed in room for a whole one, after zeros have been added to it.
typedef struct block_room {
    _Alignas(64) float numbers[ZR_BLOCK], carry[ZR_BLOCK];
    uint8_t codes[ZR_BLOCK];
} block_room;

// ---- encoding ----

INLINE vf source_get(zero_dtype type, bool carried, const blocks_job *block, int64_t i)
{
    vf x = vf_get_as(type, block->source, i, LANES);
    return carried ? x + vf_load(block->carry + i) : x;
}

// The bits of magnitudes order as these do, and NaN above all.
INLINE float scale_of(zero_dtype type, bool carried, const blocks_job *block)
{
    vi largest = {0};
#pragma GCC unroll 4
    for (int64_t i = 0; i < ZR_BLOCK; i += LANES)
        largest = vi_larger(largest, (vi)source_get(type, carried, block, i) & 0x7fffffff);
    return zr_block_scale(block->of->bits, (uint32_t)vi_largest(largest));
}

// The products are exact in double, so that one rounding, to fp32, remains.
INLINE void carry_put(float *carry, vf lost, double kept, double fresh)
{
    vf_half *half = (vf_half *)carry, now[2];
    memcpy(now, &lost, sizeof now);
    for (int h = 0; h < 2; h++)
        half[h] = vd_to_half(vd_from(half[h]) * kept + vd_from(now[h]) * fresh);
}

INLINE void codes_make(zero_dtype type, bool carried, const blocks_job *block, float scale)
{
    const int bits = block->of->bits;
    const float inverse = zr_block_reciprocal(scale), fresh = 1 - block->of->err_beta;
    const double kept = block->of->err_beta;
    for (int64_t i = 0; i < ZR_BLOCK; i += AT_ONCE) {
        vi codes[AT_ONCE / LANES];
#pragma GCC unroll 8
        for (int k = 0; k < AT_ONCE / LANES; k++) {
            int64_t at = i + k * LANES;
            vf x = source_get(type, carried, block, at);
            codes[k] = vi_nearest(x * inverse);
            if (carried)
                carry_put(block->carry + at, x - __builtin_convertvector(codes[k], vf) * scale,
                          kept, fresh);
        }
        codes_put(bits, codes, block->codes + i * bits / 8);
    }
}

INLINE void encode_block(zero_dtype type, bool carried, const blocks_job *block, float scale)
{
    if (isnan(scale))
        memset(block->codes, 0, (size_t)zr_block_code_bytes(block->of->bits, ZR_BLOCK));
    else
        codes_make(type, carried, block, scale);
    *block->scale = scale;
}

INLINE void encode_short(zero_dtype type, bool carried, const blocks_job *to, int64_t count)
{
    block_room room = {0};
    blocks_job block = *to;
    memcpy(room.numbers, to->source, (size_t)count * (type == ZERO_F32 ? 4 : 2));
    block.source = room.numbers;
    block.codes = room.codes;
    if (carried) {
        memcpy(room.carry, to->carry, (size_t)count * sizeof(float));
        block.carry = room.carry;
    }
    encode_block(type, carried, &block, scale_of(type, carried, &block));
    memcpy(to->codes, room.codes,
           (size_t)(zr_block_bytes(to->of->bits, count) - ZR_BLOCK_SCALE_BYTES));
    if (carried)
        memcpy(to->carry, room.carry, (size_t)count * sizeof(float));
}

// Finds the scale of the next block before it writes the codes of one, because codes wait for their
// scale longer than for their numbers.
INLINE void encode_over(zero_dtype type, bool carried, const blocks_job *job, int64_t k,
                        int64_t last)
{
    int64_t whole = ZR_MIN(last, job->of->n / ZR_BLOCK);
    blocks_job block = block_at(type, job, k);
    float scale = k < whole ? scale_of(type, carried, &block) : 0;
    for (; k < whole; k++) {
        blocks_job next = block_at(type, job, k + 1);
        float next_scale = k + 1 < whole ? scale_of(type, carried, &next) : 0;
        encode_block(type, carried, &block, scale);
        block = next;
        scale = next_scale;
    }
    if (k < last)
        encode_short(type, carried, &block, job->of->n % ZR_BLOCK);
}

static void encode_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const blocks_job *job = job_;
    if (job->carry)
        WITH_TYPE(TYPE, job->of->dtype, encode_over(TYPE, true, job, first, last));
    else
        WITH_TYPE(TYPE, job->of->dtype, encode_over(TYPE, false, job, first, last));
}

void ZR_CPU_TABLE(zr_cpu_blocks_encode)(zr_queue *queue, const zr_blocks *blocks,
                                        const void *source, float *carry, void *encoded)
{
    blocks_job job = job_of(blocks, encoded);
    job.source = source;
    job.carry = carry;
    run_blocks(queue, encode_blocks, &job);
}

// ---- decoding ----

INLINE void pairs_part(const uint8_t *from, int8_t *codes)
{
#if LANES > 4
    const __m128i half = _mm_set1_epi8(15), sign = _mm_set1_epi8(8);
    for (int i = 0; i < ZR_BLOCK / 2; i += 16) {
        __m128i pairs = _mm_loadu_si128((const void *)(from + i)), low = _mm_and_si128(pairs, half),
                high = _mm_and_si128(_mm_srli_epi16(pairs, 4), half);
        low = _mm_sub_epi8(_mm_xor_si128(low, sign), sign);
        high = _mm_sub_epi8(_mm_xor_si128(high, sign), sign);
        _mm_storeu_si128((void *)(codes + 2 * i), _mm_unpacklo_epi8(low, high));
        _mm_storeu_si128((void *)(codes + 2 * i + 16), _mm_unpackhi_epi8(low, high));
    }
#else
    for (int i = 0; i < ZR_BLOCK / 2; i++) {
        codes[2 * i] = (int8_t)((int8_t)(from[i] << 4) >> 4);
        codes[2 * i + 1] = (int8_t)((int8_t)from[i] >> 4);
    }
#endif
}

// finite: the scale is, so that no number is a NaN, which rounding to bf16 would have to look for.
INLINE void number_put(zero_dtype type, bool finite, void *out, int64_t i, vf x)
{
    vw word = (vw)x;
    if (type == ZERO_BF16 && finite)
        halves_put(out, i, LANES, vw_to_halves((word + 0x7fff + (word >> 16 & 1)) >> 16));
    else
        vf_put_as(type, out, i, LANES, x);
}

INLINE void decode_all(zero_dtype type, bool add, bool finite, const blocks_job *block)
{
    const float scale = *block->scale;
    const int8_t *codes = (const int8_t *)block->codes;
    int8_t room[ZR_BLOCK];
    if (block->of->bits == 4) {
        pairs_part(block->codes, room);
        codes = room;
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < ZR_BLOCK; i += LANES) {
        vf x = vf_from_codes(codes + i) * scale;
        if (add)
            x += vf_load((float *)block->out + i);
        number_put(type, finite, block->out, i, x);
    }
}

INLINE void decode_block(zero_dtype type, bool add, const blocks_job *block)
{
    if (type == ZERO_BF16 && isfinite(*block->scale))
        decode_all(type, add, true, block);
    else
        decode_all(type, add, false, block);
}

INLINE void decode_short(zero_dtype type, bool add, const blocks_job *to, int64_t count)
{
    block_room room = {0};
    blocks_job block = *to;
    size_t bytes = (size_t)count * (type == ZERO_F32 ? 4 : 2);
    memcpy(room.codes, to->codes, (size_t)zr_block_code_bytes(to->of->bits, count));
    if (add)
        memcpy(room.numbers, to->out, bytes);
    block.codes = room.codes;
    block.out = room.numbers;
    decode_block(type, add, &block);
    memcpy(to->out, room.numbers, bytes);
}

INLINE void decode_over(zero_dtype type, bool add, const blocks_job *job, int64_t k, int64_t last)
{
    for (; k < last; k++) {
        const blocks_job block = block_at(type, job, k);
        if (job->of->n - k * ZR_BLOCK >= ZR_BLOCK)
            decode_block(type, add, &block);
        else
            decode_short(type, add, &block, job->of->n % ZR_BLOCK);
    }
}

static void decode_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const blocks_job *job = job_;
    WITH_TYPE(TYPE, job->of->dtype, decode_over(TYPE, false, job, first, last));
}

static void add_blocks(const void *job, int64_t first, int64_t last, int worker)
{
    decode_over(ZERO_F32, true, job, first, last);
}

void ZR_CPU_TABLE(zr_cpu_blocks_decode)(zr_queue *queue, const zr_blocks *blocks,
                                        const void *encoded, void *out)
{
    blocks_job job = job_of(blocks, encoded);
    job.out = out;
    run_blocks(queue, decode_blocks, &job);
}

void ZR_CPU_TABLE(zr_cpu_blocks_add)(zr_queue *queue, const zr_blocks *blocks, const void *encoded,
                                     float *sums)
{
    blocks_job job = job_of(blocks, encoded);
    job.out = sums;
    run_blocks(queue, add_blocks, &job);
}

// ---- rounding ----

// A block that is not finite becomes NaN, whatever its elements are.
INLINE void round_block(zero_dtype type, const blocks_job *block)
{
    const float scale = scale_of(ZERO_F32, false, block), inverse = zr_block_reciprocal(scale);
#pragma GCC unroll 4
    for (int64_t i = 0; i < ZR_BLOCK; i += LANES) {
        vf x = vf_load((const float *)block->source + i) * inverse;
        vf rounded = __builtin_convertvector(vi_nearest(x), vf) * scale;
        vf_put_as(type, block->out, i, LANES, rounded);
    }
}

INLINE void round_short(zero_dtype type, const blocks_job *to, int64_t count)
{
    block_room room = {0};
    blocks_job block = *to;
    memcpy(room.numbers, to->source, (size_t)count * sizeof(float));
    block.source = room.numbers;
    block.out = room.carry;
    round_block(type, &block);
    memcpy(to->out, room.carry, (size_t)count * (type == ZERO_F32 ? 4 : 2));
}

INLINE void round_over(zero_dtype type, const blocks_job *job, int64_t k, int64_t last)
{
    for (; k < last; k++) {
        blocks_job block = block_at(type, job, k);
        block.source = (const float *)job->source + k * ZR_BLOCK;
        if (job->of->n - k * ZR_BLOCK >= ZR_BLOCK)
            round_block(type, &block);
        else
            round_short(type, &block, job->of->n % ZR_BLOCK);
    }
}

static void round_blocks(const void *job_, int64_t first, int64_t last, int worker)
{
    const blocks_job *job = job_;
    WITH_TYPE(TYPE, job->of->dtype, round_over(TYPE, job, first, last));
}

void ZR_CPU_TABLE(zr_cpu_blocks_round)(zr_queue *queue, const zr_blocks *blocks,
                                       const float *source, void *out)
{
    const blocks_job job = {.of = blocks, .source = source, .out = out};
    run_blocks(queue, round_blocks, &job);
}
