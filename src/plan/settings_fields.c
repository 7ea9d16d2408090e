// Walks over the fields of zr_settings.
#include "plan/settings_fields.h"

#include "base/dtype.h"
#include "base/json.h"
#include "base/random.h"
#include "base/traffic.h"

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

static int64_t hash_of(const char *text) { return text ? (int64_t)zr_hash_text(text) : 0; }

// Returns the value as an integer that is equal for equal values: a text's hash, a real number's
// bits.
static int64_t bits_of(const zr_field *field, const void *value)
{
    int64_t bits = 0;
    switch (field->kind) {
    case ZR_FIELD_text: return hash_of(*(const char *const *)value);
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
        hash = inner.count ? fold_fields(inner, from + field->offset, hash)
                           : zr_message_fold(hash, 0, 0, bits_of(field, from + field->offset));
    }
    return hash;
}

uint64_t zr_settings_hash(const zr_settings *settings, uint64_t hash)
{
    return fold_fields(zr_settings_fields(), (const char *)settings, hash);
}

static void append_settings_fields_text(const char *text, zr_buffer *out)
{
    if (text)
        zr_json_append_string(out, text, strlen(text));
    else
        zr_buffer_printf(out, "null");
}

static void append_value(const zr_field *field, const void *value, zr_buffer *out)
{
    switch (field->kind) {
    case ZR_FIELD_text: append_settings_fields_text(*(const char *const *)value, out); break;
    case ZR_FIELD_flag: zr_buffer_printf(out, *(const bool *)value ? "true" : "false"); break;
    case ZR_FIELD_real: zr_json_append_double(out, *(const double *)value); break;
    case ZR_FIELD_dtype:
        append_settings_fields_text(zr_dtype_name(*(const zero_dtype *)value), out);
        break;
    case ZR_FIELD_tier:
        append_settings_fields_text(tier_name(*(const zero_tier *)value), out);
        break;
    default: zr_buffer_printf(out, "%lld", (long long)bits_of(field, value)); break;
    }
}

static void append_fields(zr_fields fields, const char *from, zr_buffer *out)
{
    for (int i = 0; i < fields.count; i++) {
        const zr_field *field = &fields.at[i];
        zr_fields inner = zr_fields_of(field->kind);
        zr_buffer_printf(out, "%s\"%s\":", i ? "," : "{", field->name);
        if (inner.count)
            append_fields(inner, from + field->offset, out);
        else
            append_value(field, from + field->offset, out);
    }
    zr_buffer_printf(out, "}");
}

void zr_settings_json(const zr_settings *settings, zr_buffer *out)
{
    append_fields(zr_settings_fields(), (const char *)settings, out);
}
