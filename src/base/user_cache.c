#include "base/user_cache.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

zero_status zr_user_cache_file(const char *name, const char *what, char **file, zero_error *error)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *file = NULL;
    if (cache && *cache == '/')
        *file = zr_sprintf(error, "%s/libzero/%s", cache, name);
    else if (home && *home == '/')
        *file = zr_sprintf(error, "%s/.cache/libzero/%s", home, name);
    else
        return zr_fail(error, ZERO_ERR_USAGE,
                       "there is no place for %s: neither XDG_CACHE_HOME nor HOME names one", what);
    return *file ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_user_cache_reserve(const char *file, zero_error *error)
{
    char *directory = zr_path_parent(file, error);
    if (!directory)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_directory_create(directory, error);
    zr_free(directory);
    return status;
}
