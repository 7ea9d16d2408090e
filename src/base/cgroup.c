// Limits by control groups: every level from the process's own group up to the root counts, and the
// smallest limit wins.
//
// In a container the path that /proc/self/cgroup names often does not exist; the walk up then ends
// at the container's root.
#define _GNU_SOURCE
#include "base/cpu.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNLIMITED_V1 (INT64_MAX / 2) // version 1 writes a huge number for "no limit"

static bool read_cgroup_text(const char *directory, const char *file, char *out, size_t size)
{
    char path[2 * PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, file) >= (int)sizeof path)
        return false;
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    size_t got = fread(out, 1, size - 1, stream);
    fclose(stream);
    out[got] = 0;
    return got > 0;
}

// Returns a number, or INT64_MAX for "max" and for anything that is not a number.
static int64_t read_cgroup_number(const char *directory, const char *file)
{
    char text[64], *end;
    if (!read_cgroup_text(directory, file, text, sizeof text))
        return INT64_MAX;
    long long value = strtoll(text, &end, 10);
    return end == text ? INT64_MAX : value;
}

// Returns the value after "key " in a file of such lines, 0 where the key is missing.
static int64_t read_line_number(const char *directory, const char *file, const char *key)
{
    char text[8192];
    if (!read_cgroup_text(directory, file, text, sizeof text))
        return 0;
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, key, length) && line[length] == ' ')
            return strtoll(line + length, NULL, 10);
    }
    return 0;
}

static double cpu_quota_v2(const char *directory)
{
    char text[64];
    long long quota, period;
    bool limited = read_cgroup_text(directory, "cpu.max", text, sizeof text) &&
                   sscanf(text, "%lld %lld", &quota, &period) == 2;
    return limited && quota > 0 && period > 0 ? (double)quota / (double)period : INFINITY;
}

static double cpu_quota_v1(const char *directory)
{
    int64_t quota = read_cgroup_number(directory, "cpu.cfs_quota_us"),
            period = read_cgroup_number(directory, "cpu.cfs_period_us");
    bool limited = quota > 0 && quota != INT64_MAX && period > 0 && period != INT64_MAX;
    return limited ? (double)quota / (double)period : INFINITY;
}

// File pages that the kernel can reclaim do not count as used.
static double memory_left(int64_t limit, int64_t used, int64_t reclaimable)
{
    if (limit >= UNLIMITED_V1 || used == INT64_MAX)
        return INFINITY;
    return (double)ZR_MAX(limit - ZR_MAX(used - reclaimable, 0), 0);
}

static double memory_left_v2(const char *directory)
{
    int64_t limit = ZR_MIN(read_cgroup_number(directory, "memory.max"),
                           read_cgroup_number(directory, "memory.high"));
    return memory_left(limit, read_cgroup_number(directory, "memory.current"),
                       read_line_number(directory, "memory.stat", "inactive_file"));
}

static double memory_left_v1(const char *directory)
{
    return memory_left(read_cgroup_number(directory, "memory.limit_in_bytes"),
                       read_cgroup_number(directory, "memory.usage_in_bytes"),
                       read_line_number(directory, "memory.stat", "total_inactive_file"));
}

typedef double (*limit_reader)(const char *directory);

// Returns the smallest limit from mount/group up to mount.
static double smallest_upwards(const char *mount, const char *group, limit_reader read)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s%s", mount, group) >= (int)sizeof path)
        return INFINITY;
    size_t mount_length = strlen(mount);
    double smallest = read(mount);
    while (strlen(path) > mount_length) {
        smallest = fmin(smallest, read(path));
        *strrchr(path, '/') = 0;
    }
    return smallest;
}

static bool lists_controller(const char *controllers, const char *wanted)
{
    size_t length = strlen(wanted);
    for (const char *at = strstr(controllers, wanted); at; at = strstr(at + 1, wanted))
        if ((at == controllers || at[-1] == ',') && (at[length] == 0 || at[length] == ','))
            return true;
    return false;
}

// Returns the limit of one line of /proc/self/cgroup, "ID:CONTROLLERS:/GROUP". The line of version
// 2 lists no controllers.
static double limit_of_line(const char *root, char *line, const char *controller, limit_reader v1,
                            limit_reader v2)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || group[1] != '/')
        return INFINITY;
    *group++ = 0;
    controllers++;
    char mount[PATH_MAX];
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        double plain = smallest_upwards(mount, group, v2);
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/unified", root);
        return fmin(plain, smallest_upwards(mount, group, v2));
    }
    if (!lists_controller(controllers, controller))
        return INFINITY;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, controllers);
    double together = smallest_upwards(mount, group, v1);
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, controller);
    return fmin(together, smallest_upwards(mount, group, v1));
}

static double smallest_limit(const char *root, const char *controller, limit_reader v1,
                             limit_reader v2)
{
    char path[PATH_MAX], line[PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return INFINITY;
    double smallest = INFINITY;
    while (fgets(line, sizeof line, stream)) {
        line[strcspn(line, "\n")] = 0;
        smallest = fmin(smallest, limit_of_line(root, line, controller, v1, v2));
    }
    fclose(stream);
    return smallest;
}

double zr_cgroup_cpu_quota(const char *root)
{
    return smallest_limit(root, "cpu", cpu_quota_v1, cpu_quota_v2);
}

int64_t zr_cgroup_memory_left(const char *root)
{
    double left = smallest_limit(root, "memory", memory_left_v1, memory_left_v2);
    return left < 0x1p62 ? (int64_t)left : INT64_MAX;
}

static double memory_limit_v2(const char *directory)
{
    int64_t limit = read_cgroup_number(directory, "memory.max");
    return limit == INT64_MAX ? INFINITY : (double)limit;
}

static double memory_limit_v1(const char *directory)
{
    int64_t limit = read_cgroup_number(directory, "memory.limit_in_bytes");
    return limit >= UNLIMITED_V1 ? INFINITY : (double)limit;
}

// Returns the negative count: the smallest of all levels is then the one with the most kills.
static double negative_oom_kills_v2(const char *directory)
{
    return -(double)read_line_number(directory, "memory.events", "oom_kill");
}

// Kernels before 4.13 count only how often the limit was reached.
static double negative_oom_kills_v1(const char *directory)
{
    char text[256];
    if (read_cgroup_text(directory, "memory.oom_control", text, sizeof text) &&
        strstr(text, "oom_kill "))
        return -(double)read_line_number(directory, "memory.oom_control", "oom_kill");
    int64_t met = read_cgroup_number(directory, "memory.failcnt");
    return met == INT64_MAX ? 0 : -(double)met;
}

zr_cgroup_memory zr_cgroup_memory_look(const char *root)
{
    double limit = smallest_limit(root, "memory", memory_limit_v1, memory_limit_v2),
           kills = -smallest_limit(root, "memory", negative_oom_kills_v1, negative_oom_kills_v2);
    return (zr_cgroup_memory){.limit = limit < 0x1p62 ? (int64_t)limit : INT64_MAX,
                              .kills = kills > 0 ? (int64_t)kills : 0};
}
