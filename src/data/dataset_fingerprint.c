// Hashes the part of a dataset that one rank has, cheaply enough for all ranks to compare before
// the first step.
#include "base/random.h"
#include "data/dataset.h"

#include <string.h>

enum { BLOCK = 1 << 10, BEAT = 64 };               // in tokens; blocks between two signs of life
enum { ALL_AT_ONCE = 1 << 13, ALL_BEAT = 1 << 9 }; // the same where all tokens are hashed

static int64_t count_file_blocks(const zr_token_span *span)
{
    return span->file ? (span->count + BLOCK - 1) / BLOCK : 0;
}

static int64_t file_blocks(const zr_dataset *dataset)
{
    int64_t blocks = 0;
    for (int s = 0; s < dataset->stream_count; s++)
        for (int i = 0; i < dataset->streams[s].span_count; i++)
            blocks += count_file_blocks(&dataset->streams[s].spans[i]);
    return blocks;
}

// Hashes the sampled blocks that lie in this span. Blocks are sampled among all blocks of token
// files; this span begins at block `first` of them.
static uint64_t hash_places(const zr_token_span *span, int64_t first, int64_t all, uint64_t seed,
                            const zr_watch *watch, uint64_t hash)
{
    int32_t ids[BLOCK];
    int64_t own = count_file_blocks(span);
    for (int64_t i = 0; i < ZR_MIN(all, (int64_t)ZR_SAMPLED_BLOCKS); i++) {
        if (i % BEAT == 0) // a remote disk may be slow
            zr_watch_beat(watch, span->name, (size_t)i, ZR_SAMPLED_BLOCKS);
        int64_t block = (int64_t)zr_permute(seed, (uint64_t)i, (uint64_t)all) - first;
        if (block < 0 || block >= own)
            continue;
        int64_t count = ZR_MIN((int64_t)BLOCK, span->count - block * BLOCK);
        zr_token_file_read(span->file, span->at + block * BLOCK, count, ids);
        hash = zr_hash_bytes(ids, (size_t)count * sizeof *ids, hash);
    }
    return hash;
}

// Hashes all tokens in pieces, so that it makes no difference whether they are in memory.
static uint64_t hash_all(const zr_token_span *span, const zr_watch *watch, uint64_t hash)
{
    int32_t ids[ALL_AT_ONCE];
    for (int64_t at = 0, pieces = 0, count; at < span->count; at += count, pieces++) {
        count = ZR_MIN(span->count - at, (int64_t)ALL_AT_ONCE);
        zr_token_span_read(span, at, count, ids);
        hash = zr_hash_bytes(ids, (size_t)count * sizeof *ids, hash);
        if (pieces % ALL_BEAT == ALL_BEAT - 1)
            zr_watch_beat(watch, span->name, (size_t)at, (size_t)span->count);
    }
    return hash;
}

void zr_dataset_fingerprint(const zr_dataset *dataset, uint64_t seed, const zr_watch *watch,
                            zr_span_fingerprint take, void *user)
{
    int64_t first = 0, all = file_blocks(dataset);
    for (int s = 0; s < dataset->stream_count; s++)
        for (int i = 0; i < dataset->streams[s].span_count; i++) {
            const zr_token_span *span = &dataset->streams[s].spans[i];
            uint64_t facts[3] = {(uint64_t)s, (uint64_t)span->count};
            memcpy(&facts[2], &dataset->weights[s], sizeof facts[2]);
            uint64_t hash = zr_hash_bytes(facts, sizeof facts, 0);
            hash = span->file ? hash_places(span, first, all, seed, watch, hash)
                              : hash_all(span, watch, hash);
            first += count_file_blocks(span);
            take(user, span, dataset->weights[s], hash);
            zr_watch_beat(watch, span->name, (size_t)(i + 1),
                          (size_t)dataset->streams[s].span_count);
        }
}
