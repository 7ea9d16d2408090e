// Directories: created with their parents, brought to the disk, removed with their content, locked
// for one run.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEPEST_DIRECTORY 64
#define MOST_NAMED 3 // names in a message

char *zr_path_parent(const char *path, zero_error *error)
{
    const char *slash = strrchr(path, '/');
    return slash ? zr_sprintf(error, "%.*s", (int)ZR_MAX(slash - path, 1), path)
                 : zr_strdup(".", error);
}

static zero_status sync_parent(const char *path, zero_error *error)
{
    char *parent = zr_path_parent(path, error);
    zero_status status = parent ? zr_directory_sync(parent, error) : ZERO_ERR_MEMORY;
    zr_free(parent);
    return status;
}

// Does one step of mkdir -p. It creates first and looks at what exists only then, so that two ranks
// may do this at once.
static zero_status create_one(const char *path, zero_error *error)
{
    if (mkdir(path, 0777) == 0)
        return sync_parent(path, error);
    int reason = errno;
    struct stat info;
    if (stat(path, &info))
        return zr_fail_errno(error, ZERO_ERR_IO, reason, "cannot create the directory \"%s\"",
                             path);
    if (!S_ISDIR(info.st_mode))
        return zr_fail(error, ZERO_ERR_IO,
                       "cannot create the directory \"%s\": there is something else of that name",
                       path);
    return ZERO_OK;
}

zero_status zr_directory_create(const char *path, zero_error *error)
{
    char *prefix = zr_strdup(path, error);
    if (!prefix)
        return ZERO_ERR_MEMORY;
    zero_status status = ZERO_OK;
    char *slash = prefix;
    while (status == ZERO_OK && (slash = strchr(slash + (*slash != 0), '/'))) {
        if (slash == prefix)
            continue;
        *slash = 0;
        status = create_one(prefix, error);
        *slash = '/';
    }
    if (status == ZERO_OK)
        status = create_one(prefix, error);
    zr_free(prefix);
    return status;
}

zero_status zr_directory_sync(const char *path, zero_error *error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot open the directory \"%s\"", path);
    int reason = fsync(fd) ? errno : 0;
    close(fd);
    if (reason && reason != EINVAL) // EINVAL: this file system has nothing to bring to a disk
        return zr_fail_errno(error, ZERO_ERR_IO, reason,
                             "cannot bring the directory \"%s\" to the disk", path);
    return ZERO_OK;
}

static int remove_content(int fd, int depth);

// Returns 0 or an errno. Links are removed, never followed.
static int remove_entry(int parent, const char *name, int depth)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return errno;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int reason = remove_content(fd, depth + 1);
    if (!reason && unlinkat(parent, name, AT_REMOVEDIR) && errno != ENOENT)
        reason = errno;
    return reason;
}

// Empties the directory and closes fd.
static int remove_content(int fd, int depth)
{
    DIR *directory = depth < DEEPEST_DIRECTORY ? fdopendir(fd) : NULL;
    if (!directory) {
        int reason = depth < DEEPEST_DIRECTORY ? errno : ELOOP;
        close(fd);
        return reason;
    }
    int reason = 0;
    while (!reason) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry) {
            reason = errno;
            break;
        }
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            reason = remove_entry(fd, entry->d_name, depth);
    }
    closedir(directory);
    return reason;
}

zero_status zr_directory_remove(const char *path, zero_error *error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return ZERO_OK;
    int reason = fd < 0 ? errno : remove_content(fd, 0);
    if (!reason && rmdir(path) && errno != ENOENT)
        reason = errno;
    return reason ? zr_fail_errno(error, ZERO_ERR_IO, reason, "cannot remove the directory \"%s\"",
                                  path)
                  : ZERO_OK;
}

zero_status zr_directory_empty(const char *path, zero_error *error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int reason = fd < 0 ? errno : remove_content(fd, 0);
    return reason ? zr_fail_errno(error, ZERO_ERR_IO, reason, "cannot empty the directory \"%s\"",
                                  path)
                  : ZERO_OK;
}

char *zr_directory_hidden(const char *path, zero_error *error)
{
    const char *slash = strrchr(path, '/');
    int parent = slash ? (int)(slash - path) + 1 : 0;
    return zr_sprintf(error, "%.*s.%s.tmp", parent, path, path + parent);
}

zero_status zr_directory_discard(const char *path, zero_error *error)
{
    char *hidden = zr_directory_hidden(path, error);
    // A process that was killed may have left something under the hidden name.
    zero_status status = hidden ? zr_directory_remove(hidden, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK && rename(path, hidden))
        status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot rename \"%s\" to \"%s\"", path,
                               hidden);
    if (status == ZERO_OK)
        status = zr_directory_remove(hidden, error);
    zr_free(hidden);
    return status;
}

static zero_status cannot_rename(const char *hidden, const char *path, zero_error *error)
{
    return zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot rename \"%s\" to \"%s\"", hidden, path);
}

// Brings the renamed entry to the disk. If that fails, the name might not outlive a loss of power,
// so the rename is undone and the path is what it was before. `way`: the flags of renameat2 that
// undo it.
static zero_status settle_name(const char *hidden, const char *path, unsigned way,
                               zero_error *error)
{
    zero_status status = sync_parent(path, error);
    if (status != ZERO_OK)
        (void)renameat2(AT_FDCWD, path, AT_FDCWD, hidden, way);
    return status;
}

// Replaces by two renames, where the file system cannot exchange names (NFS). Between them the path
// does not exist, and its old content has the name `earlier`.
static zero_status replace_in_two_steps(const char *hidden, const char *path, const char *earlier,
                                        zero_error *error)
{
    // What a killed process left there is not needed, because the path exists.
    ZERO_TRY(zr_directory_remove(earlier, error));
    if (rename(path, earlier))
        return cannot_rename(path, earlier, error);
    zero_status status = rename(hidden, path) ? cannot_rename(hidden, path, error)
                                              : settle_name(hidden, path, 0, error);
    if (status != ZERO_OK)
        (void)rename(earlier, path);
    return status;
}

static bool cannot_exchange(int reason)
{
    return reason == EINVAL || reason == ENOSYS || reason == EOPNOTSUPP;
}

zero_status zr_directory_publish(const char *hidden, const char *path, zero_error *error)
{
    bool replaces = zr_path_exists(path);
    char *earlier = zr_sprintf(error, "%s.earlier", hidden);
    if (!earlier)
        return ZERO_ERR_MEMORY;
    unsigned way = replaces ? RENAME_EXCHANGE : 0;
    zero_status status;
    if (renameat2(AT_FDCWD, hidden, AT_FDCWD, path, way) == 0)
        status = settle_name(hidden, path, way, error);
    else if (replaces && cannot_exchange(errno))
        status = replace_in_two_steps(hidden, path, earlier, error);
    else
        status = cannot_rename(hidden, path, error);
    if (status == ZERO_OK && replaces)
        // After an exchange this is what was at the path before.
        status = zr_directory_remove(hidden, error);
    // This is the same after two renames, or what a killed process had left.
    if (status == ZERO_OK)
        status = zr_directory_remove(earlier, error);
    zr_free(earlier);
    return status;
}

bool zr_directory_others(const char *path, bool (*is_known)(const char *name), char *names,
                         size_t room)
{
    DIR *entries = opendir(path);
    int found = 0;
    size_t length = 0;
    names[0] = 0;
    if (!entries && errno != ENOENT && errno != ENOTDIR) {
        snprintf(names, room, "what cannot be read");
        return true;
    }
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || is_known(entry->d_name))
            continue;
        if (found++ < MOST_NAMED && length < room)
            length += (size_t)snprintf(names + length, room - length, "%s%s", found > 1 ? ", " : "",
                                       entry->d_name);
    }
    if (found > MOST_NAMED && length < room)
        snprintf(names + length, room - length, " and %d more", found - MOST_NAMED);
    if (entries)
        closedir(entries);
    return found > 0;
}

zero_status zr_directory_lock(const char *path, int *fd, zero_error *error)
{
    char *name = zr_sprintf(error, "%s/" ZR_LOCK_FILE, path);
    if (!name)
        return ZERO_ERR_MEMORY;
    zero_status status = ZERO_OK;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*fd < 0) {
        status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot create \"%s\"", name);
    } else if (fcntl(*fd, F_OFD_SETLK, &lock)) {
        if (errno == EAGAIN || errno == EACCES)
            status = zr_fail(
                error, ZERO_ERR_USAGE,
                "another run is writing to \"%s\" (it holds %s): choose another directory, or wait",
                path, name);
        else
            status = zr_fail_errno(error, ZERO_ERR_IO, errno, "cannot lock \"%s\"", name);
        close(*fd);
        *fd = -1;
    }
    zr_free(name);
    return status;
}
