// Finds tensors of a model directory for which the model has no place: a sign that config.json
// describes another model.
//
// A file may repeat the table of tokens as the head of a model that is tied. With other values it
// is a head of its own, whatever config.json says: transformers 5 uses it, transformers 4 does not.
#include "formats/safetensors_write.h"
#include "formats/weight_files.h"
#include "comm/agreement.h"

#include <string.h>

enum { SHOWN = 10 };                // names in a message
#define COMPARED ((int64_t)1 << 12) // elements at a time

// Returns the head in the files, if the model has no place for it; otherwise NULL.
static const zr_st_tensor *find_spare_head(const zr_st_set *set, const zr_weight_view *view,
                                           const zr_weights_options *how)
{
    for (int i = 0; i < view->tensor_count && how->tied_head; i++)
        if (!strcmp(view->tensors[i]->name, how->tied_head))
            return NULL;
    return how->tied_head ? zr_st_find(set, how->tied_head) : NULL;
}

static bool have_same_shape(const zr_st_tensor *a, const zr_st_tensor *b)
{
    return a->dims == b->dims && !memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape);
}

// Returns whether values differ. Infinities and NaNs are equal to themselves.
static bool values_differ(const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!(a[i] == b[i]) && memcmp(&a[i], &b[i], sizeof *a))
            return true;
    return false;
}

// Compares the elements from `first` up to `end` of two tensors of one shape.
static zero_status compare_elements(zero_comm *comm, const zr_st_set *set, const zr_st_tensor *a,
                                    const zr_st_tensor *b, int64_t first, int64_t end,
                                    int64_t *differs, zero_error *error)
{
    float of_a[COMPARED], of_b[COMPARED];
    for (int64_t n; first < end && !*differs; first += n) {
        n = ZR_MIN(COMPARED, end - first);
        ZERO_TRY(zr_st_read(set, a, first, n, of_a, error));
        ZERO_TRY(zr_st_read(set, b, first, n, of_b, error));
        *differs = values_differ(of_a, of_b, n);
        zr_comm_progress(comm, comm->step);
    }
    return ZERO_OK;
}

zero_status zr_weights_compare_head(zero_comm *comm, const zr_st_set *set,
                                    const zr_weight_view *view, const zr_weights_options *how,
                                    bool *differs, zero_error *error)
{
    const zr_st_tensor *head = find_spare_head(set, view, how),
                       *table = head && how->table ? zr_st_find(set, how->table) : NULL;
    int64_t found = table && !have_same_shape(head, table), all = 1;
    *differs = found;
    // Without a table there is nothing to compare; the missing table is reported elsewhere.
    if (!table || found)
        return ZERO_OK;
    for (int d = 0; d < head->dims; d++)
        all *= head->shape[d];
    zero_status status = compare_elements(comm, set, head, table, all * comm->rank / comm->size,
                                          all * (comm->rank + 1) / comm->size, &found, error);
    ZERO_TRY(zr_comm_agree(comm, status, error));
    ZERO_TRY(zr_comm_agree_on_largest(comm, &found, error));
    *differs = found;
    return ZERO_OK;
}

static bool is_used_or_ignored(const zr_st_set *set, int t, const bool *used,
                               const zr_weights_options *how)
{
    const char *name = set->tensors[t].name;
    return used[t] || zr_tensor_is_buffer(name) ||
           (how->tied_head && zr_st_find(set, how->tied_head) == &set->tensors[t]);
}

// Lists the names, with commas; *count counts all of them. *file is the file of the first.
static void list_names(const zr_st_set *set, const bool *used, const zr_weights_options *how,
                       zr_buffer *names, int *count, int *file)
{
    *count = 0;
    for (int t = 0; t < set->tensor_count; t++) {
        if (is_used_or_ignored(set, t, used, how))
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

static zero_status refuse_weights_unused(const zr_st_set *set, const bool *used,
                                         const zr_weights_options *how, zero_error *error)
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

static zero_status refuse_untied_head(const zr_st_set *set, const zr_weights_options *how,
                                      zero_error *error)
{
    const char *path = set->paths[zr_st_find(set, how->tied_head)->file];
    if (!how->ignored)
        return zr_fail(
            error, ZERO_ERR_DATA,
            "\"%s\": %s has other values than %s, but config.json says that both are one "
            "(\"tie_word_embeddings\"): %s--ignore-unused leaves it out",
            path, how->tied_head, how->table, how->may_untie ? "false there uses it, " : "");
    zr_log(how->logger, ZERO_LOG_WARNING,
           "\"%s\": %s is left out, though it has other values than %s", path, how->tied_head,
           how->table);
    return ZERO_OK;
}

zero_status zr_weights_check_unused(const zr_st_set *set, const zr_weight_view *view,
                                    const zr_weights_options *how, const zr_codes *codes,
                                    bool head_differs, zero_error *error)
{
    if (head_differs)
        ZERO_TRY(refuse_untied_head(set, how, error));
    bool *used = zr_alloc(((size_t)set->tensor_count + 1) * sizeof *used, error);
    if (!used)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < view->tensor_count; i++) {
        const zr_st_tensor *found = zr_st_find(set, view->tensors[i]->name);
        if (found)
            used[found - set->tensors] = true;
    }
    for (int t = 0; t < set->tensor_count && codes; t++)
        used[t] = used[t] || zr_codes_uses(codes, set->tensors[t].name);
    zero_status status = refuse_weights_unused(set, used, how, error);
    zr_free(used);
    return status;
}
