// Weights are written and read by several ranks: the file is the same for any number of ranks, and
// all ranks get one answer when one of them fails.
//
// The linker wraps pwrite, fsync and rename, so that the nth call of one rank fails. A rank is a
// thread here, together with the threads that it starts; for this pthread_create is wrapped too.
#define _GNU_SOURCE
#include "st_files.h"
#include "array_view.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define MAX_RANKS 8

enum fault { FAULT_NONE, FAULT_MEMORY, FAULT_PWRITE, FAULT_FSYNC, FAULT_RENAME };

typedef struct faults { // of a rank; in: the call that fails, 1 = the next
    enum fault kind;
    atomic_int in;
} faults;

static _Thread_local faults *fault; // NULL: none; the rank's threads have it too

static bool fails(enum fault kind)
{
    return fault && fault->kind == kind && atomic_fetch_sub(&fault->in, 1) == 1;
}

typedef struct start {
    void *(*function)(void *argument);
    void *argument;
    faults *fault;
} start;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *argument), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *argument), void *argument);

static void *begin_thread(void *argument)
{
    const start own = *(start *)argument;
    free(argument);
    fault = own.fault;
    return own.function(own.argument);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*function)(void *argument), void *argument)
{
    start *inherited = malloc(sizeof *inherited);
    *inherited = (start){function, argument, fault};
    return __real_pthread_create(thread, attributes, begin_thread, inherited);
}

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    if (!fails(FAULT_PWRITE))
        return __real_pwrite64(fd, data, bytes, offset);
    errno = ENOSPC;
    return -1;
}

int __wrap_fsync(int fd)
{
    if (!fails(FAULT_FSYNC))
        return 0; // these files need not survive the machine
    errno = EIO;
    return -1;
}

int __wrap_rename(const char *from, const char *to)
{
    if (!fails(FAULT_RENAME))
        return __real_rename(from, to);
    errno = EXDEV;
    return -1;
}

static const zero_tensor_desc model[] = {
    {.name = "wte.weight", .dims = 2, .shape = {7, 5}},
    {.name = "h.0.bias", .dims = 1, .shape = {3001}},
    {.name = "scale", .dims = 0},
    {.name = "a.conv", .dims = 4, .shape = {2, 3, 4, 5}},
    {.name = "none", .dims = 2, .shape = {0, 4}},
};
static const int64_t sizes[] = {35, 3001, 1, 120, 0};
#define TENSORS ZR_COUNT(model)
#define TOTAL (35 + 3001 + 1 + 120)

static float value_of(int tensor, int64_t element)
{
    return (float)(1000 * tensor) + (float)element / 8;
}

typedef struct job { // what all ranks do together
    zero_status (*work)(struct job *job, zero_comm *comm, array_view *view, zero_error *error);
    char path[512];
    const char *prefix;
    int faulty_rank;
    enum fault kind;
    int fault_in;
    int64_t missing; // elements that rank 0 leaves out
    zero_status status[MAX_RANKS];
    zero_error error[MAX_RANKS];
    int wrong[MAX_RANKS]; // elements that were not what they should be
} job;

typedef struct rank_job {
    job *job;
    zero_comm *comm;
} rank_job;

// Rank r of N holds elements [r, r+1) * TOTAL / N of the tensors laid end to end.
static int make_ranges(const zero_comm *comm, const job *all, float *data, zr_weight_range *ranges)
{
    int64_t begin = TOTAL * comm->rank / comm->size, end = TOTAL * (comm->rank + 1) / comm->size,
            at = 0;
    int count = 0;
    if (comm->rank == 0)
        begin += all->missing;
    for (int t = 0; t < TENSORS; at += sizes[t++]) {
        int64_t first = ZR_MAX(begin, at), last = ZR_MIN(end, at + sizes[t]);
        if (first < last)
            ranges[count++] =
                (zr_weight_range){.tensor = &model[t],
                                  .at = zr_rectangle_of_stretch(first - at, last - first),
                                  .data = data + first};
    }
    return count;
}

static void *run_rank(void *argument)
{
    rank_job *mine = argument;
    job *all = mine->job;
    int rank = mine->comm->rank;
    const zero_tensor_desc *tensors[TENSORS];
    zr_weight_range ranges[TENSORS];
    float *data = calloc(TOTAL, sizeof *data);
    for (int t = 0; t < TENSORS; t++)
        tensors[t] = &model[t];
    array_view view;
    array_view_fill(&view, tensors, TENSORS, ranges, make_ranges(mine->comm, all, data, ranges));
    if (rank == all->faulty_rank && all->kind == FAULT_MEMORY)
        zr_alloc_fail_at(all->fault_in);
    faults own = {.kind = all->kind, .in = all->fault_in};
    fault = rank == all->faulty_rank && all->kind != FAULT_MEMORY ? &own : NULL;
    all->status[rank] = all->work(all, mine->comm, &view, &all->error[rank]);
    zr_alloc_fail_at(0);
    fault = NULL;
    free(data);
    return NULL;
}

static void run(job *all, int ranks)
{
    zero_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    rank_job jobs[MAX_RANKS];
    zero_comm_options options = {.struct_size = sizeof options, .timeout_seconds = 20};
    memset(all->error, 0, sizeof all->error);
    if (ranks == 1)
        assert_int_equal(zero_comm_self(comms, NULL), ZERO_OK);
    else
        assert_int_equal(zero_comm_threads(ranks, &options, comms, NULL), ZERO_OK);
    for (int r = 0; r < ranks; r++) {
        jobs[r] = (rank_job){.job = all, .comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    for (int r = 0; r < ranks; r++)
        zero_comm_destroy(comms[r]);
}

static zero_status work_save(job *all, zero_comm *comm, array_view *view, zero_error *error)
{
    for (int i = 0; i < view->count; i++) {
        zr_weight_range *range = &view->ranges[i];
        for (int64_t e = 0; e < range->at.width; e++)
            ((float *)range->data)[e] = value_of((int)(range->tensor - model), range->at.first + e);
    }
    return zr_weights_save(comm, all->path, all->prefix, &view->view, error);
}

static zero_status work_load(job *all, zero_comm *comm, array_view *view, zero_error *error)
{
    zero_status status =
        zr_weights_load(comm, all->path, &view->view, &(zr_weights_options){0}, error);
    all->wrong[comm->rank] = 0;
    for (int i = 0; i < view->count && status == ZERO_OK; i++) {
        const zr_weight_range *range = &view->ranges[i];
        for (int64_t e = 0; e < range->at.width; e++)
            all->wrong[comm->rank] += ((const float *)range->data)[e] !=
                                      value_of((int)(range->tensor - model), range->at.first + e);
    }
    return status;
}

static job save_job(scratch *made, const char *name)
{
    job all = {.work = work_save, .prefix = "transformer.", .faulty_rank = -1};
    snprintf(all.path, sizeof all.path, "%s/%s", made->directory, name);
    return all;
}

static job load_job(const char *path)
{
    job all = {.work = work_load, .faulty_rank = -1};
    snprintf(all.path, sizeof all.path, "%s", path);
    return all;
}

// All ranks return `status` and the same message, but for "rank R: " in front of it on the others.
static void assert_all_say(const job *all, int ranks, zero_status status, const char *says)
{
    for (int r = 0; r < ranks; r++) {
        if (all->status[r] != status || all->error[r].status != status ||
            !strstr(all->error[r].message, says))
            fail_msg("rank %d of %d: %s: %s", r, ranks, zero_status_name(all->status[r]),
                     all->error[r].message);
    }
}

static void assert_success(const job *all, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        if (all->status[r] != ZERO_OK)
            fail_msg("rank %d of %d: %s", r, ranks, all->error[r].message);
        assert_int_equal(all->wrong[r], 0);
    }
}

static void test_the_same_file_from_any_number_of_ranks(void **state)
{
    static const int ranks[] = {1, 2, 3, 8};
    scratch *made = *state;
    char *first = NULL;
    size_t first_length = 0;
    for (int i = 0; i < ZR_COUNT(ranks); i++) {
        job save = save_job(made, "model.safetensors"), load = load_job(made->directory);
        char *data;
        size_t length;
        run(&save, ranks[i]);
        assert_success(&save, ranks[i]);
        assert_int_equal(scratch_entries(made->directory), 1);
        run(&load, 8 / ranks[i]);
        assert_success(&load, 8 / ranks[i]);
        assert_int_equal(zr_file_read(save.path, 1 << 20, &data, &length, NULL), ZERO_OK);
        if (first) {
            assert_int_equal(length, first_length);
            assert_memory_equal(data, first, length);
            zr_free(data);
        } else {
            first = data;
            first_length = length;
        }
    }
    zr_free(first);
}

static void test_what_is_in_the_file(void **state)
{
    job save = save_job(*state, "model.safetensors");
    zr_st_set set;
    run(&save, 3);
    assert_success(&save, 3);
    assert_int_equal(zr_st_open(save.path, &set, NULL), ZERO_OK);
    assert_int_equal(set.tensor_count, TENSORS);
    for (int t = 0; t < TENSORS; t++) {
        const zr_st_tensor *tensor = zr_st_find(&set, model[t].name);
        float values[3001];
        assert_non_null(tensor);
        assert_int_equal(strncmp(tensor->name, "transformer.", 12), 0);
        assert_string_equal(tensor->dtype, "F32");
        assert_int_equal(zr_st_read(&set, tensor, 0, sizes[t], values, NULL), ZERO_OK);
        for (int64_t e = 0; e < sizes[t]; e++)
            assert_true(values[e] == value_of(t, e));
    }
    zr_st_close(&set);
}

static void test_more_than_one_chunk(void **state)
{
    const int64_t count = (1 << 22) + 3;
    zero_tensor_desc big = {.name = "big", .dims = 1, .shape = {count}};
    const zero_tensor_desc *tensors[] = {&big};
    float *data = zr_alloc((size_t)count * sizeof *data, NULL),
          *back = zr_alloc((size_t)count * sizeof *back, NULL);
    zr_weight_range range = {.tensor = &big, .at = zr_rectangle_of_stretch(0, count), .data = data};
    array_view view;
    array_view_fill(&view, tensors, 1, &range, 1);
    zero_comm *comm;
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)i;
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    const char *path = scratch_path(*state, "big.safetensors");
    assert_int_equal(zr_weights_save(comm, path, "", &view.view, NULL), ZERO_OK);
    range.data = back;
    assert_int_equal(zr_weights_load(comm, path, &view.view, &(zr_weights_options){0}, NULL),
                     ZERO_OK);
    assert_memory_equal(data, back, (size_t)count * sizeof *data);
    zero_comm_destroy(comm);
    zr_free(back);
    zr_free(data);
}

static void test_a_directory_that_is_not_there(void **state)
{
    for (int ranks = 1; ranks <= 3; ranks++) {
        job save = save_job(*state, "absent/model.safetensors");
        run(&save, ranks);
        assert_all_say(&save, ranks, ZERO_ERR_IO, "absent/model.safetensors");
        assert_true(!strncmp(save.error[0].message, "cannot write", 12));
        assert_true(ranks == 1 || !strncmp(save.error[1].message, "rank 0: cannot write", 20));
    }
}

// The nth call of `kind` on `rank` fails, for every n until no call fails. What stood there before
// stays.
static void sweep(scratch *made, int ranks, int rank, enum fault kind, zero_status status,
                  const char *says)
{
    int failures = 0;
    for (int nth = 1;; nth++) {
        job save = save_job(made, "model.safetensors");
        scratch_write(made, "model.safetensors", "what was there before");
        save.faulty_rank = rank;
        save.kind = kind;
        save.fault_in = nth;
        run(&save, ranks);
        assert_int_equal(scratch_entries(made->directory), 1);
        if (save.status[0] == ZERO_OK) {
            assert_success(&save, ranks);
            break;
        }
        char *data;
        size_t length;
        assert_all_say(&save, ranks, status, says);
        if (status == ZERO_ERR_IO)
            assert_all_say(&save, ranks, status, "/model.safetensors");
        assert_int_equal(zr_file_read(save.path, 1 << 20, &data, &length, NULL), ZERO_OK);
        assert_string_equal(data, "what was there before");
        zr_free(data);
        failures++;
        assert_true(nth < 100);
    }
    assert_true(failures > 0);
}

static void test_a_disk_that_fails_one_rank(void **state)
{
    for (int rank = 0; rank < 3; rank++)
        sweep(*state, 3, rank, FAULT_PWRITE, ZERO_ERR_IO, "No space left on device");
    sweep(*state, 3, 2, FAULT_FSYNC, ZERO_ERR_IO, "cannot bring");
    sweep(*state, 3, 0, FAULT_RENAME, ZERO_ERR_IO, "cannot rename");
    sweep(*state, 1, 0, FAULT_PWRITE, ZERO_ERR_IO, "No space left on device");
}

static void test_memory_that_fails_one_rank(void **state)
{
    sweep(*state, 1, 0, FAULT_MEMORY, ZERO_ERR_MEMORY, "no memory");
    sweep(*state, 3, 0, FAULT_MEMORY, ZERO_ERR_MEMORY, "no memory");
    sweep(*state, 3, 2, FAULT_MEMORY, ZERO_ERR_MEMORY, "no memory");
}

static void test_ranges_that_leave_a_hole(void **state)
{
    scratch *made = *state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        job save = save_job(made, "model.safetensors");
        save.missing = 7;
        run(&save, ranks);
        assert_all_say(&save, ranks, ZERO_ERR_INTERNAL, "hold 3150 elements of a model of 3157");
        assert_int_equal(scratch_entries(made->directory), 0);
    }
}

#define F32(name, shape, begin, end)                                                               \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" begin "," end "]}"
#define FIRST F32("wte.weight", "7,5", "0", "140") ","
#define REST                                                                                       \
    "," F32("scale", "", "12144", "12148") "," F32("a.conv", "2,3,4,5", "12148", "12628") "," F32( \
        "none", "0,4", "12628", "12628") "}"

static void test_models_that_do_not_fit(void **state)
{
    static const struct {
        const char *header, *says;
        size_t missing; // bytes at the end of the data
    } cases[] = {
        {"{" FIRST F32("h.0.other", "3001", "140", "12144") REST, "no tensor \"h.0.bias\" (3001)"},
        {"{" FIRST F32("h.0.bias", "3001,1", "140", "12144") REST,
         "tensor \"h.0.bias\" is 3001 x 1, where the model has 3001"},
        {"{" F32("wte.weight", "5,7", "0", "140") "," F32("h.0.bias", "3001", "140", "12144") REST,
         "\"wte.weight\" is 5 x 7, where the model has 7 x 5"},
        {"{" F32("wte.weight", "7,5", "0", "140") "," F32(
             "h.0.bias", "3001", "140",
             "12144") "," F32("scale", "1", "12144",
                              "12148") "," F32("a.conv", "2,3,4,5", "12148",
                                               "12628") "," F32("none", "0,4", "12628",
                                                                "12628") "}",
         "\"scale\" is 1, where the model has scalar"},
        {"{" F32("wte.weight", "7,4", "0", "112") "," F32(
             "h.0.bias", "3001", "112",
             "12116") "," F32("scale", "", "12116", "12120") "," F32("a.conv", "2,3,4,5", "12120",
                                                                     "12600") "," F32("none", "0,4",
                                                                                      "12600",
                                                                                      "12600") "}",
         "\"wte.weight\" is 7 x 4, where the model has 7 x 5", 28},
        {"{" FIRST F32("h.0.bias", "3001", "140", "12144") REST, "it was cut short", 628},
        {"{", "x.safetensors"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        job load =
            load_job(st_write(*state, "x.safetensors", cases[i].header, 12628 - cases[i].missing));
        for (int ranks = 1; ranks <= 3; ranks += 2) {
            run(&load, ranks);
            assert_all_say(&load, ranks, ZERO_ERR_DATA, cases[i].says);
        }
    }
    job load = load_job("/nonexistent");
    run(&load, 2);
    assert_all_say(&load, 2, ZERO_ERR_IO, "/nonexistent");
}

// Only the ranks that hold parts of a.conv read it; all hear of it.
static void test_a_dtype_that_one_rank_finds(void **state)
{
    static const char header[] = "{" FIRST F32("h.0.bias", "3001", "140", "12144") "," F32(
        "scale", "", "12144", "12148") ","
                                       "\"a.conv\":{\"dtype\":\"I32\",\"shape\":[2,3,4,5],\"data_"
                                       "offsets\":[12148,12628]}," F32("none", "0,4", "12628",
                                                                       "12628") "}";
    job load = load_job(st_write(*state, "x.safetensors", header, 12628));
    run(&load, 3);
    assert_all_say(&load, 3, ZERO_ERR_UNSUPPORTED, "tensor \"a.conv\" has dtype I32");
    assert_int_equal(strncmp(load.error[0].message, "rank 2: ", 8), 0);
}

static void test_memory_that_fails_one_loading_rank(void **state)
{
    job save = save_job(*state, "model.safetensors");
    run(&save, 1);
    assert_success(&save, 1);
    int failures = 0;
    for (int nth = 1;; nth++) {
        job load = load_job(save.path);
        load.faulty_rank = 1;
        load.kind = FAULT_MEMORY;
        load.fault_in = nth;
        run(&load, 3);
        if (load.status[0] == ZERO_OK)
            break;
        assert_all_say(&load, 3, ZERO_ERR_MEMORY, "no memory");
        failures++;
        assert_true(nth < 200);
    }
    assert_true(failures > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_same_file_from_any_number_of_ranks, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_what_is_in_the_file, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_more_than_one_chunk, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_a_directory_that_is_not_there, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_a_disk_that_fails_one_rank, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_memory_that_fails_one_rank, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_ranges_that_leave_a_hole, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_models_that_do_not_fit, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_a_dtype_that_one_rank_finds, scratch_open,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(test_memory_that_fails_one_loading_rank, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
