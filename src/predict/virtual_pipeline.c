// A pipeline on virtual time, in two parts. First each stage runs its own list, without the others,
// which tells what each kind of action of each chunk takes it in the mean. Then the lists run
// against each other with these costs (plan/pipeline/simulate.h), which tells how long stages wait.
#include "base/numbers.h"
#include "comm/communicator.h"
#include "plan/pipeline/tied_weights.h"
#include "predict/virtual_rank.h"

// Steps or windows that a stage runs; only the last one counts, because the first finds nothing
// under way.
enum { ROUNDS = 2 };

typedef struct stage_time { // of a window
    double busy;            // seconds of its list
    double after;           // seconds of what follows it
    double parts[ZR_TIME_PARTS];
    double unknown;
} stage_time;

typedef struct pipeline_run {
    const zr_forecast_question *question;
    const zr_pipeline *pipeline;
    zr_chunk_cost *costs; // (chunks of the whole model)
    bool asynchronous;
} pipeline_run;

// Returns how many of the owners' updates late tied copies have taken before a step's end.
static int64_t tied_weights_before(const zr_plan *plan, int64_t step)
{
    return step > 0 && zr_plan_tied_weights_are_late(plan)
               ? zr_plan_tied_weights_taken(plan, step - 1)
               : 0;
}

// A stage of pipedream ends a step's sums with its update; one of 2bw in two actions.
static void run_action(const pipeline_run *p, zr_virtual_rank *rank, const zr_action *action)
{
    bool alone = p->pipeline->kind == ZR_PIPELINE_PIPEDREAM;
    if (action->act < ZR_ACT_NORM) {
        zr_virtual_rank_micro_batch(rank, zr_action_pass(action),
                                    action->micro_batch % p->pipeline->micro_batches,
                                    action->micro_batch == 0);
        return;
    }
    if (action->act == ZR_ACT_NORM || alone)
        zr_virtual_rank_run(rank, ZR_PASS_BOUNDARY, 0);
    if (action->act == ZR_ACT_NORM)
        return;
    int64_t step = action->micro_batch / p->pipeline->micro_batches;
    zr_virtual_rank_run(rank, ZR_PASS_TOTAL, 0);
    zr_virtual_rank_end_step(rank, tied_weights_before(rank->plan, step + 1) -
                                       tied_weights_before(rank->plan, step));
}

static void run_list(const pipeline_run *p, zr_virtual_rank *rank, zr_chunk_cost *costs)
{
    const zr_plan *plan = rank->plan;
    for (const zr_action *a = plan->actions; a < plan->actions + plan->action_count; a++) {
        double begin = rank->now;
        run_action(p, rank, a);
        costs[a->chunk].act[a->act] += rank->now - begin;
    }
}

// A window ends when all its updates have been taken; then ranks compare samples and, where each
// stage has updated by its own sums, add these up.
static void end_window(const pipeline_run *p, zr_virtual_rank *rank)
{
    enum { AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(zr_step_sums) };
    bool alone = p->pipeline->kind == ZR_PIPELINE_PIPEDREAM;
    int steps = p->pipeline->steps;
    if (alone)
        zr_virtual_rank_take_tied_weights(rank, steps - tied_weights_before(rank->plan, steps));
    zr_virtual_rank_sum_small(rank, rank->plan->world - 1, 1);
    for (int left = steps; alone && left > 0; left -= AT_ONCE)
        zr_virtual_rank_sum_small(rank, p->pipeline->stages - 1,
                                  ZR_MIN(left, (int)AT_ONCE) * (int64_t)ZR_STEP_SUMS_WORDS);
}

static void end_list(const pipeline_run *p, zr_virtual_rank *rank)
{
    if (p->asynchronous) {
        end_window(p, rank);
        return;
    }
    zr_virtual_rank_run(rank, ZR_PASS_BOUNDARY, 0);
    zr_virtual_rank_end_step(rank, 0);
}

bool zr_virtual_link_between(const zr_forecast_question *question, const zr_link *link)
{
    const int *machines = question->machines;
    bool together = machines && machines[link->from] == machines[link->to];
    return zr_link_is_there(&question->pipeline) && !together;
}

// Returns how long a message to another pipeline stage is under way.
static double seconds_of_message(const zr_plan *plan, const zr_forecast_question *question,
                                 int link)
{
    if (link < 0 || !zr_virtual_link_between(question, &plan->links[link]))
        return 0;
    return zr_virtual_link_cost(&question->pipeline, ZR_ACTIVITY_send,
                                (double)plan->links[link].message)
        .seconds;
}

// Notes the mean costs of a stage's chunks.
static void note_chunk_costs(const pipeline_run *p, const zr_virtual_rank *rank,
                             const zr_chunk_cost *sums)
{
    const zr_plan *plan = rank->plan;
    for (int c = 0; c < plan->chunk_count; c++) {
        const zr_chunk_plan *chunk = &plan->chunks[c];
        zr_chunk_cost *cost = &p->costs[chunk->number];
        int count[ZR_ACT_COUNT] = {0};
        for (int i = 0; i < plan->action_count; i++)
            count[plan->actions[i].act] += plan->actions[i].chunk == c;
        for (int act = 0; act < ZR_ACT_COUNT; act++)
            cost->act[act] = sums[c].act[act] / ZR_MAX(count[act], 1);
        cost->send = seconds_of_message(plan, p->question, chunk->output);
        cost->send_back = seconds_of_message(plan, p->question, chunk->gradient_out);
    }
}

static void time_stage_list(const pipeline_run *p, zr_virtual_rank *rank, stage_time *out)
{
    for (int round = 0; round < ROUNDS; round++) {
        zr_chunk_cost sums[ZR_MOST_CHUNKS] = {0};
        const double begin = rank->now;
        for (int part = 0; part < ZR_TIME_PARTS; part++)
            rank->parts[part] = 0;
        rank->unknown = 0;
        run_list(p, rank, sums);
        out->busy = rank->now - begin;
        end_list(p, rank);
        out->after = rank->now - begin - out->busy;
        note_chunk_costs(p, rank, sums);
    }
    for (int part = 0; part < ZR_TIME_PARTS; part++)
        out->parts[part] = rank->parts[part];
    out->unknown = rank->unknown;
}

static zero_status run_stage(const pipeline_run *p, int stage, stage_time *out, zero_error *error)
{
    zr_virtual_rank rank;
    zero_status status = zr_virtual_rank_open(p->question, stage, &rank, error);
    if (status == ZERO_OK)
        time_stage_list(p, &rank, out);
    zr_virtual_rank_close(&rank);
    return status;
}

static zero_status run_all_stages(const pipeline_run *p, stage_time *slowest, double *after,
                                  zr_simulation *simulation, zero_error *error)
{
    *after = 0;
    *slowest = (stage_time){0};
    for (int s = 0; s < p->pipeline->stages; s++) {
        stage_time at;
        ZERO_TRY(run_stage(p, s, &at, error));
        *after = ZR_MAX(*after, at.after);
        if (at.busy + at.after > slowest->busy + slowest->after)
            *slowest = at;
    }
    return zr_simulate(p->pipeline, NULL, p->costs, simulation, error);
}

zero_status zr_virtual_pipeline_run(const zr_forecast_question *question, double parts[],
                                    double *bubble, double *seconds, double *unknown,
                                    zero_error *error)
{
    const zr_pipeline *pipeline = &question->plans[0]->pipeline->pipeline;
    pipeline_run p = {.question = question,
                      .pipeline = pipeline,
                      .asynchronous = zr_plan_is_asynchronous(question->plans[0])};
    stage_time slowest;
    zr_simulation simulation = {0};
    double after, steps = pipeline->steps;
    p.costs = zr_alloc((size_t)(pipeline->stages * pipeline->chunks) * sizeof *p.costs, error);
    if (!p.costs)
        return ZERO_ERR_MEMORY;
    zero_status status = run_all_stages(&p, &slowest, &after, &simulation, error);
    if (status == ZERO_OK) {
        *seconds = (simulation.total + after) / steps;
        *unknown = slowest.unknown / steps;
        for (int part = 0; part < ZR_TIME_PARTS; part++)
            parts[part] = slowest.parts[part] / steps;
        *bubble = ZR_MAX(*seconds - (slowest.busy + slowest.after) / steps, 0);
    }
    zr_simulation_free(&simulation);
    zr_free(p.costs);
    return status;
}
