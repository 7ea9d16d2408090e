// What the machine provides: instruction sets compared with /proc/cpuinfo, cores with a mask, and
// limits with made-up control groups.
#define _GNU_SOURCE
#include "scratch_directory.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include <math.h>
#include <sched.h>

#if defined(__x86_64__)
static bool kernel_lists(const char *flags, const char *flag)
{
    char word[32];
    snprintf(word, sizeof word, " %s ", flag);
    return strstr(flags, word) != NULL;
}

static void features_are_those_of_the_kernel(void **state)
{
    char *text;
    size_t length;
    assert_int_equal(zr_file_read("/proc/cpuinfo", 64 << 20, &text, &length, NULL), ZERO_OK);
    char *flags = strstr(text, "\nflags");
    assert_non_null(flags);
    *strchr(flags + 1, '\n') = ' ';
    char *next = strchr(flags + 1, '\n');
    if (next)
        *next = 0;
    zr_cpu_features have = zr_cpu_detect();
    bool avx512 = kernel_lists(flags, "avx512f") && kernel_lists(flags, "avx512bw") &&
                  kernel_lists(flags, "avx512dq") && kernel_lists(flags, "avx512vl");
    assert_int_equal(have.crc32, kernel_lists(flags, "sse4_2"));
    assert_int_equal(have.f16c, kernel_lists(flags, "f16c"));
    assert_int_equal(have.avx2_fma, kernel_lists(flags, "avx2") && kernel_lists(flags, "fma") &&
                                        kernel_lists(flags, "f16c"));
    assert_int_equal(have.avx512, avx512);
    assert_int_equal(have.avx512_bf16, avx512 && kernel_lists(flags, "avx512_bf16"));
    if (have.amx_bf16)
        assert_true(kernel_lists(flags, "amx_bf16"));
    zr_free(text);
}
#else
static void features_are_those_of_the_kernel(void **state)
{
    zr_cpu_features have = zr_cpu_detect();
    assert_false(have.avx2_fma || have.avx512 || have.avx512_bf16 || have.amx_bf16 || have.f16c);
}
#endif

static void the_model_has_a_name(void **state)
{
    char name[128], tiny[4];
    zr_cpu_model(name, sizeof name);
    zr_cpu_model(tiny, sizeof tiny);
    assert_true(strlen(name) > 3);
    assert_null(strchr(name, '\n'));
    assert_int_equal(strlen(tiny), 3);
    assert_memory_equal(tiny, name, 3);
}

static void cores_follow_the_mask(void **state)
{
    zr_cpu_budget all = zr_cpu_budget_get();
    assert_in_range(all.allowed, 1, all.cores);
    assert_contains(all.reason, " of ");
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
            break;
        }
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    zr_cpu_budget bound = zr_cpu_budget_get();
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(bound.cores, 1);
    assert_int_equal(bound.allowed, 1);
    if (all.cores > 1)
        assert_contains(bound.reason, "affinity mask");
}

static void slurm_s_word_counts(void **state)
{
    zr_cpu_budget all = zr_cpu_budget_get();
    static const struct {
        const char *text;
        bool valid;
    } cases[] = {{"1", true},  {"100000", false}, {"0", false}, {"-1", false},
                 {"x", false}, {"", false},       {"1x", false}};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        setenv("SLURM_CPUS_PER_TASK", cases[i].text, 1);
        zr_cpu_budget budget = zr_cpu_budget_get();
        assert_int_equal(budget.allowed, cases[i].valid ? 1 : all.allowed);
        if (cases[i].valid && all.allowed > 1)
            assert_contains(budget.reason, "SLURM_CPUS_PER_TASK");
    }
    unsetenv("SLURM_CPUS_PER_TASK");
}

static void memory_is_available(void **state)
{
    char reason[64];
    assert_in_range(zr_memory_available(reason, sizeof reason), 1 << 20, INT64_MAX);
    assert_true(strstr(reason, "memory available") || strstr(reason, "control group"));
    assert_true(zr_memory_available(NULL, 0) > 0);
    assert_in_range(zr_memory_resident(), 1 << 16, zr_memory_available(NULL, 0));
}

typedef struct made_file {
    const char *path, *text;
} made_file;

static void make_tree(scratch *dir, const made_file *files, int count)
{
    for (int i = 0; i < count; i++) {
        char parent[512];
        strcpy(parent, scratch_path(dir, files[i].path));
        *strrchr(parent, '/') = 0;
        assert_int_equal(zr_directory_create(parent, NULL), ZERO_OK);
        scratch_write(dir, files[i].path, files[i].text);
    }
}

static void version_2_takes_the_smallest_of_all_levels(void **state)
{
    static const made_file files[] = {
        {"proc/self/cgroup", "0::/slurm/job/step\n"},
        {"sys/fs/cgroup/slurm/cpu.max", "800000 100000\n"},
        {"sys/fs/cgroup/slurm/job/cpu.max", "250000 100000\n"},
        {"sys/fs/cgroup/slurm/job/step/cpu.max", "max 100000\n"},
        {"sys/fs/cgroup/slurm/memory.max", "10000000\n"},
        {"sys/fs/cgroup/slurm/memory.current", "4000000\n"},
        {"sys/fs/cgroup/slurm/memory.stat", "anon 1\nfile 7\ninactive_file 1500000\nslab 3\n"},
        {"sys/fs/cgroup/slurm/job/memory.max", "max\n"},
        {"sys/fs/cgroup/slurm/job/memory.high", "9000000\n"},
        {"sys/fs/cgroup/slurm/job/memory.current", "1000000\n"},
    };
    scratch *dir = *state;
    make_tree(dir, files, ZR_COUNT(files));
    assert_true(zr_cgroup_cpu_quota(dir->directory) == 2.5);
    assert_int_equal(zr_cgroup_memory_left(dir->directory), 10000000 - (4000000 - 1500000));
    assert_int_equal(zr_cgroup_memory_look(dir->directory).limit, 10000000);
    assert_int_equal(zr_cgroup_memory_look(dir->directory).kills, 0);
    scratch_write(dir, "sys/fs/cgroup/slurm/memory.events",
                  "low 0\nhigh 9\nmax 8\noom 3\noom_kill 2\n");
    assert_int_equal(zr_cgroup_memory_look(dir->directory).kills, 2);
    scratch_write(dir, "sys/fs/cgroup/slurm/job/memory.high", "8000000\n");
    assert_int_equal(zr_cgroup_memory_left(dir->directory), 7000000);
    // over the limit: none left, not less
    scratch_write(dir, "sys/fs/cgroup/slurm/job/memory.current", "8500000\n");
    assert_int_equal(zr_cgroup_memory_left(dir->directory), 0);
}

static void version_1_too(void **state)
{
    static const made_file files[] = {
        {"proc/self/cgroup",
         "12:cpuset:/x\n9:cpu,cpuacct:/docker/abc\n7:memory:/docker/abc\n1:name=systemd:/\n0::/\n"},
        {"sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "150000\n"},
        {"sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n"},
        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
        {"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
        {"sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "1\n"},
        {"sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "100000\n"},
        {"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "5000000\n"},
        {"sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "3000000\n"},
        {"sys/fs/cgroup/memory/docker/abc/memory.stat",
         "inactive_file 9\ntotal_inactive_file 1000000\n"},
        {"sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {"sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n"},
    };
    scratch *dir = *state;
    make_tree(dir, files, ZR_COUNT(files));
    assert_true(zr_cgroup_cpu_quota(dir->directory) == 1.5);
    assert_int_equal(zr_cgroup_memory_left(dir->directory), 3000000);
    assert_int_equal(zr_cgroup_memory_look(dir->directory).limit, 5000000);
    assert_int_equal(zr_cgroup_memory_look(dir->directory).kills, 0);
    // all that an old kernel counts
    scratch_write(dir, "sys/fs/cgroup/memory/docker/abc/memory.failcnt", "7\n");
    assert_int_equal(zr_cgroup_memory_look(dir->directory).kills, 7);
    scratch_write(dir, "sys/fs/cgroup/memory/docker/abc/memory.oom_control",
                  "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    assert_int_equal(zr_cgroup_memory_look(dir->directory).kills, 1);
}

// A container that sees the host's path in /proc/self/cgroup, and its own group as the root.
static void a_container_s_root_counts(void **state)
{
    static const made_file files[] = {
        {"proc/self/cgroup", "0::/../../kubepods/pod1\n"},
        {"sys/fs/cgroup/cpu.max", "300000 100000\n"},
        {"sys/fs/cgroup/memory.max", "1000\n"},
        {"sys/fs/cgroup/memory.current", "400\n"},
    };
    scratch *dir = *state;
    make_tree(dir, files, ZR_COUNT(files));
    assert_true(zr_cgroup_cpu_quota(dir->directory) == 3.0);
    assert_int_equal(zr_cgroup_memory_look(dir->directory).limit, 1000);
    assert_int_equal(zr_cgroup_memory_left(dir->directory), 600);
}

static void no_groups_and_nonsense_are_no_limit(void **state)
{
    scratch *dir = *state;
    assert_true(isinf(zr_cgroup_cpu_quota(dir->directory)));
    assert_true(zr_cgroup_memory_left(dir->directory) == INT64_MAX);
    static const made_file files[] = {
        {"proc/self/cgroup", "nonsense\n0:\n0::\n:::::\n\n0::/a\n"},
        {"sys/fs/cgroup/a/cpu.max", "many few\n"},
        {"sys/fs/cgroup/a/memory.max", "lots\n"},
        {"sys/fs/cgroup/a/memory.current", ""},
        {"sys/fs/cgroup/cpu.max", "100000 0\n"},
    };
    make_tree(dir, files, ZR_COUNT(files));
    assert_true(isinf(zr_cgroup_cpu_quota(dir->directory)));
    assert_true(zr_cgroup_memory_left(dir->directory) == INT64_MAX);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_those_of_the_kernel),
        cmocka_unit_test(the_model_has_a_name),
        cmocka_unit_test(cores_follow_the_mask),
        cmocka_unit_test(slurm_s_word_counts),
        cmocka_unit_test(memory_is_available),
        CASE(version_2_takes_the_smallest_of_all_levels),
        CASE(version_1_too),
        CASE(a_container_s_root_counts),
        CASE(no_groups_and_nonsense_are_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
