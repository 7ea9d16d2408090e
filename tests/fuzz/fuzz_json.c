// JSON as every reader of the library takes it, its positions, and the part of a CSV file that is
// kept.
#include "fuzz.h"

#include "base/json.h"
#include "monitor/scalar_files.h"

#include <string.h>

static void find_members(const char *text, size_t size, json_t *root)
{
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value)
    {
        if (strchr(key, '.') || !key[0])
            continue;
        zr_json_position place = zr_json_find(text, size, key);
        fuzz_must(place.line >= 0 && place.column >= 0);
    }
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    json_t *root = NULL;
    zr_buffer quoted = {0};
    char *text = zr_alloc(size + 1, error);
    if (!text)
        return ZERO_ERR_MEMORY;
    memcpy(text, data, size);
    size_t kept = zr_csv_kept_bytes(text, size, 64);
    fuzz_must(kept <= size && zr_csv_kept_bytes(text, kept, 64) == kept);
    zr_buffer_append(&quoted, "[", 1);
    zr_json_append_string(&quoted, text, size);
    zr_buffer_append(&quoted, "]", 1);
    if (!quoted.failed) {
        fuzz_must(zr_json_parse(quoted.data, quoted.length, "quoted", &root, error) == ZERO_OK ||
                  error->status == ZERO_ERR_MEMORY || memchr(text, 0, size));
        json_decref(root);
        root = NULL;
    }
    zero_status status = zr_json_blank(text, size, "text", error);
    if (status == ZERO_OK)
        status = zr_json_parse(text, size, "text", &root, error);
    if (status == ZERO_OK)
        find_members(text, size, root);
    json_decref(root);
    zr_buffer_free(&quoted);
    zr_free(text);
    return status;
}
