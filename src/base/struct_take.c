// Takes over a struct of any version.
#include "base/struct_take.h"

#include <string.h>

// A newer version may have so many bytes more; a larger size is a mistake.
#define MOST_NEW 4096

static bool is_zero(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

zero_status zr_struct_take(const char *name, const void *from, size_t first, void *to, size_t size,
                           zero_error *error)
{
    const char *given = from;
    size_t given_size;
    memcpy(&given_size, from, sizeof given_size);
    if (given_size < first || given_size > size + MOST_NEW)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s.struct_size is %zu, this library expects %zu, its sizeof", name,
                       given_size, size);
    if (given_size > size && !is_zero(given + size, given_size - size))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s.struct_size is %zu, this library expects %zu, and a field that it does "
                       "not know is set: the program is made for a newer one",
                       name, given_size, size);
    memset(to, 0, size);
    memcpy(to, from, ZR_MIN(given_size, size));
    memcpy(to, &size, sizeof size);
    return ZERO_OK;
}
