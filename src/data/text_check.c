#include "data/text.h"

#include "base/traffic.h"
#include "data/unpack.h"
#include "tokenizer/vocabulary.h"

#include <string.h>

enum { CUT = 3 }; // most bytes of a character that was cut

#define UNPACK "unpack it first "
#define ROWS "write its rows as lines of JSON first"
#define NO_WORDS "take the text out of it first"
#define RECODE "iconv -f UTF-16 -t UTF-8 makes text of it"

static const struct {
    const char *begins;
    size_t length;
    const char *is, *advice;
} kinds[] = {
    {"\x1f\x8b", 2, "compressed by gzip twice, or by another kind of it", UNPACK "(gunzip)"},
    {"\x28\xb5\x2f\xfd", 4, "compressed by zstd twice", UNPACK "(unzstd)"},
    {"\xfd\x37zXZ", 5, "compressed by xz", UNPACK "(unxz)"},
    {"BZh91AY&SY", 10, "compressed by bzip2", UNPACK "(bunzip2)"},
    {"PK\3\4", 4, "a zip archive (or a file of torch.save or numpy.savez)", UNPACK "(unzip)"},
    {"PAR1", 4, "a Parquet file", "parquet:PATH reads its rows"},
    {"ARROW1", 6, "an Arrow file", ROWS},
    {"\xff\xff\xff\xff", 4, "a stream of Arrow", ROWS},
    {"\x93NUMPY", 6, "an array of NumPy (.npy)",
     "write token ids with tofile as uint16 and read them as nanogpt:PATH"},
    {"GGUF", 4, "a GGUF file, which holds a model", NO_WORDS},
    {"\x89HDF", 4, "an HDF5 file", ROWS},
    {"SQLite format 3", 15, "a database of SQLite", ROWS},
    {"\x7f"
     "ELF",
     4, "an executable program", NO_WORDS},
    {"\x89PNG", 4, "a PNG image", NO_WORDS},
    {"\xff\xd8\xff", 3, "a JPEG image", NO_WORDS},
    {"GIF87a", 6, "a GIF image", NO_WORDS},
    {"GIF89a", 6, "a GIF image", NO_WORDS},
    {"%PDF-", 5, "a PDF document", "take the text out of it first (pdftotext)"},
    {"\xff\xfe\0\0", 4, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 makes text of it"},
    {"\0\0\xfe\xff", 4, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 makes text of it"},
    {"\xff\xfe", 2, "text in UTF-16", RECODE},
    {"\xfe\xff", 2, "text in UTF-16", RECODE},
};

static bool is_safetensors(const char *data, size_t length)
{
    uint64_t header;
    if (length < 10 || data[8] != '{')
        return false;
    memcpy(&header, data, sizeof header); // little-endian, as this machine is
    return header >= 2 && header <= length - 8;
}

static bool is_pickle(const char *data, size_t length)
{
    return length > 2 && data[0] == '\x80' && data[1] >= 2 && data[1] <= 5;
}

static zero_status refuse_not_text(const char *path, const char *is, const char *what,
                                   const char *advice, zero_error *error)
{
    bool raw = !strcmp(what, "text");
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is %s, where %s is needed: %s%s%s%s", path, is,
                   what, advice, raw ? " (text:" : "", raw ? path : "",
                   raw ? " takes its bytes as they are)" : "");
}

zero_status zr_text_check_kind(const char *path, const char *what, const char *data, size_t length,
                               zero_error *error)
{
    for (int k = 0; k < ZR_COUNT(kinds); k++)
        if (length >= kinds[k].length && !memcmp(data, kinds[k].begins, kinds[k].length))
            return refuse_not_text(path, kinds[k].is, what, kinds[k].advice, error);
    if (is_safetensors(data, length))
        return refuse_not_text(path, "a safetensors file, which holds a model", what, NO_WORDS,
                               error);
    if (is_pickle(data, length))
        return refuse_not_text(path, "a pickle of Python", what, ROWS, error);
    return ZERO_OK;
}

zero_status zr_text_check_name(const char *path, zero_error *error)
{
    bool commas = zr_packed_path_ends(path, ".csv");
    if (!commas && !zr_packed_path_ends(path, ".tsv"))
        return ZERO_OK;
    return zr_fail(
        error, ZERO_ERR_DATA,
        "\"%s\" is a table by its name, where text is needed: make JSONL of it and name the column "
        "with --field: python3 -c 'import csv, json; [print(json.dumps(r)) for r in "
        "csv.DictReader(open(\"%s\", newline=\"\")%s)]' > rows.jsonl (text:%s takes its bytes as "
        "they are)",
        path, path, commas ? "" : ", delimiter=\"\\t\"", path);
}

static zero_status refuse_byte(const char *path, const char *data, size_t at, zero_error *error)
{
    if (!data[at])
        return zr_fail(
            error, ZERO_ERR_DATA,
            "%s: byte %zu is a NUL, where text is needed: the file is binary, or text in "
            "UTF-16 (" RECODE "); text:%s takes its bytes as they are",
            path, at, path);
    return zr_fail(
        error, ZERO_ERR_DATA,
        "%s: byte %zu (0x%02x) is not valid UTF-8, where text is needed: iconv -f LATIN1 "
        "-t UTF-8 mends Latin-1; text:%s takes its bytes as they are",
        path, at, (unsigned char)data[at], path);
}

// Returns how many bytes, from the first on, are ASCII other than NUL.
static size_t count_leading_ascii(const char *data, size_t bytes)
{
    const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
    size_t at = 0;
    for (uint64_t word; bytes - at >= sizeof word; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        if ((word | (word - ones)) & tops) // a top bit, or a byte from which 1 borrows
            break;
    }
    while (at < bytes && data[at] > 0)
        at++;
    return at;
}

static bool is_continuation(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

// Returns whether a character begins here that the end of the file cuts off.
static bool is_character_cut_off(const char *data, size_t left)
{
    unsigned char lead = (unsigned char)*data;
    size_t needs = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    for (size_t i = 1; i < left; i++)
        if (!is_continuation(data[i]))
            return false;
    return lead >= 0xc2 && lead <= 0xf4 && left < needs;
}

zero_status zr_text_check_bytes(const char *path, const char *data, size_t length, size_t bytes,
                                size_t *at, zero_error *error)
{
    size_t end = bytes < length - *at ? *at + bytes : length, i = *at;
    int32_t c;
    while (i < CUT && i < end && is_continuation(data[i]))
        i++;
    while (i < end) {
        i += count_leading_ascii(data + i, end - i);
        if (i >= end)
            break;
        int taken = data[i] ? zr_utf8_next(data + i, length - i, &c) : 0;
        if (!taken && data[i] && is_character_cut_off(data + i, length - i))
            taken = (int)(length - i);
        if (!taken)
            return refuse_byte(path, data, i, error);
        i += (size_t)taken;
    }
    *at = i;
    return ZERO_OK;
}
