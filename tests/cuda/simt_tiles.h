// The words of src/cuda/kernels/mma.h for the CPU, as the PTX manual describes the instructions:
// mma.sync, ldmatrix, cp.async and its groups. simt.h ends with it.
#ifndef ZR_SIMT_TILES_H
#define ZR_SIMT_TILES_H

#define zr_mma_bf16(d, a, b) simt::multiply(d, a, b, simt::bf16_of, SIMT_SITE("mma.sync of bf16"))
#define zr_mma_f16(d, a, b) simt::multiply(d, a, b, zr_half_to_float, SIMT_SITE("mma.sync of f16"))
#define zr_load_matrices(words, row) simt::load_matrices(words, row, false, SIMT_SITE("ldmatrix"))
#define zr_load_transposed(words, row)                                                             \
    simt::load_matrices(words, row, true, SIMT_SITE("ldmatrix.trans"))
#define zr_copy_async(to, from, zeros) simt::copy_async(to, from, zeros, SIMT_SITE("cp.async"))

namespace simt {

inline float bf16_of(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }

// mma.sync.m16n8k16 with sums in fp32. Lane 4 group + pair has:
//   a   the words of rows group and group + 8, columns 2 pair and 2 pair + 8
//   b   those of its column group, rows 2 pair and 2 pair + 8
//   d   rows group and group + 8, columns 2 pair and 2 pair + 1
inline void multiply(float *d, const uint32_t *a, const uint32_t *b, float (*widen)(uint16_t),
                     site where)
{
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    const lane_words *all = exchange(~0u, mine, 6, where);
    const unsigned group = lane() / 4, pair = lane() % 4;
    float rows[2][16], columns[2][16];
    for (unsigned k = 0; k < 16; k++)
        for (unsigned which = 0; which < 2; which++) {
            const unsigned owner = k % 8 / 2, high = k / 8, shift = k % 2 * 16;
            const unsigned column = 2 * pair + which;
            rows[which][k] = widen((uint16_t)(all[group * 4 + owner][which + 2 * high] >> shift));
            columns[which][k] = widen((uint16_t)(all[column * 4 + owner][4 + high] >> shift));
        }
    for (unsigned i = 0; i < 4; i++) {
        float sum = 0;
        for (unsigned k = 0; k < 16; k++)
            sum += rows[i / 2][k] * columns[i % 2][k];
        d[i] += sum;
    }
}

// ldmatrix.m8n8.x4 of 16-bit elements. What each lane's row holds when it arrives is loaded.
inline void load_matrices(uint32_t *words, const void *row, bool transposed, site where)
{
    if ((uintptr_t)row % 16)
        fail("a row of ldmatrix is not aligned to 16 bytes", where, where);
    uint32_t mine[4];
    memcpy(mine, row, sizeof mine);
    const lane_words *all = exchange(~0u, mine, 4, where);
    const unsigned of_four = lane() / 4, in_four = lane() % 4;
    for (unsigned m = 0; m < 4; m++) {
        const lane_words *rows = all + 8 * m;
        const unsigned shift = of_four % 2 * 16, at = of_four / 2;
        words[m] = !transposed ? rows[of_four][in_four]
                               : (rows[2 * in_four][at] >> shift & 0xffff) |
                                     rows[2 * in_four + 1][at] >> shift << 16;
    }
}

// cp.async of 16 bytes. From now until the wait for its group the bytes are undefined: they are
// those of a NaN, and what is copied arrives at the wait.
inline void copy_async(void *to, const void *from, bool zeros, site where)
{
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16)
        fail("an address of cp.async is not aligned to 16 bytes", where, where);
    thread &self = running->self();
    self.copies.push_back({to, zeros ? nullptr : from, self.groups});
    memset(to, 0xff, 16);
}

inline void wait_copies(unsigned newer)
{
    thread &self = running->self();
    std::vector<copy> later;
    for (const copy &one : self.copies) {
        if (one.group + newer >= self.groups)
            later.push_back(one);
        else if (one.from)
            memcpy(one.to, one.from, 16);
        else
            memset(one.to, 0, 16);
    }
    self.copies = later;
}

} // namespace simt

inline void zr_copy_commit() { simt::running->self().groups++; }
inline void zr_copy_wait(unsigned newer) { simt::wait_copies(newer); }

inline uint32_t zr_pack_f16(float low, float high)
{
    return (uint32_t)zr_float_to_half(low) | (uint32_t)zr_float_to_half(high) << 16;
}

inline uint32_t zr_round_bf16(float value)
{
    const uint32_t bits = __float_as_uint(value);
    return std::isnan(value) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

inline uint32_t zr_pack_bf16(float low, float high)
{
    return zr_round_bf16(low) | zr_round_bf16(high) << 16;
}

inline float zr_exp2(float x) { return exp2f(x); }

#endif
