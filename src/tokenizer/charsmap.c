// Reads SentencePiece's precompiled_charsmap (charsmap.h).
#include "tokenizer/charsmap.h"

#include <string.h>

static uint32_t number_at(const char *bytes)
{
    uint32_t number = 0;
    for (int i = 0; i < 4; i++)
        number |= (uint32_t)(unsigned char)bytes[i] << 8 * i;
    return number;
}

static uint32_t children_of(uint32_t unit) { return unit >> 10 << ((unit & 1u << 9) >> 6); }

// Follows the edge by `byte` from the children at *at; returns false if there is none.
static bool follow_edge(const zr_charsmap *map, unsigned char byte, size_t *at, uint32_t *unit)
{
    size_t child = *at ^ byte;
    if (child >= map->count || (map->units[child] & 0x800000ff) != byte)
        return false;
    *unit = map->units[child];
    *at = child ^ children_of(*unit);
    return true;
}

static void find_plain(zr_charsmap *map)
{
    for (int byte = 0; byte < 128; byte++) {
        size_t at = map->count ? children_of(map->units[0]) : 0;
        uint32_t unit;
        map->plain[byte] = true;
        if (!follow_edge(map, (unsigned char)byte, &at, &unit))
            continue;
        map->plain[byte] = !(unit >> 8 & 1);
        for (int next = 1; next < 128; next++) {
            size_t unused = at;
            map->plain[byte] &= !follow_edge(map, (unsigned char)next, &unused, &unit);
        }
    }
}

zero_status zr_charsmap_create(const char *name, const char *bytes, size_t count, zr_charsmap *out,
                               zero_error *error)
{
    size_t tree = count > 4 ? number_at(bytes) : 0;
    *out = (zr_charsmap){0};
    if (count <= 4 || tree % 4 || !tree || tree >= count - 4 || bytes[count - 1])
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: a precompiled_charsmap of %zu bytes that says it has a tree of %zu "
                       "bytes: the tree's size, whole units of 4 bytes, and texts that end with a "
                       "0 would be right",
                       name, count, tree);
    out->text_bytes = count - 4 - tree;
    out->units = zr_alloc(tree, error);
    out->texts = out->units ? zr_alloc(out->text_bytes, error) : NULL;
    if (!out->texts)
        return ZERO_ERR_MEMORY;
    out->count = tree / 4;
    for (size_t i = 0; i < out->count; i++)
        out->units[i] = number_at(bytes + 4 + 4 * i);
    memcpy(out->texts, bytes + 4 + tree, out->text_bytes);
    find_plain(out);
    return ZERO_OK;
}

void zr_charsmap_free(zr_charsmap *map)
{
    zr_free(map->units);
    zr_free(map->texts);
    *map = (zr_charsmap){0};
}

// Returns the text that the value of a key names; NULL if it lies outside.
static const char *text_of_key(const zr_charsmap *map, size_t at)
{
    size_t value = at < map->count ? map->units[at] & 0x7fffffff : SIZE_MAX;
    return value < map->text_bytes ? map->texts + value : NULL;
}

const char *zr_charsmap_find(const zr_charsmap *map, bool longest, const char *text, size_t length,
                             size_t *bytes)
{
    const char *found = NULL;
    size_t at = map->count ? children_of(map->units[0]) : 0;
    for (size_t i = 0; i < length && text[i] && (longest || !found); i++) {
        uint32_t unit;
        if (!follow_edge(map, (unsigned char)text[i], &at, &unit))
            break;
        const char *here = unit >> 8 & 1 ? text_of_key(map, at) : NULL;
        if (here) {
            found = here;
            *bytes = i + 1;
        }
    }
    return found;
}
