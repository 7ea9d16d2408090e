// Hugging Face's `tokenizers` must give our ids and our text. This needs a Python that has it,
// ZERO_TEST_PYTHON or python3; otherwise the test is skipped (77).
#define _GNU_SOURCE
#include "base/file.h"
#include "tokenizer/tokenizer.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static const char sample[] =
    "Hello  world\r\n\n\tna\xc3\xafve \xe2\x80\x94 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80 "
    "'s . , e\xcc\x81 \xc3\xa9 [CLS] <|endoftext|>"
    "\x01\x1f\x7f \"\\/ \xe2\x80\xa8\xc2\xa0\xef\xbb\xbf ## \xe2\x96\x81x  ";

static zero_status write_kind(zr_tokenizer_kind kind, const char *root, const char *text,
                              size_t length, zero_error *error)
{
    char path[256];
    zr_tokenizer *tokenizer;
    zr_ids ids = {0};
    ZERO_TRY(zr_tokenizer_create(kind, text, length, "sample", &tokenizer, error));
    snprintf(path, sizeof path, "%s/%s", root, zr_tokenizer_name(tokenizer));
    ZERO_TRY(zr_directory_create(path, error));
    ZERO_TRY(zr_tokenizer_save(tokenizer, path, error));
    ZERO_TRY(zr_tokenizer_encode(tokenizer, text, length, "sample", &ids, error));
    strcat(path, "/ids.bin");
    zr_tokenizer_destroy(tokenizer);
    zero_status status =
        zr_file_write_durable(path, ids.at, (size_t)ids.count * sizeof *ids.at, error);
    zr_ids_free(&ids);
    return status;
}

// The sample, then a good part of the characters there are.
static void make_text(zr_buffer *text)
{
    zr_buffer_append(text, sample, sizeof sample - 1);
    for (int c = 0x80; c < 0x30000; c += c < 0x3000 ? 1 : 37) {
        char utf8[4] = {(char)(0xf0 | c >> 18), (char)(0x80 | (c >> 12 & 63)),
                        (char)(0x80 | (c >> 6 & 63)), (char)(0x80 | (c & 63))};
        int bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        utf8[4 - bytes] = (char)((bytes == 2   ? 0xc0
                                  : bytes == 3 ? 0xe0
                                               : 0xf0) |
                                 c >> (6 * (bytes - 1)));
        if (c < 0xd800 || c > 0xdfff)
            zr_buffer_append(text, utf8 + 4 - bytes, (size_t)bytes);
    }
}

static zero_status write_all(const char *root, zero_error *error)
{
    char path[256];
    zr_buffer text = {0};
    make_text(&text);
    snprintf(path, sizeof path, "%s/text.bin", root);
    ZERO_TRY(zr_file_write_durable(path, text.data, text.length, error));
    ZERO_TRY(write_kind(ZR_TOKENIZER_BYTES, root, text.data, text.length, error));
    ZERO_TRY(write_kind(ZR_TOKENIZER_CHARS, root, text.data, text.length, error));
    zr_buffer_free(&text);
    return ZERO_OK;
}

// The script's exit status, 77 where there is no Python.
static int run_script(const char *root)
{
    const char *python = getenv("ZERO_TEST_PYTHON");
    char *const arguments[] = {(char *)(python ? python : "python3"), (char *)ORACLE_SCRIPT,
                               (char *)root, NULL};
    pid_t child;
    int status;
    if (posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ)) {
        printf("SKIPPED: there is no %s\n", arguments[0]);
        return 77;
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 1;
    return WEXITSTATUS(status);
}

int main(void)
{
    char root[] = "/tmp/zero-oracle-XXXXXX";
    zero_error error = {0};
    if (!mkdtemp(root) || write_all(root, &error) != ZERO_OK) {
        printf("cannot write to %s: %s\n", root, error.message);
        return 1;
    }
    int result = run_script(root);
    if (zr_directory_remove(root, &error) != ZERO_OK)
        printf("%s\n", error.message);
    return result;
}
