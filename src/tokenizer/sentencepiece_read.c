// Reads the protobuf message of a tokenizer.model. A message is a list of fields: a key, which is
// number << 3 | form, and then what the form says. Unknown fields are skipped, and of a field that
// comes twice the last one counts.
#include "tokenizer/sentencepiece.h"

#include <stddef.h>
#include <string.h>

enum { FORM_NUMBER = 0, FORM_64_BITS = 1, FORM_BYTES = 2, FORM_32_BITS = 5 };
enum { FIELD_PIECE = 1, FIELD_TRAINER = 2, FIELD_NORMALIZER = 3, FIELD_DENORMALIZER = 5 };

#define MOST_PIECES ((int32_t)1 << 24) // fp32 numbers that many
#define LONGEST_PIECE 1024             // bytes

typedef struct proto {        // a message, and where its reader stands
    const char *name, *begin; // of the file
    const char *at, *end;
    zero_error *error;
} proto;

typedef struct proto_field {
    uint64_t number;
    uint64_t form;
    zr_proto_value value;
} proto_field;

typedef struct known_field { // is stored at `offset` of a structure
    uint64_t number, form;
    size_t offset;
} known_field;

static zero_status damaged(const proto *p, const char *what)
{
    return zr_fail(p->error, ZERO_ERR_DATA,
                   "%s: no model of SentencePiece, or a damaged one: at byte %zu %s", p->name,
                   (size_t)(p->at - p->begin), what);
}

static zero_status read_varint(proto *p, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (p->at == p->end)
            return damaged(p, "a number is cut off");
        unsigned char byte = (unsigned char)*p->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return ZERO_OK;
    }
    return damaged(p, "a number has more than 64 bits");
}

static zero_status take_bytes(proto *p, uint64_t count, const char **out)
{
    if (count > (uint64_t)(p->end - p->at))
        return damaged(p, "a field is longer than what is left");
    *out = p->at;
    p->at += count;
    return ZERO_OK;
}

static zero_status read_field(proto *p, proto_field *out)
{
    uint64_t key;
    ZERO_TRY(read_varint(p, &key));
    *out = (proto_field){.number = key >> 3, .form = key & 7};
    if (!out->number)
        return damaged(p, "a field has the number 0");
    if (out->form == FORM_NUMBER)
        return read_varint(p, &out->value.number);
    if (out->form == FORM_BYTES) {
        ZERO_TRY(read_varint(p, &out->value.number));
        return take_bytes(p, out->value.number, &out->value.bytes);
    }
    if (out->form != FORM_64_BITS && out->form != FORM_32_BITS)
        return damaged(p, "a field is of no form that such a file has");
    ZERO_TRY(take_bytes(p, out->form == FORM_64_BITS ? 8 : 4, &out->value.bytes));
    for (int i = 0; i < 4; i++) // 64 bits: nothing that is known here has them
        out->value.number |= (uint64_t)(unsigned char)out->value.bytes[i] << 8 * i;
    return ZERO_OK;
}

static proto message_of(const proto *p, const proto_field *field)
{
    proto inside = *p;
    inside.at = field->value.bytes;
    inside.end = field->value.bytes + field->value.number;
    return inside;
}

// Stores the fields of a message that are known.
static zero_status read_known(proto message, const known_field *known, int count, void *out)
{
    proto_field field;
    while (message.at < message.end) {
        ZERO_TRY(read_field(&message, &field));
        for (int i = 0; i < count; i++) {
            if (field.number != known[i].number)
                continue;
            if (field.form != known[i].form)
                return damaged(&message, "a field has another form than its number says");
            *(zr_proto_value *)((char *)out + known[i].offset) = field.value;
        }
    }
    return ZERO_OK;
}

typedef struct piece {
    zr_proto_value text, score, kind;
} piece;

static zero_status check_text(const proto *p, const zr_proto_value *text)
{
    int32_t unused;
    if (text->number > LONGEST_PIECE)
        return damaged(p, "a piece has more than 1024 bytes");
    for (size_t at = 0, bytes; at < text->number; at += bytes) {
        bytes = (size_t)zr_utf8_next(text->bytes + at, text->number - at, &unused);
        if (!bytes)
            return damaged(p, "a piece is not UTF-8");
    }
    return ZERO_OK;
}

static zero_status read_piece(const proto *p, const proto_field *field, zr_token_list *list)
{
    static const known_field known[] = {
        {.number = 1, .form = FORM_BYTES, .offset = offsetof(piece, text)},
        {.number = 2, .form = FORM_32_BITS, .offset = offsetof(piece, score)},
        {.number = 3, .form = FORM_NUMBER, .offset = offsetof(piece, kind)},
    };
    piece read = {.text = {0, ""}, .kind = {ZR_TOKEN_NORMAL, NULL}};
    int32_t id = list->count;
    ZERO_TRY(read_known(message_of(p, field), known, ZR_COUNT(known), &read));
    uint32_t bits = (uint32_t)read.score.number;
    memcpy(&list->scores[id], &bits, sizeof bits);
    if (read.kind.number < ZR_TOKEN_NORMAL || read.kind.number > ZR_TOKEN_BYTE)
        return damaged(p, "a piece has a type that is none of 1 to 6");
    if (!(list->scores[id] >= -1e30F && list->scores[id] <= 1e30F))
        return damaged(p, "a piece has a score that is not finite");
    ZERO_TRY(check_text(p, &read.text));
    list->kinds[id] = (int32_t)read.kind.number;
    list->tokens[id] = (zr_text_span){(uint32_t)list->text.length, (uint32_t)read.text.number};
    zr_buffer_append(&list->text, read.text.bytes, read.text.number);
    list->count++;
    return list->text.failed
               ? zr_fail(p->error, ZERO_ERR_MEMORY, "%s: no memory for its pieces", p->name)
               : ZERO_OK;
}

static zero_status read_settings(const proto *p, const proto_field *field, zr_spm_settings *out)
{
    static const known_field trainer[] = {
        {.number = 3, .form = FORM_NUMBER, .offset = offsetof(zr_spm_settings, type)},
        {.number = 24, .form = FORM_NUMBER, .offset = offsetof(zr_spm_settings, suffix)},
        {.number = 35, .form = FORM_NUMBER, .offset = offsetof(zr_spm_settings, byte_fallback)},
        {.number = 46, .form = FORM_BYTES, .offset = offsetof(zr_spm_settings, begin)},
        {.number = 47, .form = FORM_BYTES, .offset = offsetof(zr_spm_settings, end)},
    };
    static const known_field normalizer[] = {
        {.number = 2, .form = FORM_BYTES, .offset = offsetof(zr_spm_settings, characters)},
        {.number = 3, .form = FORM_NUMBER, .offset = offsetof(zr_spm_settings, adds_space)},
        {.number = 4, .form = FORM_NUMBER, .offset = offsetof(zr_spm_settings, trims)},
        {.number = 5, .form = FORM_NUMBER, .offset = offsetof(zr_spm_settings, escapes)},
    };
    static const known_field denormalizer[] = {
        {.number = 2, .form = FORM_BYTES, .offset = offsetof(zr_spm_settings, decoded_characters)},
    };
    static const struct {
        uint64_t number;
        const known_field *fields;
        int count;
    } messages[] = {
        {FIELD_TRAINER, trainer, ZR_COUNT(trainer)},
        {FIELD_NORMALIZER, normalizer, ZR_COUNT(normalizer)},
        {FIELD_DENORMALIZER, denormalizer, ZR_COUNT(denormalizer)},
    };
    for (int i = 0; i < ZR_COUNT(messages); i++) {
        if (field->number != messages[i].number)
            continue;
        if (field->form != FORM_BYTES)
            return damaged(p, "a field has another form than its number says");
        ZERO_TRY(read_known(message_of(p, field), messages[i].fields, messages[i].count, out));
    }
    return ZERO_OK;
}

// Checks all fields of the file, and makes room for its pieces and `more`.
static zero_status make_room(proto p, int32_t more, zr_token_list *list)
{
    proto_field field;
    size_t count = (size_t)more + 1;
    int32_t pieces = 0;
    for (; p.at < p.end; pieces += field.number == FIELD_PIECE) {
        ZERO_TRY(read_field(&p, &field));
        if (field.number == FIELD_PIECE && field.form != FORM_BYTES)
            return damaged(&p, "a piece is no message");
        if (pieces == MOST_PIECES)
            return damaged(&p, "there are more pieces than fp32 can number");
    }
    if (!pieces)
        return damaged(&p, "it ends without a piece");
    count += (size_t)pieces;
    list->tokens = zr_alloc(count * sizeof *list->tokens, p.error);
    list->kinds = zr_alloc(count * sizeof *list->kinds, p.error);
    list->scores = zr_alloc(count * sizeof *list->scores, p.error);
    return list->tokens && list->kinds && list->scores ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status read_file(proto p, int32_t more, zr_spm_settings *settings, zr_token_list *list)
{
    proto_field field;
    ZERO_TRY(make_room(p, more, list));
    while (p.at < p.end) {
        ZERO_TRY(read_field(&p, &field));
        ZERO_TRY(field.number == FIELD_PIECE ? read_piece(&p, &field, list)
                                             : read_settings(&p, &field, settings));
    }
    return ZERO_OK;
}

zero_status zr_spm_read(const char *name, const char *data, size_t length, int32_t more,
                        zr_spm_settings *settings, zr_token_list *list, zero_error *error)
{
    proto p = {.name = name, .begin = data, .at = data, .end = data + length, .error = error};
    *settings = (zr_spm_settings){.type = {.number = 1},
                                  .begin = {3, "<s>"},
                                  .end = {4, "</s>"},
                                  .adds_space = {.number = 1},
                                  .trims = {.number = 1},
                                  .escapes = {.number = 1}};
    *list = (zr_token_list){.scored = true, .begin = -1, .end = -1, .unknown = -1};
    zero_status status = read_file(p, more, settings, list);
    if (status != ZERO_OK)
        zr_token_list_free(list);
    return status;
}
