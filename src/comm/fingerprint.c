// Lists of fingerprints: what a rank has read, compared with what rank 0 has read.
#include "comm/agreement.h"

#include "base/alloc.h"

#include <stdio.h>
#include <string.h>

static const char *tail_that_fits(const char *text, size_t size)
{
    size_t length = strlen(text);
    return length < size ? text : text + (length - size + 1);
}

void zr_fingerprints_add(zr_fingerprints *list, const char *what, const char *name,
                         const char *value, uint64_t hash)
{
    if (list->failed)
        return;
    zr_fingerprint *grown = zr_list_grow(list->at, list->count, &list->room, sizeof *grown, NULL);
    list->failed = !grown;
    if (!grown)
        return;
    list->at = grown;
    zr_fingerprint *f = &list->at[list->count++];
    *f = (zr_fingerprint){.hash = hash};
    snprintf(f->what, sizeof f->what, "%s", what);
    snprintf(f->name, sizeof f->name, "%s", tail_that_fits(name, sizeof f->name));
    snprintf(f->value, sizeof f->value, "%s", value);
}

// Writes, for example, "text.txt" (27270 tokens).
static void describe_fingerprint(const zr_fingerprint *f, char *out, size_t size)
{
    if (!f)
        snprintf(out, size, "nothing");
    else
        snprintf(out, size, f->value[0] ? "\"%s\" (%s)" : "\"%s\"", f->name, f->value);
}

static zero_status compare_fingerprint_lists(const zero_comm *comm, const zr_fingerprints *mine,
                                             const zr_fingerprint *first, int64_t count,
                                             zero_error *error)
{
    const int root = zr_comm_job_rank(comm, 0);
    for (int i = 0; i < mine->count || i < count; i++) {
        const zr_fingerprint *own = i < mine->count ? &mine->at[i] : NULL,
                             *its = i < count ? &first[i] : NULL;
        char here[256], there[256];
        if (own && its && own->hash == its->hash && !strcmp(own->what, its->what))
            continue;
        describe_fingerprint(own, here, sizeof here);
        describe_fingerprint(its, there, sizeof there);
        return zr_fail(error, ZERO_ERR_USAGE,
                       "rank %d has another %s than rank %d: %s, where rank %d has %s; all ranks "
                       "must read the same",
                       zr_comm_job_rank(comm, comm->rank), own ? own->what : its->what, root, here,
                       root, there);
    }
    return ZERO_OK;
}

static zero_status compare_with_first(zero_comm *comm, const zr_fingerprints *mine,
                                      zr_fingerprint *first, int64_t count, zero_error *error)
{
    if (comm->rank == 0)
        memcpy(first, mine->at, (size_t)count * sizeof *first);
    ZERO_TRY(zr_comm_broadcast(comm, first, count * (int64_t)sizeof *first, 0, error));
    return zr_comm_agree(comm, compare_fingerprint_lists(comm, mine, first, count, error), error);
}

zero_status zr_comm_compare_fingerprints(zero_comm *comm, zr_fingerprints *list, zero_error *error)
{
    int64_t count = list->count;
    zr_fingerprint *first = NULL;
    zero_status status = list->failed ? zr_fail(error, ZERO_ERR_MEMORY,
                                                "no memory to compare what the ranks have read")
                                      : ZERO_OK;
    status = zr_comm_agree(comm, status, error);
    if (status == ZERO_OK && comm->size > 1)
        status = zr_comm_broadcast(comm, &count, sizeof count, 0, error);
    if (status == ZERO_OK && comm->size > 1) {
        first = zr_alloc((size_t)ZR_MAX(count, 1) * sizeof *first, error);
        status = zr_comm_agree(comm, first ? ZERO_OK : ZERO_ERR_MEMORY, error);
        if (status == ZERO_OK && count)
            status = compare_with_first(comm, list, first, count, error);
    }
    zr_free(first);
    zr_free(list->at);
    *list = (zr_fingerprints){0};
    return status;
}
