// The schedules: for each a short pure function that lists what a pipeline stage does, and the
// buffers that follow from the lists. GPipe: arXiv 1811.06965; 1F1B: PipeDream, arXiv 1806.03377,
// flushed at the end; 2BW: arXiv 2006.09503; interleaved: arXiv 2104.04473; zero bubble H1: arXiv
// 2401.10241. In all of them a chunk takes the micro-batches of each kind of action in ascending
// order.
#include "plan/pipeline/schedules.h"

enum { MOST_MICRO_BATCHES = 1 << 24 }; // of a window, so that any count of actions is an int

typedef struct writer {
    zr_action *out; // NULL: actions are only counted
    int count;
    int versions; // most that are in use at one time
    // Of one chunk, which the caller chooses: micro-batches whose activations live now, and most.
    int chunk, live, most;
    zr_act last; // action after which a micro-batch's activations are not read any more
} writer;

typedef void lister(const zr_pipeline *pipeline, int stage, writer *w);
static lister *const listers[ZR_PIPELINE_KIND_COUNT];

static void put_action(writer *w, zr_action action)
{
    if (w->out)
        w->out[w->count] = action;
    w->count++;
    if (action.chunk != w->chunk)
        return;
    if (action.act == ZR_ACT_FORWARD)
        w->live++;
    w->most = ZR_MAX(w->most, w->live);
    if (action.act == w->last)
        w->live--;
}

static void put_first_chunk(writer *w, zr_act act, int micro_batch, int version)
{
    put_action(w, (zr_action){.act = act, .micro_batch = micro_batch, .version = version});
}

// Returns the `number`-th forward or backward of a pipeline stage: as many micro-batches as there
// are stages go through each of its chunks in turn, backward from the last chunk to the first.
static zr_action nth_interleaved_action(const zr_pipeline *pipeline, zr_act act, int number)
{
    int p = pipeline->stages, of_group = number % (p * pipeline->chunks);
    int turn = of_group / p, group = number / (p * pipeline->chunks);
    return (zr_action){
        .act = act,
        .chunk = act == ZR_ACT_BACKWARD ? pipeline->chunks - 1 - turn : turn,
        .micro_batch = group * p + of_group % p,
    };
}

// Lists the forwards that the stage is ahead, or all; then a forward and a backward in turn; then
// the backwards left. With 1F1B a stage is as many forwards ahead as there are stages after it:
// when it has done those, the first backward is due to come back.
static void list_in_turn(const zr_pipeline *pipeline, int stage, writer *w)
{
    int count = zr_pipeline_window(pipeline) * pipeline->chunks;
    int ahead = pipeline->stages - 1 - stage;
    if (pipeline->kind == ZR_PIPELINE_INTERLEAVED)
        ahead = 2 * ahead + (pipeline->chunks - 1) * pipeline->stages;
    if (pipeline->kind == ZR_PIPELINE_GPIPE)
        ahead = count;
    for (int i = 0; i < count + ahead; i++) {
        if (i < count)
            put_action(w, nth_interleaved_action(pipeline, ZR_ACT_FORWARD, i));
        if (i >= ahead)
            put_action(w, nth_interleaved_action(pipeline, ZR_ACT_BACKWARD, i - ahead));
    }
}

// 1F1B, but stage s puts the weights' part of backward off by s micro-batches. So backwards go
// through the stages as fast as they can, and at the end, where a stage of 1F1B waits for
// backwards, there are weights' parts to do. No stage holds more than p sets.
static void list_zb_h1(const zr_pipeline *pipeline, int stage, writer *w)
{
    int count = zr_pipeline_window(pipeline);
    int ahead = pipeline->stages - 1 - stage;
    for (int i = 0; i < count + ahead; i++) {
        if (i < count)
            put_first_chunk(w, ZR_ACT_FORWARD, i, 0);
        if (i >= ahead)
            put_first_chunk(w, ZR_ACT_BACKWARD, i - ahead, 0);
        if (i >= ahead + stage)
            put_first_chunk(w, ZR_ACT_WEIGHT, i - ahead - stage, 0);
    }
    for (int k = ZR_MAX(count - stage, 0); k < count; k++)
        put_first_chunk(w, ZR_ACT_WEIGHT, k, 0);
}

// The asynchronous schedules are 1F1B through all steps of a window, without a flush between them.

// PipeDream: a stage updates its weights as soon as it has a step's last backward, and computes a
// forward with the newest ones. A backward reads the version that its forward has read.
static void list_pipedream(const zr_pipeline *pipeline, int stage, writer *w)
{
    int count = zr_pipeline_window(pipeline), m = pipeline->micro_batches;
    int ahead = pipeline->stages - 1 - stage;
    for (int i = 0; i < count + ahead; i++) {
        int back = i - ahead;
        // Updates before its forward: of all steps whose backwards are complete by then.
        int read = ZR_MAX(back - ahead, 0) / m, newest = ZR_MAX(back, 0) / m;
        if (i < count)
            put_first_chunk(w, ZR_ACT_FORWARD, i, newest);
        if (back >= 0)
            put_first_chunk(w, ZR_ACT_BACKWARD, back, read);
        if (back < 0 || (back + 1) % m)
            continue;
        put_first_chunk(w, ZR_ACT_UPDATE, back, newest + 1);
        // Those under way after it have read versions from the next backward's on.
        int oldest = back + 1 < count ? ZR_MAX(back + 1 - ahead, 0) / m : newest + 1;
        w->versions = ZR_MAX(w->versions, newest + 2 - oldest);
    }
}

// 2BW: a step is computed with the weights that the update before the last one has made, so there
// are two versions, and a step's norm has a whole step's time to be known by all stages.
static void list_2bw(const zr_pipeline *pipeline, int stage, writer *w)
{
    int count = zr_pipeline_window(pipeline), m = pipeline->micro_batches;
    int ahead = pipeline->stages - 1 - stage;
    for (int i = 0; i < count + ahead; i++) {
        int back = i - ahead, step = i / m;
        if (i < count && i % m == 0 && step >= 2)
            put_first_chunk(w, ZR_ACT_UPDATE, (step - 1) * m - 1, step);
        if (i < count)
            put_first_chunk(w, ZR_ACT_FORWARD, i, step);
        if (back >= 0)
            put_first_chunk(w, ZR_ACT_BACKWARD, back, back / m);
        if (back >= 0 && (back + 1) % m == 0)
            put_first_chunk(w, ZR_ACT_NORM, back, back / m);
    }
    for (int step = ZR_MAX(pipeline->steps - 2, 0); step < pipeline->steps; step++)
        put_first_chunk(w, ZR_ACT_UPDATE, (step + 1) * m - 1, step + 2);
    w->versions = 2;
}

int zr_pipeline_window(const zr_pipeline *pipeline)
{
    return pipeline->micro_batches * pipeline->steps;
}

int zr_pipeline_list(const zr_pipeline *pipeline, int stage, zr_action *out)
{
    writer w = {.out = out};
    listers[pipeline->kind](pipeline, stage, &w);
    return w.count;
}

int zr_pipeline_versions(const zr_pipeline *pipeline, int stage)
{
    writer w = {.versions = 1};
    listers[pipeline->kind](pipeline, stage, &w);
    return w.versions;
}

bool zr_pipeline_has_weights(zr_pipeline_kind kind) { return kind == ZR_PIPELINE_ZB_H1; }

zr_act zr_pipeline_last_act(zr_pipeline_kind kind)
{
    return zr_pipeline_has_weights(kind) ? ZR_ACT_WEIGHT : ZR_ACT_BACKWARD;
}

int zr_pipeline_chunk(const zr_pipeline *pipeline, int stage, int chunk)
{
    return chunk * pipeline->stages + stage;
}

zr_chunk_buffers zr_pipeline_buffers(const zr_pipeline *pipeline, int stage, int chunk)
{
    writer w = {.chunk = chunk, .last = zr_pipeline_last_act(pipeline->kind)};
    listers[pipeline->kind](pipeline, stage, &w);
    int window = zr_pipeline_window(pipeline), number = zr_pipeline_chunk(pipeline, stage, chunk);
    bool first = number == 0, last = number == pipeline->stages * pipeline->chunks - 1;
    return (zr_chunk_buffers){
        .sets = w.most,
        .input_slots = first ? 0 : ZR_MIN(w.most + 1, window),
        .gradient_slots = last ? 0 : ZR_MIN(2, window),
    };
}

const char *zr_act_name(zr_act act)
{
    static const char *const names[ZR_ACT_COUNT] = {
        [ZR_ACT_FORWARD] = "forward", [ZR_ACT_BACKWARD] = "backward", [ZR_ACT_WEIGHT] = "weight",
        [ZR_ACT_NORM] = "norm",       [ZR_ACT_UPDATE] = "update",
    };
    return names[act];
}

static zero_status check_chunks(const zr_pipeline *pipeline, zero_error *error)
{
    const char *name = zr_pipeline_kind_name(pipeline->kind);
    bool interleaved = pipeline->kind == ZR_PIPELINE_INTERLEAVED;
    if (!interleaved && pipeline->chunks != 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s has one chunk on each pipeline stage, not %d; interleaved:CHUNKS has "
                       "several",
                       name, pipeline->chunks);
    if (interleaved && (pipeline->chunks < 2 || pipeline->chunks > ZR_MOST_CHUNKS))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s has 2 to %d chunks on each pipeline stage, not %d; 1f1b has one", name,
                       ZR_MOST_CHUNKS, pipeline->chunks);
    return ZERO_OK;
}

static zero_status check_counts(const zr_pipeline *pipeline, zero_error *error)
{
    if (pipeline->stages < 1 || pipeline->stages > ZR_MOST_PIPELINE_STAGES)
        return zr_fail(error, ZERO_ERR_CONFIG, "a pipeline has 1 to %d pipeline stages, not %d",
                       ZR_MOST_PIPELINE_STAGES, pipeline->stages);
    if (pipeline->micro_batches < 1 || pipeline->steps < 1)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "a pipeline needs a step and a micro-batch, not %d and %d", pipeline->steps,
                       pipeline->micro_batches);
    if (pipeline->steps > MOST_MICRO_BATCHES / pipeline->micro_batches)
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%d steps of %d micro-batches until the pipeline drains are too many: at "
                       "most %d micro-batches",
                       pipeline->steps, pipeline->micro_batches, MOST_MICRO_BATCHES);
    if (pipeline->steps > 1 && !zr_pipeline_is_asynchronous(pipeline->kind))
        return zr_fail(error, ZERO_ERR_CONFIG,
                       "%s drains the pipeline at the end of each step, not after %d steps; "
                       "pipedream and 2bw do that",
                       zr_pipeline_kind_name(pipeline->kind), pipeline->steps);
    return ZERO_OK;
}

zero_status zr_pipeline_check(const zr_pipeline *pipeline, zero_error *error)
{
    int m = pipeline->micro_batches;
    char why[ZR_PIPELINE_WHY];
    ZERO_TRY(check_counts(pipeline, error));
    ZERO_TRY(check_chunks(pipeline, error));
    if (zr_pipeline_refuses_count(pipeline->kind, pipeline->stages, m, why))
        return zr_fail(error, ZERO_ERR_CONFIG, "%s: a step has %d micro-batch%s, %s",
                       zr_pipeline_kind_name(pipeline->kind), m, m == 1 ? "" : "es", why);
    return ZERO_OK;
}

static lister *const listers[ZR_PIPELINE_KIND_COUNT] = {
    [ZR_PIPELINE_1F1B] = list_in_turn,        [ZR_PIPELINE_GPIPE] = list_in_turn,
    [ZR_PIPELINE_INTERLEAVED] = list_in_turn, [ZR_PIPELINE_ZB_H1] = list_zb_h1,
    [ZR_PIPELINE_PIPEDREAM] = list_pipedream, [ZR_PIPELINE_2BW] = list_2bw,
};
