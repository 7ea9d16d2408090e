// meta.pkl is a pickle of {"vocab_size": V, "itos": {id: text}, "stoi": {text: id}}.
#include "checkpoint/nanogpt_tokenizer.h"

#include "base/file.h"
#include "formats/source_torch.h"
#include "tokenizer/vocabulary.h"

#define MOST_BYTES ((size_t)32 << 20)

typedef struct reading {
    const char *path;
    zr_pickle pickle;
    int32_t *code_points; // (count), 0 where none was read yet
    int32_t count;
    bool plain; // every token is one character
    zero_error *error;
} reading;

// Returns the character that a text is; 0 if it is no single one, or U+0000, which tokenizer.json
// cannot have.
static int32_t character_of(const zr_pickle_value *text)
{
    int32_t code_point = 0;
    size_t length = text->text.length;
    bool single = length && (size_t)zr_utf8_next(text->text.at, length, &code_point) == length;
    return single ? code_point : 0;
}

static zero_status refuse_token(const reading *r, size_t pair)
{
    return zr_fail(r->error, ZERO_ERR_DATA,
                   "\"%s\": \"itos\" and \"stoi\" do not give each id below %d one text (pair %zu)",
                   r->path, (int)r->count, pair);
}

static zero_status read_token(reading *r, size_t pair, const zr_pickle_value *key,
                              const zr_pickle_value *value)
{
    int64_t id;
    if (!zr_pickle_integer(key, &id) || id < 0 || id >= r->count || r->code_points[id] ||
        !zr_pickle_is(value, ZR_PICKLE_TEXT))
        return refuse_token(r, pair);
    r->code_points[id] = character_of(value);
    r->plain = r->code_points[id] != 0;
    return ZERO_OK;
}

static zero_status read_tokens(reading *r, const zr_pickle_value *itos)
{
    r->plain = r->count > 0;
    for (size_t i = 0; r->plain && i + 1 < itos->items.count; i += 2)
        ZERO_TRY(read_token(r, i / 2, itos->items.at[i], itos->items.at[i + 1]));
    return ZERO_OK;
}

// Each character has one id, which is the one that "itos" has for it: no pair of "stoi" gives an id
// that another has given.
static zero_status check_ids(reading *r, const zr_pickle_value *stoi, bool *given)
{
    for (size_t i = 0; i + 1 < stoi->items.count; i += 2) {
        const zr_pickle_value *key = stoi->items.at[i];
        int64_t id;
        if (!zr_pickle_is(key, ZR_PICKLE_TEXT) || !zr_pickle_integer(stoi->items.at[i + 1], &id) ||
            id < 0 || id >= r->count || given[id] || r->code_points[id] != character_of(key))
            return refuse_token(r, i / 2);
        given[id] = true;
    }
    return ZERO_OK;
}

static zero_status read_tables(reading *r)
{
    const zr_pickle_value *itos = zr_pickle_get(r->pickle.root, "itos"),
                          *stoi = zr_pickle_get(r->pickle.root, "stoi");
    if (!zr_pickle_is(itos, ZR_PICKLE_DICT) || !zr_pickle_is(stoi, ZR_PICKLE_DICT))
        return ZERO_OK;
    if (itos->items.count != stoi->items.count || itos->items.count / 2 >= ZR_CODE_POINTS)
        return zr_fail(r->error, ZERO_ERR_DATA,
                       "\"%s\": \"itos\" has %zu tokens and \"stoi\" has %zu", r->path,
                       itos->items.count / 2, stoi->items.count / 2);
    r->count = (int32_t)(itos->items.count / 2);
    r->code_points = zr_alloc(((size_t)r->count + 1) * sizeof *r->code_points, r->error);
    if (!r->code_points)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(read_tokens(r, itos));
    if (!r->plain)
        return ZERO_OK;
    bool *given = zr_alloc((size_t)r->count, r->error);
    zero_status status = given ? check_ids(r, stoi, given) : ZERO_ERR_MEMORY;
    zr_free(given);
    return status;
}

static zero_status write_characters(const reading *r, const char *directory)
{
    zr_tokenizer *tokenizer;
    ZERO_TRY(zr_tokenizer_from_code_points(r->code_points, r->count, &tokenizer, r->error));
    zero_status status = zr_tokenizer_save(tokenizer, directory, r->error);
    zr_tokenizer_destroy(tokenizer);
    return status;
}

static zero_status read_and_write(reading *r, const char *directory)
{
    char *text;
    size_t length;
    ZERO_TRY(zr_file_read(r->path, MOST_BYTES, &text, &length, r->error));
    zero_status status = zr_pickle_read(text, length, r->path, &r->pickle, r->error);
    zr_free(text);
    if (status == ZERO_OK)
        status = read_tables(r);
    if (status == ZERO_OK && r->plain)
        status = write_characters(r, directory);
    zr_pickle_free(&r->pickle);
    zr_free(r->code_points);
    return status;
}

zero_status zr_nanogpt_tokenizer_write(const char *checkpoint, const char *directory, bool *there,
                                       zero_error *error)
{
    char *parent = zr_path_parent(checkpoint, error);
    char *path = parent ? zr_sprintf(error, "%s/" ZR_NANOGPT_TOKENS, parent) : NULL;
    reading r = {.path = path, .error = error};
    zero_status status = !path                  ? ZERO_ERR_MEMORY
                         : zr_path_exists(path) ? read_and_write(&r, directory)
                                                : ZERO_OK;
    *there = status == ZERO_OK && r.plain;
    zr_free(path);
    zr_free(parent);
    return status;
}
