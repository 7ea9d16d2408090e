#include "tokenizer/ids.h"

bool zr_ids_reserve(zr_ids *ids, int64_t more)
{
    if (ids->failed || more <= ids->capacity - ids->count)
        return !ids->failed;
    int64_t capacity = ZR_MAX(ids->count + more, ids->capacity + ids->capacity / 2 + 64);
    int32_t *at =
        capacity > INT64_MAX / 8 ? NULL : zr_realloc(ids->at, (size_t)capacity * sizeof *at, NULL);
    ids->failed = !at;
    if (!at)
        return false;
    ids->at = at;
    ids->capacity = capacity;
    return true;
}

void zr_ids_free(zr_ids *ids)
{
    zr_free(ids->at);
    *ids = (zr_ids){0};
}
