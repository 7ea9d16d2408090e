// Hugging Face's config.json. It is read key by key, and the first failure is kept; it is written
// so that reading gives the same values again.
#ifndef ZR_MODEL_MODEL_JSON_H
#define ZR_MODEL_MODEL_JSON_H

#include "base/json_writer.h"
#include "model/architecture.h"

typedef struct zr_model_json { // sticky: after the first failure further calls do nothing
    json_t *root;
    const json_t *at; // where keys are looked up: the root, or an object in it
    const char *path;
    zero_status status;
    zero_error *error;
} zr_model_json;

zero_status zr_model_json_open(const char *path, zr_model_json *out, zero_error *error);
void zr_model_json_close(zr_model_json *file);

// Returns the value; NULL if the key is absent or null, or the file has failed.
const json_t *zr_model_json_get(const zr_model_json *file, const char *key);
// `otherwise` is the value of an absent key; NULL if the key is required.
int64_t zr_model_json_size(zr_model_json *file, const char *key, const int64_t *otherwise);
double zr_model_json_real(zr_model_json *file, const char *key, const double *otherwise);
bool zr_model_json_bool(zr_model_json *file, const char *key, bool otherwise);
const char *zr_model_json_text(zr_model_json *file, const char *key, const char *otherwise);
// Reads an integer, a list of integers, or null; the key may be absent.
void zr_model_json_tokens(zr_model_json *file, const char *key, zr_token_ids *out);
// Fail if the key has a value other than the one that is computed here. A text may have a synonym
// (else NULL), and may be absent.
void zr_model_json_require_bool(zr_model_json *file, const char *key, bool right, bool otherwise);
void zr_model_json_require_text(zr_model_json *file, const char *key, const char *right,
                                const char *synonym);
// Reads "quantization_config": weights that transformers has saved in bitsandbytes' nf4 or int8.
// Fails with ZERO_ERR_UNSUPPORTED for others.
void zr_model_json_read_base(zr_model_json *file, zr_weight_format *out);
// Reads the labels of a model whose class in "architectures" classifies texts; of others, none.
// Fails with ZERO_ERR_UNSUPPORTED for several labels at once and for regressions.
void zr_model_json_read_labels(zr_model_json *file, zr_labels *out);
// Reads "id2label", {"0": NAME, "1": NAME, ...}, of the file at `path`. Returns ZERO_ERR_DATA for
// numbers that leave one out, and for names that are no text, or there twice.
zero_status zr_model_json_read_names(const json_t *names, const char *path, zr_labels *out,
                                     zero_error *error);
// Fails with ZERO_ERR_UNSUPPORTED if the key is present and not null.
void zr_model_json_refuse(zr_model_json *file, const char *key, const char *why);

// Writes the fewest digits that give the same value when read, as a float if it is `single`.
void zr_model_json_put_real(zr_json_writer *w, const char *key, double value, bool single);
// Writes the class of transformers that classifies texts, in place of one that continues them.
void zr_model_json_put_classifier(zr_json_writer *w, const char *class_name);
// Writes nothing if the ids are not given.
void zr_model_json_put_tokens(zr_json_writer *w, const char *key, const zr_token_ids *ids);

#endif
