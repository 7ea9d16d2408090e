// The allocator of every room, with a failure that tests can place.
//
// Its only state is the test hook below, which is per thread and never set outside tests.
#include "base/alloc.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    int64_t count;   // allocations of this thread so far
    int64_t fail_in; // 1: the next one fails; 0: off
} hook;

void zr_alloc_fail_at(int64_t nth) { hook.fail_in = nth; }

int64_t zr_alloc_count(void) { return hook.count; }

static bool made_to_fail(void)
{
    hook.count++;
    return hook.fail_in > 0 && --hook.fail_in == 0;
}

void *zr_alloc(size_t bytes, zero_error *error)
{
    void *p = made_to_fail() ? NULL : calloc(1, bytes ? bytes : 1);
    if (!p)
        zr_fail(error, ZERO_ERR_MEMORY, "no memory for %zu bytes", bytes);
    return p;
}

void *zr_realloc(void *old, size_t bytes, zero_error *error)
{
    void *p = made_to_fail() ? NULL : realloc(old, bytes ? bytes : 1);
    if (!p)
        zr_fail(error, ZERO_ERR_MEMORY, "no memory to grow a table to %zu bytes", bytes);
    return p;
}

void *zr_list_grow(void *list, int count, int *capacity, size_t width, zero_error *error)
{
    if (count < *capacity)
        return list;
    if (*capacity > INT_MAX / 2) {
        zr_fail(error, ZERO_ERR_MEMORY, "a list of more than %d entries", *capacity);
        return NULL;
    }
    int more = ZR_MAX(32, 2 * *capacity);
    void *grown = zr_realloc(list, (size_t)more * width, error);
    if (grown)
        *capacity = more;
    return grown;
}

char *zr_strdup(const char *text, zero_error *error)
{
    size_t bytes = strlen(text) + 1;
    char *copy = zr_alloc(bytes, error);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

char *zr_sprintf(zero_error *error, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : zr_alloc((size_t)length + 1, error);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    if (length < 0)
        zr_fail(error, ZERO_ERR_INTERNAL, "the format \"%s\" cannot be printed", format);
    return text;
}

void zr_free(void *p) { free(p); }

// Makes room for `count` more bytes and the final 0.
static bool buffer_reserve(zr_buffer *buffer, size_t count)
{
    if (buffer->failed || count > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4) {
        buffer->failed = true;
        return false;
    }
    size_t needed = buffer->length + count + 1;
    if (needed <= buffer->capacity)
        return true;
    size_t capacity = ZR_MAX(needed, ZR_MAX(2 * buffer->capacity, (size_t)128));
    char *data = zr_realloc(buffer->data, capacity, NULL);
    buffer->failed = !data;
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void zr_buffer_append(zr_buffer *buffer, const void *bytes, size_t count)
{
    if (!buffer_reserve(buffer, count))
        return;
    if (count)
        memcpy(buffer->data + buffer->length, bytes, count);
    buffer->length += count;
    buffer->data[buffer->length] = 0;
}

void zr_buffer_vprintf(zr_buffer *buffer, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0)
        buffer->failed = true;
    else if (buffer_reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void zr_buffer_printf(zr_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    zr_buffer_vprintf(buffer, format, arguments);
    va_end(arguments);
}

void zr_buffer_free(zr_buffer *buffer)
{
    zr_free(buffer->data);
    *buffer = (zr_buffer){0};
}
