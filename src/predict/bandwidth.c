// The file of bandwidths: ~/.cache/libzero/bandwidth.json, or below XDG_CACHE_HOME.
//
//   {"format": 1,
//    "machines": {HOST: {"processor": NAME,
//                        "memory": {"measured": SECONDS, "copy": B/s, "update": B/s},
//                        "disks": {"MAJOR:MINOR MOUNT": {"measured": SECONDS,
//                                                        "read": B/s, "write": B/s, "mix": B/s,
//                                                        "direct": BOOL, "block": BYTES,
//                                                        "depth": N}}}}}
//
// It is replaced as a whole. If two processes do so at once, the figures of one are lost, but they
// can be measured again.
#define _GNU_SOURCE
#include "predict/bandwidth.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/json.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

enum { FORMAT = 1, MOST_BYTES = 1 << 20 };
#define FILE_NAME "bandwidth.json"
#define WHAT "bandwidths"
#define DAY ((int64_t)86400)
#define MOST_AGE (180 * DAY)

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

zero_status zr_bandwidth_site_find(const char *directory, zr_bandwidth_site *out, zero_error *error)
{
    *out = (zr_bandwidth_site){.now = (int64_t)time(NULL)};
    char path[PATH_MAX];
    struct stat info;
    gethostname(out->host, sizeof out->host - 1);
    zr_cpu_model(out->processor, sizeof out->processor);
    if (!directory)
        return ZERO_OK;
    if (!realpath(directory, path) || stat(path, &info))
        return zr_fail_errno(error, ZERO_ERR_USAGE, errno, "cannot look at the directory \"%s\"",
                             directory);
    shorten_to_mount(path, info.st_dev);
    out->disk = zr_sprintf(error, "%u:%u %s", major(info.st_dev), minor(info.st_dev), path);
    return out->disk ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_bandwidth_site_free(zr_bandwidth_site *place)
{
    zr_free(place->disk);
    place->disk = NULL;
}

// Returns the whole file, or NULL if there is none or it cannot be used. Free it with json_decref.
static json_t *load_bandwidth(const char *file, const zero_logger *logger)
{
    json_t *root = NULL;
    zero_error error = {0};
    if (!zr_path_exists(file))
        return NULL;
    if (zr_json_load(file, MOST_BYTES, &root, &error) != ZERO_OK) {
        zr_log(logger, ZERO_LOG_WARNING, "measured bandwidths are not used: %s", error.message);
        return NULL;
    }
    if (json_integer_value(json_object_get(root, "format")) == FORMAT &&
        json_is_object(json_object_get(root, "machines")))
        return root;
    zr_log(logger, ZERO_LOG_WARNING,
           "measured bandwidths are not used: \"%s\" is not of the format %d", file, FORMAT);
    json_decref(root);
    return NULL;
}

// Takes the values of `names` from `entry`. Returns false if one of them is not a bandwidth.
static bool take_bandwidth(const json_t *entry, const char *const *names, double *const *values,
                           int count)
{
    for (int i = 0; i < count; i++) {
        double value = json_number_value(json_object_get(entry, names[i]));
        if (!isfinite(value) || value <= 0)
            return false;
        *values[i] = value;
    }
    return true;
}

static bool is_recent(const json_t *entry, int64_t now)
{
    int64_t measured = json_integer_value(json_object_get(entry, "measured"));
    return measured > now - MOST_AGE && measured < now + DAY;
}

static bool read_memory(const json_t *entry, zr_bandwidth *out)
{
    static const char *const names[] = {"copy", "update"};
    zr_bandwidth found = *out;
    double *const values[] = {&found.copy, &found.update};
    if (!take_bandwidth(entry, names, values, ZR_COUNT(names)))
        return false;
    *out = found;
    return true;
}

static bool read_disk(const json_t *entry, zr_bandwidth *out)
{
    static const char *const names[] = {"read", "write", "mix"};
    zr_bandwidth found = *out;
    double *const values[] = {&found.read, &found.write, &found.mix};
    found.direct = json_is_true(json_object_get(entry, "direct"));
    found.block = json_integer_value(json_object_get(entry, "block"));
    found.depth = (int)json_integer_value(json_object_get(entry, "depth"));
    if (found.block <= 0 || found.depth <= 0 ||
        !take_bandwidth(entry, names, values, ZR_COUNT(names)))
        return false;
    *out = found;
    return true;
}

typedef bool (*entry_reader)(const json_t *entry, zr_bandwidth *out);

typedef struct reading { // of one file
    const char *file;
    const zr_bandwidth_site *place;
    const zero_logger *logger;
    zr_bandwidth *out;
} reading;

static void read_entry(const reading *r, const char *what, const json_t *entry, entry_reader read)
{
    if (!entry)
        return;
    if (!is_recent(entry, r->place->now))
        zr_log(r->logger, ZERO_LOG_WARNING,
               "the bandwidth of %s in \"%s\" is not used: it is older than %d days", what, r->file,
               (int)(MOST_AGE / DAY));
    else if (!read(entry, r->out))
        zr_log(r->logger, ZERO_LOG_WARNING,
               "the bandwidth of %s in \"%s\" is not used: it is damaged", what, r->file);
}

static bool is_same_processor(const json_t *machine, const zr_bandwidth_site *place)
{
    const char *processor = json_string_value(json_object_get(machine, "processor"));
    return processor && strcmp(processor, place->processor) == 0;
}

void zr_bandwidth_read_from(const char *file, const zr_bandwidth_site *place,
                            const zero_logger *logger, zr_bandwidth *out)
{
    *out = (zr_bandwidth){0};
    const reading r = {file, place, logger, out};
    json_t *root = load_bandwidth(file, logger);
    const json_t *machine = json_object_get(json_object_get(root, "machines"), place->host);
    if (machine && !is_same_processor(machine, place)) {
        zr_log(logger, ZERO_LOG_WARNING,
               "the bandwidths of \"%s\" in \"%s\" are not used: they are another processor's",
               place->host, file);
    } else if (machine) {
        read_entry(&r, "memory", json_object_get(machine, "memory"), read_memory);
        if (place->disk)
            read_entry(&r, place->disk,
                       json_object_get(json_object_get(machine, "disks"), place->disk), read_disk);
    }
    json_decref(root);
}

// Returns the object of that name in `parent`, and creates it if there is none. NULL: no memory.
static json_t *object_in(json_t *parent, const char *name)
{
    json_t *found = json_object_get(parent, name);
    if (json_is_object(found))
        return found;
    return json_object_set_new(parent, name, json_object()) ? NULL : json_object_get(parent, name);
}

static bool put_memory(json_t *machine, const zr_bandwidth_site *place,
                       const zr_bandwidth *measured)
{
    return json_object_set_new(machine, "memory",
                               json_pack("{s:I, s:f, s:f}", "measured", (json_int_t)place->now,
                                         "copy", measured->copy, "update", measured->update)) == 0;
}

static bool put_disk(json_t *machine, const zr_bandwidth_site *place, const zr_bandwidth *measured)
{
    json_t *disks = object_in(machine, "disks");
    json_t *entry =
        json_pack("{s:I, s:f, s:f, s:f, s:b, s:I, s:i}", "measured", (json_int_t)place->now, "read",
                  measured->read, "write", measured->write, "mix", measured->mix, "direct",
                  measured->direct, "block", (json_int_t)measured->block, "depth", measured->depth);
    if (disks)
        return json_object_set_new(disks, place->disk, entry) == 0;
    json_decref(entry);
    return false;
}

// Returns false if there is no memory, or a name is not UTF-8.
static bool put_bandwidth(json_t *root, const zr_bandwidth_site *place,
                          const zr_bandwidth *measured)
{
    bool formed = json_object_set_new(root, "format", json_integer(FORMAT)) == 0;
    json_t *machines = object_in(root, "machines"),
           *machine = machines ? object_in(machines, place->host) : NULL;
    if (machine && !is_same_processor(machine, place))
        json_object_clear(machine);
    return formed && machine &&
           json_object_set_new(machine, "processor", json_string(place->processor)) == 0 &&
           (measured->copy <= 0 || put_memory(machine, place, measured)) &&
           (measured->read <= 0 || !place->disk || put_disk(machine, place, measured));
}

zero_status zr_bandwidth_write_to(const char *file, const zr_bandwidth_site *place,
                                  const zr_bandwidth *measured, const zero_logger *logger,
                                  zero_error *error)
{
    json_t *root = load_bandwidth(file, logger);
    root = root ? root : json_object();
    char *text =
        root && put_bandwidth(root, place, measured) ? json_dumps(root, JSON_INDENT(2)) : NULL;
    zero_status status = text ? zr_file_write_durable(file, text, strlen(text), error)
                              : zr_fail(error, ZERO_ERR_MEMORY,
                                        "cannot describe the bandwidths of \"%s\"", place->host);
    free(text);
    json_decref(root);
    return status;
}

void zr_bandwidth_read(const char *directory, const zero_logger *logger, zr_bandwidth *out)
{
    zr_bandwidth_site place;
    zero_error error = {0};
    char *file = NULL;
    *out = (zr_bandwidth){0};
    zero_status status = zr_bandwidth_site_find(directory, &place, &error);
    // If there is no place for the file, nothing has been measured.
    if (status == ZERO_OK && zr_user_cache_file(FILE_NAME, WHAT, &file, NULL) == ZERO_OK)
        zr_bandwidth_read_from(file, &place, logger, out);
    if (status != ZERO_OK)
        zr_log(logger, ZERO_LOG_WARNING, "measured bandwidths are not used: %s", error.message);
    zr_free(file);
    zr_bandwidth_site_free(&place);
}

void zr_bandwidth_keep(const char *directory, const zr_bandwidth *measured,
                       const zero_logger *logger, char **file)
{
    zr_bandwidth_site place;
    zero_error error = {0};
    *file = NULL;
    zero_status status = zr_bandwidth_site_find(directory, &place, &error);
    if (status == ZERO_OK)
        status = zr_user_cache_file(FILE_NAME, WHAT, file, &error);
    if (status == ZERO_OK)
        status = zr_user_cache_reserve(*file, &error);
    if (status == ZERO_OK)
        status = zr_bandwidth_write_to(*file, &place, measured, logger, &error);
    zr_bandwidth_site_free(&place);
    if (status == ZERO_OK)
        return;
    zr_log(logger, ZERO_LOG_WARNING, "the bandwidths are not kept: %s", error.message);
    zr_free(*file);
    *file = NULL;
}
