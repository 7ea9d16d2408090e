// Shard slices, groups and staging buffers of the update, and the bytes that it moves between
// tiers.
#include "base/quantised.h"
#include "plan/plan_parts.h"

#include <assert.h>

static const int64_t WORD = sizeof(float);

// Returns the elements of a flat parameter that this rank updates, or that it holds where nothing
// is updated.
static int64_t range_elems(const zr_plan *plan, const zr_flat_param *flat_param)
{
    return plan->updates_whole && flat_param->state_first >= 0 ? flat_param->padded
                                                               : flat_param->shard;
}

static int64_t group_elem_limit(const zr_plan *plan)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    bool crosses = plan->far && tiering->optimizer != ZERO_TIER_device;
    bool travels =
        tiering->optimizer == ZERO_TIER_nvme || tiering->parameters == ZERO_TIER_nvme || crosses;
    int64_t limit =
        (travels || zr_plan_codes_states(plan)) &&
                (tiering->sub_group <= 0 || tiering->sub_group > ZR_STAGING_BUFFER_ELEMS)
            ? ZR_STAGING_BUFFER_ELEMS
            : tiering->sub_group;
    return limit > 0 ? ZR_MAX(limit / ZR_CHUNK * ZR_CHUNK, ZR_CHUNK) : INT64_MAX / 2;
}

static int64_t chunk_elems(const zr_plan *plan, const zr_flat_param *flat_param)
{
    return zr_chunk_elems(flat_param->kind, plan->settings.precision.moments);
}

static int64_t slice_elem_limit(const zr_plan *plan, const zr_flat_param *flat_param)
{
    int64_t chunk = chunk_elems(plan, flat_param);
    return ZR_MAX(group_elem_limit(plan) / chunk * chunk, chunk);
}

// Where each group has one parameter: returns the next chunk after `first` in which a parameter
// begins, in the shard of any rank, because all ranks have one plan.
static int64_t next_tensor_begin(const zr_flat_param *flat_param, int64_t chunk, int64_t range,
                                 int64_t first)
{
    int64_t next = range;
    for (int t = 0; t < flat_param->tensor_count; t++) {
        int64_t begin = flat_param->tensors[t].first % range / chunk * chunk;
        next = begin > first ? ZR_MIN(next, begin) : next;
    }
    return next;
}

static bool continues_last_group(const zr_plan *plan, const zr_flat_param *flat_param)
{
    const zr_group *last = plan->group_count ? &plan->groups[plan->group_count - 1] : NULL;
    const zr_shard_slice *before =
        plan->shard_slice_count ? &plan->shard_slices[plan->shard_slice_count - 1] : NULL;
    if (plan->settings.tiering.sub_group == ZR_EACH_PARAMETER)
        return false;
    return last && before->group == plan->group_count - 1 &&
           last->state_tier == flat_param->state_tier &&
           last->parameter_tier == flat_param->parameter_tier &&
           last->count < group_elem_limit(plan);
}

static void add_shard_slice(zr_plan *plan, int p, int64_t first, int64_t count)
{
    const zr_flat_param *flat_param = &plan->flat_params[p];
    zr_shard_slice shard_slice = {.flat_param = p, .group = -1, .first = first, .count = count};
    if (flat_param->state_first >= 0) {
        if (!continues_last_group(plan, flat_param))
            plan->groups[plan->group_count++] =
                (zr_group){.state_tier = flat_param->state_tier,
                           .parameter_tier = flat_param->parameter_tier,
                           .shard_slice_first = plan->shard_slice_count,
                           .first = flat_param->state_first + first};
        shard_slice.group = plan->group_count - 1;
        plan->groups[shard_slice.group].shard_slice_count++;
        plan->groups[shard_slice.group].count += count;
    }
    plan->shard_slices[plan->shard_slice_count++] = shard_slice;
}

static void cut_flat_param(zr_plan *plan, int p)
{
    zr_flat_param *flat_param = &plan->flat_params[p];
    int64_t range = range_elems(plan, flat_param), limit = slice_elem_limit(plan, flat_param),
            chunk = chunk_elems(plan, flat_param);
    bool alone = plan->settings.tiering.sub_group == ZR_EACH_PARAMETER;
    flat_param->shard_slice_first = plan->shard_slice_count;
    for (int64_t first = 0, count; first < range; first += count) {
        int64_t room = flat_param->state_first >= 0 && continues_last_group(plan, flat_param)
                           ? limit - plan->groups[plan->group_count - 1].count
                           : limit;
        count = ZR_MIN((alone ? next_tensor_begin(flat_param, chunk, range, first) : range) - first,
                       room);
        add_shard_slice(plan, p, first, count);
    }
    flat_param->shard_slice_count = plan->shard_slice_count - flat_param->shard_slice_first;
}

static int64_t most_shard_slices(const zr_plan *plan)
{
    bool alone = plan->settings.tiering.sub_group == ZR_EACH_PARAMETER;
    int64_t most = plan->flat_param_count;
    for (int p = 0; p < plan->flat_param_count; p++)
        most += range_elems(plan, &plan->flat_params[p]) /
                    slice_elem_limit(plan, &plan->flat_params[p]) +
                1 + (alone ? plan->flat_params[p].tensor_count : 0);
    return most;
}

bool zr_settings_have_vector(const zr_settings *settings, bool alone, zr_vector vector)
{
    bool coded = settings->precision.moments == ZERO_U8;
    switch (vector) {
    case ZR_VECTOR_MASTER:
        return settings->delayed || alone || settings->weight_bits ||
               zr_precision_has_master(&settings->precision);
    case ZR_VECTOR_STATE0: return settings->state_vectors > 0;
    case ZR_VECTOR_STATE1: return settings->state_vectors > 1;
    case ZR_VECTOR_SCALES0: return coded && settings->state_vectors > 0;
    case ZR_VECTOR_SCALES1: return coded && settings->state_vectors > 1;
    case ZR_VECTOR_AVERAGE: return settings->average;
    case ZR_VECTOR_DIRECTION: return settings->per_tensor_norms;
    default: return true;
    }
}

bool zr_plan_has_vector(const zr_plan *plan, zr_vector vector)
{
    return zr_settings_have_vector(&plan->settings, zr_plan_is_asynchronous(plan), vector);
}

bool zr_plan_codes_states(const zr_plan *plan)
{
    return plan->settings.precision.moments == ZERO_U8 && plan->settings.state_vectors > 0;
}

bool zr_plan_codes_weights(const zr_plan *plan)
{
    return plan->settings.weight_bits && plan->holding == ZR_HOLDS_SHARDS;
}

int64_t zr_plan_weight_bytes(const zr_plan *plan, int64_t elems)
{
    return zr_plan_codes_weights(plan)
               ? zr_block_bytes(plan->settings.weight_bits, elems)
               : zr_vector_bytes(&plan->settings, ZR_VECTOR_PARAMETERS, elems);
}

int64_t zr_vector_bytes(const zr_settings *settings, zr_vector vector, int64_t elems)
{
    const zr_precision *precision = &settings->precision;
    switch (vector) {
    case ZR_VECTOR_STATE0:
    case ZR_VECTOR_STATE1: return elems * (int64_t)zero_dtype_bytes(precision->moments);
    case ZR_VECTOR_SCALES0:
    case ZR_VECTOR_SCALES1: return elems / ZR_STATE_BLOCK * WORD;
    case ZR_VECTOR_GRADIENT: return elems * (int64_t)zero_dtype_bytes(precision->accumulator);
    case ZR_VECTOR_PARAMETERS: return elems * (int64_t)zero_dtype_bytes(precision->parameters);
    default: return elems * WORD;
    }
}

zero_tier zr_vector_tier(zero_tier states, zr_vector vector)
{
    bool scales = vector == ZR_VECTOR_SCALES0 || vector == ZR_VECTOR_SCALES1;
    return scales && states == ZERO_TIER_nvme ? ZERO_TIER_host : states;
}

zero_tier zr_group_tier(const zr_group *group, zr_vector vector)
{
    return vector == ZR_VECTOR_PARAMETERS ? group->parameter_tier
                                          : zr_vector_tier(group->state_tier, vector);
}

bool zr_parameters_cross(const zr_plan *plan, zero_tier states, zero_tier parameters)
{
    return plan->far && states != ZERO_TIER_device && parameters == ZERO_TIER_device;
}

bool zr_group_crosses(const zr_plan *plan, const zr_group *group, zr_vector vector)
{
    return vector == ZR_VECTOR_PARAMETERS &&
           zr_parameters_cross(plan, group->state_tier, group->parameter_tier);
}

bool zr_group_travels(const zr_plan *plan, const zr_group *group, zr_vector vector)
{
    return zr_plan_has_vector(plan, vector) && (zr_group_tier(group, vector) == ZERO_TIER_nvme ||
                                                zr_group_crosses(plan, group, vector));
}

// Returns the elements that travel at once: those of the shard slice's group, or of a shard slice
// without one. 0: this vector stays in memory.
static int64_t travelling_elems(const zr_plan *plan, const zr_shard_slice *shard_slice, int vector)
{
    const zr_group alone = {.parameter_tier =
                                plan->flat_params[shard_slice->flat_param].parameter_tier,
                            .count = shard_slice->count};
    const zr_group *group = shard_slice->group >= 0 ? &plan->groups[shard_slice->group] : &alone;
    return zr_group_travels(plan, group, vector) ? group->count : 0;
}

static void size_staging_buffer(zr_plan *plan)
{
    const zr_tiering *tiering = &plan->settings.tiering;
    zr_staging_buffer_plan *staging_buffer = &plan->staging_buffer;
    bool travels[ZR_VECTOR_COUNT] = {false};
    for (int s = 0; s < plan->shard_slice_count; s++)
        for (int v = 0; v < ZR_VECTOR_COUNT; v++) {
            int64_t elems = travelling_elems(plan, &plan->shard_slices[s], v);
            travels[v] |= elems > 0;
            staging_buffer->elems = ZR_MAX(staging_buffer->elems, elems);
        }
    for (int v = 0; v < ZR_VECTOR_COUNT; v++) {
        staging_buffer->first[v] = travels[v] ? staging_buffer->bytes : -1;
        staging_buffer->bytes +=
            travels[v] ? zr_vector_bytes(&plan->settings, v, staging_buffer->elems) : 0;
    }
    staging_buffer->count =
        staging_buffer->bytes ? 1 + tiering->read_ahead + tiering->write_behind : 0;
    assert(staging_buffer->count <= ZR_MOST_STAGING_BUFFERS);
}

const zr_walk_vectors zr_copy_walk = {.reads = 1 << ZR_VECTOR_MASTER,
                                      .writes = 1 << ZR_VECTOR_PARAMETERS};

int zr_plan_walks(const zr_plan *plan, zr_walk_vectors walks[ZR_MOST_WALKS])
{
    enum {
        MASTER = 1 << ZR_VECTOR_MASTER,
        MOMENTS = 1 << ZR_VECTOR_STATE0 | 1 << ZR_VECTOR_STATE1 | 1 << ZR_VECTOR_SCALES0 |
                  1 << ZR_VECTOR_SCALES1,
        AVERAGE = 1 << ZR_VECTOR_AVERAGE,
        DIRECTION = 1 << ZR_VECTOR_DIRECTION,
        GRADIENT = 1 << ZR_VECTOR_GRADIENT,
        PARAMETERS = 1 << ZR_VECTOR_PARAMETERS
    };
    const zr_settings *settings = &plan->settings;
    // The weights that the update starts from, and those that it writes; other copies of them are
    // written by a walk of their own.
    uint32_t weights = zr_plan_has_vector(plan, ZR_VECTOR_MASTER) ? MASTER : PARAMETERS;
    uint32_t written = AVERAGE | MASTER | (zr_plan_updates_copies(plan) ? PARAMETERS : 0);
    uint32_t gradient = weights | MOMENTS | GRADIENT;
    if (settings->per_tensor_norms) {
        walks[0] = (zr_walk_vectors){gradient, MOMENTS | DIRECTION};
        walks[1] = (zr_walk_vectors){weights | AVERAGE | DIRECTION, written};
        return 2;
    }
    walks[0] = (zr_walk_vectors){gradient | AVERAGE, MOMENTS | written};
    walks[1] = zr_copy_walk;
    if (settings->orthogonal)
        walks[1] = (zr_walk_vectors){weights | MOMENTS | AVERAGE, written};
    if (!settings->factored)
        return settings->delayed || settings->orthogonal ? 2 : 1;
    walks[2] = walks[0];
    walks[0] = (zr_walk_vectors){weights | GRADIENT, 0};
    walks[1] = (zr_walk_vectors){GRADIENT, 0};
    return 3;
}

bool zr_plan_updates_copies(const zr_plan *plan)
{
    return !plan->settings.delayed && !zr_plan_is_asynchronous(plan);
}

// Returns the bytes of a group's vector; 0: the plan has none, or it is not among these.
static int64_t moved_vector_bytes(const zr_plan *plan, const zr_group *group, uint32_t vectors,
                                  zr_vector vector)
{
    bool moves = vectors >> vector & 1 && zr_plan_has_vector(plan, vector);
    if (moves && vector == ZR_VECTOR_PARAMETERS)
        return zr_plan_weight_bytes(plan, group->count);
    return moves ? zr_vector_bytes(&plan->settings, vector, group->count) : 0;
}

void zr_group_moves(const zr_plan *plan, const zr_group *group, const zr_walk_vectors *vectors,
                    zr_moved *moved)
{
    bool states_up = group->state_tier == ZERO_TIER_device;
    bool parameters_up = group->parameter_tier == ZERO_TIER_device;
    int64_t read = moved_vector_bytes(plan, group, vectors->reads, ZR_VECTOR_PARAMETERS);
    int64_t written = moved_vector_bytes(plan, group, vectors->writes, ZR_VECTOR_PARAMETERS);
    if (states_up != parameters_up) {
        moved->to_device += parameters_up ? written : read;
        moved->to_host += parameters_up ? read : written;
    }
    for (int v = 0; v < ZR_VECTOR_COUNT; v++) {
        if (zr_group_tier(group, v) != ZERO_TIER_nvme)
            continue;
        moved->nvme_read += moved_vector_bytes(plan, group, vectors->reads, v);
        moved->nvme_written += moved_vector_bytes(plan, group, vectors->writes, v);
    }
}

// Returns what the first update does not read of a group: states that are on NVMe.
static int64_t first_unread(const zr_plan *plan, const zr_group *group,
                            const zr_walk_vectors *vectors)
{
    int64_t bytes = 0;
    for (int v = ZR_VECTOR_STATE0; v <= ZR_VECTOR_AVERAGE; v++)
        if (zr_group_tier(group, v) == ZERO_TIER_nvme)
            bytes += moved_vector_bytes(plan, group, vectors->reads, v);
    return bytes;
}

zero_status zr_plan_groups(zr_plan *plan, zero_error *error)
{
    int64_t most = most_shard_slices(plan);
    if (most > ZR_MOST_SHARD_SLICES)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "planning %s: sub-groups of %lld elements (sub_group_size) cut a shard into "
                       "more than %d parts",
                       plan->model->name, (long long)ZR_MAX(plan->settings.tiering.sub_group, 0),
                       ZR_MOST_SHARD_SLICES);
    plan->shard_slices = zr_alloc(sizeof *plan->shard_slices * (size_t)most, error);
    plan->groups = zr_alloc(sizeof *plan->groups * (size_t)most, error);
    if (!plan->shard_slices || !plan->groups)
        return ZERO_ERR_MEMORY;
    for (int p = 0; p < plan->flat_param_count; p++)
        cut_flat_param(plan, p);
    size_staging_buffer(plan);
    zr_walk_vectors walks[ZR_MOST_WALKS];
    for (int i = zr_plan_walks(plan, walks) - 1; i >= 0 && !plan->settings.inference; i--)
        for (int g = 0; g < plan->group_count; g++) {
            const zr_group *group = &plan->groups[g];
            zr_group_moves(plan, group, &walks[i], &plan->moves.update[i]);
            plan->moves.update_first_unread += first_unread(plan, group, &walks[i]);
        }
    for (int g = 0; g < plan->group_count; g++)
        zr_group_moves(plan, &plan->groups[g], &zr_copy_walk, &plan->moves.copy);
    return ZERO_OK;
}
