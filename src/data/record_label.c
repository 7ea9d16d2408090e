// Records of a classification:
//
//   {"text": "...", "label": "good"}        {"text": "...", "label": 3}
//
// The text is no target, and the label is that of its last token.
#include "data/record_document.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static zero_status refuse(const zr_record_reading *of, const json_t *record, const char *key,
                          const json_t *value, zero_error *error)
{
    zr_buffer fields = {0};
    zr_record_list_fields(record, &fields);
    zero_status status =
        fields.failed
            ? zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its fields", of->name)
            : zr_fail(error, ZERO_ERR_DATA,
                      "%s: its \"%s\" is %s, where --task classify reads a \"text\" that is text "
                      "and a \"label\" that is text or a whole number (--map "
                      "text=FIELD,label=FIELD names other fields); it has %s",
                      of->name, key, zr_record_type_name(value), fields.data);
    zr_buffer_free(&fields);
    return status;
}

static bool is_whole(const json_t *value)
{
    double number = json_number_value(value);
    return json_is_integer(value) ||
           (json_is_real(value) && fabs(number) < 1e15 && number == floor(number));
}

static zero_status read_label(const zr_record_reading *of, const json_t *record,
                              zr_record_label *out, zero_error *error)
{
    // --field names the text alone.
    const json_t *value = of->map && of->map->named
                              ? json_object_get(record, ZR_RECORD_LABEL)
                              : zr_record_get(of->map, record, ZR_RECORD_LABEL);
    size_t bytes = json_string_length(value) + 1;
    *out = (zr_record_label){.whole_number = !json_is_string(value)};
    if (json_is_string(value) ? bytes == 1 || strlen(json_string_value(value)) + 1 != bytes
                              : !is_whole(value))
        return refuse(of, record, ZR_RECORD_LABEL, value, error);
    if (bytes > sizeof out->text)
        return zr_fail(error, ZERO_ERR_DATA, "%s: its \"label\" has %zu bytes, at most %d fit",
                       of->name, bytes - 1, (int)sizeof out->text - 1);
    if (out->whole_number)
        snprintf(out->text, sizeof out->text, "%lld",
                 json_is_integer(value) ? (long long)json_integer_value(value)
                                        : (long long)json_real_value(value));
    else
        memcpy(out->text, json_string_value(value), bytes);
    return ZERO_OK;
}

zero_status zr_record_classified(const zr_record_reading *of, const json_t *record,
                                 zr_document *out, zr_record_label *label, zero_error *error)
{
    const json_t *text = zr_record_get(of->map, record, "text");
    const char *field = zr_record_field(of->map, "text");
    out->special = true;
    *label = (zr_record_label){.text = ""};
    if (!text && field && json_is_null(json_object_get(record, field)))
        return ZERO_OK; // a record without text
    if (!json_is_string(text))
        return refuse(of, record, "text", text, error);
    zr_document_add(out, json_string_value(text), json_string_length(text), false);
    return read_label(of, record, label, error);
}
