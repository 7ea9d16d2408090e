#define _GNU_SOURCE
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

// Most files of one prefix that a process leaves linked at the same moment.
#define MOST_NUMBERS 1000

// Opens a file that is linked until it is open, where the file system has no O_TMPFILE. Returns an
// errno, or 0.
static int open_named(const char *prefix, int number, char *name, size_t room, int *fd)
{
    int reason = EEXIST;
    for (int i = 0; i < MOST_NUMBERS && reason == EEXIST; i++) {
        snprintf(name, room, "%s.%d", prefix, number + i);
        *fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        reason = *fd < 0 ? errno : 0;
    }
    if (!reason && unlink(name)) {
        reason = errno;
        close(*fd);
    }
    return reason;
}

int zr_file_open_unnamed(const char *directory, const char *prefix, int number, char *name,
                         size_t room, int *fd)
{
    snprintf(name, room, "%s.%d", prefix, number);
    *fd = open(directory, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    return *fd >= 0 ? 0 : open_named(prefix, number, name, room, fd);
}
