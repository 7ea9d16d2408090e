// Megatron's indexed data set: PREFIX.bin has only ids, PREFIX.idx their type and the sequences.
//
//   0   "MMIDIDX\0\0"      9 bytes
//   9   version            u64, 1
//   17  dtype              u8: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 6 and 7 floats, 8 uint16
//   18  sequences S        u64
//   26  document marks M   u64: the number of documents + 1
//   34  lengths            int32 (S), tokens of each sequence
//       pointers           int64 (S), its first byte in the .bin
//       marks              int64 (M), the first sequence of each document; the last mark is S
//       modes              int8 (S), of multimodal sets only: not read
//
// Invariant: sequences follow one another without a gap and end where the .bin does, so a document
// is one range of tokens.
#include "base/alloc.h"
#include "data/token_file.h"

#include <string.h>

static const char magic[9] = "MMIDIDX\0";

enum { HEADER = 34, VERSION_AT = 9, DTYPE_AT = 17, SEQUENCES_AT = 18, MARKS_AT = 26 };

static uint64_t word_at(const char *data, size_t offset)
{
    uint64_t word;
    memcpy(&word, data + offset, sizeof word);
    return word;
}

static int64_t length_of_sequence(const zr_token_file *file, int64_t sequence)
{
    int32_t length;
    memcpy(&length, file->lengths + 4 * sequence, sizeof length);
    return length;
}

static int64_t offset_of_sequence(const zr_token_file *file, int64_t sequence)
{
    return (int64_t)word_at(file->pointers, (size_t)sequence * 8);
}

static int64_t first_sequence_of(const zr_token_file *file, int64_t document)
{
    return (int64_t)word_at(file->first_sequences, (size_t)document * 8);
}

static zero_status find_type(int code, const char *path, zr_token_type *out, zero_error *error)
{
    static const struct {
        int code;
        zr_token_type type;
    } types[] = {{1, ZR_TOKEN_U8},  {2, ZR_TOKEN_I8},  {3, ZR_TOKEN_I16},
                 {4, ZR_TOKEN_I32}, {5, ZR_TOKEN_I64}, {8, ZR_TOKEN_U16}};
    for (int i = 0; i < ZR_COUNT(types); i++) {
        if (types[i].code == code) {
            *out = types[i].type;
            return ZERO_OK;
        }
    }
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\": the data type %d: integers (1 to 5 and 8) are ids", path, code);
}

// Sets the three tables; refuses an index that is shorter or longer than they are.
static zero_status read_index_tables(zr_token_file *file, const char *path, int64_t *sequences,
                                     zero_error *error)
{
    const char *data = file->index.data;
    size_t length = file->index.length;
    if (length < HEADER || memcmp(data, magic, sizeof magic))
        return zr_fail(
            error, ZERO_ERR_DATA,
            "\"%s\" does not begin as an index of Megatron does (MMIDIDX and a header of %d bytes)",
            path, HEADER);
    if (word_at(data, VERSION_AT) != 1)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\": version %llu, where 1 is known", path,
                       (unsigned long long)word_at(data, VERSION_AT));
    ZERO_TRY(find_type((unsigned char)data[DTYPE_AT], path, &file->type, error));
    uint64_t count = word_at(data, SEQUENCES_AT), marks = word_at(data, MARKS_AT),
             most = length / 4;
    if (count > most || marks > most || marks < 1)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": %llu sequences and %llu marks of documents in %zu bytes", path,
                       (unsigned long long)count, (unsigned long long)marks, length);
    // This cannot overflow, because both are at most length / 4.
    uint64_t whole = HEADER + count * 12 + marks * 8;
    if (whole != length && whole + count != length)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" has %zu bytes, its tables need %llu", path,
                       length, (unsigned long long)whole);
    file->bytes = zr_token_bytes(file->type);
    file->lengths = data + HEADER;
    file->pointers = file->lengths + count * 4;
    file->first_sequences = file->pointers + count * 8;
    file->documents = (int64_t)marks - 1;
    *sequences = (int64_t)count;
    return ZERO_OK;
}

static zero_status check_sequences(zr_token_file *file, const char *path, int64_t sequences,
                                   zero_error *error)
{
    int64_t end = 0; // in bytes
    for (int64_t i = 0; i < sequences; i++) {
        int64_t length = length_of_sequence(file, i), pointer = offset_of_sequence(file, i);
        if (length < 0 || pointer != end)
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\": sequence %lld has %lld tokens from byte %lld on, where the one "
                           "before ends at %lld",
                           path, (long long)i, (long long)length, (long long)pointer,
                           (long long)end);
        if (__builtin_add_overflow(end, length * file->bytes, &end))
            return zr_fail(error, ZERO_ERR_DATA, "\"%s\": sequence %lld ends beyond any file", path,
                           (long long)i);
    }
    if ((uint64_t)end != file->ids.length)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" has %zu bytes, the sequences in \"%s\" have %lld", file->path,
                       file->ids.length, path, (long long)end);
    file->count = end / file->bytes;
    return ZERO_OK;
}

static zero_status check_marks(const zr_token_file *file, const char *path, int64_t sequences,
                               zero_error *error)
{
    int64_t before = 0;
    for (int64_t i = 0; i <= file->documents; i++) {
        int64_t mark = first_sequence_of(file, i);
        bool last = i == file->documents;
        if (mark < before || mark > sequences || (i == 0 && mark != 0) ||
            (last && mark != sequences))
            return zr_fail(error, ZERO_ERR_DATA,
                           "\"%s\": document %lld begins at sequence %lld, where the one before "
                           "began at %lld and there are %lld",
                           path, (long long)i, (long long)mark, (long long)before,
                           (long long)sequences);
        before = mark;
    }
    return ZERO_OK;
}

static zero_status map_ids_and_index(const char *path, const char *index, zr_token_file *file,
                                     zero_error *error)
{
    int64_t sequences = 0;
    ZERO_TRY(zr_file_map(index, &file->index, error));
    ZERO_TRY(zr_file_map(file->path, &file->ids, error));
    ZERO_TRY(read_index_tables(file, index, &sequences, error));
    ZERO_TRY(check_sequences(file, index, sequences, error));
    ZERO_TRY(check_marks(file, index, sequences, error));
    file->format = ZR_TOKENS_MEGATRON;
    file->tokens = file->ids.data;
    return file->count
               ? ZERO_OK
               : zr_fail(error, ZERO_ERR_DATA, "\"%s\" is empty, where tokens are needed", path);
}

zero_status zr_token_megatron_open(const char *path, zr_token_file *file, zero_error *error)
{
    const char *suffix = zr_token_path_ends(path, ".bin")   ? ".bin"
                         : zr_token_path_ends(path, ".idx") ? ".idx"
                                                            : "";
    file->path = zr_token_path_with(path, suffix, ".bin", error);
    char *index = file->path ? zr_token_path_with(path, suffix, ".idx", error) : NULL;
    zero_status status = index ? map_ids_and_index(path, index, file, error) : ZERO_ERR_MEMORY;
    zr_free(index);
    return status;
}

void zr_token_file_document(const zr_token_file *file, int64_t d, int64_t *first, int64_t *count)
{
    assert(d >= 0 && d < file->documents);
    int64_t sequences = first_sequence_of(file, file->documents), from = first_sequence_of(file, d),
            to = first_sequence_of(file, d + 1);
    int64_t begin = from < sequences ? offset_of_sequence(file, from) / file->bytes : file->stored;
    int64_t end = to < sequences ? offset_of_sequence(file, to) / file->bytes : file->stored;
    *first = begin;
    *count = end - begin;
}
