// The memory of one rendering: what a template makes lies here until the rendering ends.
#ifndef ZR_CHAT_VALUE_MEMORY_H
#define ZR_CHAT_VALUE_MEMORY_H

#include "base/alloc.h"

typedef struct zr_value_chunk zr_value_chunk;

typedef struct zr_value_memory {
    zr_value_chunk *chunks; // the newest first
    zr_value_chunk *texts;  // the same for texts, so that the last one can grow in place
    size_t used, limit;     // bytes of all chunks
    bool over;              // what failed last was the limit, not the machine
} zr_value_memory;

// Returns zeroed bytes, aligned for any value; NULL if there is no memory.
void *zr_value_memory_take(zr_value_memory *memory, size_t bytes);
// Returns room for a text. If `before`, of `length` bytes, is the text that was made last, the room
// continues it in place: the result is `before`, and a text of many pieces is not copied for each.
char *zr_value_memory_text(zr_value_memory *memory, const char *before, size_t length, size_t more);
void zr_value_memory_free(zr_value_memory *memory);

#endif
