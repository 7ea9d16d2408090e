// Prints what src/cuda finds of NVIDIA's libraries on a machine that test_libraries.sh makes: a
// line each of name, "yes" or "no", version, path and reason. The loader has the folder $LOADER
// alone, and /usr/local is in $ROOT. $LOOK_IN are further folders.
#define _GNU_SOURCE
#include "cuda/cards.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *dlopen(const char *file, int flags)
{
    static void *(*real)(const char *, int);
    char path[4096];
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    snprintf(path, sizeof path, "%s/%s", getenv("LOADER"), file);
    return real(strchr(file, '/') ? file : path, flags);
}

int glob(const char *restrict pattern, int flags, int (*failed)(const char *, int),
         glob_t *restrict out)
{
    static int (*real)(const char *, int, int (*)(const char *, int), glob_t *);
    char path[4096];
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "glob64");
    snprintf(path, sizeof path, "%s%s", getenv("ROOT"), pattern);
    return real(strncmp(pattern, "/usr/local", 10) == 0 ? path : pattern, flags, failed, out);
}

int main(void)
{
    zr_cuda_look_in(getenv("LOOK_IN"));
    for (int i = 0; i < ZR_CUDA_LIBRARIES; i++) {
        zr_cuda_library_fact fact;
        zr_cuda_library_look((zr_cuda_library)i, &fact);
        printf("%s|%s|%d|%s|%s\n", fact.name, fact.found ? "yes" : "no", fact.version, fact.path,
               fact.why);
    }
    return 0;
}
