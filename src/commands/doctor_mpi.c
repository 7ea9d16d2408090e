// The part of `zero doctor` about MPI: whether the module is there, which MPI it uses, and whether
// mpirun belongs to the same MPI.
#include "comm/comm_ops.h"
#include "commands/doctor_report.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct mpi_family {
    const char *name, *library; // name for people; how the library's version text begins
    const char *launchers[3];   // words in the path of its mpirun, after following links
    const char *packages;       // Debian's
} mpi_family;

static const mpi_family families[] = {
    {"Open MPI", "Open MPI", {"orterun", "openmpi", "prterun"}, "libopenmpi-dev openmpi-bin"},
    {"MPICH", "MPICH", {"mpich", "hydra"}, "libmpich-dev mpich"},
};

static bool in_path(const char *program, char out[static PATH_MAX])
{
    const char *at = getenv("PATH");
    for (at = at ? at : ""; *at; at += strspn(at, ":")) {
        int length = (int)strcspn(at, ":");
        snprintf(out, PATH_MAX, "%.*s/%s", length, at, program);
        if (access(out, X_OK) == 0)
            return true;
        at += length;
    }
    return false;
}

static const mpi_family *family_of_library(const char *library)
{
    for (int f = 0; f < ZR_COUNT(families); f++)
        if (strncmp(library, families[f].library, strlen(families[f].library)) == 0)
            return &families[f];
    return NULL;
}

static const mpi_family *family_of_launcher(const char *path)
{
    char real[PATH_MAX];
    if (!realpath(path, real))
        return NULL;
    for (int f = 0; f < ZR_COUNT(families); f++)
        for (int w = 0; w < ZR_COUNT(families[f].launchers) && families[f].launchers[w]; w++)
            if (strstr(real, families[f].launchers[w]))
                return &families[f];
    return NULL;
}

static void report_module(zr_doctor *d, const char *mpirun)
{
    zr_report *r = d->report;
    char library[128];
    zr_mpi_library(library, sizeof library);
    const mpi_family *built = family_of_library(library),
                     *starts = mpirun ? family_of_launcher(mpirun) : NULL;
    bool other = built && starts && built != starts;
    if (!mpirun)
        ZR_SENTENCE(r, "MPI",
                    "module found, built with {library}; no mpirun in PATH (Debian: {packages})",
                    zr_text(library), zr_text(built ? built->packages : families[0].packages));
    else if (other)
        ZR_SENTENCE(r, "MPI",
                    "module found, built with {library}, but {mpirun} is of {mpirun_is_of}: ranks "
                    "that it starts do not find each other",
                    zr_text(library), zr_text(mpirun), zr_text(starts->name));
    else
        ZR_SENTENCE(r, "MPI", "module found, built with {library}; {mpirun}", zr_text(library),
                    zr_text(mpirun));
    if (!mpirun)
        zr_doctor_lacks(d, true, "mpirun", "for several machines");
    if (other)
        zr_doctor_lacks(d, false, "the mpirun of the MPI of this build", "for several machines");
}

static void report_no_module(zr_doctor *d, const char *mpirun, const char *why)
{
    const mpi_family *starts = mpirun ? family_of_launcher(mpirun) : NULL;
    zr_value absent = zr_absent();
    ZR_SENTENCE(d->report, "MPI",
                "{error}[; {mpirun} is of {mpirun_is_of}: with {packages} installed, build again] "
                "(only needed for several machines)",
                zr_text(why), starts ? zr_text(mpirun) : absent,
                starts ? zr_text(starts->name) : absent,
                starts ? zr_text(starts->packages) : absent);
    zr_doctor_lacks(d, true, "MPI", "for several machines");
}

void zr_doctor_mpi(zr_doctor *d)
{
    char path[PATH_MAX];
    const char *mpirun = in_path("mpirun", path) ? path : NULL;
    const zr_mpi_module *module;
    zero_error error = {0};
    bool found = zr_mpi_load(&module, &error) == ZERO_OK;
    zr_report_begin(d->report, "mpi");
    zr_report_json_only(d->report, "module", zr_flag(found));
    if (found)
        report_module(d, mpirun);
    else
        report_no_module(d, mpirun, error.message);
    zr_report_end(d->report);
}
