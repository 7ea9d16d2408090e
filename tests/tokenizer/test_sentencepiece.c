// SentencePiece's tokenizer.model compared with what the library sentencepiece, and where a
// tokenizer_config.json names it, transformers' LlamaTokenizer make of the same files
// (tests/oracle/sentencepiece_check.py): ids and text. What is saved is the same tokenizer. And
// what such a file may not say.
#define _GNU_SOURCE
#include "../base/scratch_directory.h"

#include "base/file.h"
#include "base/json.h"
#include "tokenizer/bpe.h"

#define MODELS TOKENIZERS "/../sentencepiece/"

static zr_tokenizer *load(const char *path)
{
    zr_tokenizer *tokenizer;
    zero_error error = {0};
    if (zr_tokenizer_load(path, &tokenizer, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return tokenizer;
}

static zr_ids encode(const zr_tokenizer *tokenizer, zr_encode_mode mode, const char *text)
{
    zr_encoder *encoder;
    zr_ids ids = {0};
    zero_error error = {0};
    assert_int_equal(zr_encoder_create(tokenizer, &encoder, NULL), ZERO_OK);
    if (*text &&
        zr_encoder_append(encoder, mode, text, 0, strlen(text), "text", &ids, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    zr_encoder_destroy(encoder);
    return ids;
}

static void check_text(const zr_tokenizer *tokenizer, const zr_ids *ids, bool skips,
                       const char *wanted)
{
    zr_decoder decoder;
    zr_buffer text = {0};
    zr_buffer_append(&text, "", 0);
    zr_decoder_begin(&decoder, tokenizer, skips);
    for (int64_t i = 0; i < ids->count; i++)
        zr_decoder_push(&decoder, ids->at[i], &text);
    zr_decoder_end(&decoder, &text);
    assert_string_equal(text.data, wanted);
    zr_buffer_free(&text);
}

static void check_ids(const char *model, const char *text, const zr_ids *ids, const json_t *wanted)
{
    bool same = (size_t)ids->count == json_array_size(wanted);
    for (int64_t i = 0; i < ids->count && same; i++)
        same = ids->at[i] == json_integer_value(json_array_get(wanted, (size_t)i));
    if (!same)
        fail_msg("%s: other ids for \"%s\"", model, text);
}

static void check_row(const char *model, const zr_tokenizer *tokenizer, const json_t *row)
{
    const char *text = json_string_value(json_array_get(row, 0));
    bool special = json_is_array(json_array_get(row, 2));
    for (int mode = ZR_ENCODE_TEXT; mode <= (int)special; mode++) {
        const json_t *wanted = json_array_get(row, 1 + (size_t)mode);
        zr_ids ids = encode(tokenizer, (zr_encode_mode)mode, text);
        if (!json_is_null(wanted)) // the library finds special tokens in ordinary text, too
            check_ids(model, text, &ids, wanted);
        for (size_t at = 2 + special; at < json_array_size(row) && mode == (int)special; at++)
            check_text(tokenizer, &ids, at == 4, json_string_value(json_array_get(row, at)));
        zr_ids_free(&ids);
    }
}

static void check_rows(const char *model, const zr_tokenizer *tokenizer)
{
    char path[512];
    json_t *rows;
    snprintf(path, sizeof path, MODELS "%s.cases", model);
    assert_int_equal(zr_json_load(path, 1 << 24, &rows, NULL), ZERO_OK);
    assert_true(json_array_size(rows) > 50);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_row(model, tokenizer, json_array_get(rows, i));
    json_decref(rows);
}

static void check_saved(scratch *dir, const char *model, const zr_tokenizer *tokenizer)
{
    zero_error error = {0};
    if (zr_tokenizer_save(tokenizer, dir->directory, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_true(zr_path_has(dir->directory, "tokenizer.model"));
    assert_true(zr_path_has(dir->directory, "tokenizer.json"));
    zr_tokenizer *again = load(dir->directory);
    assert_int_equal(zr_tokenizer_fingerprint(again), zr_tokenizer_fingerprint(tokenizer));
    assert_int_equal(zr_tokenizer_begin(again), zr_tokenizer_begin(tokenizer));
    assert_int_equal(zr_tokenizer_end(again), zr_tokenizer_end(tokenizer));
    check_rows(model, again);
    zr_tokenizer_destroy(again);
}

static void the_libraries_have_the_same_ids_and_text(void **state)
{
    static const struct {
        const char *model, *file;
        int32_t begin, end, before; // before: how many tokens are put before a text
    } all[] = {
        {"unknown", "unknown.model", 1, 2, 0},
        {"symbols", "symbols.model", 1, 2, 0},
        {"runs", "runs.model", 1, 2, 0},
        {"uni-bytes", "uni-bytes.model", 1, 2, 0},
        {"uni-table", "uni-table.model", 1, 2, 0},
        {"uni-tail", "uni-tail.model", 1, 2, 0},
        {"bpe-table", "bpe-table.model", 1, 2, 0},
        {"llama-symbols-always", "llama-symbols-always", 1, 2, 0},
        {"llama-added", "llama-added", 1, 2, 1},
    };
    for (int i = 0; i < ZR_COUNT(all); i++) {
        const int32_t *before, *after;
        int before_count, after_count;
        char path[512];
        snprintf(path, sizeof path, MODELS "%s", all[i].file);
        zr_tokenizer *tokenizer = load(path);
        assert_int_equal(zr_tokenizer_begin(tokenizer), all[i].begin);
        assert_int_equal(zr_tokenizer_end(tokenizer), all[i].end);
        zr_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
        assert_int_equal(before_count, all[i].before);
        assert_int_equal(after_count, 0);
        check_rows(all[i].model, tokenizer);
        check_saved(*state, all[i].model, tokenizer);
        zr_tokenizer_destroy(tokenizer);
    }
}

// Unigram models as files of `tokenizers` have them.
static void the_library_of_a_json_has_the_same_ids_and_text(void **state)
{
    static const char *const names[] = {"t5-table", "converted-table", "fallback"};
    for (int i = 0; i < ZR_COUNT(names); i++) {
        char path[512];
        snprintf(path, sizeof path, MODELS "%s.json", names[i]);
        zr_tokenizer *tokenizer = load(path);
        assert_string_equal(zr_tokenizer_name(tokenizer), "Unigram");
        check_rows(names[i], tokenizer);
        zr_tokenizer_destroy(tokenizer);
    }
}

// A model of seven pieces, in the bytes of the file.
#define PIECE(length, rest) "\x0a" length rest
#define SOUND                                                                                      \
    PIECE("\x09", "\x0a\x05<unk>\x18\x02")                                                         \
    PIECE("\x07", "\x0a\x03<s>\x18\x03")                                                           \
    PIECE("\x08", "\x0a\x04</s>\x18\x03")                                                          \
    PIECE("\x0a", "\x0a\x03\xe2\x96\x81\x15\x00\x00\x00\xc0")                                      \
    PIECE("\x08", "\x0a\x01\x61\x15\x00\x00\x00\xc0")                                              \
    PIECE("\x08", "\x0a\x01\x62\x15\x00\x00\x00\xc0")                                              \
    PIECE("\x09", "\x0a\x02\x61\x62\x15\x00\x00\x80\xbf")                                          \
    "\x12\x02\x18\x02" /* trainer_spec: BPE */                                                     \
    "\x1a\x02\x20\x00" /* normalizer_spec: removes no spaces */

static const char sound[] = SOUND;

static zero_status load_bytes(scratch *dir, const char *bytes, size_t length, zr_tokenizer **out,
                              zero_error *error)
{
    *error = (zero_error){0};
    assert_int_equal(zr_file_write_in(dir->directory, "tokenizer.model", bytes, length, NULL),
                     ZERO_OK);
    return zr_tokenizer_load(dir->directory, out, error);
}

static void what_a_file_may_not_say(void **state)
{
#define AFTER(text) text, sizeof(text) - 1
    static const struct { // fields after those of SOUND; of two, the last counts
        const char *bytes;
        size_t length;
        zero_status status;
        const char *says;
    } refusals[] = {
        {AFTER("\x12\x02\x18\x03"), ZERO_ERR_UNSUPPORTED, "kind Word: not built"},
        {AFTER("\x12\x02\x18\x04"), ZERO_ERR_UNSUPPORTED, "kind Char: not built"},
        {AFTER("\x12\x02\x18\x09"), ZERO_ERR_UNSUPPORTED, "kind ?: not built"},
        {AFTER("\x12\x03\x98\x02\x01"), ZERO_ERR_DATA, "byte_fallback is true, and it has 0"},
        {AFTER("\x1a\x03\x12\x01x"), ZERO_ERR_DATA, "precompiled_charsmap of 1 bytes"},
        {AFTER("\x1a\x0b\x12\x09\x08\x00\x00\x00\x00\x00\x00\x00\x00"), ZERO_ERR_DATA,
         "a tree of 8 bytes"},
        {AFTER("\x1a\x0c\x12\x0a\x04\x00\x00\x00\x00\x00\x00\x00zz"), ZERO_ERR_DATA,
         "texts that end with a 0"},
        {AFTER("\x2a\x03\x12\x01x"), ZERO_ERR_UNSUPPORTED, "denormalizer replaces characters"},
        {AFTER(PIECE("\x05", "\x0a\x01z\x18\x04") "\x1a\x04\x18\x00\x20\x01"), ZERO_ERR_UNSUPPORTED,
         "remove_extra_whitespaces"},
        {AFTER(PIECE("\x05", "\x0a\x01z\x18\x02")), ZERO_ERR_DATA, "0 and 7 are both unknown"},
        {AFTER(PIECE("\x05", "\x0a\x01z\x18\x04")), ZERO_ERR_UNSUPPORTED, "user-defined symbols"},
        {AFTER(PIECE("\x07", "\x0a\x03\xe2\x96\x81\x18\x04") "\x1a\x02\x18\x00"),
         ZERO_ERR_UNSUPPORTED, "a user-defined symbol with a space"},
        {AFTER(PIECE("\x05", "\x0a\x01z\x18\x05")), ZERO_ERR_UNSUPPORTED, "is not used"},
        {AFTER(PIECE("\x05", "\x0a\x01z\x18\x06")), ZERO_ERR_UNSUPPORTED, "bytes are not all"},
        {AFTER(PIECE("\x05", "\x0a\x01z\x18\x07")), ZERO_ERR_DATA, "none of 1 to 6"},
        {AFTER(PIECE("\x08", "\x0a\x01z\x15\x00\x00\xc0\x7f")), ZERO_ERR_DATA, "not finite"},
        {AFTER(PIECE("\x09", "\x0a\x02\x62\x61\x15\x00\x00\x80\xbf")), ZERO_ERR_UNSUPPORTED,
         "the pieces 6 and 7 have the score -1"},
        {AFTER(PIECE("\x0d", "\x0a\x06" ZR_METASPACE ZR_METASPACE "\x15\x00\x00\x40\xc0")
                   PIECE("\x10", "\x0a\x09" ZR_METASPACE ZR_METASPACE ZR_METASPACE
                                 "\x15\x00\x00\x40\xc0")), // four of them: 3 + 1, and 2 + 2
         ZERO_ERR_UNSUPPORTED, "the pieces 7 and 8 have the score -3"},
        {AFTER(PIECE("\x09", "\x0a\x02\x61z\x15\x00\x00\x40\xc0")), ZERO_ERR_UNSUPPORTED,
         "has a character that is no piece"},
        {AFTER(PIECE("\x03", "\x0a\x01\x61")), ZERO_ERR_DATA, "are both \"a\""},
        {AFTER(PIECE("\x03", "\x0a\x01\xff")), ZERO_ERR_DATA, "not UTF-8"},
        {AFTER(PIECE("\x02", "\x0a\x00")), ZERO_ERR_DATA, "is empty"},
        {AFTER(PIECE("\x02", "\x08\x01")), ZERO_ERR_DATA, "another form"},
        {AFTER("\x08\x01"), ZERO_ERR_DATA, "a piece is no message"},
        {AFTER("\x10\x01"), ZERO_ERR_DATA, "another form"},
        {AFTER("\x0b"), ZERO_ERR_DATA, "no form that such a file has"},
        {AFTER("\x02\x00"), ZERO_ERR_DATA, "the number 0"},
        {AFTER("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), ZERO_ERR_DATA, "longer than"},
        {AFTER("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), ZERO_ERR_DATA, "64 bits"},
    };
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_tokenizer *tokenizer;
        zero_error error;
        char bytes[512];
        memcpy(bytes, sound, sizeof sound - 1);
        memcpy(bytes + sizeof sound - 1, refusals[i].bytes, refusals[i].length);
        zero_status status =
            load_bytes(*state, bytes, sizeof sound - 1 + refusals[i].length, &tokenizer, &error);
        if (status != refusals[i].status || !strstr(error.message, refusals[i].says) ||
            !strstr(error.message, "tokenizer.model"))
            fail_msg("%s gave %s: %s", refusals[i].says, zero_status_name(status), error.message);
        assert_null(tokenizer);
    }
}

// Returns whether a field of SOUND ends there: each has a byte for its number and one for its
// length. What is left is a model with less pieces, of the kind that has no number, Unigram.
static bool ends_field(size_t length)
{
    size_t at = 0;
    while (at < length)
        at += 2 + (unsigned char)sound[at + 1];
    return length > 0 && at == length;
}

static void a_file_that_is_cut_is_refused(void **state)
{
    zr_tokenizer *tokenizer;
    zero_error error;
    for (size_t length = 0; length < sizeof sound - 1; length++) {
        if (ends_field(length)) {
            assert_int_equal(load_bytes(*state, sound, length, &tokenizer, &error), ZERO_OK);
            zr_tokenizer_destroy(tokenizer);
            continue;
        }
        assert_int_not_equal(load_bytes(*state, sound, length, &tokenizer, &error), ZERO_OK);
        assert_contains(error.message, "tokenizer.model");
    }
    assert_int_equal(load_bytes(*state, sound, sizeof sound - 1, &tokenizer, &error), ZERO_OK);
    zr_ids ids = encode(tokenizer, ZR_ENCODE_TEXT, "ab ba");
    assert_int_equal(ids.count, 5);
    assert_memory_equal(ids.at, ((int32_t[]){3, 6, 3, 5, 4}), sizeof(int32_t[5]));
    zr_ids_free(&ids);
    zr_tokenizer_destroy(tokenizer);
}

static void what_the_settings_may_not_say(void **state)
{
#define ADDED(id, rest) "{\"added_tokens_decoder\":{\"" id "\":{\"content\":\"<x>\"" rest "}}}"
    static const struct {
        const char *config;
        zero_status status;
        const char *says;
    } refusals[] = {
        {"{\"tokenizer_class\":\"CodeLlamaTokenizer\"}", ZERO_ERR_UNSUPPORTED,
         "tokenizer_class CodeLlamaTokenizer"},
        {"{\"tokenizer_class\":\"LlamaTokenizer\"}", ZERO_ERR_UNSUPPORTED, "drops characters"},
        {ADDED("8", ""), ZERO_ERR_DATA, "has the id 8, and 7 would be the next"},
        {ADDED("x", ""), ZERO_ERR_DATA, "has the id -1"},
        {ADDED("4", ""), ZERO_ERR_UNSUPPORTED, "which is \"a\" already"},
        {ADDED("7", ",\"lstrip\":true"), ZERO_ERR_UNSUPPORTED, "7 has lstrip"},
        {ADDED("7", ""), ZERO_ERR_UNSUPPORTED, "user-defined symbols"},
        {"{\"bos_token\":\"<b>\"}", ZERO_ERR_UNSUPPORTED, "bos_token \"<b>\" is none of its"},
        {"{\"extra_special_tokens\":{\"x\":\"a\"}}", ZERO_ERR_UNSUPPORTED, "extra_special_tokens"},
    };
    static const struct {
        const char *after, *says;
    } of_llama[] = {{"\x12\x02\x18\x01", "the file's kind is Unigram"},
                    {"\x1a\x02\x20\x01", "does not follow the file's normalizer"}};
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_tokenizer *tokenizer;
        zero_error error;
        scratch_write(*state, "tokenizer_config.json", refusals[i].config);
        zero_status status = load_bytes(*state, sound, sizeof sound - 1, &tokenizer, &error);
        if (status != refusals[i].status || !strstr(error.message, refusals[i].says))
            fail_msg("%s gave %s: %s", refusals[i].config, zero_status_name(status), error.message);
    }
    for (int i = 0; i < ZR_COUNT(of_llama); i++) {
        zr_tokenizer *tokenizer;
        zero_error error;
        char bytes[256];
        scratch_write(*state, "tokenizer_config.json", "{\"tokenizer_class\":\"LlamaTokenizer\"}");
        memcpy(bytes, sound, sizeof sound - 1);
        memcpy(bytes + sizeof sound - 1, of_llama[i].after, 4);
        assert_int_equal(load_bytes(*state, bytes, sizeof sound + 3, &tokenizer, &error),
                         ZERO_ERR_UNSUPPORTED);
        assert_contains(error.message, of_llama[i].says);
    }
}

// With a tokenizer.json, transformers knows only those added tokens that the configuration lists.
static void check_saved_config(scratch *dir, const zr_tokenizer *tokenizer)
{
    static const char *const ids[] = {"0", "1", "2", "7"};
    char saved[300];
    json_t *config;
    snprintf(saved, sizeof saved, "%s/saved", dir->directory);
    assert_int_equal(zr_directory_create(saved, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_save(tokenizer, saved, NULL), ZERO_OK);
    assert_int_equal(
        zr_json_load(scratch_path(dir, "saved/tokenizer_config.json"), 1 << 20, &config, NULL),
        ZERO_OK);
    json_t *listed = json_object_get(config, "added_tokens_decoder");
    assert_int_equal(json_object_size(listed), ZR_COUNT(ids));
    for (int i = 0; i < ZR_COUNT(ids); i++)
        assert_true(json_is_true(json_object_get(json_object_get(listed, ids[i]), "special")));
    json_decref(config);
}

static void settings_count(void **state)
{
    const int32_t *before, *after;
    int before_count, after_count;
    zr_tokenizer *tokenizer;
    zero_error error;
    scratch_write(*state, "tokenizer_config.json",
                  "{\"add_bos_token\":true,\"add_eos_token\":true,\"eos_token\":\"<x>\","
                  "\"added_tokens_decoder\":{\"7\":{\"content\":\"<x>\",\"special\":true}}}");
    assert_int_equal(load_bytes(*state, sound, sizeof sound - 1, &tokenizer, &error), ZERO_OK);
    assert_int_equal(zr_tokenizer_vocabulary(tokenizer), 8);
    assert_int_equal(zr_tokenizer_end(tokenizer), 7);
    assert_true(zr_tokenizer_is_special(tokenizer, 7));
    zr_tokenizer_template(tokenizer, &before, &before_count, &after, &after_count);
    assert_true(before_count == 1 && before[0] == 1);
    assert_true(after_count == 1 && after[0] == 7);
    check_saved_config(*state, tokenizer);
    zr_tokenizer_destroy(tokenizer);
}

static void no_memory_is_an_error(void **state)
{
    zr_tokenizer *tokenizer;
    zero_error error;
    zero_status status = ZERO_ERR_MEMORY;
    for (int64_t nth = 1; status != ZERO_OK; nth++) {
        assert_int_equal(zr_file_write_in(((scratch *)*state)->directory, "tokenizer.model", sound,
                                          sizeof sound - 1, NULL),
                         ZERO_OK);
        zr_alloc_fail_at(nth);
        status = zr_tokenizer_load(((scratch *)*state)->directory, &tokenizer, &error);
        zr_alloc_fail_at(0);
        assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        assert_true(nth < 10000);
    }
    zr_tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_libraries_have_the_same_ids_and_text, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test(the_library_of_a_json_has_the_same_ids_and_text),
        cmocka_unit_test_setup_teardown(what_a_file_may_not_say, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(a_file_that_is_cut_is_refused, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(what_the_settings_may_not_say, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(settings_count, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(no_memory_is_an_error, scratch_in_ram, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
