// GGUF, the file of llama.cpp and what is built on it: a model, or an adapter, with its settings
// and its tokenizer, in one file. All numbers are little-endian.
//
//   "GGUF" | version u32 | tensors u64 | keys u64
//   keys:     name | type u32 | value             a text is: length u64 | bytes
//   tensors:  name | dimensions u32 | size u64 of each, the innermost first | type u32 | offset u64
//   zeros up to a multiple of the alignment | data of the tensors, each at its offset from here on
//
// Versions 2 and 3 are read, 3 is written.
#ifndef ZR_FORMATS_GGUF_H
#define ZR_FORMATS_GGUF_H

#include "base/alloc.h"
#include "base/file.h"

enum { ZR_GGUF_VERSION = 3, ZR_GGUF_ALIGNMENT = 32, ZR_GGUF_DIMS = 4, ZR_GGUF_BLOCK = 32 };

// How the elements of a tensor are stored. Quantised ones are blocks of a row: an fp16 scale d, and
// for each element a signed byte (q8_0: d q), or half a byte (q4_0: d (q - 8); byte i has element i
// in its lower half, and element i + 16 in its upper one).
typedef struct zr_gguf_type {
    const char *name; // "q8_0"
    uint32_t code;    // of a tensor's type
    uint32_t file;    // general.file_type where most tensors have it
    int block, bytes; // elements of a block, and its bytes
} zr_gguf_type;

// All of them are rows of one table, the next of the last one is NULL.
const zr_gguf_type *zr_gguf_type_at(int i);
const zr_gguf_type *zr_gguf_type_find(const char *name);
const zr_gguf_type *zr_gguf_type_of(uint32_t code);                // NULL if it is not read here
int64_t zr_gguf_bytes(const zr_gguf_type *type, int64_t elements); // whole blocks
// Store `count` elements, a multiple of the block. q8_0 and q4_0 have the bits of ggml's own
// quantisers. Returns false for what a block cannot hold: numbers that are not finite, or too
// large for its scale.
bool zr_gguf_encode(const zr_gguf_type *type, const float *values, int64_t count, void *out);
void zr_gguf_decode(const zr_gguf_type *type, const void *in, int64_t count, float *values);

typedef enum zr_gguf_kind { // of a key's value
    ZR_GGUF_U8,
    ZR_GGUF_I8,
    ZR_GGUF_U16,
    ZR_GGUF_I16,
    ZR_GGUF_U32,
    ZR_GGUF_I32,
    ZR_GGUF_F32,
    ZR_GGUF_FLAG,
    ZR_GGUF_TEXT,
    ZR_GGUF_ARRAY,
    ZR_GGUF_U64,
    ZR_GGUF_I64,
    ZR_GGUF_F64,
    ZR_GGUF_KINDS
} zr_gguf_kind;

// Writes the head of a file: first the keys, then the tensors. The buffers' errors are sticky:
// zr_gguf_head checks them.
typedef struct zr_gguf_writer {
    zr_buffer keys, tensors;
    int64_t key_count, tensor_count;
    int64_t data; // bytes of the tensors so far, each up to a multiple of the alignment
} zr_gguf_writer;

void zr_gguf_put_text(zr_gguf_writer *w, const char *key, const char *value);
void zr_gguf_put_u32(zr_gguf_writer *w, const char *key, int64_t value);
void zr_gguf_put_f32(zr_gguf_writer *w, const char *key, double value);
void zr_gguf_put_flag(zr_gguf_writer *w, const char *key, bool value);
// Begins a list; `count` items follow: numbers by zr_buffer_append to `keys`, texts by
// zr_gguf_put_item.
void zr_gguf_put_array(zr_gguf_writer *w, const char *key, zr_gguf_kind of, int64_t count);
void zr_gguf_put_item(zr_gguf_writer *w, const char *text, size_t length);
// Returns the tensor's offset. sizes: (dims), the outermost first, as everywhere else here.
int64_t zr_gguf_put_tensor(zr_gguf_writer *w, const char *name, const zr_gguf_type *type, int dims,
                           const int64_t *sizes);
// Makes what stands before the data. ZERO_ERR_MEMORY.
zero_status zr_gguf_head(const zr_gguf_writer *w, zr_buffer *out, zero_error *error);
void zr_gguf_writer_free(zr_gguf_writer *w);

// What a file holds. Texts are not ended by a 0; they and the data are parts of the mapped file.
typedef struct zr_gguf_text {
    const char *at;
    size_t length;
} zr_gguf_text;

typedef struct zr_gguf_key {
    zr_gguf_text name;
    zr_gguf_kind kind, of; // of: of an array's items
    uint64_t count;        // of an array
    size_t at;             // position of the value, or of the first item
} zr_gguf_key;

typedef struct zr_gguf_item { // a tensor
    zr_gguf_text name;
    const zr_gguf_type *type;
    int dims;
    int64_t sizes[ZR_GGUF_DIMS]; // the outermost first
    int64_t elements;
    const char *data;
} zr_gguf_item;

typedef struct zr_gguf {
    char *path;
    zr_mapped_file file;
    zr_gguf_key *keys;     // (key_count) sorted by name
    zr_gguf_item *tensors; // (tensor_count) sorted by name
    int key_count, tensor_count;
} zr_gguf;

// Opens a file and checks all of it but the data's values. ZERO_ERR_DATA with path, offset, and key
// or tensor; ZERO_ERR_UNSUPPORTED for a tensor of a type that is not in the table.
zero_status zr_gguf_open(const char *path, zr_gguf *out, zero_error *error);
void zr_gguf_close(zr_gguf *gguf); // a zeroed one is allowed
bool zr_gguf_is(const char *path); // whether the file begins as one does

const zr_gguf_key *zr_gguf_find_key(const zr_gguf *gguf, const char *name);     // NULL: none
const zr_gguf_item *zr_gguf_find_tensor(const zr_gguf *gguf, const char *name); // NULL: none
// Read a value, if there is such a key; *out keeps its value otherwise. ZERO_ERR_DATA, with path
// and key, for a value of another kind, and for an integer that is negative or above `most`.
zero_status zr_gguf_get_integer(const zr_gguf *gguf, const char *name, int64_t most, int64_t *out,
                                zero_error *error);
zero_status zr_gguf_get_real(const zr_gguf *gguf, const char *name, double *out, zero_error *error);
zero_status zr_gguf_get_flag(const zr_gguf *gguf, const char *name, bool *out, zero_error *error);
zero_status zr_gguf_get_text(const zr_gguf *gguf, const char *name, zr_gguf_text *out,
                             zero_error *error);
// Finds an array of such items; *out is NULL if there is no such key.
zero_status zr_gguf_get_array(const zr_gguf *gguf, const char *name, zr_gguf_kind of,
                              const zr_gguf_key **out, zero_error *error);
// Reads the text at *at, which moves behind it. It lies in the file, as zr_gguf_open has checked.
zr_gguf_text zr_gguf_next_text(const zr_gguf *gguf, size_t *at);

#endif
