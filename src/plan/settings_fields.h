// The fields of zr_settings, and of the structs in it, as rows; and what is made from all of them.
#ifndef ZR_PLAN_SETTINGS_FIELDS_H
#define ZR_PLAN_SETTINGS_FIELDS_H

#include "base/alloc.h"
#include "plan/plan_settings.h"

typedef enum zr_field_kind { // the type of each is ZR_FIELD_TYPE_... of plan_settings.h
    ZR_FIELD_text,
    ZR_FIELD_flag,
    ZR_FIELD_count,
    ZR_FIELD_amount,
    ZR_FIELD_real,
    ZR_FIELD_dtype,
    ZR_FIELD_tier,
    ZR_FIELD_precision, // a struct with fields of its own
    ZR_FIELD_tiering,   // a struct with fields of its own
} zr_field_kind;

typedef struct zr_field {
    const char *name;
    zr_field_kind kind;
    size_t offset; // bytes from the beginning of its struct
} zr_field;

typedef struct zr_fields {
    const zr_field *at; // (count)
    int count;
} zr_fields;

zr_fields zr_settings_fields(void);
// Returns the fields of a struct kind; for any other kind, none.
zr_fields zr_fields_of(zr_field_kind kind);

// Returns `hash` with every field folded into it.
uint64_t zr_settings_hash(const zr_settings *settings, uint64_t hash);
// Writes a JSON object of all fields.
void zr_settings_json(const zr_settings *settings, zr_buffer *out);

#endif
