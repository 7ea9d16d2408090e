// The second half of zero_doctor: the disk to which a training could offload, and how large a model
// the tiers of this machine could hold.
#include "predict/disk.h"
#include "commands/doctor_report.h"

#include <math.h>
#include <string.h>

#define QUICK_BYTES ((int64_t)64 << 20)

typedef struct state_policy { // bytes a parameter
    double parameters, gradients, optimizer;
} state_policy;

// 16-bit parameters and gradients; fp32 master, momentum and variance.
static const state_policy mixed = {2, 2, 12};
// ZeRO-Infinity section 3: 16-bit parameters and gradients; fp32 parameters, momentum, variance and
// gradients.
static const state_policy paper = {2, 2, 16};

// Reports what the disk cannot do; that is no failure of the doctor.
static void report_bandwidth(zr_report *r, const char *directory)
{
    const zr_disk_options options = {.directory = directory,
                                     .bytes = QUICK_BYTES,
                                     .block = 1 << 20,
                                     .depth = 8,
                                     .seconds = 0.1,
                                     .rounds = 3};
    zr_disk disk;
    zero_error error = {0};
    if (zr_disk_measure(&options, &disk, &error) != ZERO_OK) {
        ZR_SENTENCE(r, "  bandwidth", "not measured: {not_measured}", zr_text(error.message));
        return;
    }
    ZR_SENTENCE(r, "  O_DIRECT",
                "{direct}[ ({direct_refused}): transfers go through the page cache]",
                zr_flag(disk.direct), disk.direct ? zr_absent() : zr_text(disk.refused));
    ZR_SENTENCE(r, "  engine", "{engine}", zr_text(disk.engine));
    ZR_SENTENCE(r, "  bandwidth",
                "read {read_bytes_per_second:.2G}, write {write_bytes_per_second:.2G}, update in "
                "place {update_bytes_per_second:.2G} GB/s (64 MiB for a second; zero bench io "
                "takes longer)",
                zr_real(disk.read.median), zr_real(disk.write.median), zr_real(disk.mix.median));
}

typedef struct placement { // where model states are
    const char *name;
    bool parameters_on_disk, others_on_disk; // false: in memory
} placement;

// Returns the number of parameters of the largest model whose states fit.
static double largest(const placement *where, const state_policy *policy, double memory,
                      double disk)
{
    double others = policy->gradients + policy->optimizer;
    double on_disk =
        (where->parameters_on_disk ? policy->parameters : 0) + (where->others_on_disk ? others : 0);
    double in_memory = policy->parameters + others - on_disk;
    return fmin(in_memory > 0 ? memory / in_memory : INFINITY,
                on_disk > 0 ? disk / on_disk : INFINITY);
}

static const placement placements[] = {{"all on the device", false, false},
                                       {"optimizer on the host", false, false},
                                       {"parameters and optimizer on the host", false, false},
                                       {"optimizer on NVMe, parameters in memory", false, true},
                                       {"all on NVMe", true, true}};

static void report_largest(zr_report *r, double memory, double disk)
{
    zr_report_begin(r, "largest_model");
    ZR_SENTENCE(r, "largest model",
                "of which the states fit into {memory_bytes:B} of memory and {disk_bytes:B} of "
                "free disk, all ranks together:",
                zr_real(memory), zr_real(disk));
    zr_report_begin_list(r, "placements");
    for (int i = 0; i < ZR_COUNT(placements); i++) {
        zr_report_begin(r, NULL);
        ZR_SENTENCE(r, "",
                    "{states:-40} {parameters:6.2G} billion parameters (paper: "
                    "{paper_parameters:.2G})",
                    zr_text(placements[i].name),
                    zr_real(largest(&placements[i], &mixed, memory, disk)),
                    zr_real(largest(&placements[i], &paper, memory, disk)));
        zr_report_end(r);
    }
    zr_report_end(r);
    zr_report_end(r);
    zr_report_line(
        r, "",
        "16 bytes a parameter: 2 itself, 2 gradient (4 where micro-batches accumulate), 4 master, "
        "8 moments; the paper counts 20.\n"
        "The CPU's \"device\" and host are one memory, counted once. The optimizer's tier holds "
        "the "
        "gradients too.\n"
        "Not counted: activations, and buffers for layers and sub-groups on their way.");
}

void zr_doctor_disk(zr_doctor *doctor, const char *directory)
{
    zr_report *r = doctor->report;
    zr_disk disk;
    bool in_memory = false;
    zero_error error = {0};
    double memory = (double)doctor->memory;
    zr_report_begin(r, "disk");
    if (zr_disk_look(directory, &disk, &error) != ZERO_OK) {
        ZR_SENTENCE(r, "disk", "{error}", zr_text(error.message));
    } else {
        in_memory = strcmp(disk.kind, "tmpfs") == 0;
        ZR_SENTENCE(r, "disk", "\"{path}\" ({file_system}, {free_bytes:.1G} GB free){is_memory}",
                    zr_text(directory), zr_text(disk.kind), zr_integer(disk.available),
                    in_memory ? zr_both(": no disk, but memory", "true") : zr_both("", "false"));
        report_bandwidth(r, directory);
    }
    zr_report_end(r);
    report_largest(r, memory, (double)disk.available);
    doctor->in_memory = largest(&placements[0], &mixed, memory, 0);
    doctor->with_disk = largest(&placements[ZR_COUNT(placements) - 1], &mixed, memory,
                                in_memory ? 0 : (double)disk.available);
}
