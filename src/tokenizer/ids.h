// A growing list of ids. Its error is sticky, as in zr_buffer: check `failed` once at the end.
#ifndef ZR_TOKENIZER_IDS_H
#define ZR_TOKENIZER_IDS_H

#include "base/alloc.h"

typedef struct zr_ids {
    int32_t *at; // (count)
    int64_t count, capacity;
    bool failed;
} zr_ids;

// Makes room for `more` ids. Returns false if there is no memory, and sets `failed`.
bool zr_ids_reserve(zr_ids *ids, int64_t more);
void zr_ids_free(zr_ids *ids);

static inline void zr_ids_append(zr_ids *ids, int32_t id)
{
    if (ids->count < ids->capacity || zr_ids_reserve(ids, 1))
        ids->at[ids->count++] = id;
}

#endif
