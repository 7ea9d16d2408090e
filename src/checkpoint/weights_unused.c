// Finds tensors of a model directory for which the model has no place: a sign that config.json
// describes another model.
#include "checkpoint/tensor_names.h"
#include "checkpoint/weight_files.h"

#include <string.h>

enum { SHOWN = 10 }; // names in a message

static bool is_left_out(const zr_st_set *set, int t, const bool *used, const zr_weights_how *how)
{
    const char *name = set->tensors[t].name;
    return used[t] || zr_tensor_is_buffer(name) ||
           (how->tied_head && !strcmp(name, how->tied_head));
}

// Lists the names, with commas; *count counts all of them. *file is the file of the first.
static void list_names(const zr_st_set *set, const bool *used, const zr_weights_how *how,
                       zr_buffer *names, int *count, int *file)
{
    *count = 0;
    for (int t = 0; t < set->tensor_count; t++) {
        if (is_left_out(set, t, used, how))
            continue;
        if (*count == 0)
            *file = set->tensors[t].file;
        if (*count < SHOWN)
            zr_buffer_printf(names, "%s%s", *count ? ", " : "", set->tensors[t].name);
        ++*count;
    }
    if (*count > SHOWN)
        zr_buffer_printf(names, " and %d more", *count - SHOWN);
}

static zero_status say(const zr_st_set *set, const bool *used, const zr_weights_how *how,
                       zero_error *error)
{
    zr_buffer names = {0};
    int count, file = 0;
    zero_status status = ZERO_OK;
    list_names(set, used, how, &names, &count, &file);
    const char *path = count ? set->paths[file] : "", *s = count == 1 ? "" : "s";
    if (names.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the names of %d tensors of \"%s\"",
                         count, path);
    else if (count && how->ignored)
        zr_log(how->logger, ZERO_LOG_WARNING,
               "\"%s\": %d tensor%s left out that the model has no place for: %s", path, count, s,
               names.data);
    else if (count)
        status = zr_fail(error, ZERO_ERR_DATA,
                         "\"%s\" has %d tensor%s that the model has no place for (--ignore-unused "
                         "leaves %s out): %s",
                         path, count, s, count == 1 ? "it" : "them", names.data);
    zr_buffer_free(&names);
    return status;
}

zero_status zr_weights_check_unused(const zr_st_set *set, const zr_weight_view *view,
                                    const zr_weights_how *how, zero_error *error)
{
    bool *used = zr_alloc(((size_t)set->tensor_count + 1) * sizeof *used, error);
    if (!used)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < view->tensor_count; i++) {
        const zr_st_tensor *found = zr_st_find(set, view->tensors[i]->name);
        if (found)
            used[found - set->tensors] = true;
    }
    zero_status status = say(set, used, how, error);
    zr_free(used);
    return status;
}
