// A checkpoint is complete or absent, whichever call a save dies in or fails in; and every byte of
// it is protected.
//
// The linker wraps the calls that a save makes, so that the nth of them fails or ends the process.
#define _GNU_SOURCE
#include "../sanitizers.h"
#include "../wrapped_calls.h"
#include "../formats/array_view.h"
#include "base/file.h"
#include "formats/source.h"
#include "checkpoint/states.h"
#include "../formats/st_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

// besides DIED: a directory that was there is made once more, a short write goes on
enum { DID_NOT_MIND = 78 };
enum { SHORT = 4711 }; // instead of a reason: a write does half of its bytes

WRAP(int, fsync, (int fd), (fd))
WRAP(int, sync_file_range, (int fd, off64_t offset, off64_t bytes, unsigned flags),
     (fd, offset, bytes, flags))
WRAP(int, rename, (const char *from, const char *to), (from, to))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP(int, fallocate64, (int fd, int mode, off64_t offset, off64_t length),
     (fd, mode, offset, length))

ssize_t __real_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    bool failing = fails();
    return failing && errno == SHORT ? __real_pwrite64(fd, data, (bytes + 1) / 2, offset)
           : failing                 ? -1
                                     : __real_pwrite64(fd, data, bytes, offset);
}

static zero_tensor_desc model[] = {
    {.name = "wte.weight", .dims = 2, .shape = {7, 5}},
    // or LONG, which has a page of the file to itself
    {.name = "h.0.bias", .dims = 1, .shape = {301}},
    {.name = "scale", .dims = 0},
    {.name = "none", .dims = 2, .shape = {0, 4}},
};
static int64_t sizes[] = {35, 301, 1, 0};
#define TENSORS ZR_COUNT(model)
enum { LONG = 2301, TOTAL = 35 + LONG + 1, VECTORS = 2 };
static const char *const names[VECTORS] = {"weights", "exp_avg"};

typedef struct state { // of one rank that has it all
    float values[VECTORS][TOTAL];
    const zero_tensor_desc *tensors[TENSORS];
    zr_weight_range ranges[VECTORS][TENSORS];
    array_view views[VECTORS];
    zr_state_vector vectors[VECTORS];
    zero_comm *comm;
} state;

static void begin(state *s, float value)
{
    zero_error error;
    assert_int_equal(zero_comm_self(&s->comm, &error), ZERO_OK);
    for (size_t t = 0; t < TENSORS; t++)
        s->tensors[t] = &model[t];
    for (int v = 0; v < VECTORS; v++) {
        int64_t at = 0;
        for (int i = 0; i < TOTAL; i++)
            s->values[v][i] = value + (float)(1000 * v + i);
        for (size_t t = 0; t < TENSORS; at += sizes[t++])
            s->ranges[v][t] = (zr_weight_range){.tensor = &model[t],
                                                .at = zr_rectangle_of_stretch(0, sizes[t]),
                                                .data = &s->values[v][at],
                                                .dtype = ZERO_F32};
        array_view_fill(&s->views[v], s->tensors, TENSORS, s->ranges[v], TENSORS);
        s->vectors[v] =
            (zr_state_vector){.name = names[v], .dtype = ZERO_F32, .view = s->views[v].view};
    }
}

static zero_status save(state *s, const char *directory, int step, zero_error *error)
{
    json_t *facts = json_pack("{s:i}", "step", step);
    zero_status status = zr_states_save(s->comm, directory, s->vectors, VECTORS, facts, error);
    json_decref(facts);
    return status;
}

static zero_status load(state *s, const char *directory, int *step, zero_error *error)
{
    zr_manifest manifest;
    ZERO_TRY(zr_manifest_read(directory, &manifest, error));
    *step = (int)json_integer_value(json_object_get(manifest.state, "step"));
    zero_status status = zr_states_load(s->comm, directory, &manifest, s->vectors, VECTORS, error);
    zr_manifest_free(&manifest);
    return status;
}

// The step of the checkpoint, which is whole; -1: there is none.
static int step_of(const char *directory)
{
    static state found;
    zero_error error;
    int step = 0;
    if (!zr_path_exists(directory))
        return -1;
    begin(&found, -1);
    if (load(&found, directory, &step, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    for (int v = 0; v < VECTORS; v++)
        for (int64_t i = 0; i < sizes[0] + sizes[1] + sizes[2]; i++)
            assert_true(found.values[v][i] == (float)(100000 * step + 1000 * v + i));
    zero_comm_destroy(found.comm);
    return step;
}

static int save_in_a_child(const char *directory, int step, int in, int reason)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        static state s;
        zero_error error;
        begin(&s, (float)(100000 * step));
        fault.in = in;
        fault.reason = reason;
        zero_status saved = save(&s, directory, step, &error);
        bool met = in > 0 && fault.in == 0;
        fault.in = 0;
        _exit(saved == ZERO_OK ? (met ? DID_NOT_MIND : 0) : error.message[0] ? 1 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

// Every call: killed, then full, then broken. What was there stays, until what is new is there.
static void old_or_new_whatever_happens(void **unused)
{
    static const int reasons[] = {0, ENOSPC, EIO, SHORT};
    char parent[] = "/tmp/zero-states-XXXXXX", directory[300];
    assert_non_null(mkdtemp(parent));
    snprintf(directory, sizeof directory, "%s/step", parent);
    model[1].shape[0] = sizes[1] = LONG;
    for (int r = 0; r < ZR_COUNT(reasons); r++)
        for (int replaces = 0; replaces < 2; replaces++) {
            int ended = -1, deaths = 0;
            for (int in = 1; ended != 0; in++) {
                assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
                if (replaces)
                    assert_int_equal(save_in_a_child(directory, 1, 0, 0), 0);
                ended = save_in_a_child(directory, 2, in, reasons[r]);
                int found = step_of(directory);
                deaths += ended != 0;
                assert_true(ended == 0 || ended == (reasons[r] ? 1 : DIED) ||
                            (reasons[r] && ended == DID_NOT_MIND));
                bool old = found == (replaces ? 1 : -1);
                assert_true(ended == 1 ? old : ended == DIED ? old || found == 2 : found == 2);
                if (reasons[r] && ended != 0) // who fails cleans up
                    assert_int_equal(scratch_entries(parent), found >= 0);
                assert_true(in < 200);
            }
            assert_true(deaths > 8);
            // and the next save finds its way
            assert_int_equal(save_in_a_child(directory, 3, 0, 0), 0);
            assert_int_equal(step_of(directory), 3);
            assert_int_equal(scratch_entries(parent), 1);
        }
    model[1].shape[0] = sizes[1] = 301;
    zr_directory_remove(parent, NULL);
}

static void flip(const char *path, int64_t at)
{
    char byte = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= (char)(1 << at % 8);
    assert_int_equal(__real_pwrite64(fd, &byte, 1, at), 1);
    close(fd);
}

static void every_byte_is_guarded(void **unused)
{
    static const char *const files[] = {ZR_MANIFEST, "weights.safetensors", "exp_avg.safetensors"};
    char parent[64], directory[300], path[400];
    static state s;
    zero_error error;
    int step;
    // Each byte is written twice: in memory, because a disk takes its time.
    snprintf(parent, sizeof parent, "%s/zero-states-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(parent));
    snprintf(directory, sizeof directory, "%s/step", parent);
    begin(&s, 0);
    assert_int_equal(save(&s, directory, 1, &error), ZERO_OK);
    for (int f = 0; f < ZR_COUNT(files); f++) {
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", directory, files[f]);
        assert_int_equal(stat(path, &info), 0);
        for (int64_t at = 0; at < info.st_size; at += SANITIZED ? 7 : 1) {
            zr_manifest manifest;
            flip(path, at);
            zero_status status = load(&s, directory, &step, &error);
            if (status != ZERO_ERR_DATA || !strstr(error.message, files[f]))
                fail_msg("byte %lld of %s: %s", (long long)at, files[f],
                         status == ZERO_OK ? "not noticed" : error.message);
            if (f > 0) {
                assert_int_equal(zr_manifest_read(directory, &manifest, &error), ZERO_OK);
                assert_int_equal(zr_manifest_verify(directory, &manifest, NULL, NULL, &error),
                                 ZERO_ERR_DATA);
                zr_manifest_free(&manifest);
            }
            flip(path, at);
        }
        if (f > 0) {
            zr_manifest manifest;
            assert_int_equal(truncate(path, info.st_size + 1), 0);
            assert_int_equal(load(&s, directory, &step, &error), ZERO_ERR_DATA);
            assert_int_equal(zr_manifest_read(directory, &manifest, &error), ZERO_OK);
            assert_int_equal(zr_manifest_verify(directory, &manifest, NULL, NULL, &error),
                             ZERO_ERR_DATA);
            zr_manifest_free(&manifest);
        }
        int64_t half = info.st_size / 2;
        assert_int_equal(truncate(path, half), 0);
        assert_int_equal(load(&s, directory, &step, &error), ZERO_ERR_DATA);
        assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
        assert_int_equal(save(&s, directory, 1, &error), ZERO_OK);
    }
    assert_int_equal(load(&s, directory, &step, &error), ZERO_OK);
    zero_comm_destroy(s.comm);
    zr_directory_remove(parent, NULL);
}

static void what_is_given_up_ends_and_leaves_nothing(void **unused)
{
    char parent[] = "/tmp/zero-states-XXXXXX", directory[300];
    static state s;
    zr_states_saving *saving;
    zero_error error;
    assert_non_null(mkdtemp(parent));
    snprintf(directory, sizeof directory, "%s/step", parent);
    begin(&s, 0);
    assert_int_equal(
        zr_states_save_begin(s.comm, directory, s.vectors, VECTORS, NULL, &saving, &error),
        ZERO_OK);
    zr_states_save_cancel(saving);
    assert_int_equal(zr_states_save_part(saving, 0, &error), ZERO_ERR_CANCELLED);
    assert_int_equal(zr_states_save_moved(saving), 0);
    zr_states_save_abandon(saving);
    assert_int_equal(scratch_entries(parent), 0);
    zero_comm_destroy(s.comm);
    zr_directory_remove(parent, NULL);
}

// Whatever finds no memory leaves the old checkpoint, and closes nothing but what it opened.
static void no_memory(void **unused)
{
    char parent[] = "/tmp/zero-states-XXXXXX", directory[300];
    static state s;
    zero_error error;
    zero_status status = ZERO_ERR_MEMORY;
    assert_non_null(mkdtemp(parent));
    snprintf(directory, sizeof directory, "%s/step", parent);
    begin(&s, 200000);
    assert_int_equal(save(&s, directory, 2, &error), ZERO_OK);
    for (int64_t n = 1; status != ZERO_OK; n++) {
        zr_alloc_fail_at(n);
        status = save(&s, directory, 2, &error);
        zr_alloc_fail_at(0);
        assert_true(status == ZERO_ERR_MEMORY || (status == ZERO_OK && n > 10));
        assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
        assert_int_equal(step_of(directory), 2);
        assert_int_equal(scratch_entries(parent), 1);
    }
    status = ZERO_ERR_MEMORY;
    for (int64_t n = 1; status != ZERO_OK; n++) {
        zr_source source;
        zr_alloc_fail_at(n);
        status = zr_source_open(directory, &source, &error);
        zr_alloc_fail_at(0);
        assert_true(status != ZERO_OK || n > 10);
        assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
        zr_source_close(&source);
    }
    zero_comm_destroy(s.comm);
    zr_directory_remove(parent, NULL);
}

// A save takes the place of a checkpoint, whole or not, and of nothing else.
static void only_checkpoints_are_replaced(void **test_state)
{
    static state s;
    zero_error error;
    char directory[64] = "/tmp/zero-states-XXXXXX", other[128];
    assert_non_null(mkdtemp(directory));
    begin(&s, 100000);
    assert_int_equal(save(&s, directory, 1, &error), ZERO_OK); // an empty one
    assert_int_equal(save(&s, directory, 1, &error), ZERO_OK);
    snprintf(other, sizeof other, "%s/notes.txt", directory);
    assert_int_equal(zr_file_write_durable(other, "mine", 4, &error), ZERO_OK);
    assert_int_equal(save(&s, directory, 1, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "notes.txt"));
    assert_true(zr_path_exists(other));
    assert_int_equal(unlink(other), 0);
    // a model's, and no file of a checkpoint
    snprintf(other, sizeof other, "%s/model.safetensors", directory);
    assert_int_equal(zr_file_write_durable(other, "mine", 4, &error), ZERO_OK);
    assert_int_equal(save(&s, directory, 1, &error), ZERO_ERR_USAGE);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(step_of(directory), 1);
    zero_comm_destroy(s.comm);
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

// What is not all of the model is not saved, and a model with fewer tensors loads nothing.
static void states_are_those_of_the_model(void **unused)
{
    static state s;
    zero_error error;
    int step;
    char directory[64] = "/tmp/zero-states-XXXXXX";
    assert_non_null(mkdtemp(directory));
    begin(&s, 100000);
    s.vectors[1].view.elements--;
    assert_int_equal(save(&s, directory, 1, &error), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(error.message, "the ranks hold 336 elements of a model of 337"));
    s.vectors[1].view.elements++;
    assert_int_equal(save(&s, directory, 1, &error), ZERO_OK);
    s.vectors[1].view.tensor_count--;
    assert_int_equal(load(&s, directory, &step, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "has 4 tensors, the model 3"));
    zero_comm_destroy(s.comm);
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

static void differences_are_counted(void **unused)
{
    static const struct {
        int vector, element;
        float by;
    } changes[] = {{0, 36, 0.5f}, {0, 300, -2}, {1, 0, 1}, {1, 336, 0.25f}};
    static state s;
    zero_error error;
    zr_manifest manifest;
    zr_states_difference found;
    char directory[64] = "/tmp/zero-states-XXXXXX";
    assert_non_null(mkdtemp(directory));
    begin(&s, 0);
    assert_int_equal(save(&s, directory, 1, &error), ZERO_OK);
    assert_int_equal(zr_manifest_read(directory, &manifest, &error), ZERO_OK);
    for (int changed = 0; changed <= ZR_COUNT(changes); changed += ZR_COUNT(changes)) {
        for (int i = 0; i < changed; i++)
            s.values[changes[i].vector][changes[i].element] += changes[i].by;
        assert_int_equal(
            zr_states_compare(s.comm, directory, &manifest, s.vectors, VECTORS, &found, &error),
            ZERO_OK);
        assert_int_equal(found.elements, changed);
        assert_true(found.largest == (changed ? 2 : 0));
    }
    assert_string_equal(found.vector, "weights");
    assert_string_equal(found.tensor, "h.0.bias");
    zr_manifest_free(&manifest);
    zero_comm_destroy(s.comm);
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

typedef struct comparing { // on one of two ranks, which both hold everything
    state s;
    const char *directory;
    zr_states_difference found;
} comparing;

static void *compare(void *argument)
{
    comparing *c = argument;
    zr_manifest manifest;
    zero_error error;
    for (int i = 0; i <= c->s.comm->rank; i++)
        c->s.values[0][40 + i] += 1.0f + (float)i;
    assert_int_equal(zr_manifest_read(c->directory, &manifest, &error), ZERO_OK);
    assert_int_equal(zr_states_compare(c->s.comm, c->directory, &manifest, c->s.vectors, VECTORS,
                                       &c->found, &error),
                     ZERO_OK);
    zr_manifest_free(&manifest);
    return NULL;
}

static void differences_of_all_ranks_are_told(void **unused)
{
    static comparing ranks[2];
    zero_comm *comms[2];
    pthread_t threads[2];
    zero_error error;
    char directory[64] = "/tmp/zero-states-XXXXXX";
    assert_non_null(mkdtemp(directory));
    begin(&ranks[0].s, 0);
    assert_int_equal(save(&ranks[0].s, directory, 1, &error), ZERO_OK);
    assert_int_equal(zero_comm_threads(2, NULL, comms, &error), ZERO_OK);
    for (int r = 0; r < 2; r++) {
        if (r > 0)
            begin(&ranks[r].s, 0);
        zero_comm_destroy(ranks[r].s.comm);
        ranks[r].s.comm = comms[r];
        ranks[r].directory = directory;
        assert_int_equal(pthread_create(&threads[r], NULL, compare, &ranks[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(ranks[r].found.elements, 1 + 2);
        assert_true(ranks[r].found.largest == 2);
        zero_comm_destroy(comms[r]);
    }
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

// The manifest that programs before rectangles wrote of the same state.
static const char first_format[] =
    "{\"format\":\"libzero checkpoint 1\",\n"
    "\"state\":{\"step\":1},\n"
    "\"files\":[\n"
    "{\"name\":\"weights.safetensors\",\"dtype\":\"f32\",\"bytes\":1652,\"header\":[304,173669316],"
    "\"tensors\":[\n"
    "{\"name\":\"wte.weight\",\"shape\":[7,5],\"begin\":1512,\"extents\":[[0,35,1505867694]]},\n"
    "{\"name\":\"h.0.bias\",\"shape\":[301],\"begin\":304,\"extents\":[[0,301,721100360]]},\n"
    "{\"name\":\"scale\",\"shape\":[],\"begin\":1508,\"extents\":[[0,1,51412940]]},\n"
    "{\"name\":\"none\",\"shape\":[0,4],\"begin\":1508,\"extents\":[]}]},\n"
    "{\"name\":\"exp_avg.safetensors\",\"dtype\":\"f32\",\"bytes\":1652,\"header\":[304,173669316],"
    "\"tensors\":[\n"
    "{\"name\":\"wte.weight\",\"shape\":[7,5],\"begin\":1512,\"extents\":[[0,35,3297884863]]},\n"
    "{\"name\":\"h.0.bias\",\"shape\":[301],\"begin\":304,\"extents\":[[0,301,1003643794]]},\n"
    "{\"name\":\"scale\",\"shape\":[],\"begin\":1508,\"extents\":[[0,1,815993306]]},\n"
    "{\"name\":\"none\",\"shape\":[0,4],\"begin\":1508,\"extents\":[]}]}],\"hash\":"
    "\"3839d09ec05b046f\"}\n";

static void the_first_format_is_written_as_before(void **unused)
{
    static state s;
    zero_error error;
    char directory[64] = "/tmp/zero-states-XXXXXX", path[128], *text;
    size_t length;
    assert_non_null(mkdtemp(directory));
    begin(&s, 0);
    assert_int_equal(save(&s, directory, 1, &error), ZERO_OK);
    snprintf(path, sizeof path, "%s/" ZR_MANIFEST, directory);
    assert_int_equal(zr_file_read(path, 1 << 20, &text, &length, &error), ZERO_OK);
    assert_string_equal(text, first_format);
    zr_free(text);
    zero_comm_destroy(s.comm);
    assert_int_equal(zr_directory_remove(directory, NULL), ZERO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory),
        cmocka_unit_test(what_is_given_up_ends_and_leaves_nothing),
        cmocka_unit_test(old_or_new_whatever_happens),
        cmocka_unit_test(every_byte_is_guarded),
        cmocka_unit_test(only_checkpoints_are_replaced),
        cmocka_unit_test(states_are_those_of_the_model),
        cmocka_unit_test(differences_are_counted),
        cmocka_unit_test(differences_of_all_ranks_are_told),
        cmocka_unit_test(the_first_format_is_written_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
