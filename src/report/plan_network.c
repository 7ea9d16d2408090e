// What crosses the network between the machines of a plan, by the plans of all its ranks, and what
// a run on them would warn of.
#include "base/text.h"
#include "base/json.h"
#include "model/pipeline_stage_cut.h"
#include "report/plan_machines.h"
#include "report/plan_report.h"

#include <stdio.h>
#include <string.h>

static zero_status make_topology(zr_plan_network *network, zero_error *error)
{
    const zr_job_machines *job = &network->machines->job;
    const int *size = network->mesh.size;
    zr_topology *topology = &network->topology;
    *topology = (zr_topology){.ranks = network->mesh.world,
                              .tensor = size[ZERO_AXIS_tensor],
                              .stage_ranks = size[ZERO_AXIS_tensor] * size[ZERO_AXIS_data],
                              .machines = job->of,
                              .machine_count = job->count};
    network->torn = zr_topology_is_torn(topology);
    if (!network->torn)
        return ZERO_OK;
    topology->names = zr_alloc(sizeof *topology->names * (size_t)job->count, error);
    for (int m = 0; m < job->count && topology->names; m++)
        snprintf(topology->names[m], ZR_MACHINE_NAME, "machine %d", m);
    return topology->names ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_plan_network_make(const zr_plan_machines *machines, const zr_mesh *mesh,
                                 zr_plan_network **out, zero_error *error)
{
    zr_plan_network *made = zr_alloc(sizeof *made, error);
    *out = NULL;
    if (!made)
        return ZERO_ERR_MEMORY;
    made->machines = machines;
    made->mesh = *mesh;
    zero_status status = make_topology(made, error);
    if (status != ZERO_OK)
        zr_plan_network_free(made);
    else
        *out = made;
    return status;
}

void zr_plan_network_free(zr_plan_network *network)
{
    if (network)
        zr_free(network->topology.names);
    zr_free(network);
}

static void add_crossing(zr_plan_crossing *to, int64_t bytes)
{
    to->most = ZR_MAX(to->most, bytes);
    to->all += bytes;
}

static bool has_same_tensor_ranks(const zr_reaches *a, const zr_reaches *b)
{
    return memcmp(&a->tensor, &b->tensor, sizeof a->tensor) == 0 &&
           memcmp(&a->replicas, &b->replicas, sizeof a->replicas) == 0;
}

// Ranks that fill machines in order tear no pipeline stage that another order would keep together,
// so a warning is of tensor ranks, which costs as much where they are alike.
static void add_costs(zr_plan_network *network, const zr_plan *plan, const zr_step_traffic *step,
                      const zr_reaches *at)
{
    bool is_far = at->tensor.strangers || at->replicas.strangers;
    if (!network->torn || !is_far || has_same_tensor_ranks(at, &network->known))
        return;
    const zr_topology_costs costs = zr_topology_costs_of(plan, step, at);
    zr_topology_costs_raise(&network->topology.most, &costs);
    network->topology.unit =
        zr_pipeline_stage_origin(plan->model)->units[network->topology.most.unit].name;
    network->known = *at;
}

// Adds the mesh's rank, which has this plan.
static void add_rank(zr_plan_network *network, const zr_mesh *mesh, const zr_plan *plan,
                     const zr_step_traffic *step)
{
    int stages[ZR_MOST_PIPELINE_STAGES], members[ZR_MOST_PIPELINE_STAGES];
    const zr_job_machines *job = &network->machines->job;
    int64_t together = 0;
    int count = zr_mesh_group(mesh, ZERO_AXIS_pipeline, members);
    for (int s = 0; s < count; s++)
        stages[s] = job->of[members[s]];
    const zr_reaches at = {.data = zr_job_reach(job, mesh, ZERO_AXIS_data),
                           .tensor = zr_job_reach(job, mesh, ZERO_AXIS_tensor),
                           .replicas =
                               zr_job_reach_replicas(job, mesh, network->machines->replicas),
                           .stages = count > 1 ? stages : NULL};
    const zr_network crosses = zr_network_of(step, &at);
    for (int use = 0; use < ZR_NETWORK_USES; use++) {
        add_crossing(&network->uses[use], crosses.bytes[use]);
        together += crosses.bytes[use];
    }
    add_crossing(&network->together, together);
    add_costs(network, plan, step, &at);
}

void zr_plan_network_add(zr_plan_network *network, const zr_plan *plan)
{
    zr_step_traffic step;
    zr_mesh at = network->mesh;
    zr_step_traffic_find(plan, &step);
    network->tied |= plan->tied_weight_count > 0;
    network->known = (zr_reaches){0};
    at.place[ZERO_AXIS_pipeline] = step.stage;
    for (int t = plan->tensor_rank; t < at.size[ZERO_AXIS_tensor]; t++) {
        if (zr_plan_machines_alike(network->machines, &network->mesh, step.stage, t) !=
            plan->tensor_rank)
            continue;
        at.place[ZERO_AXIS_tensor] = t;
        for (int d = 0; d < at.size[ZERO_AXIS_data]; d++) {
            at.place[ZERO_AXIS_data] = d;
            add_rank(network, &at, plan, &step);
        }
    }
}

static const struct {
    zr_network_use use;
    zero_axis axis;
    const char *name, *words;
} uses[] = {
    {ZR_NETWORK_TENSOR, ZERO_AXIS_tensor, "tensor", "tensor ranks: exchanges inside of layers"},
    {ZR_NETWORK_DATA, ZERO_AXIS_data, "data", "data ranks: gradients and parameters"},
    {ZR_NETWORK_LINKS, ZERO_AXIS_pipeline, "pipeline",
     "pipeline stages: activations, their gradients"},
    {ZR_NETWORK_TIED_WEIGHTS, ZERO_AXIS_pipeline, "tied", "pipeline stages: tied tables"},
};

static bool is_shown(const zr_plan_network *network, int i)
{
    return network->mesh.size[uses[i].axis] > 1 &&
           (uses[i].use != ZR_NETWORK_TIED_WEIGHTS || network->tied);
}

typedef struct groups { // of an axis, in the order of their first ranks
    const zr_plan_network *network;
    int count, size, stride; // how many; of each: ranks, from one to the next
    int across;              // how many are on several machines
} groups;

static int first_rank_of_group(const groups *g, int group)
{
    return group / g->stride * g->stride * g->size + group % g->stride;
}

// Ranks fill machines in order, so a group is on one if its ends are.
static bool group_spans_machines(const groups *g, int group)
{
    const int *of = g->network->machines->job.of;
    int first = first_rank_of_group(g, group);
    return of[first] != of[first + (g->size - 1) * g->stride];
}

static groups groups_along(const zr_plan_network *network, zero_axis axis)
{
    groups g = {.network = network, .size = network->mesh.size[axis], .stride = 1};
    for (zero_axis below = 0; below < axis; below++)
        g.stride *= network->mesh.size[below];
    g.count = network->mesh.world / g.size;
    for (int i = 0; i < g.count; i++)
        g.across += group_spans_machines(&g, i);
    return g;
}

enum { MOST_GROUPS = 3 }; // that are named

// Writes "0 to 7", "0 and 8", or "0, 8 .. 56".
static void append_members(const groups *g, int group, zr_buffer *out)
{
    int first = first_rank_of_group(g, group), last = first + (g->size - 1) * g->stride;
    if (g->stride == 1 && g->size > 2)
        zr_buffer_printf(out, "%d to %d", first, last);
    else if (g->size == 2)
        zr_buffer_printf(out, "%d and %d", first, last);
    else
        zr_buffer_printf(out, "%d, %d .. %d", first, first + g->stride, last);
}

// Writes "none of 4", or "3 of 4: ranks 0 to 7; 8 to 15; 24 to 31".
static void append_groups(const groups *g, zr_buffer *out)
{
    int named = 0;
    if (g->across == 0) {
        zr_buffer_printf(out, "none of %d", g->count);
        return;
    }
    zr_buffer_printf(out, "%d of %d: ranks ", g->across, g->count);
    for (int i = 0; i < g->count && named < MOST_GROUPS; i++) {
        if (!group_spans_machines(g, i))
            continue;
        zr_buffer_printf(out, named++ ? "; " : "");
        append_members(g, i, out);
    }
    zr_buffer_printf(out, named < g->across ? "; ..." : "");
}

static void put_crossing_row(const char *words, const zr_plan_crossing *crossing, const groups *g,
                             zr_report *r)
{
    zr_buffer across = {0};
    if (g)
        append_groups(g, &across);
    zr_report_row(r);
    zr_report_cell(r, zr_text(words));
    zr_report_cell(r, zr_integer(crossing->most));
    zr_report_cell(r, zr_integer(crossing->all));
    zr_report_cell(r, across.length ? zr_text(across.data) : zr_absent());
    zr_buffer_free(&across);
}

static void append_crossings(const zr_plan_network *network, int width, zr_buffer *out)
{
    static const zr_heading columns[] = {
        {.label = "", .width = 45, .left = true},
        {.label = "most to a rank", .unit = ZR_UNIT_BYTES},
        {.label = "to all", .unit = ZR_UNIT_BYTES, .width = 10},
        {.label = "groups on several machines", .left = true},
    };
    zr_report *r = zr_report_create(NULL);
    zr_report_indent(r, 2);
    zr_report_table(r, NULL, columns, ZR_COUNT(columns));
    for (int i = 0; i < ZR_COUNT(uses); i++) {
        if (!is_shown(network, i))
            continue;
        const groups g = groups_along(network, uses[i].axis);
        put_crossing_row(uses[i].words, &network->uses[uses[i].use], &g, r);
    }
    put_crossing_row("together", &network->together, NULL, r);
    zr_report_end_table(r);
    zr_report_finish(r, ZR_REPORT_TEXT, width, out);
}

// Writes the warning that rank 0 of a run would print.
static void append_order_warning(const zr_plan_network *network, zr_buffer *out)
{
    if (network->torn)
        zr_topology_describe(&network->topology, out);
}

void zr_plan_network_text(const zr_plan_row *row, int width, zr_buffer *out)
{
    const zr_plan_network *network = row->network;
    zr_buffer warning = {0};
    if (!network)
        return;
    zr_buffer_printf(out, "\n%d rank%s on %d machine%s:\n", row->ranks, row->ranks == 1 ? "" : "s",
                     network->machines->job.count, network->machines->job.count == 1 ? "" : "s");
    zr_plan_machines_text(network->machines, &network->mesh, out);
    zr_buffer_printf(out,
                     "what comes over the network in a step, at ZeRO stage %d and micro-batch "
                     "%lld:\n",
                     row->stage, (long long)row->micro_batch);
    append_crossings(network, width, out);
    append_order_warning(network, &warning);
    if (warning.length)
        zr_buffer_printf(out, "warning: %s\n", warning.data);
    out->failed |= warning.failed;
    zr_buffer_free(&warning);
}

static void put_crossing(zr_json_writer *w, const char *key, const zr_plan_crossing *crossing)
{
    zr_json_begin_object(w, key);
    zr_json_integer(w, "most", crossing->most);
    zr_json_integer(w, "all", crossing->all);
}

// Writes how many groups there are, and ranges of the numbers of those on several machines.
static void put_groups(const groups *g, zr_json_writer *w)
{
    zr_json_integer(w, "groups", g->count);
    zr_json_begin_array(w, "across");
    for (int i = 0; i < g->count; i++) {
        int first = i;
        while (i < g->count && group_spans_machines(g, i))
            i++;
        if (i == first)
            continue;
        zr_json_begin_array(w, NULL);
        zr_json_integer(w, NULL, first);
        zr_json_integer(w, NULL, i - 1);
        zr_json_end(w);
    }
    zr_json_end(w);
}

static void put_warnings(const zr_plan_network *network, zr_json_writer *w)
{
    zr_buffer warning = {0};
    append_order_warning(network, &warning);
    zr_json_begin_array(w, "warnings");
    if (warning.length)
        zr_json_text(w, NULL, warning.data);
    zr_json_end(w);
    w->out->failed |= warning.failed;
    zr_buffer_free(&warning);
}

void zr_plan_network_json(const zr_plan_row *row, zr_json_writer *w)
{
    const zr_plan_network *network = row->network;
    if (!network)
        return;
    zr_plan_machines_json(network->machines, &network->mesh, w, "machines");
    zr_json_line(w, 1);
    zr_json_begin_object(w, "network");
    for (int i = 0; i < ZR_COUNT(uses); i++) {
        if (!is_shown(network, i))
            continue;
        const groups g = groups_along(network, uses[i].axis);
        put_crossing(w, uses[i].name, &network->uses[uses[i].use]);
        put_groups(&g, w);
        zr_json_end(w);
    }
    put_crossing(w, "together", &network->together);
    zr_json_end(w);
    zr_json_end(w);
    put_warnings(network, w);
}
