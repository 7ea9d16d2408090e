#include "formats/torch_file.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_DIRECTORY ((int64_t)1 << 30) // bytes
#define BLOCK ((int64_t)1 << 20)

enum {
    // These sizes are without names and comments.
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    ENTRY_BYTES = 46,
    HEADER_BYTES = 30,
    END_MARK = 0x06054b50,
    LOCATOR_MARK = 0x07064b50,
    END64_MARK = 0x06064b50,
    ENTRY_MARK = 0x02014b50,
    HEADER_MARK = 0x04034b50,
    ENCRYPTED = 1, // a flag
    // An extra field for sizes and places that do not fit in 32 bits.
    ZIP64_FIELD = 1,
};
#define IN_ZIP64 0xffffffffu

static uint64_t read_little_endian(const char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = count - 1; i >= 0; i--)
        value = value << 8 | (unsigned char)bytes[i];
    return value;
}

typedef struct directory {
    int64_t begin, bytes;
    uint64_t count;
} directory;

static zero_status refuse_zip(const zr_zip *zip, const char *what, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\" is no archive that torch.save wrote: %s",
                   zip->path, what);
}

// Reads the zip64 record with 64-bit sizes and offsets, if there is one.
static zero_status read_end64(const zr_zip *zip, int64_t end, directory *out, zero_error *error)
{
    char locator[LOCATOR_BYTES], end64[END64_BYTES];
    if (end < LOCATOR_BYTES)
        return ZERO_OK;
    ZERO_TRY(
        zr_file_pread(zip->fd, locator, sizeof locator, end - LOCATOR_BYTES, zip->path, error));
    if (read_little_endian(locator, 4) != LOCATOR_MARK)
        return ZERO_OK;
    uint64_t at = read_little_endian(locator + 8, 8);
    if (at > (uint64_t)(end - LOCATOR_BYTES) || (uint64_t)(end - LOCATOR_BYTES) - at < END64_BYTES)
        return refuse_zip(zip, "its zip64 end lies outside of it", error);
    ZERO_TRY(zr_file_pread(zip->fd, end64, sizeof end64, (int64_t)at, zip->path, error));
    uint64_t count = read_little_endian(end64 + 32, 8), bytes = read_little_endian(end64 + 40, 8),
             begin = read_little_endian(end64 + 48, 8);
    if (read_little_endian(end64, 4) != END64_MARK || read_little_endian(end64 + 16, 4) ||
        read_little_endian(end64 + 20, 4) || read_little_endian(end64 + 24, 8) != count)
        return refuse_zip(zip, "its zip64 end is damaged, or it has several volumes", error);
    if (begin > at || bytes > at - begin)
        return refuse_zip(zip, "its directory lies outside of it", error);
    *out = (directory){(int64_t)begin, (int64_t)bytes, count};
    return ZERO_OK;
}

static zero_status find_directory(const zr_zip *zip, directory *out, zero_error *error)
{
    char end[END_BYTES];
    if (zip->size < END_BYTES)
        return refuse_zip(zip, "it is too short", error);
    ZERO_TRY(zr_file_pread(zip->fd, end, sizeof end, zip->size - END_BYTES, zip->path, error));
    if (read_little_endian(end, 4) != END_MARK || read_little_endian(end + 20, 2))
        return refuse_zip(
            zip, "it does not end as one (cut short, or written by torch before 1.6?)", error);
    if (read_little_endian(end + 4, 2) || read_little_endian(end + 6, 2) ||
        read_little_endian(end + 8, 2) != read_little_endian(end + 10, 2))
        return refuse_zip(zip, "it has several volumes", error);
    *out = (directory){.begin = (int64_t)read_little_endian(end + 16, 4),
                       .bytes = (int64_t)read_little_endian(end + 12, 4),
                       .count = read_little_endian(end + 10, 2)};
    ZERO_TRY(read_end64(zip, zip->size - END_BYTES, out, error));
    if (out->begin > zip->size - END_BYTES || out->bytes > zip->size - END_BYTES - out->begin)
        return refuse_zip(zip, "its directory lies outside of it", error);
    if (out->bytes > MOST_DIRECTORY || out->count > (uint64_t)out->bytes / ENTRY_BYTES)
        return refuse_zip(zip, "its directory is too large, or too small for what it counts",
                          error);
    return ZERO_OK;
}

typedef struct entry {
    uint64_t stored, bytes, header;
} entry;

// The extra field has those of the three that do not fit in the entry itself, in this order.
static bool read_wide(const char *extra, uint64_t length, entry *out)
{
    uint64_t *const fields[] = {&out->bytes, &out->stored, &out->header};
    for (uint64_t at = 0; length - at >= 4;) {
        uint64_t id = read_little_endian(extra + at, 2),
                 size = read_little_endian(extra + at + 2, 2), from = at + 4;
        if (size > length - at - 4)
            return false;
        at += 4 + size;
        for (int f = 0; id == ZIP64_FIELD && f < ZR_COUNT(fields); f++) {
            if (*fields[f] != IN_ZIP64)
                continue;
            if (at - from < 8)
                return false;
            *fields[f] = read_little_endian(extra + from, 8);
            from += 8;
        }
    }
    return true;
}

static zero_status refuse_record(const zr_zip *zip, const char *name, const char *what,
                                 zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA, "\"%s\": record \"%.100s\" %s", zip->path, name, what);
}

typedef struct raw_entry { // an entry as it stands in the directory
    const char *head;
    int64_t name_bytes, extra_bytes;
    int64_t bytes; // of the whole entry
} raw_entry;

static bool find_entry(const char *head, int64_t left, raw_entry *out)
{
    if (left < ENTRY_BYTES || read_little_endian(head, 4) != ENTRY_MARK)
        return false;
    int64_t name = (int64_t)read_little_endian(head + 28, 2),
            extra = (int64_t)read_little_endian(head + 30, 2),
            comment = (int64_t)read_little_endian(head + 32, 2);
    *out = (raw_entry){head, name, extra, ENTRY_BYTES + name + extra + comment};
    return out->bytes <= left && name && !memchr(head + ENTRY_BYTES, 0, (size_t)name);
}

static bool is_compressed(const char *head)
{
    return read_little_endian(head + 8, 2) & ENCRYPTED || read_little_endian(head + 10, 2) ||
           read_little_endian(head + 34, 2);
}

// Reads where the record lies and how long it is.
static zero_status read_place(const zr_zip *zip, const raw_entry *raw, const directory *of,
                              zr_zip_record *record, zero_error *error)
{
    const char *head = raw->head;
    entry e = {read_little_endian(head + 20, 4), read_little_endian(head + 24, 4),
               read_little_endian(head + 42, 4)};
    if (is_compressed(head))
        return refuse_record(zip, record->name,
                             "is compressed or encrypted, as torch.save never leaves one", error);
    if (!read_wide(head + ENTRY_BYTES + raw->name_bytes, (uint64_t)raw->extra_bytes, &e) ||
        e.stored != e.bytes)
        return refuse_record(zip, record->name, "has two sizes", error);
    if (e.header > (uint64_t)of->begin || e.bytes > (uint64_t)of->begin)
        return refuse_record(zip, record->name, "lies outside of the archive", error);
    record->header = (int64_t)e.header;
    record->bytes = (int64_t)e.bytes;
    record->crc = (uint32_t)read_little_endian(head + 16, 4);
    return ZERO_OK;
}

// Reads one entry of the directory; *at moves past it.
static zero_status read_entry(zr_zip *zip, const char *text, const directory *of, int64_t *at,
                              zero_error *error)
{
    raw_entry raw;
    if (!find_entry(text + *at, of->bytes - *at, &raw))
        return refuse_zip(zip, "its directory is damaged", error);
    *at += raw.bytes;
    zr_zip_record *record = &zip->records[zip->count];
    record->name = zr_sprintf(error, "%.*s", (int)raw.name_bytes, raw.head + ENTRY_BYTES);
    if (!record->name)
        return ZERO_ERR_MEMORY;
    zip->count++;
    ZERO_TRY(read_place(zip, &raw, of, record, error));
    zip->checksums = zip->checksums || record->crc;
    return ZERO_OK;
}

// Checks that the record is preceded by its own header.
static zero_status check_local_header(const zr_zip *zip, const directory *of, zr_zip_record *record,
                                      zero_error *error)
{
    char head[HEADER_BYTES], name[256];
    size_t length = strlen(record->name);
    if (of->begin - record->header < HEADER_BYTES)
        return refuse_record(zip, record->name, "lies outside of the archive", error);
    ZERO_TRY(zr_file_pread(zip->fd, head, sizeof head, record->header, zip->path, error));
    if (read_little_endian(head, 4) != HEADER_MARK || read_little_endian(head + 8, 2) ||
        read_little_endian(head + 26, 2) != length || length > sizeof name)
        return refuse_record(zip, record->name, "has another header than the directory says",
                             error);
    int64_t before = HEADER_BYTES + (int64_t)length + (int64_t)read_little_endian(head + 28, 2);
    if (before > of->begin - record->header || record->bytes > of->begin - record->header - before)
        return refuse_record(zip, record->name, "lies outside of the archive", error);
    ZERO_TRY(zr_file_pread(zip->fd, name, length, record->header + HEADER_BYTES, zip->path, error));
    if (memcmp(name, record->name, length))
        return refuse_record(zip, record->name, "has another header than the directory says",
                             error);
    record->begin = record->header + before;
    return ZERO_OK;
}

static int by_place(const void *a, const void *b)
{
    int64_t x = ((const zr_zip_record *)a)->header, y = ((const zr_zip_record *)b)->header;
    return x < y ? -1 : x > y;
}

static int compare_record_names(const void *a, const void *b)
{
    return strcmp(((const zr_zip_record *)a)->name, ((const zr_zip_record *)b)->name);
}

static zero_status check_apart(zr_zip *zip, zero_error *error)
{
    qsort(zip->records, (size_t)zip->count, sizeof *zip->records, by_place);
    for (int i = 1; i < zip->count; i++)
        if (zip->records[i].header < zip->records[i - 1].begin + zip->records[i - 1].bytes)
            return refuse_record(zip, zip->records[i].name, "overlaps another", error);
    qsort(zip->records, (size_t)zip->count, sizeof *zip->records, compare_record_names);
    for (int i = 1; i < zip->count; i++)
        if (!strcmp(zip->records[i].name, zip->records[i - 1].name))
            return refuse_record(zip, zip->records[i].name, "is there twice", error);
    return ZERO_OK;
}

static zero_status read_entries(zr_zip *zip, const char *text, const directory *of,
                                zero_error *error)
{
    int64_t at = 0;
    for (uint64_t i = 0; i < of->count; i++) {
        ZERO_TRY(read_entry(zip, text, of, &at, error));
        ZERO_TRY(check_local_header(zip, of, &zip->records[i], error));
    }
    return at == of->bytes ? check_apart(zip, error)
                           : refuse_zip(zip, "its directory is longer than what it counts", error);
}

static zero_status read_archive(zr_zip *zip, zero_error *error)
{
    struct stat info;
    directory of = {0};
    if (fstat(zip->fd, &info))
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot look at \"%s\"", zip->path);
    if (!S_ISREG(info.st_mode))
        return refuse_zip(zip, "it is no regular file", error);
    zip->size = info.st_size;
    ZERO_TRY(find_directory(zip, &of, error));
    char *text = zr_alloc((size_t)of.bytes + 1, error);
    zip->records = zr_alloc(((size_t)of.count + 1) * sizeof *zip->records, error);
    zero_status status = text && zip->records ? zr_file_pread(zip->fd, text, (size_t)of.bytes,
                                                              of.begin, zip->path, error)
                                              : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = read_entries(zip, text, &of, error);
    zr_free(text);
    return status;
}

zero_status zr_zip_open(const char *path, zr_zip *out, zero_error *error)
{
    *out = (zr_zip){.path = zr_strdup(path, error), .fd = -1};
    if (!out->path)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_file_open(path, &out->fd, error);
    if (status == ZERO_OK)
        status = read_archive(out, error);
    if (status != ZERO_OK)
        zr_zip_close(out);
    return status;
}

void zr_zip_close(zr_zip *zip)
{
    if (!zip->path)
        return;
    if (zip->fd >= 0)
        close(zip->fd);
    for (int i = 0; i < zip->count; i++)
        zr_free(zip->records[i].name);
    zr_free(zip->records);
    zr_free(zip->path);
    *zip = (zr_zip){0};
}

const zr_zip_record *zr_zip_find(const zr_zip *zip, const char *name)
{
    zr_zip_record key = {.name = (char *)name};
    return zip->count
               ? bsearch(&key, zip->records, (size_t)zip->count, sizeof key, compare_record_names)
               : NULL;
}

typedef struct verifier {
    uint32_t tables[8][256];
    char block[BLOCK];
} verifier;

// Fills the tables for eight bytes at a time: table k moves a byte over k more zero bytes.
static void fill_tables(uint32_t tables[8][256])
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        tables[0][i] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 255];
}

static uint32_t update_crc32(uint32_t tables[8][256], uint32_t crc, const char *data, int64_t count)
{
    for (; count >= 8; count -= 8, data += 8) {
        uint64_t eight;
        memcpy(&eight, data, 8);
        eight ^= crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= tables[7 - k][eight >> 8 * k & 255];
    }
    for (; count > 0; count--)
        crc = crc >> 8 ^ tables[0][(crc ^ (unsigned char)*data++) & 255];
    return crc;
}

static zero_status verify_record(const zr_zip *zip, const zr_zip_record *record, verifier *v,
                                 void (*progress)(void *user, int64_t bytes), void *user,
                                 zero_error *error)
{
    uint32_t crc = UINT32_MAX;
    for (int64_t done = 0, n; done < record->bytes; done += n) {
        n = ZR_MIN(record->bytes - done, BLOCK);
        ZERO_TRY(
            zr_file_pread(zip->fd, v->block, (size_t)n, record->begin + done, zip->path, error));
        crc = update_crc32(v->tables, crc, v->block, n);
        if (progress)
            progress(user, n);
    }
    if (~crc == record->crc)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_DATA,
                   "\"%s\" is damaged: record \"%s\", %lld bytes at %lld, has the CRC-32 %08x, "
                   "written was %08x",
                   zip->path, record->name, (long long)record->bytes, (long long)record->begin,
                   (unsigned)~crc, (unsigned)record->crc);
}

zero_status zr_zip_verify(const zr_zip *zip, void (*progress)(void *user, int64_t bytes),
                          void *user, zero_error *error)
{
    verifier *v = zr_alloc(sizeof *v, error);
    zero_status status = v ? ZERO_OK : ZERO_ERR_MEMORY;
    if (v)
        fill_tables(v->tables);
    for (int i = 0; i < zip->count && zip->checksums && status == ZERO_OK; i++)
        status = verify_record(zip, &zip->records[i], v, progress, user, error);
    zr_free(v);
    return status;
}
