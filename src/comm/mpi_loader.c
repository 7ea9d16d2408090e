// Finds and loads the module for MPI. The program itself needs no MPI.
//
// The module is looked for next to the file that holds this code (program or shared library), where
// `ninja install` puts modules, in the build tree, and last where the system's loader looks. It
// stays loaded, because MPI cannot be unloaded.
#define _GNU_SOURCE
#include "comm/comm_ops.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const module_places[] = {
    "", "libzero/", "../src/comm/", "../../src/comm/", "src/comm/", "../" ZR_LIBDIR "/libzero/"};

static void read_program_path(char *out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    out[ZR_MAX(length, 0)] = 0;
}

static void find_own_directory(char *out, size_t size)
{
    Dl_info info;
    if (dladdr((const void *)(uintptr_t)zr_mpi_load, &info) && info.dli_fname &&
        strchr(info.dli_fname, '/'))
        snprintf(out, size, "%s", info.dli_fname);
    else // a program that was found through PATH
        read_program_path(out, size);
    char *slash = strrchr(out, '/');
    if (slash)
        slash[1] = 0;
    else
        out[0] = 0;
}

static void *try_load(const char *directory, const char *below, char *first_error, size_t size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s%s%s", directory, below, ZR_MPI_MODULE) >= (int)sizeof path)
        return NULL;
    // RTLD_GLOBAL, because Open MPI's own plugins look for its symbols.
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    const char *problem = library ? NULL : dlerror();
    if (problem && !strstr(problem, "No such file"))
        snprintf(first_error, size, ": %.300s", problem);
    return library;
}

zero_status zr_mpi_load(const zr_mpi_module **out, zero_error *error)
{
    char own[PATH_MAX], problem[320] = "";
    find_own_directory(own, sizeof own);
    void *library = NULL;
    for (int i = 0; i < ZR_COUNT(module_places) && own[0] && !library; i++)
        library = try_load(own, module_places[i], problem, sizeof problem);
    library = library ? library : try_load(ZR_MODULE_DIR "/", "", problem, sizeof problem);
    library = library ? library : try_load("", "", problem, sizeof problem);
    if (!library)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "there is no %s next to the program (%s) or in %s: build where an MPI is "
                       "installed (Debian: libopenmpi-dev, or libmpich-dev)%s",
                       ZR_MPI_MODULE, own, ZR_MODULE_DIR, problem);
    const zr_mpi_module *module = dlsym(library, ZR_MPI_ENTRY);
    if (!module || module->comm_size != sizeof(zero_comm) ||
        strcmp(module->version, zero_version()))
        return zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s is of another version of this library",
                       ZR_MPI_MODULE);
    *out = module;
    return ZERO_OK;
}

void zr_mpi_library(char *out, size_t size)
{
    char text[16384] = ""; // MPICH asks for 8,192 bytes, Open MPI for 256
    int length;
    int (*ask)(char *, int *) =
        (int (*)(char *, int *))(uintptr_t)dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    if (ask)
        ask(text, &length);
    // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\nMPICH Release date: ..."
    text[strcspn(text, ",\n")] = 0;
    for (char *tab = text; (tab = strchr(tab, '\t'));)
        *tab = ' ';
    snprintf(out, size, "%s", *text ? text : "an MPI that does not say its name");
}
