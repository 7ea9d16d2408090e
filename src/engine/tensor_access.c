// Answers questions about the engine: its parts, its progress, its memory and traffic, and where it
// holds non-finite values.
#include "base/dtype.h"
#include "engine/engine_internal.h"
#include "engine/far_states.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zero/grid.h>

const zr_plan *zr_engine_plan(const zero_engine *engine) { return engine->plan; }
zero_comm *zr_engine_comm(const zero_engine *engine) { return engine->grid.world; }
const zr_grid *zr_engine_grid(const zero_engine *engine) { return &engine->grid; }
zr_queue *zr_engine_queue(const zero_engine *engine) { return engine->queue; }
const zr_config *zr_engine_config(const zero_engine *engine) { return engine->config; }
zr_engine_making zr_engine_making_of(const zero_engine *engine) { return engine->making; }
uint64_t zr_engine_seed(const zero_engine *engine) { return engine->parts.seed; }
const zero_logger *zr_engine_logger(const zero_engine *engine) { return &engine->parts.logger; }
uint32_t zr_engine_allowed_changes(const zero_engine *engine) { return engine->parts.changes; }
const char *zr_engine_io_description(const zero_engine *engine)
{
    return engine->offload.io ? zr_io_description(engine->offload.io) : NULL;
}
int64_t zr_engine_steps_together(const zero_engine *engine) { return engine->steps.together; }
zr_progress zr_engine_progress(const zero_engine *engine) { return engine->progress; }

void zr_engine_go_on_from(zero_engine *engine, const zr_progress *progress)
{
    engine->progress = *progress;
}

int64_t zero_accumulation(const zero_engine *engine)
{
    return engine ? engine->plan->settings.accumulation : 0;
}
int64_t zero_parameter_count(const zero_engine *engine)
{
    return engine ? engine->plan->parameters : 0;
}

void zero_position(const zero_engine *engine, int64_t *step, int64_t *micro_batch)
{
    if (step)
        *step = engine ? engine->progress.step : 0;
    if (micro_batch)
        *micro_batch = engine ? zr_engine_micro_batch(engine) : 0;
}

void zero_grid_of(const zero_engine *engine, zero_axis axis, int *rank, int *size)
{
    bool is_axis = engine && axis >= 0 && axis < ZERO_AXIS_COUNT;
    if (rank)
        *rank = is_axis ? engine->grid.mesh.place[axis] : 0;
    if (size)
        *size = is_axis ? engine->grid.mesh.size[axis] : 0;
}

void zero_memory_report(const zero_engine *engine, zero_memory *out)
{
    if (!out)
        return;
    *out = (zero_memory){0};
    if (!engine)
        return;
    memcpy(out->planned, engine->ledger.planned, sizeof out->planned);
    memcpy(out->held, engine->ledger.held, sizeof out->held);
}

static void add_traffic(const zero_traffic *traffic, int64_t times, zero_traffic *sum)
{
    for (int op = 0; op < ZERO_COMM_OP_COUNT && traffic; op++) {
        sum->calls[op] += times * traffic->calls[op];
        sum->bytes[op] += times * traffic->bytes[op];
        sum->network[op] += times * traffic->network[op];
    }
}

zero_traffic zero_traffic_between(const zero_traffic *before, const zero_traffic *after)
{
    zero_traffic added = {0};
    add_traffic(after, 1, &added);
    add_traffic(before, -1, &added);
    return added;
}

void zr_engine_job_traffic(const zero_engine *engine, zero_traffic *out)
{
    *out = zero_traffic_between(&engine->traffic_before, &engine->grid.world->traffic);
}

void zr_engine_traffic(const zero_engine *engine, zero_axis axis, zero_traffic *out)
{
    const zr_grid *grid = &engine->grid;
    *out = (zero_traffic){0};
    if (axis == ZERO_AXIS_data && grid->data != grid->world)
        *out = grid->data->traffic;
    else if (axis == ZERO_AXIS_data)
        zr_engine_job_traffic(engine, out);
    if (axis == ZERO_AXIS_tensor && grid->tensor)
        *out = grid->tensor->traffic;
    if (axis == ZERO_AXIS_pipeline && grid->pipeline)
        *out = grid->pipeline->traffic;
    if (axis == ZERO_AXIS_tensor && grid->replicas)
        add_traffic(&grid->replicas->traffic, 1, out);
}

// Groups were made for this engine, so all of their traffic is its own.
void zero_traffic_report(const zero_engine *engine, zero_traffic *out)
{
    if (!out)
        return;
    *out = (zero_traffic){0};
    if (!engine)
        return;
    const zr_grid *grid = &engine->grid;
    zr_engine_job_traffic(engine, out);
    for (int i = 0; i < ZR_COUNT(grid->groups); i++)
        if (grid->groups[i] && grid->groups[i] != grid->world)
            add_traffic(&grid->groups[i]->traffic, 1, out);
}

zero_status zr_engine_observe(zero_engine *engine, const zr_observer *observer, zero_error *error)
{
    if (engine->observer_count == ZR_MOST_OBSERVERS)
        return zr_fail(error, ZERO_ERR_LIMIT, "an engine has at most %d observers",
                       ZR_MOST_OBSERVERS);
    engine->observers[engine->observer_count++] = *observer;
    return ZERO_OK;
}

zero_status zr_engine_record(zero_engine *engine, zr_recorder *recorder, zero_error *error)
{
    zr_delayed_record(engine, recorder);
    return zr_queues_record(engine, recorder, error);
}

typedef struct search {
    const zr_flat_param *flat_param;
    const zr_portion *portion;
    int64_t found;
} search;

static void search_part(void *user, const zr_plan_tensor *tensor, int64_t first, int64_t count)
{
    search *s = user;
    for (int64_t at = 0; at < count && s->found < 0; at += ZR_CHUNK) {
        float values[ZR_CHUNK];
        int64_t n = ZR_MIN(ZR_CHUNK, count - at);
        zr_widen(s->portion->dtype, zr_portion_at(s->portion, first + at), n, values);
        for (int64_t i = 0; i < n && s->found < 0; i++)
            if (!isfinite(values[i]))
                s->found = tensor->number;
    }
}

static zero_status search_portion(void *user, const zr_portion *portion, zero_error *error)
{
    search *s = user;
    s->portion = portion;
    zr_for_parts(s->flat_param, portion->span, search_part, s);
    return ZERO_OK;
}

// vector: ZR_VECTOR_MASTER or ZR_VECTOR_GRADIENT.
static zero_status first_nonfinite(zero_engine *engine, zr_vector vector, int64_t *found,
                                   zero_error *error)
{
    const zr_plan *plan = engine->plan;
    *found = INT64_MAX;
    // Only the flat parameters of a whole model are in the order of the numbers.
    for (int p = 0; p < plan->flat_param_count && (*found == INT64_MAX || plan->model->whole);
         p++) {
        search search = {.flat_param = &plan->flat_params[p], .found = -1};
        if (vector == ZR_VECTOR_GRADIENT && plan->flat_params[p].kind != ZERO_TRAINABLE)
            continue;
        ZERO_TRY(zr_engine_vector_each(engine, p, vector, ZR_PORTIONS_READ, search_portion, &search,
                                       error));
        *found = search.found >= 0 ? ZR_MIN(search.found, *found) : *found;
    }
    return ZERO_OK;
}

// Returns the name of any tensor of the whole model, or NULL, because the number is of no tensor.
static const char *tensor_name(const zr_plan *plan, int64_t number)
{
    const zero_model *model = plan->model;
    if (number >= plan->tensor_count)
        return NULL;
    return zr_tensor_name(zr_model_tensor(model->whole ? model->whole : model, (int)number));
}

zero_status zr_engine_find_nonfinite(zero_engine *engine, char *name, size_t size,
                                     zero_error *error)
{
    int64_t found[2];
    ZERO_TRY(first_nonfinite(engine, ZR_VECTOR_MASTER, &found[0], error));
    ZERO_TRY(first_nonfinite(engine, ZR_VECTOR_GRADIENT, &found[1], error));
    ZERO_TRY(zr_comm_all_reduce_small(engine->grid.world, found, 2, ZERO_I64, ZR_MIN, error));
    const char *parameter = tensor_name(engine->plan, found[0]),
               *gradient = tensor_name(engine->plan, found[1]);
    if (parameter || gradient)
        snprintf(name, size, "%s of %s", parameter ? "the values" : "the gradient",
                 parameter ? parameter : gradient);
    else
        snprintf(name, size, "no parameter and no gradient");
    return ZERO_OK;
}
