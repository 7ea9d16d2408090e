// The second half of zero_doctor: the disk to which a training could offload, and how large a model
// the tiers of this machine could hold.
#include "base/text.h"
#include "plan/stage_traits.h"
#include "predict/disk.h"
#include "commands/doctor_report.h"

#include <math.h>
#include <string.h>

#define QUICK_BYTES ((int64_t)64 << 20)
#define BILLION 1e9

// ZeRO-Infinity section 3: 16-bit parameters and gradients; fp32 parameters, momentum, variance and
// gradients.
static const zr_state_policy paper = {"ZeRO-Infinity", 2, 2, 16};

// Reports what the disk cannot do; that is no failure of the doctor.
static void measure_doctor_disk(const zr_doctor *doctor, const char *directory)
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
        zr_doctor_say(doctor, "  bandwidth", "not measured: %s", error.message);
        return;
    }
    if (disk.direct)
        zr_doctor_say(doctor, "  O_DIRECT", "yes");
    else
        zr_doctor_say(doctor, "  O_DIRECT", "no (%s): transfers go through the page cache",
                      disk.refused);
    zr_doctor_say(doctor, "  engine", "%s", disk.engine);
    zr_doctor_say(doctor, "  bandwidth",
                  "read %.2f, write %.2f, update in place %.2f GB/s (64 MiB for a second; zero "
                  "bench io takes longer)",
                  disk.read.median * 1e-9, disk.write.median * 1e-9, disk.mix.median * 1e-9);
}

typedef struct placement { // where model states are
    const char *name;
    bool parameters_on_disk, others_on_disk; // false: in memory
} placement;

// Returns the number of parameters of the largest model whose states fit.
static double largest(const placement *where, const zr_state_policy *policy, double memory,
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

static void say_largest(const zr_doctor *doctor, double memory, double disk)
{
    char memory_text[32], disk_text[32];
    zr_bytes_text(memory, memory_text);
    zr_bytes_text(disk, disk_text);
    zr_doctor_say(
        doctor, "largest model",
        "of which the states fit into %s of memory and %s of free disk, all ranks together:",
        memory_text, disk_text);
    for (int i = 0; i < ZR_COUNT(placements); i++)
        zr_doctor_say(doctor, "", "%-40s %6.2f billion parameters (paper: %.2f)",
                      placements[i].name,
                      largest(&placements[i], &zr_state_mixed, memory, disk) / BILLION,
                      largest(&placements[i], &paper, memory, disk) / BILLION);
    zr_doctor_say(doctor, "",
                  "16 bytes a parameter: 2 itself, 2 gradient (4 where micro-batches accumulate), "
                  "4 master, 8 moments; the paper counts 20.");
    zr_doctor_say(doctor, "",
                  "The CPU's \"device\" and host are one memory, counted once. The optimizer's "
                  "tier holds the gradients too.");
    zr_doctor_say(doctor, "",
                  "Not counted: activations, and buffers for layers and sub-groups on their way.");
}

void zr_doctor_disk(const zr_doctor *doctor, const char *directory, int64_t memory)
{
    zr_disk disk;
    bool memory_too = false;
    zero_error error = {0};
    zero_status status = zr_disk_look(directory, &disk, &error);
    if (status != ZERO_OK) {
        zr_doctor_say(doctor, "disk", "%s", error.message);
    } else {
        memory_too = strcmp(disk.kind, "tmpfs") == 0;
        zr_doctor_say(doctor, "disk", "\"%s\" (%s, %.1f GB free)%s", directory, disk.kind,
                      (double)disk.available * 1e-9, memory_too ? ": no disk, but memory" : "");
        measure_doctor_disk(doctor, directory);
    }
    say_largest(doctor, (double)memory, (double)disk.available);
    doctor->verdict->in_memory = largest(&placements[0], &zr_state_mixed, (double)memory, 0);
    doctor->verdict->with_disk = largest(&placements[ZR_COUNT(placements) - 1], &zr_state_mixed,
                                         (double)memory, memory_too ? 0 : (double)disk.available);
}
