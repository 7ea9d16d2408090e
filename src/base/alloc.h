// Small allocations (strings, tables, lists) outside the step, and the pages behind large ones.
// Large buffers come from the arenas of memory/, never from here.
// Every room allocates through these functions, so that tests can make the Nth allocation fail.
#ifndef ZR_BASE_ALLOC_H
#define ZR_BASE_ALLOC_H

#include "base/errors.h"

#include <stdarg.h>

// Returns zeroed bytes, or NULL and ZERO_ERR_MEMORY in *error.
void *zr_alloc(size_t bytes, zero_error *error);
// The added bytes are undefined. On failure it returns NULL, and `old` stays valid.
void *zr_realloc(void *old, size_t bytes, zero_error *error);
char *zr_strdup(const char *text, zero_error *error);
// Formats a new string.
char *zr_sprintf(zero_error *error, const char *format, ...) ZERO_PRINTF(2, 3);
// Returns the list with room for at least one entry more than `count`: the list itself, or, where
// all `capacity` entries are taken, a copy of twice the capacity (at least 32). The caller stores
// the result. On NULL (ZERO_ERR_MEMORY) list and capacity stay as they were.
void *zr_list_grow(void *list, int count, int *capacity, size_t width, zero_error *error);
void zr_free(void *p); // NULL is allowed

// Tests only: the nth allocation of this thread from now on (1 is the next) fails, once; 0 switches
// this off.
void zr_alloc_fail_at(int64_t nth);
int64_t zr_alloc_count(void); // allocations of this thread so far

// A growing byte string that always ends with a 0. Its error is sticky: check `failed` once at the
// end.
typedef struct zr_buffer {
    char *data;
    size_t length, capacity;
    bool failed;
} zr_buffer;

void zr_buffer_append(zr_buffer *buffer, const void *bytes, size_t count);
void zr_buffer_printf(zr_buffer *buffer, const char *format, ...) ZERO_PRINTF(2, 3);
void zr_buffer_vprintf(zr_buffer *buffer, const char *format, va_list arguments);
void zr_buffer_free(zr_buffer *buffer);

// Backs base[0..bytes) of a writable mapping with pages, so that page faults happen here and a
// shortage of memory is reported here. A large range uses several of the cores that this process
// may use (clearing pages is bound by memory, and on a virtual machine by its host). The content
// stays as it is. Returns 0 or an errno.
int zr_pages_populate(void *base, size_t bytes);

#define ZR_LARGE_PAGE ((size_t)2 << 20)
// Returns the first address in memory[0..bytes + ZR_LARGE_PAGE) at which a large page may begin,
// and requests large pages for `bytes` from there on. A disk takes a block in large pages at once,
// and splits it into many parts otherwise.
char *zr_pages_large(char *memory, size_t bytes);

#endif
