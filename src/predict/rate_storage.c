// What the disks and the memory of machines reach, in the book of rates: a row for each disk of a
// host, and one for its memory. Earlier versions kept them in a file of their own, bandwidth.json:
//
//   {"format": 1,
//    "machines": {HOST: {"processor": NAME,
//                        "memory": {"measured": SECONDS, "copy": B/s, "update": B/s},
//                        "disks": {"MAJOR:MINOR MOUNT": {"measured": SECONDS,
//                                                        "read": B/s, "write": B/s, "mix": B/s,
//                                                        "direct": BOOL, "block": BYTES,
//                                                        "depth": N}}}}}
//
// It is still read (zr_rate_book_add_bandwidths), but no longer written.
#define _GNU_SOURCE
#include "base/file.h"
#include "predict/rates.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { BANDWIDTHS_FORMAT = 1, MOST_BYTES = 1 << 20 };
#define DAY ((int64_t)86400)
#define MOST_AGE (180 * DAY) // disks change, and are used up

// Shortens `path` (absolute) in place to its longest beginning that is on `device`.
static void shorten_to_mount(char *path, dev_t device)
{
    struct stat info;
    char *slash;
    while ((slash = strrchr(path, '/')) && slash[1]) {
        char after = slash == path ? slash[1] : '/', *end = slash == path ? slash + 1 : slash;
        *end = 0;
        if (stat(path, &info) == 0 && info.st_dev == device)
            continue;
        *end = after;
        return;
    }
}

zero_status zr_storage_name(const char *directory, zr_storage_rates *out, zero_error *error)
{
    char path[PATH_MAX];
    struct stat info;
    *out = (zr_storage_rates){.measured = (int64_t)time(NULL)};
    gethostname(out->host, sizeof out->host - 1);
    if (!directory)
        return ZERO_OK;
    if (!realpath(directory, path) || stat(path, &info))
        return zr_fail_errno(error, ZERO_ERR_USAGE, errno, "cannot look at the directory \"%s\"",
                             directory);
    shorten_to_mount(path, info.st_dev);
    int length = snprintf(out->disk, sizeof out->disk, "%u:%u %s", major(info.st_dev),
                          minor(info.st_dev), path);
    if (length >= (int)sizeof out->disk)
        return zr_fail(error, ZERO_ERR_USAGE, "the name of the disk of \"%s\" is too long",
                       directory);
    return ZERO_OK;
}

static zr_storage_rates *find_row(const zr_rate_book *book, const zr_storage_rates *named)
{
    for (int i = 0; i < book->storage_count; i++)
        if (!strcmp(book->storage[i].host, named->host) &&
            !strcmp(book->storage[i].disk, named->disk))
            return &book->storage[i];
    return NULL;
}

const zr_storage_rates *zr_rate_book_storage(const zr_rate_book *book, const char *directory)
{
    zr_storage_rates here;
    if (zr_storage_name(directory, &here, NULL) != ZERO_OK)
        return NULL;
    const zr_storage_rates *row = find_row(book, &here);
    bool recent = row && row->measured > here.measured - MOST_AGE &&
                  row->measured < here.measured + DAY; // clocks of machines differ
    return recent ? row : NULL;
}

// Returns the row that another one replaces, or a new one; NULL: no memory.
static zr_storage_rates *make_storage_room(zr_rate_book *book, zero_error *error)
{
    zr_storage_rates *oldest = book->storage;
    if (book->storage_count == ZR_MOST_STORAGE_RATES) {
        for (int i = 1; i < book->storage_count; i++)
            oldest = book->storage[i].measured < oldest->measured ? &book->storage[i] : oldest;
        return oldest;
    }
    zr_storage_rates *grown =
        zr_realloc(book->storage, (size_t)(book->storage_count + 1) * sizeof *book->storage, error);
    if (!grown)
        return NULL;
    book->storage = grown;
    return &grown[book->storage_count++];
}

zero_status zr_rate_book_set_storage(zr_rate_book *book, const zr_storage_rates *rates,
                                     zero_error *error)
{
    zr_storage_rates *row = find_row(book, rates);
    if (row && row->measured > rates->measured)
        return ZERO_OK;
    if (!row && !(row = make_storage_room(book, error)))
        return ZERO_ERR_MEMORY;
    *row = *rates;
    return ZERO_OK;
}

void zr_rate_book_use_disk(zr_rate_book *book, const char *directory)
{
    const zr_storage_rates *disk = directory ? zr_rate_book_storage(book, directory) : NULL;
    if (!disk)
        return;
    book->read = disk->read;
    book->write = disk->write;
    book->mix = disk->mix;
}

static double number_of_entry(const json_t *entry, const char *name)
{
    return json_number_value(json_object_get(entry, name));
}

static bool is_positive_rate(double value) { return isfinite(value) && value > 0; }

// Fills in the rates of `row`, a disk or a memory. Returns false if one of them is not a rate.
static bool read_row_rates(const json_t *entry, zr_storage_rates *row)
{
    row->measured = json_integer_value(json_object_get(entry, "measured"));
    row->read = number_of_entry(entry, "read");
    row->write = number_of_entry(entry, "write");
    row->mix = number_of_entry(entry, "mix");
    row->direct = json_is_true(json_object_get(entry, "direct"));
    row->block = json_integer_value(json_object_get(entry, "block"));
    row->depth = (int)json_integer_value(json_object_get(entry, "depth"));
    row->copy = number_of_entry(entry, "copy");
    row->update = number_of_entry(entry, "update");
    if (!row->disk[0])
        return is_positive_rate(row->copy) && is_positive_rate(row->update);
    return is_positive_rate(row->read) && is_positive_rate(row->write) &&
           is_positive_rate(row->mix) && row->block > 0 && row->depth > 0;
}

// Copies a text that is there, and fits.
static bool copy_text_if_fits(const char *text, char *out, size_t size)
{
    if (!text || strlen(text) >= size)
        return false;
    strcpy(out, text);
    return true;
}

bool zr_storage_read(const json_t *entry, zr_storage_rates *out)
{
    const json_t *disk = json_object_get(entry, "disk");
    *out = (zr_storage_rates){0};
    return copy_text_if_fits(json_string_value(json_object_get(entry, "host")), out->host,
                             sizeof out->host) &&
           (!disk || copy_text_if_fits(json_string_value(disk), out->disk, sizeof out->disk)) &&
           read_row_rates(entry, out);
}

void zr_storage_json(const zr_storage_rates *rates, zr_json_writer *w)
{
    zr_json_begin_object(w, NULL);
    zr_json_text(w, "host", rates->host);
    if (rates->disk[0])
        zr_json_text(w, "disk", rates->disk);
    zr_json_integer(w, "measured", rates->measured);
    if (rates->disk[0]) {
        zr_json_real(w, "read", rates->read);
        zr_json_real(w, "write", rates->write);
        zr_json_real(w, "mix", rates->mix);
        zr_json_flag(w, "direct", rates->direct);
        zr_json_integer(w, "block", rates->block);
        zr_json_integer(w, "depth", rates->depth);
    } else {
        zr_json_real(w, "copy", rates->copy);
        zr_json_real(w, "update", rates->update);
    }
    zr_json_end(w);
}

// Adds a row of a file of bandwidths. What is damaged in it can be measured again.
static zero_status add_bandwidth(zr_rate_book *book, const char *host, const char *disk,
                                 const json_t *entry, zero_error *error)
{
    zr_storage_rates row = {0};
    if (!copy_text_if_fits(host, row.host, sizeof row.host) ||
        !copy_text_if_fits(disk, row.disk, sizeof row.disk) || !read_row_rates(entry, &row))
        return ZERO_OK;
    return zr_rate_book_set_storage(book, &row, error);
}

static zero_status add_machine(zr_rate_book *book, const char *host, json_t *machine,
                               zero_error *error)
{
    const char *disk;
    json_t *entry;
    ZERO_TRY(add_bandwidth(book, host, "", json_object_get(machine, "memory"), error));
    json_object_foreach(json_object_get(machine, "disks"), disk, entry) if (disk[0])
        ZERO_TRY(add_bandwidth(book, host, disk, entry, error));
    return ZERO_OK;
}

zero_status zr_rate_book_add_bandwidths(zr_rate_book *book, const char *file, const char *processor,
                                        zero_error *error)
{
    json_t *root, *machine;
    const char *host;
    zero_status status = ZERO_OK;
    ZERO_TRY(zr_json_load(file, MOST_BYTES, &root, error));
    if (json_integer_value(json_object_get(root, "format")) != BANDWIDTHS_FORMAT)
        status = zr_fail(error, ZERO_ERR_DATA, "\"%s\" is not of the format %d", file,
                         BANDWIDTHS_FORMAT);
    json_object_foreach(json_object_get(root, "machines"), host, machine)
    {
        const char *of = json_string_value(json_object_get(machine, "processor"));
        if (status == ZERO_OK && of && !strcmp(of, processor))
            status = add_machine(book, host, machine, error);
    }
    json_decref(root);
    return status;
}
