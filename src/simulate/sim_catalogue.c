// Finds machines and frameworks.
#include "simulate/sim_catalogue.h"

#include "base/file.h"
#include "simulate/sim_machine_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FOLDER "machines/"
#define ENDING ".json"
#define FRAMEWORKS "frameworks" // the one file that is no machine

enum { MOST_BYTES = 1 << 20 }; // of a file

// Reads a file, if it is there; *data NULL: it is not. The caller frees *data.
static zero_status read_file(const char *path, char **data, zr_sim_text *out, zero_error *error)
{
    *data = NULL;
    if (!zr_path_exists(path))
        return ZERO_OK;
    *out = (zr_sim_text){.name = path};
    ZERO_TRY(zr_file_read(path, MOST_BYTES, data, &out->length, error));
    out->text = *data;
    return ZERO_OK;
}

// What takes a text: a machine's, or that of the frameworks.
typedef zero_status take_text(const zr_sim_text *file, void *out, zero_error *error);

static zero_status take_machine(const zr_sim_text *file, void *out, zero_error *error)
{
    zr_sim_machine *machine = out;
    const char *slash = strrchr(file->name, '/'), *name = slash ? slash + 1 : file->name;
    size_t length = strlen(name), ending = strlen(ENDING);
    if (length > ending && !strcmp(name + length - ending, ENDING))
        length -= ending;
    ZERO_TRY(zr_sim_machine_parse(file, machine, error));
    snprintf(machine->name, sizeof machine->name, "%.*s", (int)length, name);
    return ZERO_OK;
}

static zero_status take_frameworks(const zr_sim_text *file, void *out, zero_error *error)
{
    zr_sim_catalogue *catalogue = out;
    return zr_sim_frameworks_parse(file, &catalogue->frameworks, &catalogue->framework_count,
                                   error);
}

// Hands on the file of a path; if there is none, the built-in text; *found: either was there.
static zero_status take_path(const char *path, const char *built_in, take_text *take, void *out,
                             bool *found, zero_error *error)
{
    char *data;
    zr_sim_text file = {.name = path};
    ZERO_TRY(read_file(path, &data, &file, error));
    if (!data && built_in)
        file = (zr_sim_text){.name = path, .text = built_in, .length = strlen(built_in)};
    *found = file.text != NULL;
    zero_status status = *found ? take(&file, out, error) : ZERO_OK;
    zr_free(data);
    return status;
}

// The same for machines/NAME.json.
static zero_status take_name(const char *name, const char *built_in, take_text *take, void *out,
                             bool *found, zero_error *error)
{
    char *path = zr_sprintf(error, FOLDER "%s" ENDING, name);
    if (!path)
        return ZERO_ERR_MEMORY;
    zero_status status = take_path(path, built_in, take, out, found, error);
    zr_free(path);
    return status;
}

zero_status zr_sim_catalogue_open(zr_sim_catalogue *out, zero_error *error)
{
    int count = 0;
    bool found;
    *out = (zr_sim_catalogue){0};
    while (zr_sim_built_ins[count].name)
        count++;
    out->machines = zr_alloc((size_t)count * sizeof *out->machines, error);
    if (!out->machines)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        const zr_sim_built_in *file = &zr_sim_built_ins[i];
        bool frameworks = !strcmp(file->name, FRAMEWORKS);
        ZERO_TRY(take_name(file->name, file->text, frameworks ? take_frameworks : take_machine,
                           frameworks ? (void *)out : &out->machines[out->machine_count], &found,
                           error));
        out->machine_count += !frameworks;
    }
    return ZERO_OK;
}

void zr_sim_catalogue_close(zr_sim_catalogue *catalogue)
{
    zr_free(catalogue->machines);
    zr_free(catalogue->frameworks);
    *catalogue = (zr_sim_catalogue){0};
}

// Returns the first text that begins with the first word of `name` as a whole word, whatever the
// case: "h100-hgx" of "H100" and "h100-80gb"; NULL: none does.
static const char *of_family(const zr_sim_catalogue *catalogue, const char *name,
                             const char *field(const zr_sim_machine *))
{
    size_t word = strcspn(name, "-_ ");
    for (int i = 0; i < catalogue->machine_count && word; i++) {
        const char *text = field(&catalogue->machines[i]);
        if (!strncasecmp(text, name, word) && (!text[word] || text[word] == '-'))
            return text;
    }
    return NULL;
}

static zero_status refuse_machine(const zr_sim_catalogue *catalogue, const char *what,
                                  const char *name, const char *field(const zr_sim_machine *),
                                  zero_error *error)
{
    zr_buffer list = {0};
    for (int i = 0; i < catalogue->machine_count; i++) {
        const char *text = field(&catalogue->machines[i]);
        bool again = i && !strcmp(text, field(&catalogue->machines[i - 1]));
        if (!again)
            zr_buffer_printf(&list, "%s%s", i ? ", " : "", text);
    }
    const char *meant = of_family(catalogue, name, field);
    zero_status status = zr_fail(error, ZERO_ERR_USAGE, "no %s \"%s\"; %s%s%sthere are %s", what,
                                 name, meant ? "did you mean " : "", meant ? meant : "",
                                 meant ? "? " : "", list.failed ? "others" : list.data);
    zr_buffer_free(&list);
    return status;
}

static const char *name_of(const zr_sim_machine *machine) { return machine->name; }

static const char *device_of(const zr_sim_machine *machine) { return machine->device; }

static bool is_path(const char *name)
{
    size_t length = strlen(name), ending = strlen(ENDING);
    return strchr(name, '/') || (length > ending && !strcmp(name + length - ending, ENDING));
}

zero_status zr_sim_machine_find(const zr_sim_catalogue *catalogue, const char *name,
                                zr_sim_machine *out, zero_error *error)
{
    bool found = false;
    if (is_path(name))
        ZERO_TRY(take_path(name, NULL, take_machine, out, &found, error));
    for (int i = 0; i < catalogue->machine_count && !found; i++)
        if (!strcasecmp(catalogue->machines[i].name, name)) {
            *out = catalogue->machines[i];
            return ZERO_OK;
        }
    if (!found && !is_path(name))
        ZERO_TRY(take_name(name, NULL, take_machine, out, &found, error));
    return found ? ZERO_OK
                 : refuse_machine(catalogue, is_path(name) ? "file" : "machine", name, name_of,
                                  error);
}

// Returns where `part` is in `text`, whatever their capitals; NULL: nowhere.
static const char *find_text(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text; text++)
        if (!strncasecmp(text, part, length))
            return text;
    return NULL;
}

// Returns whether a text begins with "GB", "GiB" or "G", and neither a longer word nor a rate.
static bool is_gigabytes(const char *text)
{
    if (toupper((unsigned char)*text) != 'G')
        return false;
    text += tolower((unsigned char)text[1]) == 'i' ? 2 : 1;
    text += tolower((unsigned char)*text) == 'b';
    return !isalnum((unsigned char)*text) && *text != '/';
}

// Returns the memory that a device's name tells, in bytes, as in "A100-80GB" and "A100 80 GB"; 0:
// none. Digits within a word are none: "A10G" has no 10 GB.
static double named_memory(const char *device)
{
    for (const char *at = device; *at; at++) {
        bool begins = at == device || (!isalnum((unsigned char)at[-1]) && at[-1] != '.');
        size_t digits = begins ? strspn(at, "0123456789") : 0;
        const char *unit = at + digits + strspn(at + digits, " ");
        if (digits && is_gigabytes(unit))
            return strtod(at, NULL) * 1e9;
    }
    return 0;
}

// Returns whether a text has the kind of a device ("A100" of "A100-80GB") as a word.
static bool is_kind(const char *text, const char *device)
{
    size_t letters = strcspn(device, "- ");
    for (const char *at = text; *at; at++) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && !strncasecmp(at, device, letters) && !isdigit((unsigned char)at[letters]))
            return true;
    }
    return false;
}

// Returns how well a machine is what a table names; 0: not at all. The device's exact name decides,
// then its memory, of which a machine that is named by it is the likelier one, then the devices of
// a node.
static int likeness(const zr_sim_machine *machine, const char *device, double memory, int devices)
{
    if (!is_kind(device, machine->device))
        return 0;
    bool same = memory > 0 && memory == machine->memory,
         named = memory > 0 && memory == named_memory(machine->device);
    return 1 + (strcasecmp(device, machine->device) ? 0 : 8) + (same ? 2 : 0) + (named ? 2 : 0) +
           (devices == machine->devices);
}

zero_status zr_sim_machine_of_device(const zr_sim_catalogue *catalogue, const char *device,
                                     int devices, zr_sim_machine *out, zero_error *error)
{
    const zr_sim_machine *best = NULL;
    int most = 0;
    double memory = named_memory(device);
    for (int i = 0; i < catalogue->machine_count; i++) {
        int like = likeness(&catalogue->machines[i], device, memory, devices);
        if (like <= most)
            continue;
        best = &catalogue->machines[i];
        most = like;
    }
    if (!best)
        return refuse_machine(catalogue, "machine has the device", device, device_of, error);
    *out = *best;
    if (devices > 0)
        out->devices = devices;
    if (memory > 0)
        out->memory = memory;
    return ZERO_OK;
}

bool zr_sim_framework_find(const zr_sim_catalogue *catalogue, const char *text,
                           zr_sim_framework *out)
{
    int last = catalogue->framework_count - 1;
    for (int i = 0; text && i <= last; i++)
        if (find_text(text, catalogue->frameworks[i].name)) {
            *out = catalogue->frameworks[i];
            return true;
        }
    *out = catalogue->frameworks[last];
    return false;
}

void zr_sim_machine_list(const zr_sim_catalogue *catalogue, zr_buffer *out)
{
    for (int i = 0; i < catalogue->machine_count; i++) {
        const zr_sim_machine *machine = &catalogue->machines[i];
        zr_buffer_printf(out, "%-14s %2d x %-12s", machine->name, machine->devices,
                         machine->device);
        for (int c = 0; c < ZR_SIM_CONSTANTS; c++)
            zr_buffer_printf(out, " %s %.4g", zr_sim_constant_names[c], machine->constants[c]);
        zr_buffer_printf(out, "  (%s)\n", machine->fit[0] ? machine->fit : "estimates");
    }
}
