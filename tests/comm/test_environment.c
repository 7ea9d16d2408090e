// Which launcher's variables decide, row by row, and which are refused.
#include "comm/environment.h"

#include <string.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define MAX_SET 12

typedef struct variable {
    const char *name, *value;
} variable;

static const char *look(void *user, const char *name)
{
    const variable *set = user;
    for (int i = 0; i < MAX_SET && set[i].name; i++)
        if (!strcmp(set[i].name, name))
            return set[i].value;
    return NULL;
}

typedef struct row {
    variable set[MAX_SET];
    const char *family;
    int rank, size, local_rank, local_size, memfd;
} row;

static const row rows[] = {
    {.set = {{0}}, .family = NULL, .size = 1, .local_size = 1, .memfd = -1},
    {.set = {{"SLURM_NTASKS", "8"}}, .family = NULL, .size = 1, .local_size = 1, .memfd = -1},
    {.set = {{"WORLD_SIZE", "4"}}, .family = NULL, .size = 1, .local_size = 1, .memfd = -1},
    {.set = {{"RANK", ""}, {"WORLD_SIZE", ""}},
     .family = NULL,
     .size = 1,
     .local_size = 1,
     .memfd = -1},
    // zero run; zero run inside srun inside mpirun
    {.set = {{"RANK", "2"},
             {"WORLD_SIZE", "4"},
             {"LOCAL_RANK", "2"},
             {"LOCAL_WORLD_SIZE", "4"},
             {ZR_MEMFD_VARIABLE, "5"}},
     .family = "RANK",
     .rank = 2,
     .size = 4,
     .local_rank = 2,
     .local_size = 4,
     .memfd = 5},
    {.set = {{"SLURM_PROCID", "0"},
             {"SLURM_NTASKS", "1"},
             {"OMPI_COMM_WORLD_RANK", "0"},
             {"OMPI_COMM_WORLD_SIZE", "1"},
             {"RANK", "3"},
             {"WORLD_SIZE", "4"}},
     .family = "RANK",
     .rank = 3,
     .size = 4,
     .local_rank = 3,
     .local_size = 4,
     .memfd = -1},
    // torchrun on two machines, with and without the size of this one
    {.set = {{"RANK", "5"},
             {"WORLD_SIZE", "8"},
             {"LOCAL_RANK", "1"},
             {"LOCAL_WORLD_SIZE", "4"},
             {"MASTER_ADDR", "node7"}},
     .family = "RANK",
     .rank = 5,
     .size = 8,
     .local_rank = 1,
     .local_size = 4,
     .memfd = -1},
    {.set = {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node7"}},
     .family = "RANK",
     .rank = 5,
     .size = 8,
     .local_rank = -1,
     .local_size = 0,
     .memfd = -1},
    {.set = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}},
     .family = "RANK",
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .memfd = -1},
    // mpirun of Open MPI, inside srun; a descriptor of another family's parent does not count
    {.set = {{"OMPI_COMM_WORLD_RANK", "3"},
             {"OMPI_COMM_WORLD_SIZE", "6"},
             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
             {"PMIX_RANK", "3"},
             {"PMI_RANK", "0"},
             {"SLURM_PROCID", "0"},
             {"SLURM_NTASKS", "1"},
             {ZR_MEMFD_VARIABLE, "5"}},
     .family = "Open MPI",
     .rank = 3,
     .size = 6,
     .local_rank = 1,
     .local_size = 2,
     .memfd = -1},
    // Hydra; srun with PMI-2
    {.set =
         {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
     .family = "PMI",
     .rank = 1,
     .size = 4,
     .local_rank = 1,
     .local_size = 2,
     .memfd = -1},
    {.set = {{"PMIX_RANK", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"SLURM_NNODES", "1"}},
     .family = "PMI",
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .memfd = -1},
    // srun; srun --mpi=pmix; three nodes of two and one of one; the shell of a batch script is no
    // rank
    {.set = {{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "1"}},
     .family = "Slurm",
     .rank = 3,
     .size = 4,
     .local_rank = 1,
     .local_size = 0,
     .memfd = -1},
    {.set = {{"PMIX_RANK", "3"},
             {"SLURM_PROCID", "3"},
             {"SLURM_NTASKS", "4"},
             {"SLURM_LOCALID", "3"},
             {"SLURM_STEP_NUM_NODES", "1"}},
     .family = "Slurm",
     .rank = 3,
     .size = 4,
     .local_rank = 3,
     .local_size = 4,
     .memfd = -1},
    {.set = {{"SLURM_PROCID", "5"},
             {"SLURM_NTASKS", "99"},
             {"SLURM_STEP_NUM_TASKS", "7"},
             {"SLURM_LOCALID", "1"},
             {"SLURM_STEP_NUM_NODES", "4"},
             {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
             {"SLURM_NODEID", "2"},
             {"SLURM_JOB_ID", "8"},
             {"SLURM_STEP_ID", "0"}},
     .family = "Slurm",
     .rank = 5,
     .size = 7,
     .local_rank = 1,
     .local_size = 2,
     .memfd = -1},
    {.set = {{"SLURM_PROCID", "6"},
             {"SLURM_NTASKS", "7"},
             {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
             {"SLURM_NODEID", "3"}},
     .family = "Slurm",
     .rank = 6,
     .size = 7,
     .local_rank = -1,
     .local_size = 1,
     .memfd = -1},
    {.set = {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "123"}},
     .family = NULL,
     .size = 1,
     .local_size = 1,
     .memfd = -1},
};

static void each_launcher_is_understood(void **state)
{
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_launch launch;
        zero_error error;
        const row *want = &rows[i];
        if (zr_launch_read(look, (void *)want->set, &launch, &error) != ZERO_OK)
            fail_msg("row %d: %s", i, error.message);
        bool family =
            want->family ? launch.family && !strcmp(launch.family, want->family) : !launch.family;
        if (!family || launch.rank != want->rank || launch.size != want->size ||
            launch.local_rank != want->local_rank || launch.local_size != want->local_size ||
            launch.memfd != want->memfd)
            fail_msg("row %d: family %s, rank %d of %d, local %d of %d, memfd %d", i, launch.family,
                     launch.rank, launch.size, launch.local_rank, launch.local_size, launch.memfd);
    }
}

typedef struct refusal {
    variable set[MAX_SET];
    const char *words;
} refusal;

static const refusal refusals[] = {
    {.set = {{"PMIX_RANK", "1"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}},
     .words = "PMIX_RANK is 1 and PMI_RANK is 0"},
    {.set = {{"PMIX_RANK", "1"}, {"PMI_RANK", "0"}}, .words = "PMIX_RANK is 1 and PMI_RANK is 0"},
    {.set = {{"RANK", "1"}}, .words = "WORLD_SIZE is not set"},
    {.set = {{"PMIX_RANK", "1"}}, .words = "PMI_SIZE is not set"},
    {.set = {{"RANK", "4"}, {"WORLD_SIZE", "4"}}, .words = "RANK is \"4\"; a number from 0 to 3"},
    {.set = {{"RANK", "-1"}, {"WORLD_SIZE", "4"}}, .words = "RANK is \"-1\""},
    {.set = {{"RANK", "0"}, {"WORLD_SIZE", "1025"}},
     .words = "WORLD_SIZE is \"1025\"; a number from 1 to 1024"},
    {.set = {{"RANK", "0x1"}, {"WORLD_SIZE", "4"}}, .words = "RANK is \"0x1\""},
    {.set = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {ZR_MEMFD_VARIABLE, "three"}},
     .words = ZR_MEMFD_VARIABLE},
    {.set = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}, .words = "LOCAL_RANK"},
};

static void nonsense_is_refused_by_name(void **state)
{
    for (int i = 0; i < ZR_COUNT(refusals); i++) {
        zr_launch launch;
        zero_error error = {0};
        assert_int_equal(zr_launch_read(look, (void *)refusals[i].set, &launch, &error),
                         ZERO_ERR_CONFIG);
        if (!strstr(error.message, refusals[i].words))
            fail_msg("row %d: \"%s\" is not in: %s", i, refusals[i].words, error.message);
    }
}

static uint64_t job_of(const variable *set)
{
    zr_launch launch;
    assert_int_equal(zr_launch_read(look, (void *)set, &launch, NULL), ZERO_OK);
    return launch.job;
}

static void ranks_of_a_job_agree_on_its_name(void **state)
{
    variable first[MAX_SET] = {{"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "2"},
                               {"SLURM_JOB_ID", "7"},
                               {"SLURM_STEP_ID", "0"}};
    variable second[MAX_SET] = {{"SLURM_PROCID", "1"},
                                {"SLURM_NTASKS", "2"},
                                {"SLURM_JOB_ID", "7"},
                                {"SLURM_STEP_ID", "0"}};
    variable other[MAX_SET] = {{"SLURM_PROCID", "0"},
                               {"SLURM_NTASKS", "2"},
                               {"SLURM_JOB_ID", "7"},
                               {"SLURM_STEP_ID", "1"}};
    assert_true(job_of(first) == job_of(second));
    assert_true(job_of(first) != job_of(other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launcher_is_understood),
        cmocka_unit_test(nonsense_is_refused_by_name),
        cmocka_unit_test(ranks_of_a_job_agree_on_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
