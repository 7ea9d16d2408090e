// Hugging Face's config.json, read key by key with the first failure kept, and written so that the
// same values come back.
#ifndef ZR_MODEL_MODEL_JSON_H
#define ZR_MODEL_MODEL_JSON_H

#include "base/json.h"
#include "model/architecture.h"

typedef struct zr_model_json { // sticky: after the first failure the others do nothing
    json_t *root;
    const json_t *at; // where keys are looked up: the root, or an object in it
    const char *path;
    zero_status status;
    zero_error *error;
} zr_model_json;

zero_status zr_model_json_open(const char *path, zr_model_json *out, zero_error *error);
void zr_model_json_close(zr_model_json *file);

// NULL: absent or null, or the file has failed
const json_t *zr_model_json_get(const zr_model_json *file, const char *key);
// NULL as `otherwise`: the key must be there.
int64_t zr_model_json_size(zr_model_json *file, const char *key, const int64_t *otherwise);
double zr_model_json_real(zr_model_json *file, const char *key, const double *otherwise);
bool zr_model_json_bool(zr_model_json *file, const char *key, bool otherwise);
const char *zr_model_json_text(zr_model_json *file, const char *key, const char *otherwise);
// An integer, a list of them, or null; the key may be absent.
void zr_model_json_tokens(zr_model_json *file, const char *key, zr_token_ids *out);
// Fails where the key says something else than what we compute. A text may have a synonym, or NULL,
// and be absent.
void zr_model_json_require_bool(zr_model_json *file, const char *key, bool right, bool otherwise);
void zr_model_json_require_text(zr_model_json *file, const char *key, const char *right,
                                const char *synonym);
// present and not null: ZERO_ERR_UNSUPPORTED
void zr_model_json_refuse(zr_model_json *file, const char *key, const char *why);

// "  "key": value,\n"; reals with the shortest digits that bring the same value back.
void zr_model_json_put_float(zr_buffer *out, const char *key, float value);
void zr_model_json_put_real(zr_buffer *out, const char *key, double value);
void zr_model_json_put_size(zr_buffer *out, const char *key, int64_t value);
void zr_model_json_put_bool(zr_buffer *out, const char *key, bool value);
// nothing where they are not given
void zr_model_json_put_tokens(zr_buffer *out, const char *key, const zr_token_ids *ids);

#endif
