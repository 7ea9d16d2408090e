// Walks over the fields of zr_settings.
#include "plan/settings_fields.h"

#include "base/dtype.h"
#include "base/json.h"
#include "base/traffic.h"
#include "base/random.h"

#include <string.h>

#define ROW(kind, name) {#name, ZR_FIELD_##kind, offsetof(STRUCT, name)},

#define STRUCT zr_precision
static const zr_field precision_fields[] = {ZR_PRECISION_FIELDS(ROW)};
#undef STRUCT
#define STRUCT zr_tiering
static const zr_field tiering_fields[] = {ZR_TIERING_FIELDS(ROW)};
#undef STRUCT
#define STRUCT zr_settings
static const zr_field settings_fields[] = {ZR_SETTINGS_FIELDS(ROW)};
#undef STRUCT

zr_fields zr_settings_fields(void)
{
    return (zr_fields){settings_fields, ZR_COUNT(settings_fields)};
}

zr_fields zr_fields_of(zr_field_kind kind)
{
    switch (kind) {
    case ZR_FIELD_precision: return (zr_fields){precision_fields, ZR_COUNT(precision_fields)};
    case ZR_FIELD_tiering: return (zr_fields){tiering_fields, ZR_COUNT(tiering_fields)};
    default: return (zr_fields){0};
    }
}

static const char *tier_name(zero_tier tier)
{
    static const char *const names[] = {
#define TIER_NAME(name) [ZERO_TIER_##name] = #name,
        ZERO_TIERS(TIER_NAME)
#undef TIER_NAME
    };
    return names[tier];
}

// Returns the value as an integer that is equal for equal values: a text's hash, a real number's
// bits.
static int64_t field_as_integer(const zr_field *field, const void *value)
{
    int64_t bits = 0;
    const char *text = field->kind == ZR_FIELD_text ? *(const char *const *)value : NULL;
    switch (field->kind) {
    case ZR_FIELD_text: return text ? (int64_t)zr_hash_text(text) : 0;
    case ZR_FIELD_flag: return *(const bool *)value;
    case ZR_FIELD_count: return *(const int *)value;
    case ZR_FIELD_amount: return *(const int64_t *)value;
    case ZR_FIELD_real: memcpy(&bits, value, sizeof bits); break;
    case ZR_FIELD_dtype: return *(const zero_dtype *)value;
    case ZR_FIELD_tier: return *(const zero_tier *)value;
    case ZR_FIELD_precision:
    case ZR_FIELD_tiering: break;
    }
    return bits;
}

static uint64_t fold_fields(zr_fields fields, const char *from, uint64_t hash)
{
    for (int i = 0; i < fields.count; i++) {
        const zr_field *field = &fields.at[i];
        zr_fields inner = zr_fields_of(field->kind);
        hash = inner.count
                   ? fold_fields(inner, from + field->offset, hash)
                   : zr_message_fold(hash, 0, 0, field_as_integer(field, from + field->offset));
    }
    return hash;
}

uint64_t zr_settings_hash(const zr_settings *settings, uint64_t hash)
{
    return fold_fields(zr_settings_fields(), (const char *)settings, hash);
}

static void put_setting(zr_json_writer *w, const zr_field *field, const void *value)
{
    const char *key = field->name;
    switch (field->kind) {
    case ZR_FIELD_text: zr_json_text(w, key, *(const char *const *)value); break;
    case ZR_FIELD_flag: zr_json_flag(w, key, *(const bool *)value); break;
    case ZR_FIELD_real: zr_json_real(w, key, *(const double *)value); break;
    case ZR_FIELD_dtype: zr_json_text(w, key, zr_dtype_name(*(const zero_dtype *)value)); break;
    case ZR_FIELD_tier: zr_json_text(w, key, tier_name(*(const zero_tier *)value)); break;
    default: zr_json_integer(w, key, (int64_t)field_as_integer(field, value)); break;
    }
}

static void put_settings(zr_json_writer *w, const char *key, zr_fields fields, const char *from)
{
    zr_json_begin_object(w, key);
    for (int i = 0; i < fields.count; i++) {
        const zr_field *field = &fields.at[i];
        zr_fields inner = zr_fields_of(field->kind);
        if (inner.count)
            put_settings(w, field->name, inner, from + field->offset);
        else
            put_setting(w, field, from + field->offset);
    }
    zr_json_end(w);
}

void zr_settings_json(const zr_settings *settings, zr_json_writer *w, const char *key)
{
    put_settings(w, key, zr_settings_fields(), (const char *)settings);
}
