// First each lane is checked alone (simulate.h), then all run against each other. A lane runs
// in order, and when an action begins follows from what has ended, so it does not matter which lane
// is looked at first.
//
// An action waits for its stage, for its input, and for the slot of the channel that its output
// goes into:
//
//   forward  of k, chunk g:  forward  of k, g - 1    slot k mod input_slots of g + 1
//   backward of k, chunk g:  backward of k, g + 1    slot k mod gradient_slots of g - 1
//
// Under 2bw the first stage's norm of a step waits for those of all others, and their updates wait
// for it, because it adds them up (plan/emit_update.c).
//
// A slot is free when its last micro-batch, as many before k as there are slots, has been read: an
// input by the last of backward and weight, a gradient by backward.
#include "plan/pipeline/simulate.h"

#include "base/alloc.h"

// Acts that each micro-batch has in each chunk; and norms, which a step's last micro-batch has.
#define PARTS ZR_ACT_NORM
#define ROWS ((int)ZR_ACT_NORM + 1)

// What an action waits for, of another stage.
typedef struct need {
    zr_act act;
    int chunk, micro_batch; // chunk of the whole model
    double after;           // seconds from its end
} need;

typedef struct run {
    const zr_pipeline *pipeline;
    const zr_lane *lanes;
    const zr_chunk_cost *costs;
    zr_simulation *out;
    int chunks, window;        // chunks of the whole model, micro-batches
    zr_act last;               // after which activations are not read any more
    zr_chunk_buffers *buffers; // (chunks)
    double *ends;              // (chunks, ROWS, window) when each has ended; NOT_YET
    int *next;                 // (stages) the next action of each lane
    need *waits;               // (stages) what that has waited for last
} run;

static const double NOT_YET = -1;

static double *end_time_of(const run *r, int chunk, zr_act act, int micro_batch)
{
    size_t row = (size_t)chunk * ROWS + (size_t)act;
    return &r->ends[row * (size_t)r->window + (size_t)micro_batch];
}

// Writes what a norm or an update waits for; returns how many that are.
static int list_needs_of_step(const run *r, const zr_action *a, int stage, need *out)
{
    int count = 0, k = a->micro_batch;
    if (r->pipeline->kind != ZR_PIPELINE_2BW)
        return 0;
    for (int s = 1; s < r->pipeline->stages && a->act == ZR_ACT_NORM && stage == 0; s++)
        out[count++] = (need){ZR_ACT_NORM, s, k, 0};
    if (a->act == ZR_ACT_UPDATE && stage > 0)
        out[count++] = (need){ZR_ACT_NORM, 0, k, 0};
    return count;
}

// Writes what an action of chunk g of the model waits for, other than its own stage; returns how
// many that are.
static int list_needs(const run *r, const zr_action *a, int g, need *out)
{
    int count = 0, k = a->micro_batch;
    int before = g - 1, after = g + 1;
    if (a->act >= PARTS)
        return list_needs_of_step(r, a, g, out);
    if (a->act == ZR_ACT_FORWARD && g > 0)
        out[count++] = (need){ZR_ACT_FORWARD, before, k, r->costs[before].send};
    if (a->act == ZR_ACT_FORWARD && after < r->chunks && k >= r->buffers[after].input_slots)
        out[count++] = (need){r->last, after, k - r->buffers[after].input_slots, 0};
    if (a->act == ZR_ACT_BACKWARD && after < r->chunks)
        out[count++] = (need){ZR_ACT_BACKWARD, after, k, r->costs[after].send_back};
    if (a->act == ZR_ACT_BACKWARD && g > 0 && k >= r->buffers[before].gradient_slots)
        out[count++] = (need){ZR_ACT_BACKWARD, before, k - r->buffers[before].gradient_slots, 0};
    return count;
}

// Runs the next action of a lane. Returns false if something that it waits for has not run yet.
static bool run_next_action(run *r, int stage)
{
    int i = r->next[stage];
    const zr_action *a = &r->lanes[stage].at[i];
    zr_simulated_pipeline_stage *out = &r->out->stage[stage];
    int g = zr_pipeline_chunk(r->pipeline, stage, a->chunk);
    double begin = i ? out->at[i - 1].end : 0, cost = r->costs[g].act[a->act];
    need needs[ZR_MOST_PIPELINE_STAGES];
    for (int n = list_needs(r, a, g, needs) - 1; n >= 0; n--) {
        double end = *end_time_of(r, needs[n].chunk, needs[n].act, needs[n].micro_batch);
        r->waits[stage] = needs[n];
        if (end < 0)
            return false;
        begin = ZR_MAX(begin, end + needs[n].after);
    }
    out->at[i] = (zr_slot_of_time){.begin = begin, .end = begin + cost};
    out->busy += cost;
    if (a->act <= ZR_ACT_NORM)
        *end_time_of(r, g, a->act, a->micro_batch) = begin + cost;
    r->next[stage]++;
    return true;
}

// Fails if no stage can go on. What one waits for is the next one's to do, so after as
// many turns as there are stages one is found that waits, through others, for itself.
static zero_status refuse_deadlock(const run *r, int stage, zero_error *error)
{
    char waits[ZR_ACTION_TEXT], missing[ZR_ACTION_TEXT];
    int p = r->pipeline->stages;
    for (int i = 0; i < p; i++)
        stage = r->waits[stage].chunk % p;
    const need *on = &r->waits[stage];
    zr_action_text(&r->lanes[stage].at[r->next[stage]], waits);
    zr_action_text(
        &(zr_action){.act = on->act, .chunk = on->chunk / p, .micro_batch = on->micro_batch},
        missing);
    return zr_fail(error, ZERO_ERR_INTERNAL,
                   "pipeline stages wait for each other for ever: %s on pipeline stage %d waits "
                   "for %s on pipeline stage %d",
                   waits, stage, missing, on->chunk % p);
}

// Runs all lanes to their ends, each as far as it can before the next is looked at.
static zero_status run_all_actions(run *r, zero_error *error)
{
    int waits = -1;
    for (bool more = true; more;) {
        more = false;
        waits = -1;
        for (int s = 0; s < r->pipeline->stages; s++) {
            while (r->next[s] < r->lanes[s].count && run_next_action(r, s))
                more = true;
            waits = r->next[s] < r->lanes[s].count ? s : waits;
        }
    }
    return waits < 0 ? ZERO_OK : refuse_deadlock(r, waits, error);
}

static void sum_up(const run *r)
{
    zr_simulation *out = r->out;
    double busy = 0;
    for (int s = 0; s < out->stages; s++) {
        int count = r->lanes[s].count;
        busy += out->stage[s].busy;
        out->total = ZR_MAX(out->total, count ? out->stage[s].at[count - 1].end : 0);
    }
    if (out->total <= 0)
        return;
    for (int s = 0; s < out->stages; s++)
        out->stage[s].bubble = 1 - out->stage[s].busy / out->total;
    out->bubble = 1 - busy / (out->stages * out->total);
}

// Reserves the result: the stages and, after them, the times of all actions, as one block.
static zero_status reserve_result(run *r, zero_error *error)
{
    size_t stages = (size_t)r->pipeline->stages, actions = 0;
    for (size_t s = 0; s < stages; s++)
        actions += (size_t)r->lanes[s].count;
    zr_simulated_pipeline_stage *stage =
        zr_alloc(stages * sizeof *stage + actions * sizeof(zr_slot_of_time), error);
    if (!stage)
        return ZERO_ERR_MEMORY;
    zr_slot_of_time *at = (zr_slot_of_time *)(stage + stages);
    for (size_t s = 0; s < stages; s++) {
        stage[s].at = at;
        at += r->lanes[s].count;
    }
    r->out->stage = stage;
    r->out->stages = r->pipeline->stages;
    return ZERO_OK;
}

static zero_status reserve_simulation(run *r, zero_error *error)
{
    size_t chunks = (size_t)r->chunks, ends = chunks * ROWS * (size_t)r->window;
    size_t stages = (size_t)r->pipeline->stages;
    ZERO_TRY(reserve_result(r, error));
    r->buffers = zr_alloc(chunks * sizeof *r->buffers, error);
    r->ends = zr_alloc(ends * sizeof *r->ends, error);
    r->next = zr_alloc(stages * sizeof *r->next, error);
    r->waits = zr_alloc(stages * sizeof *r->waits, error);
    if (!r->buffers || !r->ends || !r->next || !r->waits)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < ends; i++)
        r->ends[i] = NOT_YET;
    for (int g = 0; g < r->chunks; g++)
        r->buffers[g] =
            zr_pipeline_buffers(r->pipeline, g % r->pipeline->stages, g / r->pipeline->stages);
    return ZERO_OK;
}

static zero_status simulate_lanes(run *r, zero_error *error)
{
    ZERO_TRY(reserve_simulation(r, error));
    for (int s = 0; s < r->pipeline->stages; s++)
        ZERO_TRY(zr_lane_check(r->pipeline, s, &r->lanes[s], &r->out->stage[s].sets, error));
    ZERO_TRY(run_all_actions(r, error));
    sum_up(r);
    return ZERO_OK;
}

zero_status zr_simulate(const zr_pipeline *pipeline, const zr_lane *lanes,
                        const zr_chunk_cost *costs, zr_simulation *out, zero_error *error)
{
    zr_lane *own = NULL;
    *out = (zr_simulation){0};
    if (!lanes)
        lanes = own = zr_pipeline_lanes(pipeline, error);
    if (!lanes)
        return ZERO_ERR_MEMORY;
    run r = {
        .pipeline = pipeline,
        .lanes = lanes,
        .costs = costs,
        .out = out,
        .chunks = pipeline->stages * pipeline->chunks,
        .window = zr_pipeline_window(pipeline),
        .last = zr_pipeline_last_act(pipeline->kind),
    };
    zero_status status = simulate_lanes(&r, error);
    zr_free(r.waits);
    zr_free(r.next);
    zr_free(r.ends);
    zr_free(r.buffers);
    zr_free(own);
    return status;
}

void zr_simulation_free(zr_simulation *simulation)
{
    zr_free(simulation->stage);
    *simulation = (zr_simulation){0};
}
