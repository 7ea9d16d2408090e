#include "setup/input_fingerprints.h"

#include "base/json.h"
#include "base/random.h"
#include "model/architecture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY_BYTES 200

void zr_fingerprint_number(zr_fingerprints *list, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    zr_fingerprints_add(list, "option", name, text, zr_hash_text(text));
}

void zr_fingerprint_real(zr_fingerprints *list, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.17g", value);
    zr_fingerprints_add(list, "option", name, text, zr_hash_text(text));
}

static void add_value(zr_fingerprints *list, const char *what, const char *key, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17)),
         shown[64] = "";
    list->failed = list->failed || !text;
    if (text && json_is_real(value))
        snprintf(shown, sizeof shown, "%.9g", json_real_value(value));
    if (text)
        zr_fingerprints_add(list, what, key, shown[0] ? shown : text,
                            zr_hash_bytes(text, strlen(text), zr_hash_text(key)));
    free(text);
}

// Adds each value that is no section, by its path. `skipped` is the path of a section that may
// differ between ranks; NULL: none.
static void add_values(zr_fingerprints *list, const char *what, const char *section,
                       const json_t *object, const char *skipped)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        char path[KEY_BYTES];
        snprintf(path, sizeof path, "%s%s%s", section, section[0] ? "." : "", key);
        if (skipped && !strcmp(path, skipped))
            continue;
        if (json_is_object(value))
            add_values(list, what, path, value, skipped);
        else
            add_value(list, what, path, value);
    }
}

void zr_fingerprint_config(zr_fingerprints *list, const zr_config *config)
{
    zr_buffer text = {0};
    zr_config_write(config, &text);
    json_t *object = text.failed ? NULL : json_loadb(text.data, text.length, 0, NULL);
    list->failed = list->failed || !object;
    // Threads and instructions belong to a machine, so ranks may differ in them.
    if (object)
        add_values(list, "configuration", "", object, "libzero.run");
    json_decref(object);
    zr_buffer_free(&text);
}

void zr_fingerprint_model(zr_fingerprints *list, const zr_lm_config *model)
{
    json_t *object = zr_lm_config_pack(model);
    list->failed = list->failed || !object;
    if (object)
        add_values(list, "model", "", object, NULL);
    json_decref(object);
}

void zr_fingerprint_text(zr_fingerprints *list, const char *what, const char *name,
                         const char *text)
{
    zr_fingerprints_add(list, what, name, text ? "" : "not there", text ? zr_hash_text(text) : 0);
}

void zr_fingerprint_tokenizer(zr_fingerprints *list, const char *name,
                              const zr_tokenizer *tokenizer)
{
    char value[64];
    snprintf(value, sizeof value, "%lld tokens", (long long)zr_tokenizer_vocabulary(tokenizer));
    zr_fingerprints_add(list, "tokenizer", name, value, zr_tokenizer_fingerprint(tokenizer));
}

typedef struct taking {
    zr_fingerprints *list;
    const char *what;
} taking;

static void take_token_span(void *user, const zr_token_span *span, double weight, uint64_t hash)
{
    const taking *t = user;
    char value[64], share[24] = "";
    if (weight > 0) // 0: there is no mixture, or the text is held out
        snprintf(share, sizeof share, ", weight %.6g", weight);
    snprintf(value, sizeof value, "%lld tokens%s, hash %016llx", (long long)span->count, share,
             (unsigned long long)hash);
    zr_fingerprints_add(t->list, t->what, span->name, value, hash);
}

// Which answers are better is no part of their tokens.
static void take_marks(zr_fingerprints *list, const char *what, const zr_stream *stream)
{
    char value[64];
    uint64_t hash =
        zr_hash_bytes(stream->marks, (size_t)stream->example_count * sizeof *stream->marks, 0);
    snprintf(value, sizeof value, "%d answers, hash %016llx", stream->example_count,
             (unsigned long long)hash);
    zr_fingerprints_add(list, what, stream->name, value, hash);
}

void zr_fingerprint_dataset(zr_fingerprints *list, const char *what, const zr_dataset *dataset,
                            uint64_t seed, const zr_watch *watch)
{
    taking t = {list, what};
    zr_dataset_fingerprint(dataset, seed, watch, take_token_span, &t);
    for (int i = 0; i < dataset->stream_count; i++)
        if (dataset->streams[i].marks)
            take_marks(list, what, &dataset->streams[i]);
}
