// Writes a learnt tokenizer as files that transformers can open.
#include "base/file.h"
#include "base/json.h"
#include "tokenizer/bpe_train_internal.h"

#include <string.h>
#include <utf8proc.h>

#define HEAD                                                                                       \
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[{\"id\":0,"       \
    "\"content\":\"" ZR_END_OF_TEXT "\",\"single_word\":false,"                                    \
    "\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}],\n\"normalizer\":"  \
    "null,\n"
#define CONFIG                                                                                     \
    "{\"tokenizer_class\":\"PreTrainedTokenizerFast\",\"bos_token\":\"" ZR_END_OF_TEXT             \
    "\",\"eos_token\":\"" ZR_END_OF_TEXT "\",\"clean_up_tokenization_spaces\":false}\n"

static bool begins(const char *path, const char *with)
{
    char head[1024];
    zr_file_head(path, head, sizeof head);
    return !strncmp(head, with, strlen(with));
}

bool zr_bpe_trainer_wrote(const char *path) { return begins(path, HEAD) || begins(path, CONFIG); }

// Writes a token in GPT-2's alphabet, one character for each byte; the end of a text stays as it
// is.
static void spell(const zr_bpe_trainer *t, int32_t id, zr_buffer *out)
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

static void write_tokens(const zr_bpe_trainer *t, zr_buffer *out, zr_buffer *word)
{
    for (int32_t id = 0; id < t->token_count; id++) {
        spell(t, id, word);
        zr_buffer_printf(out, id ? ",\n" : "\n");
        zr_json_append_string(out, word->data, word->length);
        zr_buffer_printf(out, ":%d", id);
        out->failed |= word->failed;
    }
}

static void write_merges(const zr_bpe_trainer *t, zr_buffer *out, zr_buffer *word)
{
    zr_buffer pair = {0};
    for (int64_t i = 0; i < t->merge_count; i++) {
        pair.length = 0;
        spell(t, t->merges[i].left, word);
        zr_buffer_append(&pair, word->data, word->length);
        zr_buffer_append(&pair, " ", 1);
        spell(t, t->merges[i].right, word);
        zr_buffer_append(&pair, word->data, word->length);
        zr_buffer_printf(out, i ? ",\n" : "\n");
        zr_json_append_string(out, pair.data, pair.length);
    }
    out->failed |= pair.failed;
    zr_buffer_free(&pair);
}

static zero_status write_bpe_train_save_file(const char *directory, const char *name,
                                             const zr_buffer *text, zero_error *error)
{
    return text->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of \"%s/%s\"",
                                  directory, name)
                        : zr_file_write_in(directory, name, text->data, text->length, error);
}

zero_status zr_bpe_trainer_save(const zr_bpe_trainer *t, const char *directory, zero_error *error)
{
    static const char byte_level[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_"
                                     "offsets\":true,\"use_regex\":true}";
    zr_buffer text = {0}, word = {0}, config = {0};
    zr_buffer_printf(&text, HEAD "\"pre_tokenizer\":%s,\n", byte_level);
    zr_buffer_printf(&text,
                     "\"post_processor\":null,\n\"decoder\":%s,\n\"model\":{\"type\":\"BPE\","
                     "\"dropout\":null,\"unk_token\":null,",
                     byte_level);
    zr_buffer_printf(&text,
                     "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":"
                     "false,\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{");
    write_tokens(t, &text, &word);
    zr_buffer_printf(&text, "\n},\"merges\":[");
    write_merges(t, &text, &word);
    zr_buffer_printf(&text, "\n]}}\n");
    zr_buffer_printf(&config, CONFIG);
    zero_status status = write_bpe_train_save_file(directory, "tokenizer.json", &text, error);
    if (status == ZERO_OK)
        status = write_bpe_train_save_file(directory, "tokenizer_config.json", &config, error);
    zr_buffer_free(&text);
    zr_buffer_free(&word);
    zr_buffer_free(&config);
    return status;
}
