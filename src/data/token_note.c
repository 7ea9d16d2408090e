#include "base/file.h"
#include "base/json_writer.h"
#include "data/token_file.h"
#include "data/token_note.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_LIMIT ((size_t)1 << 16)

char *zr_token_note_path(const char *path, zero_error *error)
{
    return zr_sprintf(error, "%s.json", path);
}

zero_status zr_token_note_write(const char *path, const zr_token_note *note, zero_error *error)
{
    char *where = zr_token_note_path(path, error);
    char fingerprint[20];
    zr_buffer text = {0};
    if (!where)
        return ZERO_ERR_MEMORY;
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)note->fingerprint);
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_COMPACT);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "tokenizer", note->tokenizer);
    zr_json_text(&w, "fingerprint", fingerprint);
    zr_json_integer(&w, "vocabulary", note->vocabulary);
    zr_json_integer(&w, "end", note->end);
    zr_json_integer(&w, "tokens", note->tokens);
    zr_json_integer(&w, "documents", note->documents);
    zr_json_finish(&w);
    zero_status status = zr_file_write_text(where, &text, error);
    zr_free(where);
    return status;
}

bool zr_token_note_is_one(const char *path)
{
    char head[512];
    return zr_file_head(path, head, sizeof head) && !strncmp(head, "{\"tokenizer\":\"", 14) &&
           strstr(head, "\"fingerprint\":\"");
}

bool zr_token_note_has_one(const char *path)
{
    int32_t magic = 0;
    char head[sizeof magic + 1], *note = zr_token_note_path(path, NULL);
    if (zr_file_head(path, head, sizeof head) == sizeof magic)
        memcpy(&magic, head, sizeof magic);
    bool has = note && (magic == ZR_LLMC_MAGIC_16 || magic == ZR_LLMC_MAGIC_32) &&
               zr_token_note_is_one(note);
    zr_free(note);
    return has;
}

static int64_t integer_or_minus_one(const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static zero_status parse_token_note(const char *path, const zr_token_file *file, const json_t *root,
                                    zr_token_note *out, zero_error *error)
{
    const char *name = json_string_value(json_object_get(root, "tokenizer")),
               *fingerprint = json_string_value(json_object_get(root, "fingerprint"));
    *out = (zr_token_note){.vocabulary = integer_or_minus_one(root, "vocabulary"),
                           .tokens = integer_or_minus_one(root, "tokens"),
                           .documents = integer_or_minus_one(root, "documents"),
                           .end = -1};
    int64_t end = integer_or_minus_one(root, "end");
    if (!name || !fingerprint || out->vocabulary < 1 || out->tokens < 0 || end > INT32_MAX)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: no note of which tokenizer a token file is of (tokenizer, fingerprint, "
                       "vocabulary, tokens)",
                       path);
    if (out->tokens != file->count)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s speaks of %lld tokens, \"%s\" has %lld: it belongs to another file; "
                       "without it the file is taken as it is",
                       path, (long long)out->tokens, file->path, (long long)file->count);
    strncpy(out->tokenizer, name, sizeof out->tokenizer - 1);
    out->fingerprint = strtoull(fingerprint, NULL, 16);
    out->end = (int32_t)end;
    return ZERO_OK;
}

zero_status zr_token_note_read(const zr_token_file *file, zr_token_note *out, bool *there,
                               zero_error *error)
{
    char *path = zr_token_note_path(file->path, error);
    json_t *root = NULL;
    if (!path)
        return ZERO_ERR_MEMORY;
    *there = zr_path_exists(path);
    zero_status status = *there ? zr_json_load(path, NOTE_LIMIT, &root, error) : ZERO_OK;
    if (status == ZERO_OK && *there)
        status = parse_token_note(path, file, root, out, error);
    json_decref(root);
    zr_free(path);
    return status;
}

zero_status zr_token_note_check(const zr_token_file *file, const zr_tokenizer *tokenizer,
                                zero_error *error)
{
    zr_token_note note;
    bool there;
    ZERO_TRY(zr_token_note_read(file, &note, &there, error));
    if (!there || note.fingerprint == zr_tokenizer_fingerprint(tokenizer))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\" has the ids of another tokenizer (%s, vocabulary %lld), not of the one "
                   "given (%s, vocabulary %d)",
                   file->path, note.tokenizer, (long long)note.vocabulary,
                   zr_tokenizer_name(tokenizer), zr_tokenizer_vocabulary(tokenizer));
}
