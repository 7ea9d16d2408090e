#include "plan/pipeline/simulate.h"

#include "base/alloc.h"

#include <stdio.h>

zr_lane *zr_pipeline_lanes(const zr_pipeline *pipeline, zero_error *error)
{
    size_t stages = (size_t)pipeline->stages, count = 0;
    for (int s = 0; s < pipeline->stages; s++)
        count += (size_t)zr_pipeline_list(pipeline, s, NULL);
    zr_lane *lanes = zr_alloc(stages * sizeof *lanes + count * sizeof(zr_action), error);
    if (!lanes)
        return NULL;
    zr_action *at = (zr_action *)(lanes + stages);
    for (int s = 0; s < pipeline->stages; s++) {
        int listed = zr_pipeline_list(pipeline, s, at);
        lanes[s] = (zr_lane){.at = at, .count = listed};
        at += listed;
    }
    return lanes;
}

void zr_action_text(const zr_action *action, char out[ZR_ACTION_TEXT])
{
    snprintf(out, ZR_ACTION_TEXT, "%s of micro-batch %d, chunk %d", zr_act_name(action->act),
             action->micro_batch, action->chunk);
}

// How far a lane is, while it is checked.
typedef struct progress {
    const zr_pipeline *pipeline;
    int stage, window;
    zr_act last;
    int sets[ZR_MOST_CHUNKS];              // that each chunk has
    int done[ZR_ACT_NORM][ZR_MOST_CHUNKS]; // micro-batches
    int norms, updates;
    int versions;   // of the parameters that the stage keeps
    int live, most; // sets of all chunks
} progress;

static zero_status refuse_action(const progress *at, const zr_action *a, const char *why,
                                 zero_error *error)
{
    char text[ZR_ACTION_TEXT];
    zr_action_text(a, text);
    return zr_fail(error, ZERO_ERR_INTERNAL, "pipeline stage %d: %s: %s", at->stage, text, why);
}

static bool schedule_has_act(zr_pipeline_kind kind, zr_act act)
{
    if (act == ZR_ACT_WEIGHT)
        return zr_pipeline_has_weights(kind);
    if (act == ZR_ACT_NORM)
        return kind == ZR_PIPELINE_2BW;
    return act != ZR_ACT_UPDATE || zr_pipeline_is_asynchronous(kind);
}

static zero_status check_range(const progress *at, const zr_action *a, zero_error *error)
{
    zr_pipeline_kind kind = at->pipeline->kind;
    if ((int)a->act < 0 || a->act >= ZR_ACT_COUNT)
        return zr_fail(error, ZERO_ERR_INTERNAL, "pipeline stage %d: there is no act %d", at->stage,
                       (int)a->act);
    if (!schedule_has_act(kind, a->act))
        return zr_fail(error, ZERO_ERR_INTERNAL, "pipeline stage %d: %s has no %s", at->stage,
                       zr_pipeline_kind_name(kind), zr_act_name(a->act));
    if (a->chunk < 0 || a->chunk >= at->pipeline->chunks)
        return refuse_action(at, a, "there is no such chunk", error);
    if (a->micro_batch < 0 || a->micro_batch >= at->window)
        return refuse_action(at, a, "there is no such micro-batch", error);
    return ZERO_OK;
}

// Checks a NORM or UPDATE: it belongs to the next step in order, and comes after its last backward
// and before the first of the next. An update that waits for its step's norm comes after that, and
// before the next step but one begins.
static zero_status check_ends_step(const progress *at, const zr_action *a, zero_error *error)
{
    int m = at->pipeline->micro_batches;
    int due = ((a->act == ZR_ACT_NORM ? at->norms : at->updates) + 1) * m - 1;
    bool waits = a->act == ZR_ACT_UPDATE && at->pipeline->kind == ZR_PIPELINE_2BW;
    if (a->micro_batch < due)
        return refuse_action(at, a, "it is there twice, or ends no step", error);
    if (a->micro_batch > due)
        return refuse_action(at, a, "one before it is missing, or it ends no step", error);
    if (!waits && at->done[ZR_ACT_BACKWARD][a->chunk] != a->micro_batch + 1)
        return refuse_action(at, a, "it is not between the last backward of its step and the next",
                             error);
    if (waits && at->norms <= at->updates)
        return refuse_action(at, a, "the norm of its step is missing, or comes later", error);
    if (waits && at->done[ZR_ACT_FORWARD][a->chunk] > (at->updates + 2) * m)
        return refuse_action(at, a, "the next step but one has begun without it", error);
    return ZERO_OK;
}

// Returns the version that an action reads or makes, from what its lane has had before it.
static int version_due(const progress *at, const zr_action *a)
{
    int m = at->pipeline->micro_batches, step = a->micro_batch / m;
    if (!zr_pipeline_is_asynchronous(at->pipeline->kind))
        return 0;
    if (at->pipeline->kind == ZR_PIPELINE_2BW)
        return a->act == ZR_ACT_UPDATE ? step + 2 : step;
    if (a->act != ZR_ACT_BACKWARD)
        return at->updates + (a->act == ZR_ACT_UPDATE);
    // Of its forward: those are as far ahead as there are stages after this one.
    return ZR_MAX(a->micro_batch - (at->pipeline->stages - 1 - at->stage), 0) / m;
}

// Checks that an action reads, or makes, the right version, and that no later one has its place.
static zero_status check_version(const progress *at, const zr_action *a, zero_error *error)
{
    char why[ZR_ACTION_TEXT];
    int due = version_due(at, a), newest = at->updates;
    if (at->pipeline->kind == ZR_PIPELINE_2BW)
        newest++;
    if (a->version != due) {
        snprintf(why, sizeof why, "it is of version %d of the parameters instead of %d", a->version,
                 due);
        return refuse_action(at, a, why, error);
    }
    if (a->act != ZR_ACT_UPDATE && newest - a->version >= at->versions) {
        snprintf(why, sizeof why, "version %d of the parameters has the place of its version %d",
                 newest, a->version);
        return refuse_action(at, a, why, error);
    }
    return ZERO_OK;
}

// Checks that a forward has a set to take.
static zero_status check_free_set(const progress *at, const zr_action *a, zero_error *error)
{
    int sets = at->sets[a->chunk];
    char why[ZR_ACTION_TEXT];
    if (a->micro_batch - at->done[at->last][a->chunk] < sets)
        return ZERO_OK;
    snprintf(why, sizeof why, "micro-batch %d still has its set, one of %d", a->micro_batch - sets,
             sets);
    return refuse_action(at, a, why, error);
}

// Checks that it is an action's turn, after those before it in its lane.
static zero_status check_turn(const progress *at, const zr_action *a, zero_error *error)
{
    if (a->act >= ZR_ACT_NORM)
        return check_ends_step(at, a, error);
    int due = at->done[a->act][a->chunk];
    if (a->micro_batch < due)
        return refuse_action(at, a, "it is there twice", error);
    if (a->micro_batch > due)
        return refuse_action(
            at, a, "one before it is missing, or comes later: sums are out of order", error);
    if (a->act == ZR_ACT_FORWARD)
        return check_free_set(at, a, error);
    if (a->micro_batch >= at->done[a->act - 1][a->chunk])
        return refuse_action(at, a, "what it follows from is missing, or comes later", error);
    return ZERO_OK;
}

static void count_action(progress *at, const zr_action *a)
{
    if (a->act < ZR_ACT_NORM)
        at->done[a->act][a->chunk]++;
    at->norms += a->act == ZR_ACT_NORM;
    at->updates += a->act == ZR_ACT_UPDATE;
    at->live += a->act == ZR_ACT_FORWARD;
    at->most = ZR_MAX(at->most, at->live);
    at->live -= a->act == at->last;
}

static zero_status check_action(progress *at, const zr_action *a, zero_error *error)
{
    ZERO_TRY(check_range(at, a, error));
    ZERO_TRY(check_turn(at, a, error));
    ZERO_TRY(check_version(at, a, error));
    count_action(at, a);
    return ZERO_OK;
}

// Checks that a lane has had all that there is.
static zero_status check_complete(const progress *at, zero_error *error)
{
    bool asynchronous = zr_pipeline_is_asynchronous(at->pipeline->kind);
    for (zr_act act = ZR_ACT_FORWARD; act <= at->last; act++)
        for (int c = 0; c < at->pipeline->chunks; c++)
            if (at->done[act][c] < at->window)
                return refuse_action(
                    at, &(zr_action){.act = act, .chunk = c, .micro_batch = at->done[act][c]},
                    "it is missing", error);
    int due = (at->updates + 1) * at->pipeline->micro_batches - 1;
    if (asynchronous && at->updates < at->pipeline->steps)
        return refuse_action(at, &(zr_action){.act = ZR_ACT_UPDATE, .micro_batch = due},
                             "it is missing", error);
    return ZERO_OK;
}

zero_status zr_lane_check(const zr_pipeline *pipeline, int stage, const zr_lane *lane, int *sets,
                          zero_error *error)
{
    progress at = {
        .pipeline = pipeline,
        .stage = stage,
        .window = zr_pipeline_window(pipeline),
        .last = zr_pipeline_last_act(pipeline->kind),
        .versions = zr_pipeline_versions(pipeline, stage),
    };
    for (int c = 0; c < pipeline->chunks; c++)
        at.sets[c] = zr_pipeline_buffers(pipeline, stage, c).sets;
    for (int i = 0; i < lane->count; i++)
        ZERO_TRY(check_action(&at, &lane->at[i], error));
    ZERO_TRY(check_complete(&at, error));
    *sets = at.most;
    return ZERO_OK;
}
