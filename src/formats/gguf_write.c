// The head of a GGUF file: its keys, and the list of its tensors.
#include "formats/gguf.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian, and so are reads and writes here");

static void put_number(zr_buffer *out, const void *number, size_t bytes)
{
    zr_buffer_append(out, number, bytes);
}

static void put_32(zr_buffer *out, uint32_t number) { put_number(out, &number, sizeof number); }

static void put_64(zr_buffer *out, uint64_t number) { put_number(out, &number, sizeof number); }

static void put_text(zr_buffer *out, const char *text, size_t length)
{
    put_64(out, length);
    zr_buffer_append(out, text, length);
}

static void begin_key(zr_gguf_writer *w, const char *key, zr_gguf_kind kind)
{
    put_text(&w->keys, key, strlen(key));
    put_32(&w->keys, kind);
    w->key_count++;
}

void zr_gguf_put_text(zr_gguf_writer *w, const char *key, const char *value)
{
    begin_key(w, key, ZR_GGUF_TEXT);
    put_text(&w->keys, value, strlen(value));
}

void zr_gguf_put_u32(zr_gguf_writer *w, const char *key, int64_t value)
{
    assert(value >= 0 && value <= UINT32_MAX);
    begin_key(w, key, ZR_GGUF_U32);
    put_32(&w->keys, (uint32_t)value);
}

void zr_gguf_put_f32(zr_gguf_writer *w, const char *key, double value)
{
    float narrow = (float)value;
    begin_key(w, key, ZR_GGUF_F32);
    put_number(&w->keys, &narrow, sizeof narrow);
}

void zr_gguf_put_flag(zr_gguf_writer *w, const char *key, bool value)
{
    unsigned char byte = value;
    begin_key(w, key, ZR_GGUF_FLAG);
    put_number(&w->keys, &byte, 1);
}

void zr_gguf_put_array(zr_gguf_writer *w, const char *key, zr_gguf_kind of, int64_t count)
{
    begin_key(w, key, ZR_GGUF_ARRAY);
    put_32(&w->keys, of);
    put_64(&w->keys, (uint64_t)count);
}

void zr_gguf_put_item(zr_gguf_writer *w, const char *text, size_t length)
{
    put_text(&w->keys, text, length);
}

int64_t zr_gguf_put_tensor(zr_gguf_writer *w, const char *name, const zr_gguf_type *type, int dims,
                           const int64_t *sizes)
{
    int64_t begin = w->data, elements = 1;
    put_text(&w->tensors, name, strlen(name));
    put_32(&w->tensors, (uint32_t)dims);
    for (int d = dims - 1; d >= 0; d--) {
        put_64(&w->tensors, (uint64_t)sizes[d]);
        elements *= sizes[d];
    }
    put_32(&w->tensors, type->code);
    put_64(&w->tensors, (uint64_t)begin);
    w->tensor_count++;
    w->data = ZR_ROUND_UP(begin + zr_gguf_bytes(type, elements), (int64_t)ZR_GGUF_ALIGNMENT);
    return begin;
}

zero_status zr_gguf_head(const zr_gguf_writer *w, zr_buffer *out, zero_error *error)
{
    static const char zeros[ZR_GGUF_ALIGNMENT];
    zr_buffer_append(out, "GGUF", 4);
    put_32(out, ZR_GGUF_VERSION);
    put_64(out, (uint64_t)w->tensor_count);
    put_64(out, (uint64_t)w->key_count);
    zr_buffer_append(out, w->keys.data, w->keys.length);
    zr_buffer_append(out, w->tensors.data, w->tensors.length);
    size_t end = ZR_ROUND_UP(out->length, (size_t)ZR_GGUF_ALIGNMENT);
    zr_buffer_append(out, zeros, end - out->length);
    return out->failed || w->keys.failed || w->tensors.failed
               ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the head of a GGUF file")
               : ZERO_OK;
}

void zr_gguf_writer_free(zr_gguf_writer *w)
{
    zr_buffer_free(&w->keys);
    zr_buffer_free(&w->tensors);
    *w = (zr_gguf_writer){0};
}
