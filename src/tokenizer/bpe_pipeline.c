// The parts around the model in a tokenizer.json: pre-tokenizer, decoder, post-processor, and the
// normalizer (bpe_normalizer.c). Each part is recognised by its type and settings, or refused with
// a message that quotes them, because skipping a part would give other ids.
#include "tokenizer/bpe_load.h"

#include <stdlib.h>
#include <string.h>

static const char *text_or_empty(const json_t *part, const char *key)
{
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : "";
}

static bool flag_or_standard(const json_t *part, const char *key, bool standard)
{
    const json_t *value = json_object_get(part, key);
    return json_is_boolean(value) ? json_is_true(value) : standard;
}

// Returns the members of a Sequence, or NULL for a single part; *count is their number.
static const json_t *members_of_sequence(const json_t *part, const char *key, size_t *count)
{
    const json_t *list =
        strcmp(zr_json_type(part), "Sequence") == 0 ? json_object_get(part, key) : NULL;
    *count = list ? json_array_size(list) : part && !json_is_null(part) ? 1 : 0;
    return list;
}

static const json_t *part_of_sequence(const json_t *part, const json_t *list, size_t i)
{
    return list ? json_array_get(list, i) : part;
}

static zr_prefix prefix_scheme_of(const json_t *part)
{
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    if (!scheme)
        return flag_or_standard(part, "add_prefix_space", true) ? ZR_PREFIX_ALWAYS
                                                                : ZR_PREFIX_NEVER;
    return strcmp(scheme, "always") == 0  ? ZR_PREFIX_ALWAYS
           : strcmp(scheme, "first") == 0 ? ZR_PREFIX_FIRST
                                          : ZR_PREFIX_NEVER;
}

// Returns a new step after the existing ones; NULL if there are too many.
static zr_split_step *new_step(zr_bpe *bpe, zr_split_kind kind, zr_next_piece next)
{
    if (bpe->split_count == ZR_STEPS)
        return NULL;
    zr_split_step *step = &bpe->split[bpe->split_count++];
    *step = (zr_split_step){.kind = kind, .next = next};
    return step;
}

static zero_status load_split(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    const char *expression =
                   json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex")),
               *behavior = text_or_empty(part, "behavior");
    zr_next_piece next = expression ? zr_pieces_for_expression(expression) : NULL;
    // All of these match everywhere. The two settings differ only in text that does not match, and
    // there is none.
    bool usual =
        strcmp(behavior, flag_or_standard(part, "invert", false) ? "Removed" : "Isolated") == 0;
    return next && usual && new_step(loader->bpe, ZR_SPLIT_PIECES, next)
               ? ZERO_OK
               : zr_bpe_refuse_part(loader, "pre-tokenizer", part, error);
}

static zero_status load_metaspace(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    const char *space = text_or_empty(part, "replacement");
    int32_t character;
    zr_split_step *step = new_step(loader->bpe, ZR_SPLIT_METASPACE, NULL);
    if (!step || !*space || (size_t)zr_utf8_next(space, strlen(space), &character) != strlen(space))
        return zr_bpe_refuse_part(loader, "pre-tokenizer", part, error);
    step->prefix = prefix_scheme_of(part);
    step->splits = flag_or_standard(part, "split", true);
    return zr_bpe_copy_text(space, &step->space, error);
}

static zero_status load_pre_tokenizer(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    const char *type = zr_json_type(part);
    if (bpe->byte_level) // a later part would see GPT-2's alphabet
        return zr_bpe_refuse_part(loader, "pre-tokenizer after ByteLevel,", part, error);
    if (strcmp(type, "ByteLevel") == 0) {
        bool fits = true;
        bpe->byte_level = true;
        if (flag_or_standard(part, "add_prefix_space", true))
            fits = new_step(bpe, ZR_SPLIT_PREFIX, NULL);
        if (flag_or_standard(part, "use_regex", true))
            fits = fits && new_step(bpe, ZR_SPLIT_PIECES, zr_pieces_gpt2());
        return fits ? ZERO_OK : zr_bpe_refuse_part(loader, "pre-tokenizer", part, error);
    }
    if (strcmp(type, "Digits") == 0)
        return new_step(bpe, ZR_SPLIT_PIECES,
                        flag_or_standard(part, "individual_digits", false) ? zr_piece_digit
                                                                           : zr_piece_digits)
                   ? ZERO_OK
                   : zr_bpe_refuse_part(loader, "pre-tokenizer", part, error);
    if (strcmp(type, "Split") == 0)
        return load_split(loader, part, error);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return new_step(bpe, ZR_SPLIT_WHITESPACE, NULL)
                   ? ZERO_OK
                   : zr_bpe_refuse_part(loader, "pre-tokenizer", part, error);
    return strcmp(type, "Metaspace") == 0
               ? load_metaspace(loader, part, error)
               : zr_bpe_refuse_part(loader, "pre-tokenizer", part, error);
}

static zero_status load_metaspace_decoder(zr_bpe_loader *loader, const json_t *part,
                                          zero_error *error)
{
    zr_bpe *bpe = loader->bpe;
    if (!*text_or_empty(part, "replacement"))
        return zr_bpe_refuse_part(loader, "decoder", part, error);
    bpe->decoder.metaspace = true;
    bpe->decoder.keeps_first = prefix_scheme_of(part) == ZR_PREFIX_NEVER;
    return zr_bpe_copy_text(text_or_empty(part, "replacement"), &bpe->decoder.space, error);
}

static zero_status load_replace(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    if (!zr_json_pattern(part))
        return zr_bpe_refuse_part(loader, "decoder", part, error);
    ZERO_TRY(zr_bpe_copy_text(zr_json_pattern(part), &loader->bpe->decoder.from, error));
    return zr_bpe_copy_text(text_or_empty(part, "content"), &loader->bpe->decoder.to, error);
}

static zero_status load_fallback(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    loader->bpe->decoder.fallback = true;
    return ZERO_OK;
}

static zero_status load_fuse(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    return ZERO_OK;
}

static zero_status load_strip_decoder(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    json_int_t start = json_integer_value(json_object_get(part, "start"));
    json_int_t stop = json_integer_value(json_object_get(part, "stop"));
    if (stop || start < 0 || start > 1000 || !*text_or_empty(part, "content"))
        return zr_bpe_refuse_part(loader, "decoder", part, error);
    loader->bpe->decoder.strip_count = (int)start;
    return zr_bpe_copy_text(text_or_empty(part, "content"), &loader->bpe->decoder.strip, error);
}

// Loads one of several decoders; `stage` is the number of the first one that may still come.
static zero_status load_next_decoder(zr_bpe_loader *loader, const json_t *part, int *stage,
                                     zero_error *error)
{
    enum { STRIP = 3 };
    static const struct {
        const char *type;
        zero_status (*load)(zr_bpe_loader *loader, const json_t *part, zero_error *error);
    } order[] = {
        // Each may occur once; Strip must follow Fuse.
        {.type = "Replace", .load = load_replace},
        {.type = "ByteFallback", .load = load_fallback},
        {.type = "Fuse", .load = load_fuse},
        [STRIP] = {.type = "Strip", .load = load_strip_decoder},
    };
    int which = *stage;
    while (which < ZR_COUNT(order) && strcmp(order[which].type, zr_json_type(part)) != 0)
        which++;
    if (which == ZR_COUNT(order) || (which == STRIP && *stage != STRIP))
        return zr_bpe_refuse_part(loader, "decoder", part, error);
    *stage = which + 1;
    return order[which].load(loader, part, error);
}

static zero_status load_decoder(zr_bpe_loader *loader, const json_t *part, bool alone, int *stage,
                                zero_error *error)
{
    const char *type = zr_json_type(part);
    if (alone && strcmp(type, "ByteLevel") == 0) {
        loader->bpe->decoder.byte_level = true;
        return ZERO_OK;
    }
    if (alone && strcmp(type, "Metaspace") == 0)
        return load_metaspace_decoder(loader, part, error);
    return load_next_decoder(loader, part, stage, error);
}

// Loads the ids that a TemplateProcessing puts before the text ("single": up to the Sequence) or
// after it.
static zero_status load_template(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    const json_t *single = json_object_get(part, "single"),
                 *known = json_object_get(part, "special_tokens");
    zr_bpe *bpe = loader->bpe;
    size_t count = json_array_size(single);
    bpe->prefix = zr_alloc((count + 1) * sizeof(int32_t), error);
    bpe->suffix = bpe->prefix ? zr_alloc((count + 1) * sizeof(int32_t), error) : NULL;
    if (!bpe->suffix)
        return ZERO_ERR_MEMORY;
    bool after = false;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(single, i),
                     *special = json_object_get(item, "SpecialToken");
        const json_t *ids = json_object_get(json_object_get(known, text_or_empty(special, "id")),
                                            "ids"),
                     *id = json_array_get(ids, 0);
        after |= json_object_get(item, "Sequence") != NULL;
        if (!special)
            continue;
        if (json_array_size(ids) != 1 || !json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= loader->tokenizer->vocabulary)
            return zr_bpe_refuse_part(loader, "post-processor", part, error);
        int32_t **list = after ? &bpe->suffix : &bpe->prefix;
        (*list)[after ? bpe->suffix_count++ : bpe->prefix_count++] =
            (int32_t)json_integer_value(id);
    }
    return after ? ZERO_OK : zr_bpe_refuse_part(loader, "post-processor", part, error);
}

static zero_status load_post_processor(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    const char *type = zr_json_type(part);
    if (strcmp(type, "ByteLevel") == 0) // it changes only offsets, which ids do not have
        return ZERO_OK;
    if (strcmp(type, "TemplateProcessing") != 0 || loader->bpe->prefix)
        return zr_bpe_refuse_part(loader, "post-processor", part, error);
    return load_template(loader, part, error);
}

static zero_status load_decoders(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    size_t count;
    int stage = 0;
    const json_t *list = members_of_sequence(part, "decoders", &count);
    loader->bpe->decoder.spaced = count == 0;
    for (size_t i = 0; i < count; i++)
        ZERO_TRY(load_decoder(loader, part_of_sequence(part, list, i), !list || count == 1, &stage,
                              error));
    return ZERO_OK;
}

zero_status zr_bpe_load_pipeline(zr_bpe_loader *loader, const json_t *root, zero_error *error)
{
    static const struct {
        const char *part, *members;
        zero_status (*load)(zr_bpe_loader *loader, const json_t *part, zero_error *error);
    } parts[] = {
        {"normalizer", "normalizers", zr_bpe_load_normalizer},
        {"pre_tokenizer", "pretokenizers", load_pre_tokenizer},
        {"post_processor", "processors", load_post_processor},
    };
    for (int p = 0; p < ZR_COUNT(parts); p++) {
        const json_t *part = json_object_get(root, parts[p].part);
        size_t count;
        const json_t *list = members_of_sequence(part, parts[p].members, &count);
        for (size_t i = 0; i < count; i++)
            ZERO_TRY(parts[p].load(loader, part_of_sequence(part, list, i), error));
    }
    return load_decoders(loader, json_object_get(root, "decoder"), error);
}

zero_status zr_bpe_load_gpt2_pipeline(zr_bpe_loader *loader, bool prefix, zero_error *error)
{
    loader->bpe->byte_level = loader->bpe->decoder.byte_level = true;
    if (prefix)
        new_step(loader->bpe, ZR_SPLIT_PREFIX, NULL);
    new_step(loader->bpe, ZR_SPLIT_PIECES, zr_pieces_gpt2());
    return ZERO_OK;
}
