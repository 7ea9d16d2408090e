#include "chat/value_memory.h"

#include <string.h>

enum { SMALLEST_CHUNK = 16 << 10, ALIGNMENT = 16 };

struct zr_value_chunk {
    zr_value_chunk *next;
    size_t used, size;
    char *data; // (size) after this head
};

// Puts a chunk of at least `bytes` in front of the list. Chunks double, so there are few.
static bool add_chunk(zr_value_memory *memory, zr_value_chunk **list, size_t bytes)
{
    size_t head = ZR_ROUND_UP(sizeof(zr_value_chunk), ALIGNMENT);
    size_t size = *list ? 2 * (*list)->size : SMALLEST_CHUNK;
    size = ZR_MIN(size, (size_t)8 << 20);
    size = ZR_MAX(size, bytes);
    memory->over = size > memory->limit - memory->used;
    zr_value_chunk *chunk = memory->over ? NULL : zr_alloc(head + size, NULL);
    if (!chunk)
        return false;
    *chunk = (zr_value_chunk){.next = *list, .size = size, .data = (char *)chunk + head};
    *list = chunk;
    memory->used += size;
    return true;
}

void *zr_value_memory_take(zr_value_memory *memory, size_t bytes)
{
    if (bytes > memory->limit) {
        memory->over = true;
        return NULL;
    }
    bytes = ZR_ROUND_UP(bytes, ALIGNMENT);
    zr_value_chunk *chunk = memory->chunks;
    if ((!chunk || bytes > chunk->size - chunk->used) && !add_chunk(memory, &memory->chunks, bytes))
        return NULL;
    chunk = memory->chunks;
    void *at = chunk->data + chunk->used;
    chunk->used += bytes;
    return at;
}

char *zr_value_memory_text(zr_value_memory *memory, const char *before, size_t length, size_t more)
{
    zr_value_chunk *chunk = memory->texts;
    if (length > memory->limit || more > memory->limit) {
        memory->over = true;
        return NULL;
    }
    if (chunk && before && before + length == chunk->data + chunk->used &&
        more <= chunk->size - chunk->used) {
        chunk->used += more;
        return (char *)before;
    }
    size_t bytes = length + more;
    // A text that grew once grows again, so a chunk made for it has room for that.
    if ((!chunk || bytes > chunk->size - chunk->used) &&
        !add_chunk(memory, &memory->texts, length ? bytes + bytes / 2 : bytes))
        return NULL;
    chunk = memory->texts;
    char *at = chunk->data + chunk->used;
    if (length)
        memcpy(at, before, length);
    chunk->used += bytes;
    return at;
}

static void free_chunks(zr_value_chunk *chunk)
{
    while (chunk) {
        zr_value_chunk *next = chunk->next;
        zr_free(chunk);
        chunk = next;
    }
}

void zr_value_memory_free(zr_value_memory *memory)
{
    free_chunks(memory->chunks);
    free_chunks(memory->texts);
    *memory = (zr_value_memory){.limit = memory->limit};
}
