// Where names lead: through symbolic links, and to one file that has two names.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool zr_path_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

bool zr_path_is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

bool zr_path_is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool zr_path_is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool zr_path_has(const char *directory, const char *name)
{
    char *path = zr_sprintf(NULL, "%s/%s", directory, name);
    bool there = path && zr_path_exists(path);
    zr_free(path);
    return there;
}

static bool is_same_file(const char *path, const struct stat *other)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_dev == other->st_dev && info.st_ino == other->st_ino;
}

// Walks up from the resolved name. Comparing device and inode numbers finds a place that a bind
// mount shows under another name.
bool zr_path_lies_in(const char *path, const char *place)
{
    char at[PATH_MAX];
    struct stat info;
    if (!realpath(path, at) || stat(place, &info))
        return false;
    for (char *slash; !is_same_file(at, &info); slash[slash == at] = 0) {
        slash = strrchr(at, '/');
        if (!slash || !slash[1])
            return false;
    }
    return true;
}

// Resolves the deepest part that exists, and appends the rest by its names.
static bool resolve_existing_part(const char *path, char out[static PATH_MAX])
{
    char at[PATH_MAX], rest[PATH_MAX] = "", longer[PATH_MAX];
    int up = 0; // names that a ".." after them cancels
    if (snprintf(at, sizeof at, "%s%s", path[0] == '/' ? "" : "./", path) >= (int)sizeof at)
        return false;
    while (!realpath(at, out)) {
        char *slash = strrchr(at, '/');
        if (!slash || errno != ENOENT)
            return false;
        if (!strcmp(slash, "/.."))
            up++;
        else if (slash[1] && strcmp(slash, "/.") && up-- <= 0) {
            up = 0;
            snprintf(longer, sizeof longer, "%s", rest);
            snprintf(rest, sizeof rest, "/%.*s%.*s", NAME_MAX, slash + 1,
                     (int)(sizeof rest - NAME_MAX - 2), longer);
        }
        slash[slash == at] = 0;
    }
    size_t length = strcmp(out, "/") ? strlen(out) : 0;
    return snprintf(out + length, PATH_MAX - length, "%s", rest) < (int)(PATH_MAX - length);
}

bool zr_path_would_lie_in(const char *path, const char *place)
{
    char inner[PATH_MAX], outer[PATH_MAX];
    if (!resolve_existing_part(path, inner) || !resolve_existing_part(place, outer))
        return false;
    size_t length = strlen(outer);
    return !strncmp(inner, outer, length) && (inner[length] == 0 || inner[length] == '/');
}

size_t zr_file_head(const char *path, char *out, size_t room)
{
    struct stat info;
    // Without O_NONBLOCK a pipe without a writer would be waited for.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = 0;
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
        do
            got = pread(fd, out, room - 1, 0);
        while (got < 0 && errno == EINTR);
    if (fd >= 0)
        close(fd);
    out[ZR_MAX(got, 0)] = 0;
    return (size_t)ZR_MAX(got, 0);
}

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
