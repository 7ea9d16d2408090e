#include "formats/name_index.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

// Orders by name; of equal names the first number comes first.
static int order_by_name(const void *a, const void *b)
{
    const zr_named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

zero_status zr_name_index_create(const char *(*name_of)(const void *user, int number),
                                 const void *user, int count, zr_named **out, zero_error *error)
{
    zr_named *index = *out = zr_alloc(((size_t)count + 1) * sizeof *index, error);
    if (!index)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < count; i++)
        index[i] = (zr_named){name_of(user, i), i};
    qsort(index, (size_t)count, sizeof *index, order_by_name);
    return ZERO_OK;
}

int zr_name_index_find(const zr_named *index, int count, const char *name)
{
    int low = 0, high = count; // names before low are less, those from high on are not
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (strcmp(index[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && !strcmp(index[low].name, name) ? index[low].number : -1;
}
