// Reads pickles of protocol 2, as torch.save writes them, and plain values of protocols 3 to 5,
// into a tree of values, by a machine that executes nothing.
//
// Of Python's 70 instructions it knows those that occur in such files. Of Python's names it knows
// the rows of pickle_names.c: containers, types of numbers, how a tensor is assembled, and classes
// that become inert objects. It refuses every other name, and the message quotes it. Memory is
// bounded by the bytes of the text and by ZR_PICKLE_MOST_MEMORY; nothing recurses.
#ifndef ZR_FORMATS_PICKLE_H
#define ZR_FORMATS_PICKLE_H

#include "base/errors.h"
#include "formats/name_index.h"

#define ZR_PICKLE_MOST_BYTES ((size_t)64 << 20)
#define ZR_PICKLE_MOST_MEMORY ((size_t)512 << 20)
#define ZR_PICKLE_DIMS 8

typedef enum zr_pickle_role { // the result when the pickle calls a name
    ZR_ROLE_DICT,
    ZR_ROLE_LIST,      // torch.Size, set: becomes what its argument lists
    ZR_ROLE_STORAGE,   // a storage type; never called
    ZR_ROLE_DTYPE,     // never called
    ZR_ROLE_TENSOR,    // torch._utils._rebuild_tensor_v2
    ZR_ROLE_PARAMETER, // becomes its first argument
    ZR_ROLE_TYPED,     // a tensor of a class with attributes: (how, class, arguments, attributes)
    ZR_ROLE_OBJECT,    // an inert object
} zr_pickle_role;

typedef struct zr_pickle_name {
    const char *module, *name;
    zr_pickle_role role;
    const char *dtype; // of storages and dtypes, by its name in safetensors
} zr_pickle_name;
// Returns the row of a name; NULL for an unknown name.
const zr_pickle_name *zr_pickle_name_find(const char *module, size_t module_length,
                                          const char *name, size_t length);

typedef enum zr_pickle_kind {
    ZR_PICKLE_NONE,
    ZR_PICKLE_BOOL,
    ZR_PICKLE_INTEGER,
    ZR_PICKLE_REAL,
    ZR_PICKLE_TEXT,
    ZR_PICKLE_TUPLE,
    ZR_PICKLE_LIST,
    ZR_PICKLE_DICT,
    ZR_PICKLE_NAME,
    ZR_PICKLE_STORAGE,
    ZR_PICKLE_TENSOR,
    ZR_PICKLE_OBJECT,
    ZR_PICKLE_KINDS
} zr_pickle_kind;

typedef struct zr_pickle_value zr_pickle_value;

typedef struct zr_pickle_items {
    const zr_pickle_value **at; // (count); a dict has key, value, key, value, ...
    size_t count, room;
} zr_pickle_items;

typedef struct zr_pickle_storage {
    const char *dtype;
    const char *key; // digits: its record is data/KEY
    int64_t elements;
} zr_pickle_storage;

typedef struct zr_pickle_tensor { // its elements lie inside the storage
    const zr_pickle_storage *storage;
    int64_t offset, elements; // offset in the storage; elements of the tensor
    int dims;
    int64_t shape[ZR_PICKLE_DIMS];
    // It is elements [offset, offset + elements) of the storage, in order.
    bool contiguous;
} zr_pickle_tensor;

struct zr_pickle_value {
    zr_pickle_kind kind;
    union {
        int64_t integer; // BOOL, INTEGER
        double real;
        // Ends with a 0, and may contain bytes 0 as well.
        struct {
            const char *at;
            size_t length;
        } text;
        zr_pickle_items items; // TUPLE, LIST, DICT
        const zr_pickle_name *name;
        zr_pickle_storage storage;
        zr_pickle_tensor tensor;
        // `attributes` is a dict, or NULL.
        struct {
            const zr_pickle_name *of;
            const zr_pickle_value *arguments, *attributes;
        } object;
    };
};

typedef struct zr_pickle {
    const zr_pickle_value *root;
    struct zr_pickle_block *blocks;
} zr_pickle;

// ZERO_ERR_DATA with `name` (the file's), the byte and what was found.
zero_status zr_pickle_read(const char *text, size_t length, const char *name, zr_pickle *out,
                           zero_error *error);
void zr_pickle_free(zr_pickle *pickle); // a zeroed one is allowed

// All of these accept a NULL value, and then return NULL or false.
// Returns a dict's value or an object's attribute; NULL where absent.
const zr_pickle_value *zr_pickle_get(const zr_pickle_value *dict, const char *key);
// Returns an item of a tuple or list; NULL where absent.
const zr_pickle_value *zr_pickle_at(const zr_pickle_value *list, size_t index);
// Accepts a member of an enumeration and a real like 3.0, too.
bool zr_pickle_integer(const zr_pickle_value *value, int64_t *out);
bool zr_pickle_number(const zr_pickle_value *value, double *out);
// Returns NULL if the value is not a text, or contains bytes 0.
const char *zr_pickle_text(const zr_pickle_value *value);
static inline bool zr_pickle_is(const zr_pickle_value *value, zr_pickle_kind kind)
{
    return value && value->kind == kind;
}

// An index of a pickle's dict by key, for many look-ups in a large dict: zr_pickle_get walks over
// all keys for each.
typedef struct zr_pickle_keys {
    const zr_pickle_value *dict; // NULL if there are no keys
    // (count) Numbers pairs from the last to the first, because the value that was set last counts.
    zr_named *index;
    int count;
} zr_pickle_keys;

// `dict` may also be an object, whose attributes are then indexed; NULL and other values have no
// keys. It must outlive *out, which zr_pickle_keys_free frees.
zero_status zr_pickle_keys_create(const zr_pickle_value *dict, zr_pickle_keys *out,
                                  zero_error *error);
// Like zr_pickle_get; names must not be empty.
const zr_pickle_value *zr_pickle_keys_find(const zr_pickle_keys *keys, const char *name);
void zr_pickle_keys_free(zr_pickle_keys *keys);

#endif
