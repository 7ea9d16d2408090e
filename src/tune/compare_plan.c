// The ways of a comparison by their plans: memory, messages, and the predicted step.
#include "tune/comparison.h"

#include "plan/exchanges.h"

#include <stdio.h>
#include <string.h>

zr_estimate_question zr_compare_question(const zr_comparison *c, const zr_compare_row *row,
                                         const zr_lm_config *shape, int together)
{
    return (zr_estimate_question){
        .shape = shape,
        .name = c->subject.name,
        .config = row->config,
        .seq = c->subject.seq,
        .ranks = c->ranks,
        .together = together,
        .threads = c->threads,
        .machine = c->machine,
    };
}

// ---- messages

// Returns the bytes that a rank fetches, or in a pipeline sends.
static int64_t fetched_or_sent_bytes(const zr_traffic_plan *traffic)
{
    int64_t bytes = 0;
    for (int op = 0; op < ZERO_COMM_OP_COUNT; op++)
        bytes += op == ZERO_COMM_recv ? 0 : traffic->bytes[op];
    return bytes;
}

static void count_exchanged(const zr_plan *plan, zr_compare_row *row)
{
    const zr_pass_traffic step = zr_traffic_of_step(plan);
    row->exchanged[ZERO_AXIS_data] = fetched_or_sent_bytes(&step.data);
    row->exchanged[ZERO_AXIS_tensor] =
        fetched_or_sent_bytes(&step.tensor) + fetched_or_sent_bytes(&step.replicas);
    row->exchanged[ZERO_AXIS_pipeline] = fetched_or_sent_bytes(&step.pipeline);
}

// The reach of a rank in a group whose ranks are all on machines of their own.
static zr_reach reach_apart(int size)
{
    return (zr_reach){.size = size, .strangers = size - 1, .fetches = size - 1};
}

static int64_t network_together(const int64_t bytes[ZR_NETWORK_USES])
{
    int64_t sum = 0;
    for (int use = 0; use < ZR_NETWORK_USES; use++)
        sum += bytes[use];
    return sum;
}

// Keeps the numbers of the pipeline stage whose ranks receive most.
static void count_stage(const zr_plan *plan, const zr_reaches *at, zr_compare_row *row)
{
    zr_step_traffic step;
    zr_step_traffic_find(plan, &step);
    const zr_network network = zr_network_of(&step, at);
    if (network_together(network.bytes) > network_together(row->network))
        memcpy(row->network, network.bytes, sizeof row->network);
}

// Plans the way once more, for ranks that share no memory, and counts what crosses the network.
static zero_status count_network(const zr_comparison *c, zr_compare_row *row, zero_error *error)
{
    const zr_estimate_question question = zr_compare_question(c, row, &c->subject.model, 1);
    zr_estimate apart;
    int stages[ZR_MOST_PIPELINE_STAGES], replicas = 0;
    zero_status status = zr_estimate_make(&question, &apart, error);
    if (status == ZERO_OK)
        status = zr_model_replicas(apart.run.part.model, row->way.tensor, &replicas, error);
    for (int s = 0; s < row->way.stages; s++)
        stages[s] = s;
    const zr_reaches at = {
        .data = reach_apart(row->way.data),
        .tensor = reach_apart(row->way.tensor),
        .replicas = replicas ? reach_apart(replicas) : (zr_reach){0},
        .stages = row->way.stages > 1 ? stages : NULL,
    };
    for (int s = 0; status == ZERO_OK && s < apart.stages; s++)
        count_stage(apart.at[s].plan, &at, row);
    zr_estimate_free(&apart);
    return status;
}

// ---- memory and time

static void count_memory(const zr_estimate *here, zr_compare_row *row)
{
    const zr_plan *first = here->at[0].plan;
    for (int s = 0; s < here->stages; s++)
        row->needed = ZR_MAX(row->needed, zr_plan_total_bytes(here->at[s].plan));
    row->held = zr_plan_total_bytes(first);
    row->fits = here->fits;
    if (!here->fits)
        snprintf(row->why, sizeof row->why, "does not fit: %s", here->excess);
}

// Without a prediction the way is still worth its measurement.
static void predict_way_step(zr_comparison *c, zr_estimate *here, zr_compare_row *row)
{
    const zero_logger *logger = &c->options->logger;
    zero_error reason = {0};
    if (c->crowded || !here->fits)
        return;
    zero_status status = zr_estimate_measure(here, logger, &c->book, &reason);
    if (status == ZERO_OK)
        status = zr_estimate_forecast(here, &c->book, &row->step, &reason);
    if (status != ZERO_OK)
        zr_log(logger, ZERO_LOG_WARNING, "%s: its step is not predicted: %s", row->way.name,
               reason.message);
}

static zero_status plan_on_machine(zr_comparison *c, zr_compare_row *row, zero_error *error)
{
    const zr_estimate_question question = zr_compare_question(c, row, &c->subject.model, 0);
    zr_estimate here;
    zero_status status = zr_estimate_make(&question, &here, error);
    if (status == ZERO_OK) {
        count_memory(&here, row);
        count_exchanged(here.at[0].plan, row);
        predict_way_step(c, &here, row);
    }
    zr_estimate_free(&here);
    return status;
}

zero_status zr_compare_plan(zr_comparison *c, zr_compare_row *row, zero_error *error)
{
    zero_error reason = {0};
    if (!row->config)
        return ZERO_OK;
    zero_status status = plan_on_machine(c, row, &reason);
    if (status == ZERO_OK)
        status = count_network(c, row, &reason);
    if (status == ZERO_ERR_MEMORY)
        return zr_fail(error, status, "%s: %s", row->way.name, reason.message);
    if (status != ZERO_OK)
        snprintf(row->why, sizeof row->why, "%s", reason.message);
    row->fits = row->fits && status == ZERO_OK;
    return ZERO_OK;
}
