// Writes a learnt tokenizer as files that transformers can open.
#include "base/file.h"
#include "tokenizer/bpe_train_internal.h"
#include "tokenizer/tokenizer_json.h"

#include <string.h>
#include <utf8proc.h>

// Writes a tokenizer.json up to the model's vocabulary, or only what it begins with.
static void write_trained_head(bool whole, zr_json_writer *w)
{
    json_t *added =
        json_pack("[{s:i, s:s, s:b}]", "id", 0, "content", ZR_END_OF_TEXT, "special", 1);
    const zr_tokenizer_json head = {.added = added, .byte_level = true, .splits = true};
    zr_tokenizer_json_begin(w, &head);
    if (whole)
        zr_tokenizer_json_parts(w, &head);
    w->out->failed |= !added;
    json_decref(added);
}

bool zr_bpe_trainer_wrote(const char *path)
{
    char head[1024];
    zr_buffer begin = {0}, config = {0};
    zr_json_writer w = zr_json_writer_on(&begin, ZR_JSON_COMPACT);
    write_trained_head(false, &w);
    zr_tokenizer_json_config(ZR_END_OF_TEXT, &config);
    zr_file_head(path, head, sizeof head);
    bool wrote = (!begin.failed && !strncmp(head, begin.data, begin.length)) ||
                 (!config.failed && !strncmp(head, config.data, config.length));
    zr_buffer_free(&begin);
    zr_buffer_free(&config);
    return wrote;
}

// Writes a token in GPT-2's alphabet, one character for each byte; the end of a text stays as it
// is.
static void spell_token(const zr_bpe_trainer *t, int32_t id, zr_buffer *out)
{
    zr_text_span token = t->token[id];
    out->length = 0;
    for (uint32_t i = 0; i < token.length; i++) {
        utf8proc_uint8_t symbol[4];
        utf8proc_ssize_t bytes = utf8proc_encode_char(
            zr_byte_symbol((unsigned char)t->tokens.data[token.at + i]), symbol);
        zr_buffer_append(out, symbol, (size_t)bytes);
    }
}

static void write_tokens(const zr_bpe_trainer *t, zr_json_writer *w, zr_buffer *word)
{
    zr_json_begin_object(w, "vocab");
    for (int32_t id = 0; id < t->token_count; id++) {
        spell_token(t, id, word);
        zr_tokenizer_json_token(w, word->data, id);
    }
    zr_json_line(w, 0);
    zr_json_end(w);
}

static void write_merges(const zr_bpe_trainer *t, zr_json_writer *w, zr_buffer *word)
{
    zr_buffer pair = {0};
    zr_json_begin_array(w, "merges");
    for (int64_t i = 0; i < t->merge_count; i++) {
        pair.length = 0;
        spell_token(t, t->merges[i].left, word);
        zr_buffer_append(&pair, word->data, word->length);
        zr_buffer_append(&pair, " ", 1);
        spell_token(t, t->merges[i].right, word);
        zr_buffer_append(&pair, word->data, word->length);
        zr_json_line(w, 0);
        zr_json_text_of(w, NULL, pair.data, pair.length);
    }
    zr_json_line(w, 0);
    zr_json_end(w);
    w->out->failed |= pair.failed;
    zr_buffer_free(&pair);
}

zero_status zr_bpe_trainer_save(const zr_bpe_trainer *t, const char *directory, zero_error *error)
{
    zr_buffer text = {0}, word = {0}, config = {0};
    zr_json_writer w = zr_json_writer_on(&text, ZR_JSON_COMPACT);
    write_trained_head(true, &w);
    write_tokens(t, &w, &word);
    write_merges(t, &w, &word);
    zr_json_finish(&w);
    text.failed |= word.failed;
    zr_buffer_free(&word);
    ZERO_TRY(zr_file_write_text_in(directory, "tokenizer.json", &text, error));
    zr_tokenizer_json_config(ZR_END_OF_TEXT, &config);
    return zr_file_write_text_in(directory, "tokenizer_config.json", &config, error);
}
