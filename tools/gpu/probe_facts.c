// What the device and the host are: the numbers that the other answers are read with.
#define _GNU_SOURCE
#include "probe.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    const char *key;
    unsigned attribute;
} attributes[] = {
    {"processors", ZR_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {"khz", ZR_CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {"memory_khz", ZR_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE},
    {"memory_bits", ZR_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {"l2_bytes", ZR_CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {"copy_engines", ZR_CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {"shared_bytes", ZR_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {"same_pointer", ZR_CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {"pageable", ZR_CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
};

static bool describe_device(probe_session *session)
{
    char name[128] = "";
    int devices = 0;
    size_t unused = 0, all = 0;
    PROBE_TRY(session, cuDeviceGetName, name, sizeof name, session->device);
    PROBE_TRY(session, cuDeviceGetCount, &devices);
    probe_answer_text(session->answer, "name", name);
    probe_answer_integer(session->answer, "devices", devices);
    probe_answer_integer(session->answer, "driver", session->driver_version);
    probe_answer_integer(session->answer, "capability", session->capability);
    for (size_t i = 0; i < PROBE_LENGTH(attributes); i++) {
        int value = 0;
        PROBE_TRY(session, cuDeviceGetAttribute, &value, attributes[i].attribute, session->device);
        probe_answer_integer(session->answer, attributes[i].key, value);
    }
    PROBE_TRY(session, cuMemGetInfo_v2, &unused, &all);
    probe_answer_integer(session->answer, "free_bytes", (long long)unused);
    probe_answer_integer(session->answer, "bytes", (long long)all);
    return true;
}

// The name of the host's processor, as the kernel has it.
static void name_processor(char *out, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    snprintf(out, bytes, "unknown");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %127[^\n]", out) == 1)
            break;
    if (file)
        fclose(file);
}

static void describe_host(probe_session *session)
{
    char name[128];
    cpu_set_t allowed;
    name_processor(name, sizeof name);
    probe_answer_text(session->answer, "host", name);
    probe_answer_integer(session->answer, "host_cpus", sysconf(_SC_NPROCESSORS_ONLN));
    if (!sched_getaffinity(0, sizeof allowed, &allowed))
        probe_answer_integer(session->answer, "host_cpus_allowed", CPU_COUNT(&allowed));
    probe_answer_integer(session->answer, "host_bytes",
                         (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    probe_answer_integer(session->answer, "host_free_bytes",
                         (long long)probe_host_share(SIZE_MAX, 1));
}

bool probe_facts(probe_session *session)
{
    describe_host(session);
    return describe_device(session);
}
