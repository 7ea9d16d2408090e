// Folders that may have NVIDIA's libraries. One thread at a time calls this (libraries.c).
#define _GNU_SOURCE
#include "cuda/libraries.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *further; // those of zr_cuda_look_in

void zr_cuda_look_in(const char *folders)
{
    pthread_mutex_lock(&lock);
    if (folders && *folders && !further)
        further = zr_strdup(folders, NULL);
    pthread_mutex_unlock(&lock);
}

// Visits the folders that match a pattern, below a root if there is one.
static bool each_match(const char *root, const char *pattern, zr_cuda_visit *visit, void *user)
{
    char path[2048];
    glob_t found;
    bool ended = false;
    if (!root || !*root ||
        (size_t)snprintf(path, sizeof path, "%s%s", root, pattern) >= sizeof path ||
        glob(path, GLOB_ONLYDIR, NULL, &found))
        return false;
    for (size_t i = 0; i < found.gl_pathc && !ended; i++)
        ended = visit(user, found.gl_pathv[i]);
    globfree(&found);
    return ended;
}

// Visits what stands between colons, or at ends of lines.
static bool each_part(const char *text, const char *between, zr_cuda_visit *visit, void *user)
{
    char folder[1024];
    for (; *text; text += strspn(text, between)) {
        size_t length = strcspn(text, between);
        if (length && length < sizeof folder) {
            memcpy(folder, text, length);
            folder[length] = 0;
            if (visit(user, folder))
                return true;
        }
        text += length;
    }
    return false;
}

bool zr_cuda_each_folder(zr_cuda_visit *visit, void *user)
{
    static const struct {
        const char *variable, *root, *pattern;
    } places[] = {
        {"CUDA_HOME", NULL, "/lib64"},
        {"CUDA_HOME", NULL, "/lib"},
        {"VIRTUAL_ENV", NULL, "/lib/python3*/site-packages/nvidia/*/lib"},
        {"CONDA_PREFIX", NULL, "/lib/python3*/site-packages/nvidia/*/lib"},
        {"CONDA_PREFIX", NULL, "/lib"},
        {NULL, "/usr/local/cuda", "*/lib64"},
        {NULL, "/usr/local/cuda", "*/lib"},
    };
    pthread_mutex_lock(&lock);
    const char *own = further; // never changes again
    pthread_mutex_unlock(&lock);
    if (own && each_part(own, ":", visit, user))
        return true;
    for (int i = 0; i < ZR_COUNT(places); i++) {
        const char *root = places[i].variable ? getenv(places[i].variable) : places[i].root;
        if (each_match(root, places[i].pattern, visit, user))
            return true;
    }
    return false;
}

// ---- what python3 says ----

static const char ask_python[] =
    "import glob, os, site, sys\n"
    "for folder in dict.fromkeys(sys.path + [site.getusersitepackages()]):\n"
    "    for found in sorted(glob.glob(os.path.join(folder or '.', 'nvidia', '*', 'lib'))):\n"
    "        print(os.path.abspath(found))\n";

// Starts python3 with its answer going to a pipe. Returns the end to read, or -1.
static int start_python(pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    char *const argv[] = {"python3", "-c", (char *)ask_python, NULL};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return -1;
    int failed = posix_spawn_file_actions_init(&actions);
    if (!failed) {
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        failed = posix_spawnp(pid, "python3", &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

// Reads until the pipe ends, the buffer is full or the time is over.
static void read_answer(int from, double seconds, char *out, size_t room)
{
    const double end = zr_clock_seconds() + seconds;
    size_t length = 0;
    for (;;) {
        double left = end - zr_clock_seconds();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        if (left <= 0 || length + 1 >= room)
            break;
        int found = poll(&ready, 1, (int)(1000 * left) + 1);
        ssize_t got = found > 0 ? read(from, out + length, room - 1 - length) : -1;
        if (got == 0 || (got < 0 && found && errno != EINTR))
            break;
        length += got > 0 ? (size_t)got : 0;
    }
    out[length] = 0;
}

bool zr_cuda_each_python_folder(zr_cuda_visit *visit, void *user)
{
    enum { SECONDS = 10 };
    static char answer[16384];
    static bool asked;
    pid_t pid;
    if (!asked) {
        int from = start_python(&pid);
        asked = true;
        if (from >= 0) {
            read_answer(from, SECONDS, answer, sizeof answer);
            close(from);
            kill(pid, SIGKILL); // it has said all, or takes too long
            while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                continue;
        }
    }
    return each_part(answer, "\n", visit, user);
}
