// The update, the gradient norm, and what is done to contributions, on vectors as long as those of
// the plan, up to a limit beyond which caches hold nothing of them either. Items of a kind follow
// one another through the vectors, from round to round, so that none finds its elements in a cache
// where a step would not.
#include "predict/rate_tasks.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/random.h"
#include "compute/tree_sum.h"
#include "compute/compute.h"
#include "memory/arena.h"

#include <string.h>

// Elements: of the vectors, of a walk, of a sum (enough to be streamed,
// compute/tree_sum.h), and of a call of square_sums (512 parts, as the engine's).
enum { MOST_ELEMS = 12 << 20, MOST_WALK = 1 << 20, MOST_SUM = 2 << 20, SQUARE_PARTS = 512 };
enum { SOME_VALUES = 1 << 14 };
// Times that an item is done in a row: caches delay what is written, so a single one seems faster
// than those of a step, where each waits for what the ones before it have written.
enum { MOST_IN_A_ROW = 8 };
#define SMALL 0.01f

typedef struct vectors {
    float *master, *state0, *state1, *direction;
    void *gradient, *parameters; // of any type up to fp32
} vectors;

typedef struct state {
    const zr_vector_task *task;
    const zr_member *member;
    vectors at;
    float nowhere[1];                   // where all vectors are that nobody reads
    int64_t next[ZR_VECTOR_ITEM_KINDS]; // element with which the next item of a kind begins
} state;

static zero_dtype accumulator_dtype_of(const zr_plan *plan)
{
    return plan->settings.precision.accumulator;
}

// Bytes of each vector, whatever its type.
static size_t task_vector_bytes(const zr_vector_task *task)
{
    return ZR_ROUND_UP((size_t)task->elems * sizeof(float), (size_t)ZR_ALIGN);
}

size_t zr_vector_task_bytes(const zr_vector_task *task)
{
    return sizeof(vectors) / sizeof(float *) * task_vector_bytes(task);
}

static int64_t longest_item(const zr_vector_task *task)
{
    int64_t longest = 1;
    for (int i = 0; i < task->count; i++)
        longest = ZR_MAX(longest, task->items[i].elems);
    return longest;
}

void zr_vector_task_shorten(zr_vector_task *task, int64_t most)
{
    int64_t elems = most / (int64_t)(sizeof(vectors) / sizeof(float *) * sizeof(float));
    task->elems = ZR_MAX(longest_item(task), ZR_MIN(task->elems, elems / ZR_ALIGN * ZR_ALIGN));
}

static void fill_random_vector(float *to, zero_dtype dtype, int64_t elems)
{
    float values[SOME_VALUES];
    int64_t width = (int64_t)zero_dtype_bytes(dtype);
    zr_random_uniform(1, 0, SOME_VALUES, SMALL, values);
    for (int64_t at = 0; at < elems; at += SOME_VALUES)
        zr_narrow(dtype, values, ZR_MIN(SOME_VALUES, elems - at), (char *)to + at * width);
}

static void lay_out_vectors(state *s, char *memory)
{
    int64_t elems = s->task->elems;
    float **const places[] = {&s->at.master, &s->at.state0, &s->at.state1, &s->at.direction};
    void **const others[] = {&s->at.gradient, &s->at.parameters};
    size_t each = task_vector_bytes(s->task);
    memset(memory, 0, zr_vector_task_bytes(s->task));
    for (int i = 0; i < ZR_COUNT(places); i++, memory += each)
        *places[i] = (float *)(void *)memory;
    for (int i = 0; i < ZR_COUNT(others); i++, memory += each)
        *others[i] = memory;
    fill_random_vector(s->at.master, ZERO_F32, elems);
    fill_random_vector(s->at.gradient, accumulator_dtype_of(s->task->plan), elems);
    fill_random_vector(s->at.direction, s->task->plan->settings.precision.gradients, elems);
}

static zero_status open_vectors(const void *task, const zr_member *member, void **out,
                                zero_error *error)
{
    state *s = zr_alloc(sizeof *s, error);
    if (!s)
        return ZERO_ERR_MEMORY;
    *s = (state){.task = task, .member = member};
    float *here = s->nowhere;
    if (member->counts)
        s->at = (vectors){here, here, here, here, here, here};
    else
        lay_out_vectors(s, member->memory);
    *out = s;
    return ZERO_OK;
}

static zr_range_states range_states_from(const state *s, int64_t first)
{
    const zr_plan *plan = s->task->plan;
    const zr_precision *precision = &plan->settings.precision;
    int states = plan->settings.state_vectors;
    bool copies = zr_precision_has_master(precision) && zr_plan_updates_copies(plan);
    char *gradient = s->at.gradient, *parameters = s->at.parameters;
    return (zr_range_states){
        .master = s->at.master + first,
        .state0 = states > 0 ? s->at.state0 + first : NULL,
        .state1 = states > 1 ? s->at.state1 + first : NULL,
        .direction = s->at.direction + first,
        .gradient = gradient + first * (int64_t)zero_dtype_bytes(accumulator_dtype_of(plan)),
        .gradient_dtype = accumulator_dtype_of(plan),
        .parameters =
            copies ? parameters + first * (int64_t)zero_dtype_bytes(precision->parameters) : NULL,
        .parameters_dtype = precision->parameters};
}

enum { COLUMNS = 1024, ROWS = MOST_WALK / COLUMNS + 1 }; // of Adafactor's matrix

// Makes Adafactor's walks over a matrix of few columns, whose sums and roots stay in caches.
static void update_factored(const state *s, const zr_range_states *at, int64_t elems)
{
    const zr_factored_values values = {.gradient_scale = 1,
                                       .most = 1e6f,
                                       .keep = 1,
                                       .step = 1e-4f,
                                       .coarse = 0x1p-60,
                                       .fine = 0x1p-100};
    int64_t row_sums[2 * ROWS] = {0}, column_sums[2 * COLUMNS] = {0};
    float row_roots[ROWS], column_roots[COLUMNS];
    double squares[SQUARE_PARTS + 1];
    zr_queue *queue = s->member->queue;
    for (int i = 0; i < ROWS; i++)
        row_roots[i] = 1;
    for (int i = 0; i < COLUMNS; i++)
        column_roots[i] = 1;
    const zr_factored shape = {.gradient = at->gradient_dtype,
                               .parameters = at->parameters_dtype,
                               .width = COLUMNS,
                               .stride = COLUMNS,
                               .parts = 1,
                               .count = elems};
    zr_run(queue, zr_op_factor_sums(&shape, &values, at->gradient, row_sums, column_sums));
    zr_run(queue,
           zr_op_factored_squares(&shape, &values, at->gradient, row_roots, column_roots, squares));
    zr_run(queue, zr_op_factored_update(&shape, &values, at->master, at->gradient, row_roots,
                                        column_roots, at->parameters));
}

static void update_range(const state *s, int64_t first, int64_t elems)
{
    const zr_range_states at = range_states_from(s, first);
    const zr_update update = {.kind = s->task->update,
                              .gradient = at.gradient_dtype,
                              .parameters = at.parameters_dtype,
                              .n = elems,
                              .epsilon = 1e-8,
                              .weight_decay = 0.01};
    const zr_update_values values = {.lr = 1e-4,
                                     .beta1 = 0.9,
                                     .beta2 = 0.99,
                                     .correction1 = 0.1,
                                     .correction2 = 0.01,
                                     .gradient_scale = 1};
    const float step = 1e-4f;
    zr_queue *queue = s->member->queue;
    if (s->task->plan->settings.factored) {
        update_factored(s, &at, elems);
        return;
    }
    if (!s->task->plan->settings.per_tensor_norms) {
        zr_run(queue, zr_op_update_of(&update, &values, elems, &at));
        return;
    }
    zr_run(queue, zr_op_lamb_direction(&update, &values, at.master, at.state0, at.state1,
                                       at.gradient, at.direction));
    zr_run(queue, zr_op_subtract_scaled(&update, &step, at.master, at.direction, at.parameters));
}

static void add_squares(const state *s, int64_t begin, int64_t elems)
{
    const zr_range_states at = range_states_from(s, begin);
    const zr_squares part = {.dtype = at.gradient_dtype, .count = elems};
    double sums[SQUARE_PARTS];
    zr_run(s->member->queue, zr_op_square_sums(&part, at.gradient, sums));
}

// The communicator does this, not the queue's backend. It counts as elementwise work.
static void sum_alone(const state *s, bool adds, int64_t first, int64_t elems)
{
    const zr_precision *precision = &s->task->plan->settings.precision;
    const zr_range_states at = range_states_from(s, first);
    const zr_sum_target to = {
        .data = (void *)at.gradient, .dtype = precision->accumulator, .adds = adds};
    const void *own = s->at.direction + first;
    int64_t begin = zr_recorder_begin(s->member->recorder),
            read = (int64_t)zero_dtype_bytes(precision->gradients),
            sums = (adds ? 2 : 1) * (int64_t)zero_dtype_bytes(precision->accumulator);
    if (!s->member->counts)
        zr_tree_sum(&to, precision->gradients, &own, 1, elems, s->member->queue->threads);
    zr_recorder_add(s->member->recorder, ZR_ACTIVITY_element, begin, elems * (read + sums), 0, -1);
}

static void run_item(const state *s, zr_vector_item_kind kind, int64_t first, int64_t elems)
{
    switch (kind) {
    case ZR_VECTOR_UPDATE: update_range(s, first, elems); return;
    case ZR_VECTOR_SQUARES: add_squares(s, first, elems); return;
    case ZR_VECTOR_SET: sum_alone(s, false, first, elems); return;
    case ZR_VECTOR_ADD: sum_alone(s, true, first, elems); return;
    default:
        zr_run(s->member->queue,
               zr_op_convert(&(zr_conversion){.from = ZERO_F32,
                                              .to = s->task->plan->settings.precision.gradients,
                                              .n = elems},
                             s->at.master + first, s->at.direction + first));
    }
}

static void run_item_on_next_range(state *s, zr_vector_item_kind kind, int64_t elems)
{
    int64_t *next = &s->next[kind];
    if (*next + elems > s->task->elems)
        *next = 0;
    run_item(s, kind, *next, elems);
    *next += ZR_ROUND_UP(elems, (int64_t)ZR_TENSOR_ALIGN);
}

static zero_status run_vector_items(void *opened, zero_error *error)
{
    state *s = opened;
    for (int i = 0; i < s->task->count; i++) {
        int64_t elems = s->task->items[i].elems,
                times = ZR_MIN(s->task->elems / elems, (int64_t)MOST_IN_A_ROW);
        for (int64_t t = 0; t < ZR_MAX(times, 1); t++)
            run_item_on_next_range(s, s->task->items[i].kind, elems);
    }
    return ZERO_OK;
}

static void close_vectors(void *opened) { zr_free(opened); }

const zr_common_work zr_vector_work = {
    .open = open_vectors, .round = run_vector_items, .close = close_vectors};

static void add_item_once(zr_vector_task *task, zr_vector_item_kind kind, int64_t elems)
{
    if (elems <= 0)
        return;
    for (int i = 0; i < task->count; i++)
        if (task->items[i].kind == kind && task->items[i].elems == elems)
            return;
    if (task->count == ZR_MOST_VECTOR_ITEMS)
        return;
    task->items[task->count].kind = kind;
    task->items[task->count++].elems = elems;
}

// Returns how many elements of [first, first + count) of its flat parameter a tensor has.
static int64_t count_overlap(const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    return ZR_MIN(first + count, tensor->first + tensor->count) - ZR_MAX(first, tensor->first);
}

// Of the first data rank: the parts of tensors in a range of its shard, which others have alike.
static void list_tensors(zr_vector_task *task, zr_vector_item_kind kind,
                         const zr_flat_param *flat_param, int64_t first, int64_t count,
                         int64_t most)
{
    for (int t = 0; t < flat_param->tensor_count; t++)
        add_item_once(task, kind,
                      ZR_MIN(count_overlap(&flat_param->tensors[t], first, count), most));
}

static void list_flat_param(zr_vector_task *task, const zr_flat_param *flat_param,
                            zr_shard_slice *shard_slices)
{
    const zr_plan *plan = task->plan;
    list_tensors(task, ZR_VECTOR_SQUARES, flat_param, 0, flat_param->shard,
                 SQUARE_PARTS * ZR_CHUNK);
    if (plan->settings.precision.gradients != ZERO_F32)
        add_item_once(task, ZR_VECTOR_ROUND, ZR_MIN(flat_param->padded, (int64_t)MOST_WALK));
    if (plan->ranks == 1 && flat_param->accumulator_first >= 0)
        add_item_once(task, ZR_VECTOR_SET, ZR_MIN(flat_param->shard, (int64_t)MOST_SUM));
    if (plan->ranks == 1 && plan->settings.accumulation > 1)
        add_item_once(task, ZR_VECTOR_ADD, ZR_MIN(flat_param->shard, (int64_t)MOST_SUM));
    for (int i = 0; i < flat_param->shard_slice_count; i++) {
        const zr_shard_slice *shard_slice = &shard_slices[flat_param->shard_slice_first + i];
        if (shard_slice->group >= 0)
            list_tensors(task, ZR_VECTOR_UPDATE, flat_param, shard_slice->first, shard_slice->count,
                         MOST_WALK);
    }
}

void zr_vector_task_list(const zr_plan *plan, zr_update_kind update, zr_vector_task *out)
{
    int64_t elems = 0;
    *out = (zr_vector_task){.plan = plan, .update = update};
    for (int p = 0; p < plan->flat_param_count && !plan->settings.inference; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        if (flat_param->kind != ZERO_TRAINABLE)
            continue;
        list_flat_param(out, flat_param, plan->shard_slices);
        elems += plan->updates_whole ? flat_param->padded : flat_param->shard;
    }
    // Vectors of a small model stay in caches in a step, too.
    out->elems = ZR_MAX(longest_item(out), ZR_MIN(elems, (int64_t)MOST_ELEMS));
}
