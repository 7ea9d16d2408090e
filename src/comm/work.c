// What a rank of a pipeline works on, packed into one word, and as text.
#include "comm/communicator.h"

#include <stdio.h>

// micro_batch + 1 (32 bits) | chunk + 1 (8) | stage (12) | stages (12)
enum { STAGES_BITS = 12, STAGE_BITS = 12, CHUNK_BITS = 8 };

uint64_t zr_work_pack(const zr_work *work)
{
    uint64_t word = (uint32_t)(work->micro_batch + 1);
    word = word << CHUNK_BITS | (uint64_t)(work->chunk + 1);
    word = word << STAGE_BITS | (uint64_t)work->stage;
    return work->stages > 1 ? word << STAGES_BITS | (uint64_t)work->stages : 0;
}

// Takes the lowest bits off a word.
static int take_bits(uint64_t *word, int bits)
{
    int value = (int)(*word & ((1u << bits) - 1));
    *word >>= bits;
    return value;
}

void zr_work_text(uint64_t word, char out[ZR_WORK_TEXT])
{
    int stages = take_bits(&word, STAGES_BITS), stage = take_bits(&word, STAGE_BITS);
    int chunk = take_bits(&word, CHUNK_BITS) - 1, micro_batch = (int)word - 1, used = 0;
    out[0] = 0;
    if (stages > 1)
        used = snprintf(out, ZR_WORK_TEXT, ", pipeline stage %d of %d", stage, stages);
    if (stages > 1 && chunk >= 0)
        used += snprintf(out + used, ZR_WORK_TEXT - (size_t)used, ", chunk %d", chunk);
    if (stages > 1 && micro_batch >= 0)
        snprintf(out + used, ZR_WORK_TEXT - (size_t)used, ", micro-batch %d", micro_batch);
}
