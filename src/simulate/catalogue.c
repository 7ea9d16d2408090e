// Finds machines and frameworks.
#include "simulate/catalogue.h"

#include "base/file.h"
#include "base/json_writer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FOLDER "machines/"
#define ENDING ".json"
#define FRAMEWORKS "frameworks" // the one file that is no machine

enum { MOST_BYTES = 1 << 20 }; // of a file

// Reads a file if it exists; else *data is NULL. The caller frees *data.
static zero_status read_file_if_there(const char *path, char **data, zr_sim_text *out,
                                      zero_error *error)
{
    *data = NULL;
    if (!zr_path_exists(path))
        return ZERO_OK;
    *out = (zr_sim_text){.name = path};
    ZERO_TRY(zr_file_read(path, MOST_BYTES, data, &out->length, error));
    out->text = *data;
    return ZERO_OK;
}

// A function that reads the text of a machine's file, or of the file of frameworks.
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

// Reads the file at a path, or the built-in text if there is no file. *found: there is one of them.
static zero_status take_path(const char *path, const char *built_in, take_text *take, void *out,
                             bool *found, zero_error *error)
{
    char *data;
    zr_sim_text file = {.name = path};
    ZERO_TRY(read_file_if_there(path, &data, &file, error));
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
    while (zr_built_ins[count].name)
        count++;
    out->machines = zr_alloc((size_t)count * sizeof *out->machines, error);
    if (!out->machines)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++) {
        const zr_sim_built_in *file = &zr_built_ins[i];
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

// Appends the machines whose names begin with the first word of `name`, whatever its capitals:
// "h100-hgx or h100-96gb" for "h100-pcie". Returns their number.
static int append_family(const zr_sim_catalogue *catalogue, const char *name, zr_buffer *out)
{
    size_t word = strcspn(name, "-_ ");
    int count = 0;
    for (int i = 0; i < catalogue->machine_count && word; i++) {
        const char *text = catalogue->machines[i].name;
        if (!strncasecmp(text, name, word) && (!text[word] || text[word] == '-'))
            zr_buffer_printf(out, "%s%s", count++ ? " or " : "", text);
    }
    return count;
}

static zero_status refuse_machine(const zr_sim_catalogue *catalogue, const char *what,
                                  const char *name, zero_error *error)
{
    zr_buffer list = {0}, family = {0};
    for (int i = 0; i < catalogue->machine_count; i++)
        zr_buffer_printf(&list, "%s%s", i ? ", " : "", catalogue->machines[i].name);
    bool meant = append_family(catalogue, name, &family) && !family.failed;
    zero_status status = zr_fail(error, ZERO_ERR_USAGE, "no %s \"%s\"; %s%s%sthere are %s", what,
                                 name, meant ? "did you mean " : "", meant ? family.data : "",
                                 meant ? "? " : "", list.failed ? "others" : list.data);
    zr_buffer_free(&family);
    zr_buffer_free(&list);
    return status;
}

static bool is_path(const char *name)
{
    size_t length = strlen(name), ending = strlen(ENDING);
    return strchr(name, '/') || (length > ending && !strcmp(name + length - ending, ENDING));
}

// Returns where `part` stands in `text`, whatever their capitals; NULL if it is not there.
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

// Returns the bytes of memory in a device's name, as in "A100-80GB" and "A100 80 GB"; 0 if it has
// none. Digits inside a word do not count: "A10G" does not mean 10 GB.
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

// Returns how well a machine matches a name of a device; 0 if it does not. The exact name decides,
// then the memory in the name: a machine with this memory in its own name matches best.
static int likeness_to_device(const zr_sim_machine *machine, const char *device, double memory)
{
    if (!is_kind(device, machine->device))
        return 0;
    bool same = memory > 0 && memory == machine->memory,
         named = memory > 0 && memory == named_memory(machine->device);
    return 1 + (strcasecmp(device, machine->device) ? 0 : 8) + (same ? 2 : 0) + (named ? 2 : 0);
}

// Returns whether a word of a machine's name adds nothing: it is the device's memory, or a name of
// its maker's usual machine.
static bool is_usual_word(const char *word, size_t length)
{
    static const char *const usual[] = {"sxm", "sxm2", "sxm3", "sxm4", "sxm5",
                                        "hgx", "dgx",  "gb",   "gib",  "nvidia"};
    for (int i = 0; i < ZR_COUNT(usual); i++)
        if (strlen(usual[i]) == length && !strncasecmp(word, usual[i], length))
            return true;
    return is_gigabytes(word + strspn(word, "0123456789"));
}

static bool is_usual(const char *name, const zr_sim_machine *machine)
{
    size_t letters = strcspn(machine->device, "- ");
    for (const char *at = name; *at;) {
        size_t length = strcspn(at, "-_ ");
        bool kind = length == letters && !strncasecmp(at, machine->device, letters);
        if (length && !kind && !is_usual_word(at, length))
            return false;
        at += length + strspn(at + length, "-_ ");
    }
    return true;
}

// Returns whether it is the machine that the device's maker sells: NAME-hgx, NAME-dgx.
static bool is_makers_machine(const zr_sim_machine *machine)
{
    size_t length = strlen(machine->name);
    const char *end = machine->name + (length > 4 ? length - 4 : 0);
    return !strcmp(end, "-hgx") || !strcmp(end, "-dgx");
}

// Finds the one machine that a short name can mean ("H100", "a100-80gb"): the best match, and of
// several its maker's. Returns false if there is no match, or more than one.
static bool find_obvious(const zr_sim_catalogue *catalogue, const char *name, zr_sim_machine *out)
{
    double memory = named_memory(name);
    int most = 0, count = 0;
    for (int i = 0; i < catalogue->machine_count; i++) {
        const zr_sim_machine *machine = &catalogue->machines[i];
        bool has = memory == 0 || memory == machine->memory;
        int like =
            has && is_usual(name, machine) ? 2 * likeness_to_device(machine, name, memory) : 0;
        like += like && is_makers_machine(machine);
        if (!like || like < most)
            continue;
        count = like > most ? 1 : count + 1;
        most = like;
        *out = *machine;
    }
    return count == 1;
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
    if (!found && !is_path(name))
        found = find_obvious(catalogue, name, out);
    return found ? ZERO_OK
                 : refuse_machine(catalogue, is_path(name) ? "file" : "machine", name, error);
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

static void append_rates(const zr_sim_machine *machine, zr_buffer *out)
{
    zr_buffer_printf(out, "%-14s %3d x %-10s %5.0f GB", machine->name, machine->devices,
                     machine->device, machine->memory / 1e9);
    for (int n = ZR_SIM_16_BIT; n <= ZR_SIM_8_BIT; n++)
        if (machine->peak[n] > 0)
            zr_buffer_printf(out, " %7.0f", machine->peak[n] / 1e12);
        else
            zr_buffer_printf(out, " %7s", "-");
    zr_buffer_printf(out, " %10.0f %7.0f %8.1f %8.0f GB\n", machine->memory_rate / 1e9,
                     machine->links[ZR_SIM_IN_NODE].rate / 1e9,
                     machine->links[ZR_SIM_RAIL].rate / 1e9, machine->host_memory / 1e9);
}

static void append_fit(const zr_sim_machine *machine, zr_buffer *out)
{
    zr_buffer_printf(out, "%-14s", "");
    for (int c = 0; c < ZR_SIM_CONSTANTS; c++)
        zr_buffer_printf(out, " %s %.4g", zr_sim_constant_names[c], machine->constants[c]);
    zr_buffer_printf(out, "  (%s)\n", machine->fit[0] ? machine->fit : "estimates");
}

void zr_sim_machine_list(const zr_sim_catalogue *catalogue, bool constants, zr_buffer *out)
{
    zr_buffer_printf(out, "%-14s %-16s %8s %15s %10s %16s\n", "", "a node", "memory", "TFLOP/s of",
                     "memory", "GB/s a device");
    zr_buffer_printf(out, "%-14s %-16s %8s %7s %7s %10s %7s %8s %11s\n", "machine", "", "a device",
                     "16 bit", "8 bit", "GB/s", "in node", "between", "host");
    for (int i = 0; i < catalogue->machine_count; i++) {
        append_rates(&catalogue->machines[i], out);
        if (constants)
            append_fit(&catalogue->machines[i], out);
    }
}

void zr_sim_machine_list_json(const zr_sim_catalogue *catalogue, zr_buffer *out)
{
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_json_begin_array(&w, NULL);
    for (int i = 0; i < catalogue->machine_count; i++) {
        zr_json_begin_object(&w, NULL);
        zr_json_text(&w, "name", catalogue->machines[i].name);
        zr_json_verbatim(&w, "machine", "\n"); // the object follows, as in a file of its own
        zr_sim_machine_write(&catalogue->machines[i], out);
        zr_json_end(&w);
    }
    zr_json_finish(&w);
}
