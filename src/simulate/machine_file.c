// Machines and frameworks as JSON. A machine has a table with a row for each key, by which its file
// is read, checked and written.
#include "base/json_writer.h"
#include "simulate/fields.h"
#include "simulate/machine.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *const zr_sim_constant_names[ZR_SIM_CONSTANTS] = {
    [ZR_SIM_REACHED] = "reached",   [ZR_SIM_HALF] = "half",     [ZR_SIM_STREAMED] = "streamed",
    [ZR_SIM_ATTENDED] = "attended", [ZR_SIM_LAUNCH] = "launch", [ZR_SIM_NARROW] = "narrow",
};

const char *const zr_sim_framework_constant_names[ZR_SIM_FRAMEWORK_CONSTANTS] = {
    [ZR_SIM_KERNELS] = "kernels",
    [ZR_SIM_HIDDEN] = "hidden",
};

#define AT(field) .at = offsetof(zr_sim_machine, field)
#define NAME(field) AT(field), .room = sizeof((zr_sim_machine *)0)->field
#define GIGA .kind = ZR_SIM_REAL, .unit = 1e9
#define TERA .kind = ZR_SIM_REAL, .unit = 1e12
#define FEW .kind = ZR_SIM_COUNT
#define LINK(name, reach)                                                                          \
    {.path = "links." name ".GB_s",                                                                \
     GIGA,                                                                                         \
     AT(links[reach].rate),                                                                        \
     .least = 1e-6,                                                                                \
     .wants = "GB/s of a device in one direction"},                                                \
        {.path = "links." name ".latency_us",                                                      \
         .kind = ZR_SIM_REAL,                                                                      \
         .unit = 1e-6,                                                                             \
         AT(links[reach].latency),                                                                 \
         .wants = "microseconds of a step of a collective"},                                       \
    {                                                                                              \
        .path = "links." name ".sharers", FEW, AT(links[reach].sharers), .least = 1,               \
        .wants = "devices that share this rate"                                                    \
    }

static const zr_sim_field rows[] = {
    {.path = "device",
     .kind = ZR_SIM_TEXT,
     NAME(device),
     .wants = "the device's name, as H100-80GB"},
    {.path = "about",
     .kind = ZR_SIM_TEXT,
     .optional = true,
     .wants = "where the numbers are from, for readers"},
    {.path = "devices", FEW, AT(devices), .least = 1, .wants = "devices of a node"},
    {.path = "processors",
     FEW,
     AT(processors),
     .least = 1,
     .wants = "of a device: what tiles of products fill"},
    {.path = "memory_GB", GIGA, AT(memory), .least = 1e-6, .wants = "GB of a device"},
    {.path = "peak_TFLOPS.fp32",
     TERA,
     AT(peak[ZR_SIM_FP32]),
     .wants = "10^12 FLOP/s of a device's products; 0: it has none"},
    {.path = "peak_TFLOPS.16_bit",
     TERA,
     AT(peak[ZR_SIM_16_BIT]),
     .wants = "10^12 FLOP/s of a device's products, dense; 0: it has none"},
    {.path = "peak_TFLOPS.8_bit",
     TERA,
     AT(peak[ZR_SIM_8_BIT]),
     .wants = "10^12 FLOP/s of a device's products, dense; 0: it has none"},
    {.path = "peak_TFLOPS.4_bit",
     TERA,
     AT(peak[ZR_SIM_4_BIT]),
     .wants = "10^12 FLOP/s of a device's products, dense; 0: it has none"},
    {.path = "memory_GB_s",
     GIGA,
     AT(memory_rate),
     .least = 1e-6,
     .wants = "GB/s of a device's memory"},
    LINK("in_node", ZR_SIM_IN_NODE),
    LINK("rail", ZR_SIM_RAIL),
    LINK("spine", ZR_SIM_SPINE),
    {.path = "rail_nodes", FEW, AT(rail_nodes), .wants = "nodes below one switch; 0: all of them"},
    {.path = "taper",
     .kind = ZR_SIM_REAL,
     .unit = 1,
     AT(taper),
     .least = 1e-6,
     .wants = "part of the rail's rate that all have over the spine at once"},
    {.path = "host.memory_GB", GIGA, AT(host_memory), .wants = "GB of a node's memory"},
    {.path = "host.GB_s", GIGA, AT(host_rate), .wants = "GB/s of a node's memory"},
    {.path = "host.link_GB_s", GIGA, AT(host_link), .wants = "GB/s between a device and its host"},
    {.path = "nvme.read_GB_s",
     GIGA,
     AT(nvme_read),
     .optional = true,
     .wants = "GB/s of a node's disks; 0: there are none"},
    {.path = "nvme.write_GB_s",
     GIGA,
     AT(nvme_write),
     .optional = true,
     .wants = "GB/s of a node's disks; 0: there are none"},
    {.path = "fit",
     .kind = ZR_SIM_TEXT,
     NAME(fit),
     .optional = true,
     .wants = "on how many runs the constants were fitted, and how well"},
};

typedef struct reading {
    const zr_sim_text *file;
    char *base;                   // of the struct that is filled
    bool seen[ZR_COUNT(rows)];    // keys that the file has
    bool known[ZR_SIM_CONSTANTS]; // constants that it has
    zero_error *error;
} reading;

enum { PATH_BYTES = 96 };

// Returns whether a row stands in the section `path`.
static bool is_section(const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < ZR_COUNT(rows); i++)
        if (!strncmp(rows[i].path, path, length) && rows[i].path[length] == '.')
            return true;
    return false;
}

typedef struct constants_of { // a machine or a framework
    const char *const *names; // (count)
    int count;
    unsigned positive; // bit i: the i-th is above 0, because something is divided by it
    unsigned shares;   // bit i: it is at most 1, a part of something
} constants_of;

static const constants_of machine_constants = {
    .names = zr_sim_constant_names,
    .count = ZR_SIM_CONSTANTS,
    .positive =
        1 << ZR_SIM_REACHED | 1 << ZR_SIM_STREAMED | 1 << ZR_SIM_ATTENDED | 1 << ZR_SIM_NARROW,
};
static const constants_of framework_constants = {
    .names = zr_sim_framework_constant_names,
    .count = ZR_SIM_FRAMEWORK_CONSTANTS,
    .shares = 1 << ZR_SIM_HIDDEN,
};

// Returns what is wrong about the i-th constant; NULL: nothing.
static const char *find_fault(const constants_of *all, int i, const json_t *value)
{
    double number = json_number_value(value);
    if (!json_is_number(value) || number < 0)
        return "is not a number of at least 0";
    if (number == 0 && (all->positive >> i & 1))
        return "is 0, and has to be more";
    return number > 1 && (all->shares >> i & 1) ? "is more than 1, and a part of something" : NULL;
}

// Reads an object of constants, each a number by its name. known[i]: the i-th is in the file.
static zero_status take_constants(const zr_sim_text *file, const char *path, const json_t *object,
                                  const constants_of *all, double *out, bool *known,
                                  zero_error *error)
{
    const char *key;
    json_t *value;
    char at[2 * PATH_BYTES];
    if (!json_is_object(object))
        return zr_sim_refuse_key(file, path, "is not an object", "constants by their names", error);
    json_object_foreach((json_t *)object, key, value)
    {
        int i = 0;
        while (i < all->count && strcmp(all->names[i], key))
            i++;
        snprintf(at, sizeof at, "%s.%s", path, key);
        if (i == all->count)
            return zr_sim_refuse_key(file, at, "is no constant", "docs/scale.md lists them", error);
        const char *fault = find_fault(all, i, value);
        if (fault)
            return zr_sim_refuse_key(file, at, fault, "a constant", error);
        out[i] = json_number_value(value);
        known[i] = true;
    }
    for (int i = 0; i < all->count; i++)
        if (!known[i]) {
            snprintf(at, sizeof at, "%s.%s", path, all->names[i]);
            return zr_sim_refuse_key(file, at, "is missing", "a constant", error);
        }
    return ZERO_OK;
}

static zero_status read_section_keys(reading *r, const char *section, const json_t *object);

static zero_status read_key_or_section(reading *r, const char *path, const json_t *value)
{
    if (!strcmp(path, "constants"))
        return take_constants(r->file, path, value, &machine_constants,
                              ((zr_sim_machine *)r->base)->constants, r->known, r->error);
    for (int i = 0; i < ZR_COUNT(rows); i++)
        if (!strcmp(rows[i].path, path)) {
            r->seen[i] = true;
            return zr_sim_field_read(r->file, &rows[i], value, r->base, r->error);
        }
    if (!is_section(path))
        return zr_sim_refuse_key(r->file, path, "is no key of a machine",
                                 "docs/scale.md lists them", r->error);
    if (!json_is_object(value))
        return zr_sim_refuse_key(r->file, path, "is not an object", "it has keys of its own",
                                 r->error);
    return read_section_keys(r, path, value);
}

static zero_status read_section_keys(reading *r, const char *section, const json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s%s%s", section, section[0] ? "." : "", key);
        ZERO_TRY(read_key_or_section(r, path, value));
    }
    return ZERO_OK;
}

static zero_status find_missing(const reading *r)
{
    for (int i = 0; i < ZR_COUNT(rows); i++)
        if (!r->seen[i] && !rows[i].optional)
            return zr_sim_refuse_key(r->file, rows[i].path, "is missing", rows[i].wants, r->error);
    if (!r->known[0])
        return zr_sim_refuse_key(r->file, "constants", "is missing", "constants by their names",
                                 r->error);
    return ZERO_OK;
}

zero_status zr_sim_machine_parse(const zr_sim_text *file, zr_sim_machine *out, zero_error *error)
{
    json_t *root;
    *out = (zr_sim_machine){0};
    reading r = {.file = file, .base = (char *)out, .error = error};
    ZERO_TRY(zr_sim_file_parse(file, &root, error));
    zero_status status = read_section_keys(&r, "", root);
    if (status == ZERO_OK)
        status = find_missing(&r);
    json_decref(root);
    return status;
}

#define PROPERTY(name)                                                                             \
    {                                                                                              \
#name, offsetof(zr_sim_framework, name)                                                    \
    }
static const struct {
    const char *key;
    size_t at;
} properties[] = {
    PROPERTY(flash),          PROPERTY(interleaved),  PROPERTY(balanced),
    PROPERTY(wide_gradients), PROPERTY(by_weight),    PROPERTY(overlaps_tensor),
    PROPERTY(recomputes),     PROPERTY(whole_states), PROPERTY(native_attention),
};

// Reads one key of a framework. *known: this key is its constants.
static zero_status take_property(const zr_sim_text *file, const char *path, const char *key,
                                 const json_t *value, zr_sim_framework *out, bool *known,
                                 zero_error *error)
{
    bool seen[ZR_SIM_FRAMEWORK_CONSTANTS] = {false};
    for (int i = 0; i < ZR_COUNT(properties); i++)
        if (!strcmp(key, properties[i].key)) {
            const zr_sim_field field = {.path = path,
                                        .kind = ZR_SIM_FLAG,
                                        .at = properties[i].at,
                                        .wants = "a property of the framework"};
            return zr_sim_field_read(file, &field, value, out, error);
        }
    if (!strcmp(key, "constants")) {
        *known = true;
        return take_constants(file, path, value, &framework_constants, out->constants, seen, error);
    }
    bool fits = json_is_string(value) && json_string_length(value) < sizeof out->fit;
    if (strcmp(key, "fit") || !fits)
        return zr_sim_refuse_key(
            file, path, "is no key of a framework",
            "flash, interleaved, balanced, wide_gradients, overlaps_tensor, by_weight, "
            "recomputes, whole_states, native_attention, constants, and a text fit",
            error);
    snprintf(out->fit, sizeof out->fit, "%s", json_string_value(value));
    return ZERO_OK;
}

static zero_status take_framework(const zr_sim_text *file, const char *name, const json_t *object,
                                  zr_sim_framework *out, zero_error *error)
{
    char path[PATH_BYTES];
    const char *key;
    json_t *value;
    bool known = false;
    *out = (zr_sim_framework){0};
    if (strlen(name) >= sizeof out->name || !json_is_object(object))
        return zr_sim_refuse_key(file, name, "is no framework", "an object with constants", error);
    snprintf(out->name, sizeof out->name, "%s", name);
    json_object_foreach((json_t *)object, key, value)
    {
        snprintf(path, sizeof path, "%s.%s", name, key);
        ZERO_TRY(take_property(file, path, key, value, out, &known, error));
    }
    return known ? ZERO_OK
                 : zr_sim_refuse_key(file, name, "is incomplete", "it has no constants", error);
}

zero_status zr_sim_frameworks_parse(const zr_sim_text *file, zr_sim_framework **out, int *count,
                                    zero_error *error)
{
    json_t *root, *value;
    const char *key;
    *count = 0;
    ZERO_TRY(zr_sim_file_parse(file, &root, error));
    *out = zr_alloc(ZR_MAX(json_object_size(root), 1) * sizeof **out, error);
    zero_status status = *out ? ZERO_OK : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        json_object_foreach(root, key, value)
        {
            status = take_framework(file, key, value, &(*out)[*count], error);
            if (status != ZERO_OK)
                break;
            ++*count;
        }
    json_decref(root);
    if (status == ZERO_OK && !*count)
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: no framework", file->name);
    return status;
}

static void write_value(const zr_sim_machine *machine, const zr_sim_field *row, const char *key,
                        zr_json_writer *w)
{
    const char *at = (const char *)machine + row->at;
    if (row->kind == ZR_SIM_TEXT)
        zr_json_text(w, key, at);
    else if (row->kind == ZR_SIM_COUNT)
        zr_json_integer(w, key, *(const int *)at);
    else // Ten digits: dividing by the unit has left an error in the last of sixteen.
        zr_json_digits(w, key, 10, *(const double *)at / row->unit);
}

// Returns the bytes of a path's section with its point; 0 for "name".
static size_t section_length_of(const char *path)
{
    const char *point = strrchr(path, '.');
    return point ? (size_t)(point - path) + 1 : 0;
}

// Ends the sections of the path `from` and begins those of `to`; "" has no section.
static void change_section(const char *from, const char *to, zr_json_writer *w)
{
    char name[64];
    size_t old = section_length_of(from), new = section_length_of(to), common = 0;
    for (size_t i = 0; i < old && i < new &&from[i] == to[i]; i++)
        if (from[i] == '.')
            common = i + 1;
    for (size_t i = common; i < old; i++)
        if (from[i] == '.')
            zr_json_end(w);
    if (common && new > common)
        zr_json_line(w, 4);
    for (size_t i = common; i < new; i = common) {
        size_t length = strcspn(to + i, ".");
        snprintf(name, sizeof name, "%.*s", (int)length, to + i);
        zr_json_begin_object(w, name);
        common = i + length + 1;
    }
}

void zr_sim_machine_write(const zr_sim_machine *machine, zr_buffer *out)
{
    const char *last = "";
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_INDENTED);
    zr_json_begin_object(&w, NULL);
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        if (rows[i].kind == ZR_SIM_TEXT && !rows[i].room) // nothing keeps it
            continue;
        change_section(last, rows[i].path, &w);
        last = rows[i].path;
        write_value(machine, &rows[i], last + section_length_of(last), &w);
    }
    change_section(last, "", &w);
    zr_json_begin_object(&w, "constants");
    for (int i = 0; i < ZR_SIM_CONSTANTS; i++) {
        zr_json_line(&w, 4);
        zr_json_digits(&w, zr_sim_constant_names[i], 6, machine->constants[i]);
    }
    zr_json_line(&w, 2);
    zr_json_finish(&w);
}
