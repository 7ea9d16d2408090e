// Small allocations (strings, tables, lists) outside the step. Large buffers come from memory/'s
// arenas, never from here.
// Every room allocates through these, so that tests can make the Nth allocation fail.
#ifndef ZR_BASE_ALLOC_H
#define ZR_BASE_ALLOC_H

#include "base/errors.h"

// zeroed; NULL and ZERO_ERR_MEMORY in error when there is none
void *zr_alloc(size_t bytes, zero_error *error);
// new bytes undefined; old stays valid on failure
void *zr_realloc(void *old, size_t bytes, zero_error *error);
char *zr_strdup(const char *text, zero_error *error);
char *zr_sprintf(zero_error *error, const char *format, ...) ZERO_PRINTF(2, 3); // a new string
// The list with room for at least one more entry than `count`: itself, or, where `capacity` entries
// are all taken, grown to twice as many. The caller stores what is returned; NULL and
// ZERO_ERR_MEMORY: list and capacity stay as they were.
void *zr_list_grow(void *list, int count, int *capacity, size_t width, zero_error *error);
void zr_free(void *p); // NULL is allowed

// Tests only: the nth allocation from now (1 = the next) fails, once; 0 switches off. Per thread.
void zr_alloc_fail_at(int64_t nth);
int64_t zr_alloc_count(void); // allocations of this thread so far

// a growing byte string, kept 0-terminated; sticky error: check `failed` once at the end
typedef struct zr_buffer {
    char *data;
    size_t length, capacity;
    bool failed;
} zr_buffer;

void zr_buffer_append(zr_buffer *buffer, const void *bytes, size_t count);
void zr_buffer_printf(zr_buffer *buffer, const char *format, ...) ZERO_PRINTF(2, 3);
void zr_buffer_free(zr_buffer *buffer);

#endif
