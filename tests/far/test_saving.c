// A checkpoint that is written beside a step of a far device: a thread of its own copies the states
// by a queue of its own, and what it saves is what "ref" saves, while the steps go on to the same
// bits. No copy meets an update of what it reads (far_races); checkpoints go from the one device to
// the other; a failure of that queue is the save's.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/file.h"
#include "checkpoint/states.h"
#include "engine/engine_internal.h"
#include "far_training.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAVED = 2, MOST_FILE = 1 << 22, ALL_PARTS = 1 << 20 }; // steps before it; bytes of a file
enum { LARGE = 2 };                                           // a flat parameter of several strips

static char directory[256];

static const char *path(const char *name)
{
    static char paths[4][320];
    static int next;
    char *out = paths[next++ % 4];
    snprintf(out, sizeof paths[0], "%s/%s", directory, name);
    return out;
}

static int set_up(void **state)
{
    snprintf(directory, sizeof directory, "%s/zero-saving-XXXXXX", harness_scratch());
    return mkdtemp(directory) ? 0 : 1;
}

static int tear_down(void **state)
{
    return zr_directory_remove(directory, NULL) == ZERO_OK ? 0 : 1;
}

// ---- what the saving thread tells the rank's ----

// Of a rank's save: the linker puts these functions around those of checkpoint/ and engine/, so
// that the list has what a rank knows when its guard has let it go on.
typedef struct save {
    zr_states_saving *saving;
    zero_engine *engine;
    zr_guard guard;
} save;

static save saves[2]; // by rank
static bool fails;    // the saving thread's queue is given an operation that it refuses
static _Thread_local zr_states_saving *begun;

typedef zero_status begin_save(zero_comm *comm, const char *where, const zr_state_vector *vectors,
                               int count, json_t *state, zr_states_saving **out, zero_error *error);
typedef zero_status save_part(zr_states_saving *saving, int part, zero_error *error);
typedef void set_guard(zero_engine *engine, const zr_guard *guard);
begin_save __real_zr_states_save_begin, __wrap_zr_states_save_begin;
save_part __real_zr_states_save_part, __wrap_zr_states_save_part;
set_guard __real_zr_engine_guard, __wrap_zr_engine_guard;

zero_status __wrap_zr_states_save_begin(zero_comm *comm, const char *where,
                                        const zr_state_vector *vectors, int count, json_t *state,
                                        zr_states_saving **out, zero_error *error)
{
    zero_status status =
        __real_zr_states_save_begin(comm, where, vectors, count, state, out, error);
    begun = *out;
    return status;
}

static void spoil_queue_of(const zr_states_saving *saving)
{
    char here = 0;
    for (int r = 0; r < ZR_COUNT(saves); r++)
        if (saves[r].saving == saving)
            zr_run(saves[r].engine->far.saver, zr_op_fill(&(zr_bytes){1}, &here));
}

// Slower than a step, so that the update waits. A save that has failed reads nothing any more.
zero_status __wrap_zr_states_save_part(zr_states_saving *saving, int part, zero_error *error)
{
    usleep(500);
    if (fails && part == LARGE)
        spoil_queue_of(saving);
    zero_status status = __real_zr_states_save_part(saving, part, error);
    far_note_post(saving, status == ZERO_OK ? (uint64_t)part + 1 : ALL_PARTS);
    return status;
}

static zero_status await_part(void *user, int flat_param, zero_error *error)
{
    const save *mine = user;
    int place;
    if (!far_makes_wait(&place))
        return ZERO_OK;
    ZERO_TRY(mine->guard.await(mine->guard.user, flat_param, error));
    far_note_await(mine->saving, (uint64_t)flat_param + 1, place);
    return ZERO_OK;
}

void __wrap_zr_engine_guard(zero_engine *engine, const zr_guard *guard)
{
    save *mine = &saves[engine->grid.world->rank];
    if (guard)
        *mine = (save){begun, engine, *guard};
    __real_zr_engine_guard(engine, guard ? &(zr_guard){await_part, mine} : NULL);
}

// ---- files ----

static int64_t read_file(const char *where, const char *name, char *out)
{
    char text[640];
    snprintf(text, sizeof text, "%s/%s", where, name);
    FILE *file = fopen(text, "rb");
    if (!file)
        fail_msg("%s is missing", text);
    int64_t bytes = (int64_t)fread(out, 1, MOST_FILE, file);
    fclose(file);
    assert_true(bytes < MOST_FILE);
    return bytes;
}

// All files of vectors have the same bytes; the manifests differ in time and backend.
static void check_files(const char *what, const char *got, const char *want)
{
    static char a[MOST_FILE], b[MOST_FILE];
    DIR *files = opendir(want);
    int count = 0;
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files));) {
        if (!strstr(entry->d_name, ".safetensors"))
            continue;
        int64_t bytes = read_file(want, entry->d_name, a);
        count++;
        if (read_file(got, entry->d_name, b) != bytes || memcmp(a, b, (size_t)bytes) != 0)
            fail_msg("%s: %s has other bytes", what, entry->d_name);
    }
    closedir(files);
    assert_true(count >= 3);
}

// ---- runs ----

typedef struct way {
    const char *name;
    far_options options;
} way;

static const way ways[] = {{"eager", {.order = FAR_EAGER, .keeps_rows = true}},
                           {"lazy", {.order = FAR_LAZY, .keeps_rows = true}},
                           {"random", {.order = FAR_RANDOM, .seed = 5, .keeps_rows = true}}};

static void run_far(harness_case c, const way *how, const char *what, harness_result *out)
{
    c.backend = "far";
    far_begin(&how->options);
    harness_run(&c, out);
    far_end_clean(what);
    harness_expect_held(out);
}

static bool same_end(const harness_result *a, const harness_result *b)
{
    return a->elems == b->elems &&
           !memcmp(a->loss + SAVED, b->loss + SAVED, sizeof a->loss - SAVED * sizeof *a->loss) &&
           !memcmp(a->parameters, b->parameters, (size_t)a->elems * sizeof(float)) &&
           a->evaluated == b->evaluated;
}

// What is saved is larger than both of the buffers.
static zero_status check_buffers(zero_engine *engine, int step, zero_error *error)
{
    int64_t most = 0, room = engine->plan->spaces[ZR_SPACE_SAVED].bytes;
    for (int p = 0; p < engine->plan->flat_param_count; p++)
        most = ZR_MAX(most, engine->plan->flat_params[p].shard * (int64_t)sizeof(float));
    if (engine->far.is)
        assert_true(most > room);
    return ZERO_OK;
}

static harness_case case_of(int stage, int ranks, const char *precision)
{
    return (harness_case){.stage = stage,
                          .ranks = ranks,
                          .batch = 2,
                          .accumulation = 1,
                          .width = 32,
                          .precision = precision,
                          .overlapped = true,
                          .save_at = SAVED,
                          .after = check_buffers};
}

// Each goes on from what the other one has saved.
static void check_resumes(harness_case c, const way *how, const char *what,
                          const harness_result *want)
{
    static harness_result got;
    c.save = NULL;
    c.load = path("far");
    harness_run(&c, &got);
    if (!same_end(&got, want))
        fail_msg("%s: \"ref\" goes on to other bits", what);
    c.load = path("ref");
    run_far(c, how, what, &got);
    if (!same_end(&got, want))
        fail_msg("%s: \"far\" goes on to other bits", what);
}

static void check_case(harness_case c)
{
    static harness_result want, got;
    c.save = path("ref");
    harness_run(&c, &want);
    for (int w = 0; w < ZR_COUNT(ways); w++) {
        char what[160];
        snprintf(what, sizeof what, "stage %d, %d ranks, %s, %s", c.stage, c.ranks,
                 c.precision ? c.precision : "fp32", ways[w].name);
        c.save = path("far");
        run_far(c, &ways[w], what, &got);
        assert_int_equal(got.saved, ZERO_OK);
        if (!harness_equal(&got, &want) || got.skipped != want.skipped)
            fail_msg("%s: other bits", what);
        check_files(what, path("far"), path("ref"));
        check_resumes(c, &ways[w], what, &want);
    }
}

static void what_is_saved_beside_a_step_is_what_ref_saves(void **state)
{
    static const char *const precisions[] = {
        NULL, "\"bf16\": {\"enabled\": true}",
        "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 18, \"hysteresis\": 1}"};
    for (int stage = 0; stage <= 3; stage += 3)
        for (int ranks = 1; ranks <= 2; ranks++)
            for (int i = 0; i < ZR_COUNT(precisions); i++)
                check_case(case_of(stage, ranks, precisions[i]));
}

// The same where the host's queue updates what is saved: it waits for the guard, too.
static void so_are_states_on_the_host(void **state)
{
    static const char *const tiers[] = {
        "\"offload_param\": {\"device\": \"cpu\"}, \"stage3_param_persistence_threshold\": 0",
        "\"offload_optimizer\": {\"device\": \"cpu\"}",
        "\"offload_optimizer\": {\"device\": \"cpu\"}, \"offload_param\": {\"device\": \"cpu\"}"};
    for (int t = 0; t < ZR_COUNT(tiers); t++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            harness_case c = case_of(3, 2, bf16 ? "\"bf16\": {\"enabled\": true}" : NULL);
            c.tiers = tiers[t];
            check_case(c);
        }
}

static void norms_by_tensor_and_several_micro_batches(void **state)
{
    harness_case c = case_of(2, 2, "\"bf16\": {\"enabled\": true}");
    c.optimizer = "LAMB";
    c.accumulation = 2;
    check_case(c);
}

// ---- saves one after another ----

// Between steps the rank reads a tensor while the other thread saves.
static zero_status read_beside(zero_engine *engine, zero_error *error)
{
    enum { ELEMENTS = HARNESS_VOCAB * 32 };
    float values[ELEMENTS];
    return zero_read_parameter(engine, "wte.weight", values, ELEMENTS, error);
}

static zero_status step_once(zero_engine *engine, int step, zero_error *error)
{
    static const harness_case c = {.batch = 2};
    harness_rows rows;
    double loss;
    zero_step_info info;
    const zero_tensors batch = harness_micro_batch(&c, step, engine->grid.world->rank, &rows);
    ZERO_TRY(zero_forward(engine, &batch, &loss, error));
    ZERO_TRY(zero_backward(engine, error));
    return zero_step(engine, &info, error);
}

static zero_status save_each_step(zero_engine *engine, zero_error *error)
{
    for (int step = 0; step < HARNESS_STEPS; step++) {
        char where[400];
        zero_checkpoint *saving;
        snprintf(where, sizeof where, "%s/%s-%d", directory, engine->far.is ? "far" : "ref", step);
        ZERO_TRY(zero_begin_checkpoint(engine, where, &saving, error));
        zero_status status = read_beside(engine, error);
        if (status == ZERO_OK)
            status = step_once(engine, step, error);
        ZERO_TRY(zero_end_checkpoint(saving, error));
        ZERO_TRY(status);
    }
    return ZERO_OK;
}

static void each_step_can_be_saved_and_read(void **state)
{
    static harness_result want, got;
    harness_case c = case_of(3, 2, "\"bf16\": {\"enabled\": true}");
    c.drive = save_each_step;
    harness_run(&c, &want);
    for (int w = 0; w < ZR_COUNT(ways); w++) {
        run_far(c, &ways[w], ways[w].name, &got);
        assert_memory_equal(got.parameters, want.parameters,
                            (size_t)want.elems * sizeof *want.parameters);
        for (int step = 0; step < HARNESS_STEPS; step++) {
            char names[2][16];
            snprintf(names[0], sizeof names[0], "far-%d", step);
            snprintf(names[1], sizeof names[1], "ref-%d", step);
            check_files(ways[w].name, path(names[0]), path(names[1]));
        }
    }
}

// ---- a failure ----

static zero_status end_with_failure(zero_engine *engine, zero_error *error)
{
    zero_checkpoint *saving;
    zero_error why = {0};
    ZERO_TRY(zero_begin_checkpoint(engine, path("failed"), &saving, error));
    ZERO_TRY(step_once(engine, 0, error));
    assert_int_equal(zero_end_checkpoint(saving, &why), ZERO_ERR_INTERNAL);
    assert_non_null(strstr(why.message, "operation fill: its operand"));
    return step_once(engine, 1, error);
}

static zero_status end_two_steps(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(step_once(engine, 0, error));
    return step_once(engine, 1, error);
}

static void a_failure_of_its_queue_is_the_saves(void **state)
{
    static harness_result want, got;
    harness_case c = case_of(3, 1, NULL);
    c.drive = end_two_steps;
    harness_run(&c, &want);
    c.drive = end_with_failure;
    for (int w = 0; w < ZR_COUNT(ways); w++) {
        fails = true;
        run_far(c, &ways[w], ways[w].name, &got);
        fails = false;
        assert_memory_equal(got.parameters, want.parameters,
                            (size_t)want.elems * sizeof *want.parameters);
        assert_false(zr_path_exists(path("failed")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_beside_a_step_is_what_ref_saves),
        cmocka_unit_test(so_are_states_on_the_host),
        cmocka_unit_test(norms_by_tensor_and_several_micro_batches),
        cmocka_unit_test(each_step_can_be_saved_and_read),
        cmocka_unit_test(a_failure_of_its_queue_is_the_saves)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
