#include "comm/environment.h"

#include "base/random.h"
#include <zero/comm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES 4

typedef struct family {
    const char *name;
    // Of several names, the first that is set counts.
    const char *rank[NAMES], *size[NAMES], *local_rank[NAMES], *local_size[NAMES];
} family;

typedef struct reader {
    zr_lookup lookup;
    void *user;
    zero_error *error;
} reader;

static const char *read_variable(const reader *env, const char *name)
{
    const char *text = env->lookup(env->user, name);
    return text && *text ? text : NULL;
}

static const char *first_set(const reader *env, const char *const *names)
{
    for (int i = 0; i < NAMES && names[i]; i++)
        if (read_variable(env, names[i]))
            return names[i];
    return NULL;
}

static zero_status read_environment_number(const reader *env, const char *name, int low, int high,
                                           int *out)
{
    const char *text = read_variable(env, name);
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < low || value > high)
        return zr_fail(env->error, ZERO_ERR_CONFIG,
                       "the environment's %s is \"%.40s\"; a number from %d to %d would be right",
                       name, text, low, high);
    *out = (int)value;
    return ZERO_OK;
}

// Reads a number that a launcher may leave out; then `out` keeps its value.
static zero_status read_optional(const reader *env, const char *const *names, int low, int high,
                                 int *out)
{
    const char *name = first_set(env, names);
    return name ? read_environment_number(env, name, low, high, out) : ZERO_OK;
}

// Recognises the shell of a batch script, which has SLURM_PROCID and SLURM_NTASKS too but is no
// rank: only srun's tasks have a step.
static bool is_batch_script(const reader *env)
{
    return read_variable(env, "SLURM_JOB_ID") && !read_variable(env, "SLURM_STEP_ID") &&
           !read_variable(env, "SLURM_STEPID");
}

enum { FAMILY_RANK, FAMILY_OPEN_MPI, FAMILY_PMI, FAMILY_SLURM, FAMILY_COUNT };
static const family families[FAMILY_COUNT];

static bool is_family_set(const reader *env, int f)
{
    if (f == FAMILY_SLURM && is_batch_script(env))
        return false;
    return first_set(env, families[f].rank) && first_set(env, families[f].size);
}

static zero_status check_agreement(const reader *env)
{
    const char *pmix = read_variable(env, "PMIX_RANK"), *pmi = read_variable(env, "PMI_RANK");
    if (pmix && pmi && strcmp(pmix, pmi))
        return zr_fail(env->error, ZERO_ERR_CONFIG,
                       "PMIX_RANK is %.20s and PMI_RANK is %.20s: two launchers disagree about the "
                       "rank of this process",
                       pmix, pmi);
    return ZERO_OK;
}

// Refuses variables that are set only in part, because running N times as a single rank would be
// worse than stopping.
static zero_status check_nothing_half_set(const reader *env)
{
    for (int f = 0; f < FAMILY_SLURM; f++) {
        const char *name = first_set(env, families[f].rank);
        if (name)
            return zr_fail(env->error, ZERO_ERR_CONFIG,
                           "the environment's %s says that this is one of several ranks, but %s is "
                           "not set (--comm mpi asks MPI itself)",
                           name, families[f].size[0]);
    }
    return ZERO_OK;
}

// Returns the tasks of node `node` from Slurm's notation: "2(x3),1" is three nodes of 2 and one of
// 1. 0: the text does not say.
static int slurm_tasks_of_node(const char *text, int node)
{
    while (*text) {
        char *end;
        long tasks = strtol(text, &end, 10), repeat = 1;
        if (end == text || tasks < 1 || tasks > ZERO_MAX_RANKS)
            return 0;
        if (end[0] == '(' && end[1] == 'x')
            repeat = strtol(end + 2, &end, 10);
        if (*end == ')')
            end++;
        if (node < repeat)
            return (int)tasks;
        node -= (int)repeat;
        if (*end != ',')
            return 0;
        text = end + 1;
    }
    return 0;
}

static int slurm_local_size(const reader *env, int size)
{
    static const char *const nodes[NAMES] = {"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES",
                                             "SLURM_NNODES"};
    const char *count = first_set(env, nodes);
    const char *tasks = read_variable(env, "SLURM_STEP_TASKS_PER_NODE"),
               *node = read_variable(env, "SLURM_NODEID");
    if (count && !strcmp(read_variable(env, count), "1"))
        return size;
    return tasks && node ? slurm_tasks_of_node(tasks, atoi(node)) : 0;
}

static bool master_is_here(const reader *env)
{
    const char *master = read_variable(env, "MASTER_ADDR");
    return !master || !strcmp(master, "localhost") || !strcmp(master, "127.0.0.1") ||
           !strcmp(master, "::1");
}

static int guess_local_size(const reader *env, int f, const zr_launch *launch)
{
    if (f == FAMILY_RANK && (launch->memfd >= 0 || master_is_here(env)))
        return launch->size;
    return f == FAMILY_SLURM || f == FAMILY_PMI ? slurm_local_size(env, launch->size) : 0;
}

static zero_status read_local_size_and_rank(const reader *env, int f, zr_launch *launch)
{
    static const char *const memfd[NAMES] = {ZR_MEMFD_VARIABLE};
    if (f == FAMILY_RANK)
        ZERO_TRY(read_optional(env, memfd, 0, 1 << 20, &launch->memfd));
    ZERO_TRY(read_optional(env, families[f].local_size, 1, launch->size, &launch->local_size));
    if (launch->local_size == 0)
        launch->local_size = guess_local_size(env, f, launch);
    ZERO_TRY(read_optional(env, families[f].local_rank, 0, launch->size - 1, &launch->local_rank));
    if (launch->local_rank < 0 && launch->local_size == launch->size)
        launch->local_rank = launch->rank;
    return ZERO_OK;
}

// Hashes what names the job, or the parent process where no launcher names one.
static uint64_t name_job(const reader *env, const char *family_name)
{
    static const char *const names[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID",        "SLURM_STEP_ID",
                                        "PMI_JOBID",      "TORCHELASTIC_RUN_ID", "MASTER_PORT"};
    uint64_t job = zr_hash_text(family_name);
    bool named = false;
    for (int i = 0; i < ZR_COUNT(names); i++) {
        const char *text = read_variable(env, names[i]);
        if (text) {
            job = zr_hash_bytes(text, strlen(text), job + (uint64_t)i);
            named = named || strcmp(names[i], "SLURM_JOB_ID");
        }
    }
    pid_t parent = getppid();
    return named ? job : zr_hash_bytes(&parent, sizeof parent, job);
}

zero_status zr_launch_read(zr_lookup lookup, void *user, zr_launch *out, zero_error *error)
{
    reader env = {.lookup = lookup, .user = user, .error = error};
    *out = (zr_launch){.size = 1, .local_size = 1, .memfd = -1};
    int f = 0;
    while (f < FAMILY_COUNT && !is_family_set(&env, f))
        f++;
    if (f >= FAMILY_PMI && f != FAMILY_SLURM)
        ZERO_TRY(check_agreement(&env));
    if (f == FAMILY_COUNT)
        return check_nothing_half_set(&env);
    *out = (zr_launch){.family = families[f].name, .local_rank = -1, .memfd = -1};
    ZERO_TRY(read_environment_number(&env, first_set(&env, families[f].size), 1, ZERO_MAX_RANKS,
                                     &out->size));
    ZERO_TRY(read_environment_number(&env, first_set(&env, families[f].rank), 0, out->size - 1,
                                     &out->rank));
    ZERO_TRY(read_local_size_and_rank(&env, f, out));
    out->job = name_job(&env, out->family);
    return ZERO_OK;
}

static const char *look_in_process(void *user, const char *name) { return getenv(name); }

zero_status zr_launch_read_process(zr_launch *out, zero_error *error)
{
    return zr_launch_read(look_in_process, NULL, out, error);
}

static const family families[FAMILY_COUNT] = {
    [FAMILY_RANK] =
        {
            .name = "RANK",
            .rank = {"RANK"},
            .size = {"WORLD_SIZE"},
            .local_rank = {"LOCAL_RANK"},
            .local_size = {"LOCAL_WORLD_SIZE"},
        },
    [FAMILY_OPEN_MPI] =
        {
            .name = "Open MPI",
            .rank = {"OMPI_COMM_WORLD_RANK"},
            .size = {"OMPI_COMM_WORLD_SIZE"},
            .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
            .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
        },
    [FAMILY_PMI] =
        {
            .name = "PMI",
            .rank = {"PMIX_RANK", "PMI_RANK"},
            .size = {"PMI_SIZE"},
            .local_rank = {"MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"},
            .local_size = {"MPI_LOCALNRANKS", "PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"},
        },
    [FAMILY_SLURM] =
        {
            .name = "Slurm",
            .rank = {"SLURM_PROCID"},
            .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
            .local_rank = {"SLURM_LOCALID"},
        },
};
