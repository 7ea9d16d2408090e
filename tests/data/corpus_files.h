// A directory with files of every kind, tokenizers for them, and streams as text, for the tests of
// a corpus.
#ifndef TESTS_CORPUS_FILES_H
#define TESTS_CORPUS_FILES_H
#include "base/alloc.h"
#include "data/corpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static char directory[] = "/tmp/zero-corpus-XXXXXX";
static zr_tokenizer *bytes, *words; // words: with an end token
static zr_chat chat;

static inline void put(const char *name, const void *data, size_t length)
{
    assert_int_equal(zr_file_write_durable(name, data, length, NULL), ZERO_OK);
}

static inline void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

// Makes a tokenizer of letters and one token that ends a text.
static inline void make_words(void)
{
    char json[4096];
    int at = snprintf(json, sizeof json,
                      "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": "
                      "{\"<|endoftext|>\": 0, \"\xc4\xa0\": 1, \"\xc4\x8a\": 2");
    for (int i = 33; i < 127; i++)
        at += snprintf(json + at, sizeof json - (size_t)at,
                       i == '"' || i == '\\' ? ", \"\\%c\": %d" : ", \"%c\": %d", i, i);
    snprintf(
        json + at, sizeof json - (size_t)at,
        "}}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
        "\"trim_offsets\": true, \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\"},"
        "\"added_tokens\": [{\"id\": 0, \"content\": \"<|endoftext|>\", \"single_word\": false, "
        "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}]}");
    put_text("tokenizer.json", json);
    put_text("tokenizer_config.json", "{\"eos_token\": \"<|endoftext|>\"}");
    zero_error error = {0};
    if (zr_tokenizer_load(".", &words, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(zr_tokenizer_end(words), 0);
}

static inline int make(void **state)
{
    static int32_t header[256] = {20240520, 1, 100};
    uint16_t ids[100];
    char file[sizeof header + sizeof ids];
    if (!mkdtemp(directory) || chdir(directory))
        return 1;
    for (int i = 0; i < 100; i++)
        ids[i] = (uint16_t)(i + 100);
    memcpy(file, header, sizeof header);
    memcpy(file + sizeof header, ids, sizeof ids);
    put("t.bin", file, sizeof file);
    put_text("a.txt", "abcdefghij");
    put_text("b.txt", "ABCDEFGHIJ");
    make_words();
    return zr_tokenizer_create(ZR_TOKENIZER_BYTES, NULL, 0, "bytes", &bytes, NULL) != ZERO_OK ||
           zr_chat_load(NULL, "chatml", NULL, &chat, NULL) != ZERO_OK;
}

static inline int clean(void **state)
{
    zr_tokenizer_destroy(bytes);
    zr_tokenizer_destroy(words);
    zr_chat_free(&chat);
    return chdir("/") || zr_directory_remove(directory, NULL) != ZERO_OK;
}

typedef struct opened {
    zr_corpus *corpus;
    zr_dataset train, held;
} opened;

static inline zero_status open_as(opened *o, const zr_tokenizer *tokenizer, int64_t vocabulary,
                                  int64_t seq, bool hold, zero_error *error, const char *first,
                                  const char *second)
{
    const char *arguments[] = {first, second};
    const zr_corpus_options options = {
        .arguments = arguments, .count = second ? 2 : 1, .chat = &chat};
    const zr_reading reading = {.tokenizer = tokenizer, .vocabulary = vocabulary, .seq = seq};
    *o = (opened){0};
    ZERO_TRY(zr_corpus_open(&options, &o->corpus, error));
    return zr_corpus_read(o->corpus, &reading, &o->train, hold ? &o->held : NULL, error);
}

static inline void close_opened(opened *o)
{
    zr_dataset_free(&o->train);
    zr_dataset_free(&o->held);
    zr_corpus_close(o->corpus);
}

static inline opened open_well(const zr_tokenizer *tokenizer, int64_t seq, bool hold,
                               const char *first, const char *second)
{
    opened o;
    zero_error error = {0};
    if (open_as(&o, tokenizer, 256, seq, hold, &error, first, second) != ZERO_OK)
        fail_msg("%s", error.message);
    return o;
}

// Returns the stream as characters: the end token as |, masked ones in [].
static inline const char *spelled(const zr_dataset *dataset, int stream)
{
    static char text[4096];
    int32_t ids[1024];
    int64_t count = dataset->streams[stream].count;
    size_t at = 0;
    zr_stream_read(&dataset->streams[stream], 0, count, ids);
    for (int64_t i = 0; i < count; i++) {
        int32_t id = ids[i] < 0 ? ~ids[i] : ids[i];
        const char c = id == 0 ? '|' : id == 1 ? ' ' : (char)id;
        at += (size_t)snprintf(text + at, sizeof text - at, ids[i] < 0 ? "[%c]" : "%c", c);
    }
    return text;
}

#endif
