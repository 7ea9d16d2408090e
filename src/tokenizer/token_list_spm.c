// Writes the parts of a tokenizer.json in which SentencePiece's rules are expressed: as far as
// `tokenizers` can, and as they are for spm_normalize.c.
#include "tokenizer/token_list_spm.h"

#include "base/base64.h"
#include "tokenizer/bpe.h"
#include "tokenizer/spm_normalize.h"
#include "tokenizer/unigram.h"

static void begin_part(zr_json_writer *w, const char *key, const char *type)
{
    zr_json_begin_object(w, key);
    zr_json_text(w, "type", type);
}

static void write_replace(zr_json_writer *w, const char *kind, const char *from, const char *to)
{
    begin_part(w, NULL, "Replace");
    zr_json_begin_object(w, "pattern");
    zr_json_text(w, kind, from);
    zr_json_end(w);
    zr_json_text(w, "content", to);
    zr_json_end(w);
}

static void write_charsmap(zr_json_writer *w, const zr_token_list *list)
{
    zr_buffer text = {0};
    zr_base64_write(list->charsmap, list->charsmap_bytes, &text);
    begin_part(w, NULL, "Precompiled");
    zr_json_text_of(w, "precompiled_charsmap", text.data ? text.data : "", text.length);
    zr_json_end(w);
    w->out->failed |= text.failed;
    zr_buffer_free(&text);
}

void zr_token_list_write_normalizer(zr_json_writer *w, const zr_token_list *list)
{
    const char *space = list->escapes ? ZR_METASPACE : " ";
    begin_part(w, "normalizer", "Sequence");
    zr_json_begin_array(w, "normalizers");
    if (list->charsmap_bytes)
        write_charsmap(w, list);
    if (list->trims) {
        write_replace(w, "Regex", "\\A +", "");
        write_replace(w, "Regex", " {2,}", " ");
    }
    if (list->adds_space && !list->suffix) {
        begin_part(w, NULL, "Prepend");
        zr_json_text(w, "prepend", space);
        zr_json_end(w);
    }
    if (list->escapes)
        write_replace(w, "String", " ", ZR_METASPACE);
    if (list->trims)
        write_replace(w, "Regex", list->escapes ? ZR_METASPACE "+\\z" : " +\\z", "");
    if (list->adds_space && list->suffix)
        write_replace(w, "Regex", "\\z", space);
    zr_json_end(w);
    zr_json_end(w);
}

void zr_token_list_write_rules(zr_json_writer *w, const zr_token_list *list)
{
    zr_json_begin_object(w, ZR_SPM_RULES);
    zr_json_flag(w, "add_dummy_prefix", list->adds_space);
    zr_json_flag(w, "remove_extra_whitespaces", list->trims);
    zr_json_flag(w, "escape_whitespaces", list->escapes);
    zr_json_flag(w, "treat_whitespace_as_suffix", list->suffix);
    zr_json_begin_array(w, "user_defined");
    for (int32_t id = 0; id < list->count; id++)
        if (list->kinds[id] == ZR_TOKEN_SYMBOL)
            zr_json_integer(w, NULL, id);
    zr_json_end(w);
    zr_json_end(w);
}

void zr_token_list_write_unigram(zr_json_writer *w, const zr_token_list *list)
{
    zr_json_line(w, 0);
    begin_part(w, "model", "Unigram");
    zr_json_integer(w, "unk_id", list->unknown);
    zr_json_flag(w, "byte_fallback", list->byte_fallback);
    zr_token_list_write_rules(w, list);
    zr_json_begin_array(w, "vocab");
    for (int32_t id = 0; id < list->count; id++) {
        zr_text_span span = list->tokens[id];
        bool symbol = list->kinds[id] == ZR_TOKEN_SYMBOL;
        zr_json_line(w, 0);
        zr_json_begin_array(w, NULL);
        zr_json_text_of(w, NULL, list->text.data + span.at, span.length);
        zr_json_real(w, NULL,
                     symbol ? zr_unigram_symbol_score(span.length) : (double)list->scores[id]);
        zr_json_end(w);
    }
    zr_json_end(w);
    zr_json_end(w);
}
