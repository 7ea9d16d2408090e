// Mistakes that are easily made with a GPU, each planted into a training, in a child process. What
// finds it is said of each: a touch of the host's, a rank's failure, a violation, a race in the
// list, or other bits.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "engine/engine_internal.h"
#include "engine/far_memory.h"
#include "far_places.h"
#include "far_trial.h"

#include <pthread.h>
#include <string.h>

enum { SOME = 64 };

typedef enum tampered { // a function that the linker has put something around
    NOTHING,
    SENT_IDS, // are overwritten at once
    STORES,   // are not cleared
    STRIPS,   // are not used: portions are handed out where they lie
} tampered;

typedef struct planted {
    const char *name;
    int stage, ranks;
    const char *place;                   // of a wait that is left out
    void (*in_unit)(zero_context *);     // before a unit's forward
    void (*in_step)(zero_engine *, int); // after step 0, 1, ...
    tampered tampered;
    far_outcome outcome;
    const char *words;
} planted;

static const planted *now; // what is planted in the run under way; NULL: nothing

// ---- around functions of the engine ----

zero_status __real_zr_far_send_batch(zero_engine *engine, zero_error *error);
zero_status __wrap_zr_far_send_batch(zero_engine *engine, zero_error *error);
zero_status __real_zr_far_clear_stores(zero_engine *engine, zero_error *error);
zero_status __wrap_zr_far_clear_stores(zero_engine *engine, zero_error *error);
zero_status __real_zr_strips_each(zero_engine *engine, const zr_portion *whole, zr_portion_use use,
                                  zr_portion_fn take, void *user, zero_error *error);
zero_status __wrap_zr_strips_each(zero_engine *engine, const zr_portion *whole, zr_portion_use use,
                                  zr_portion_fn take, void *user, zero_error *error);

static bool is_tampered(tampered what) { return now && now->tampered == what; }

zero_status __wrap_zr_far_send_batch(zero_engine *engine, zero_error *error)
{
    ZERO_TRY(__real_zr_far_send_batch(engine, error));
    if (is_tampered(SENT_IDS))
        memset(engine->spaces[ZR_SPACE_SENT_IDS].at, 0, SOME);
    return ZERO_OK;
}

zero_status __wrap_zr_far_clear_stores(zero_engine *engine, zero_error *error)
{
    return is_tampered(STORES) ? ZERO_OK : __real_zr_far_clear_stores(engine, error);
}

zero_status __wrap_zr_strips_each(zero_engine *engine, const zr_portion *whole, zr_portion_use use,
                                  zr_portion_fn take, void *user, zero_error *error)
{
    return is_tampered(STRIPS) ? take(user, whole, error)
                               : __real_zr_strips_each(engine, whole, use, take, user, error);
}

// ---- in a unit ----

static zero_unit_ops ops_with;
static const zero_unit_ops *ops_without;

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    if (now && now->in_unit)
        now->in_unit(context);
    return ops_without->forward(context, in, out);
}

static const zero_model *with_a_unit(const zero_model *model)
{
    static zero_unit units[8];
    static zero_model copy;
    copy = *model;
    memcpy(units, model->units, (size_t)model->unit_count * sizeof *units);
    ops_without = units[1].ops;
    ops_with = *ops_without;
    ops_with.forward = forward;
    units[1].ops = &ops_with;
    copy.units = units;
    return &copy;
}

static void *reserve(zr_memory kind)
{
    void *at = NULL;
    if (far_device()->ops->reserve(far_device(), kind, SOME, &at, NULL) != ZERO_OK)
        return NULL;
    return at;
}

static void release(zr_memory kind, void *at)
{
    far_device()->ops->release(far_device(), kind, at, SOME);
}

static void reserve_in_a_step(zero_context *context)
{
    release(ZR_MEMORY_DEVICE, reserve(ZR_MEMORY_DEVICE));
}

static void *submit(void *argument)
{
    const zero_context *context = argument;
    zr_run(context->queue, zr_op_fill(&(zr_bytes){SOME}, context->workspace));
    return NULL;
}

static void submit_by_a_thread(zero_context *context)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, submit, context) == 0)
        pthread_join(thread, NULL);
}

static void read_an_activation(zero_context *context)
{
    ((volatile char *)context->workspace)[1] = 1;
}

// ---- between steps ----

static void use_the_stack(zero_engine *engine, int step)
{
    char on_stack[SOME];
    zr_engine_run_aside(
        engine, zr_op_copy(&(zr_bytes){SOME}, engine->spaces[ZR_SPACE_LANDING].at, on_stack));
}

static void give_a_long_array(zero_engine *engine, int step)
{
    enum { SOURCES = 600 };
    const void *sources[SOURCES] = {0};
    const zr_tree tree = {.dtype = ZERO_F32, .ranks = SOURCES, .count = 4};
    zr_engine_run_aside(engine,
                        zr_op_tree_sum(&tree, sources, engine->spaces[ZR_SPACE_LANDING].at));
}

static float *shard_of(const zero_engine *engine) { return zr_own_parameters(engine, 0); }

static void loop_over_a_shard(zero_engine *engine, int step)
{
    float *shard = shard_of(engine);
    for (int i = 0; i < SOME; i++)
        shard[i] *= 0.5f;
}

static void release_under_way(zero_engine *engine, int step)
{
    void *at = reserve(ZR_MEMORY_DEVICE);
    zr_engine_run_aside(engine, zr_op_fill(&(zr_bytes){SOME}, at));
    release(ZR_MEMORY_DEVICE, at);
}

static void keep_memory(zero_engine *engine, int step)
{
    if (step == 0)
        (void)reserve(ZR_MEMORY_DEVICE);
}

// Another queue brings a shard down, and the next update does not wait for it.
static void save_beside_an_update(zero_engine *engine, int step)
{
    static zr_queue *queue;
    static char *pinned;
    if (step == 0) {
        pinned = reserve(ZR_MEMORY_PINNED);
        if (zr_queue_open("far", NULL, 1, &queue, NULL) != ZERO_OK)
            return;
        zr_queue_after(queue, zr_queue_mark(engine->queue));
        zr_run(queue, zr_op_copy(&(zr_bytes){SOME}, shard_of(engine), pinned));
    } else if (step == 1) {
        (void)zr_mark_finish(zr_queue_mark(queue), 1, NULL);
        zr_queue_close(queue);
        release(ZR_MEMORY_PINNED, pinned);
    }
}

// ---- the mistakes ----

#define WRITTEN "far: the host touches pinned memory that an operation writes (pinned)"
#define DEVICE "far: the host touches device memory (device)"
#define MEET ", meet at 0x"

static const planted mistakes[] = {
    {"the loss is read without a wait", 2, 1, .place = "zr_far_bring_loss",
     .outcome = FAR_TOUCH_MESSAGE, .words = WRITTEN},
    {"the norm is read without a wait", 2, 1, .place = "zr_norms_bring_step",
     .outcome = FAR_TOUCH_MESSAGE, .words = WRITTEN},
    {"a strip is read under way", 2, 1, .place = "await_copy", .outcome = FAR_TOUCH_MESSAGE,
     .words = WRITTEN},
    {"ids are overwritten early", 2, 1, .tampered = SENT_IDS, .outcome = FAR_TOUCH_MESSAGE,
     .words = "the host touches pinned memory that an operation reads, to write it (pinned): byte"},
    {"a store is read where it lies", 2, 1, .tampered = STRIPS, .outcome = FAR_TOUCH_MESSAGE,
     .words = DEVICE},
    {"the host loops over a shard", 2, 1, .in_step = loop_over_a_shard,
     .outcome = FAR_TOUCH_MESSAGE, .words = DEVICE},
    {"a unit writes its workspace itself", 2, 1, .in_unit = read_an_activation,
     .outcome = FAR_TOUCH_MESSAGE, .words = "the last operation that this thread submitted: "},
    {"memory that nobody wrote is used", 2, 1, .tampered = STORES, .outcome = FAR_OTHER_BITS},
    {"an operand lies on the stack", 2, 1, .in_step = use_the_stack, .outcome = FAR_RANK_FAILED,
     .words = "operation copy: its operand to, 64 bytes at "},
    {"an array of the host is long", 2, 1, .in_step = give_a_long_array, .outcome = FAR_RANK_FAILED,
     .words = "is an array of the host's of 4800 bytes, at most 4096"},
    {"memory is released under way", 2, 1, .in_step = release_under_way, .outcome = FAR_RANK_FAILED,
     .words = "is released memory"},
    {"memory is reserved in a step", 2, 1, .in_unit = reserve_in_a_step, .outcome = FAR_VIOLATION,
     .words = "64 bytes of device memory are reserved after far_seal"},
    {"memory is not released", 2, 1, .in_step = keep_memory, .outcome = FAR_VIOLATION,
     .words = "64 bytes of device memory, was not released"},
    {"two threads use a queue", 2, 1, .in_unit = submit_by_a_thread, .outcome = FAR_VIOLATION,
     .words = "and no finish has covered what thread"},
    {"a shard is saved while it is updated", 2, 1, .in_step = save_beside_an_update,
     .outcome = FAR_RACE, .words = MEET},
    {"a window is overwritten early", 2, 2, .place = "zr_local_quiesce", .outcome = FAR_RACE,
     .words = MEET},
    {"a word is posted before its mark", 2, 2, .place = "carry_out", .outcome = FAR_RACE,
     .words = MEET},
    {"an operand is told to be read before it is", 2, 2, .place = "end_late_operation",
     .outcome = FAR_RACE, .words = MEET},
    {"a gather is used before it is there", 3, 2, .place = "await_operation", .outcome = FAR_RACE,
     .words = MEET},
    {"a peer's operand is read before it is there", 3, 2, .place = "await_sealed",
     .outcome = FAR_RACE, .words = MEET},
};

// ---- a training ----

// Some of what is planted reserves between steps, which is not the mistake then.
static zero_status after(zero_engine *engine, int step, zero_error *error)
{
    far_unseal();
    if (now && now->in_step && step >= 0)
        now->in_step(engine, step);
    if (step < HARNESS_STEPS - 1)
        far_seal();
    return ZERO_OK;
}

static harness_case case_of(int stage, int ranks)
{
    return (harness_case){
        .stage = stage, .ranks = ranks, .batch = 2, .accumulation = 2, .tuned = with_a_unit};
}

static far_options options_of(int left_out)
{
    return (far_options){
        .order = FAR_LAZY, .keeps_rows = true, .place = far_place_now, .left_out = left_out};
}

static int place_named(const char *name)
{
    for (int place = 1; name && place <= far_place_count(); place++)
        if (strcmp(far_place_name(place), name) == 0)
            return place;
    if (name)
        fail_msg("no wait is made at %s", name);
    return 0;
}

// Without a mistake nothing is found; and the places of waits become known.
static void nothing_is_found_without_a_mistake(void **state)
{
    static harness_result want;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int stage = 2; stage <= 3; stage++) {
            harness_case run = case_of(stage, ranks);
            const far_options options = options_of(0);
            harness_run(&run, &want);
            run.after = after;
            far_train(&run, &options, &want, "without a mistake");
        }
}

static void check_mistake(const planted *one)
{
    static harness_result want;
    static far_trial trial;
    harness_case run = case_of(one->stage, one->ranks);
    const far_options options = options_of(place_named(one->place));
    harness_run(&run, &want);
    run.after = after;
    now = one;
    far_try(&run, &options, &want, &trial);
    now = NULL;
    if (trial.outcome != one->outcome || (one->words && !strstr(trial.said, one->words)))
        fail_msg("%s: %s, not %s: \"%s\" is said, not \"%s\"", one->name,
                 far_outcome_name(trial.outcome), far_outcome_name(one->outcome), trial.said,
                 one->words ? one->words : "");
}

static void each_mistake_is_found(void **state)
{
    for (int i = 0; i < ZR_COUNT(mistakes); i++)
        check_mistake(&mistakes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_found_without_a_mistake),
                                       cmocka_unit_test(each_mistake_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
