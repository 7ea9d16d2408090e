// tokenizer_probe TOKENIZER STRINGS OUT [PART [SAVED]]: writes what the library makes of many
// strings, for tests/oracle/tokenizer_compare.py.
//
// STRINGS: for each string u32 length and its bytes. OUT: for each string u32 count and int32 ids,
// of ordinary text and then with special tokens; then the text of the latter ids, and that text
// without special tokens: u32 length and bytes. PART: encodes in parts of about this many bytes;
// 0: whole texts. SAVED: a directory in which the tokenizer is saved.
// Prints the processor seconds that the ordinary encoding of all strings took.
#include "base/file.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct probe {
    zr_tokenizer *tokenizer;
    zr_encoder *encoder;
    size_t part;
    double seconds;
    zr_buffer out;
} probe;

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void put(zr_buffer *out, const void *data, size_t count, size_t width)
{
    uint32_t head = (uint32_t)count;
    zr_buffer_append(out, &head, 4);
    zr_buffer_append(out, data, count * width);
}

static zero_status encode(probe *p, zr_encode_mode mode, const char *text, size_t length,
                          zr_ids *ids, zero_error *error)
{
    for (size_t at = 0, end; at < length; at = end) {
        end = p->part
                  ? zr_tokenizer_cut(p->tokenizer, text, at, ZR_MIN(length, at + p->part), length)
                  : length;
        ZERO_TRY(zr_encoder_append(p->encoder, mode, text, at, end, "the string", ids, error));
    }
    return ZERO_OK;
}

static void decode(probe *p, const zr_ids *ids, bool skip)
{
    zr_decoder decoder;
    zr_buffer text = {0};
    zr_decoder_begin(&decoder, p->tokenizer, skip);
    for (int64_t i = 0; i < ids->count; i++)
        zr_decoder_push(&decoder, ids->at[i], &text);
    zr_decoder_end(&decoder, &text);
    put(&p->out, text.data, text.length, 1);
    zr_buffer_free(&text);
}

static zero_status probe_string(probe *p, const char *text, size_t length, zero_error *error)
{
    zr_ids ids[2] = {{0}};
    double start = processor_seconds();
    ZERO_TRY(encode(p, ZR_ENCODE_TEXT, text, length, &ids[0], error));
    p->seconds += processor_seconds() - start;
    ZERO_TRY(encode(p, ZR_ENCODE_SPECIAL, text, length, &ids[1], error));
    for (int i = 0; i < 2; i++)
        put(&p->out, ids[i].at, (size_t)ids[i].count, sizeof(int32_t));
    decode(p, &ids[1], false);
    decode(p, &ids[1], true);
    zr_ids_free(&ids[0]);
    zr_ids_free(&ids[1]);
    return ZERO_OK;
}

static zero_status probe_all(probe *p, char **argv, zero_error *error)
{
    char *data;
    size_t length, at = 0;
    ZERO_TRY(zr_tokenizer_load(argv[1], &p->tokenizer, error));
    ZERO_TRY(zr_encoder_create(p->tokenizer, &p->encoder, error));
    ZERO_TRY(zr_file_read(argv[2], (size_t)1 << 30, &data, &length, error));
    while (at + 4 <= length) {
        uint32_t bytes;
        memcpy(&bytes, data + at, 4);
        ZERO_TRY(probe_string(p, data + at + 4, bytes, error));
        at += 4 + (size_t)bytes;
    }
    zr_free(data);
    if (argv[4] && argv[5])
        ZERO_TRY(zr_tokenizer_save(p->tokenizer, argv[5], error));
    return zr_file_write_durable(argv[3], p->out.data, p->out.length, error);
}

int main(int argc, char **argv)
{
    zero_error error = {0};
    probe p = {.part = argc > 4 ? (size_t)atoll(argv[4]) : 0};
    if (argc < 4 || probe_all(&p, argv, &error) != ZERO_OK) {
        fprintf(stderr, "tokenizer_probe: %s\n",
                argc < 4 ? "TOKENIZER STRINGS OUT [PART [SAVED]]" : error.message);
        return 1;
    }
    printf("%.6f\n", p.seconds);
    zr_buffer_free(&p.out);
    zr_encoder_destroy(p.encoder);
    zr_tokenizer_destroy(p.tokenizer);
    return 0;
}
