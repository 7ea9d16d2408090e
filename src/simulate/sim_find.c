// Finds machines and frameworks among those that are built in.
#include "simulate/sim_builtin.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Returns where `part` is in `text`, whatever their capitals; NULL: nowhere.
static const char *find_text(const char *text, const char *part)
{
    size_t length = strlen(part);
    for (; *text != 0; text++)
        if (strncasecmp(text, part, length) == 0)
            return text;
    return NULL;
}

void zr_sim_framework_find(const char *text, zr_sim_framework *out)
{
    int last = zr_sim_builtin_framework_count - 1;
    *out = zr_sim_builtin_frameworks[last];
    for (int i = 0; text != NULL && i < last; i++) {
        if (find_text(text, zr_sim_builtin_frameworks[i].name) == NULL)
            continue;
        *out = zr_sim_builtin_frameworks[i];
        return;
    }
}

// Returns the memory that a device's name tells, in GB; 0: none.
static double named_memory(const char *device)
{
    const char *end = find_text(device, "GB");
    while (end != NULL && (end == device || !isdigit((unsigned char)end[-1])))
        end = find_text(end + 1, "GB");
    if (end == NULL)
        return 0;
    const char *begin = end;
    while (begin > device && isdigit((unsigned char)begin[-1]))
        begin--;
    return atof(begin);
}

// Returns whether a text has the kind of a device ("A100" of "A100-80GB") as a word.
static bool is_kind(const char *text, const char *device)
{
    size_t letters = strcspn(device, "- ");
    for (const char *at = text; *at != 0; at++) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        if (begins && strncasecmp(at, device, letters) == 0 && !isdigit((unsigned char)at[letters]))
            return true;
    }
    return false;
}

zero_status zr_sim_machine_of_device(const char *device, int devices, zr_sim_machine *out,
                                     zero_error *error)
{
    const zr_sim_machine *best = NULL;
    double best_score = 0;
    double memory = named_memory(device);
    for (int i = 0; i < zr_sim_builtin_machine_count; i++) {
        const zr_sim_machine *machine = &zr_sim_builtin_machines[i];
        if (!is_kind(device, machine->device))
            continue;
        // A machine whose device has exactly that name is the one.
        double score = 1 + (strcasecmp(device, machine->device) == 0 ? 4 : 0) +
                       (memory > 0 && memory * 1e9 == machine->memory ? 2 : 0) +
                       (devices == machine->devices ? 1 : 0);
        if (score <= best_score)
            continue;
        best = machine;
        best_score = score;
    }
    if (best == NULL) {
        zr_buffer list = {0};
        for (int i = 0; i < zr_sim_builtin_machine_count; i++)
            zr_buffer_printf(&list, "%s%s", i > 0 ? ", " : "", zr_sim_builtin_machines[i].device);
        zr_fail(error, ZERO_ERR_USAGE, "no machine has the device \"%s\"; there are %s", device,
                list.failed ? "others" : list.data);
        zr_buffer_free(&list);
        return ZERO_ERR_USAGE;
    }
    *out = *best;
    if (devices > 0)
        out->devices = devices;
    if (memory > 0)
        out->memory = memory * 1e9;
    return ZERO_OK;
}
