// The tables of a BPE: from byte strings to ids, and from pairs to merges. They use open
// addressing, are at most half full, and never shrink.
#include "base/random.h"
#include "tokenizer/bpe_encode.h"

#include <string.h>

static bool size_slot_table(int64_t count, uint32_t *mask)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)count)
        slots *= 2;
    *mask = (uint32_t)(slots - 1);
    return slots <= (uint64_t)1 << 30;
}

zero_status zr_text_span_map_create(const char *const *text, int64_t count, zr_text_span_map *out,
                                    zero_error *error)
{
    *out = (zr_text_span_map){.text = text};
    if (!size_slot_table(count, &out->mask))
        return zr_fail(error, ZERO_ERR_DATA, "a vocabulary of %lld tokens", (long long)count);
    size_t slots = (size_t)out->mask + 1;
    out->keys = zr_alloc(slots * sizeof *out->keys, error);
    out->ids = out->keys ? zr_alloc(slots * sizeof *out->ids, error) : NULL;
    if (!out->ids)
        return ZERO_ERR_MEMORY;
    memset(out->ids, -1, slots * sizeof *out->ids);
    return ZERO_OK;
}

static uint32_t slot_of_text(const zr_text_span_map *map, const char *key, size_t length)
{
    uint32_t slot = (uint32_t)zr_hash_bytes(key, length, 0) & map->mask;
    while (map->ids[slot] >= 0 && (map->keys[slot].length != length ||
                                   memcmp(*map->text + map->keys[slot].at, key, length) != 0))
        slot = (slot + 1) & map->mask;
    return slot;
}

int32_t zr_text_span_map_find(const zr_text_span_map *map, const char *key, size_t length)
{
    return map->ids ? map->ids[slot_of_text(map, key, length)] : -1;
}

bool zr_text_span_map_insert(zr_text_span_map *map, zr_text_span key, int32_t id)
{
    uint32_t slot = slot_of_text(map, *map->text + key.at, key.length);
    if (map->ids[slot] >= 0)
        return false;
    map->keys[slot] = key;
    map->ids[slot] = id;
    return true;
}

void zr_text_span_map_free(zr_text_span_map *map)
{
    zr_free(map->keys);
    zr_free(map->ids);
    *map = (zr_text_span_map){0};
}

zero_status zr_merge_map_create(int64_t count, zr_merge_map *out, zero_error *error)
{
    *out = (zr_merge_map){0};
    if (!size_slot_table(count, &out->mask))
        return zr_fail(error, ZERO_ERR_DATA, "%lld merges", (long long)count);
    out->slots = zr_alloc(((size_t)out->mask + 1) * sizeof *out->slots, error);
    if (!out->slots)
        return ZERO_ERR_MEMORY;
    for (uint32_t i = 0; i <= out->mask; i++)
        out->slots[i].left = -1;
    return ZERO_OK;
}

static zr_merge *merge_slot(const zr_merge_map *map, int32_t left, int32_t right)
{
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15ull;
    uint32_t slot = (uint32_t)(hash >> 32) & map->mask;
    while (map->slots[slot].left >= 0 &&
           (map->slots[slot].left != left || map->slots[slot].right != right))
        slot = (slot + 1) & map->mask;
    return &map->slots[slot];
}

void zr_merge_map_insert(zr_merge_map *map, zr_merge merge)
{
    *merge_slot(map, merge.left, merge.right) = merge;
}

const zr_merge *zr_merge_map_find(const zr_merge_map *map, int32_t left, int32_t right)
{
    const zr_merge *merge = merge_slot(map, left, right);
    return merge->left >= 0 ? merge : NULL;
}

static const zr_code_range printable[] = {{33, 126}, {161, 172}, {174, 255}};

// The printable bytes of Latin-1 stand for themselves; the others, in their order, become U+0100
// and up.
int32_t zr_byte_symbol(int byte)
{
    int32_t others = byte;
    for (int i = 0; i < ZR_COUNT(printable); i++) {
        if (byte >= printable[i].first && byte <= printable[i].last)
            return byte;
        if (byte > printable[i].last)
            others -= printable[i].last - printable[i].first + 1;
    }
    return 256 + others;
}

int zr_symbol_byte(int32_t code_point)
{
    int32_t other = code_point - 256;
    for (int i = 0; i < ZR_COUNT(printable); i++) {
        if (code_point >= printable[i].first && code_point <= printable[i].last)
            return code_point;
        if (other >= printable[i].first)
            other += printable[i].last - printable[i].first + 1;
    }
    return code_point >= 256 && other < 256 ? other : -1;
}

const char *zr_find_text(const char *text, size_t length, const char *what, size_t width)
{
    const char *end = text + length;
    for (const char *at = text;
         (size_t)(end - at) >= width && (at = memchr(at, *what, (size_t)(end - at) - width + 1));
         at++)
        if (memcmp(at, what, width) == 0)
            return at;
    return NULL;
}

void *zr_scratch_reserve(zr_bpe_scratch *scratch, size_t bytes, zero_error *error)
{
    if (bytes <= scratch->bytes)
        return scratch->data;
    size_t more = bytes + bytes / 2 + 256;
    zr_free(scratch->data);
    scratch->data = zr_alloc(more, error);
    scratch->bytes = scratch->data ? more : 0;
    return scratch->data;
}
