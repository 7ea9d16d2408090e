#include "simulate/costs.h"

#include <math.h>
#include <string.h>

// The parts of the rates of links that collectives reach: inside a node, and between nodes.
#define REACHED_IN_NODE 0.8
#define REACHED_BETWEEN 0.9

const char *const zr_sim_axis_names[] = {
    [ZR_SIM_AXIS_TENSOR] = "tensor",
    [ZR_SIM_AXIS_CONTEXT] = "context",
    [ZR_SIM_AXIS_DATA] = "data",
    [ZR_SIM_AXIS_PIPELINE] = "pipeline",
};

// Returns the number of ranks in one node, if each is the stride-th device after the one before.
static int ranks_within(const zr_sim_machine *machine, int ranks, int stride)
{
    return ZR_MIN(ranks, ZR_MAX(1, ZR_MAX(1, machine->devices) / stride));
}

// Makes a group of devices, `within` of them in each node; `last` is the distance from the first
// device to the last.
static zr_sim_group make_sim_group(const zr_sim_machine *machine, int ranks, int within,
                                   int64_t last)
{
    zr_sim_group group = {.ranks = ranks, .within = within};
    group.nodes = (ranks + group.within - 1) / group.within;
    const zr_sim_link *in_node = &machine->links[ZR_SIM_IN_NODE];
    group.reach = ZR_SIM_IN_NODE;
    group.rate = in_node->rate / ZR_MAX(1, in_node->sharers) * REACHED_IN_NODE;
    group.latency = in_node->latency * (group.within - 1);
    group.tree_latency = in_node->latency * log2(group.within);
    if (group.nodes == 1)
        return group;
    // The distance decides, not the number of nodes with members.
    int64_t reached = ZR_MAX(group.nodes, last / ZR_MAX(1, machine->devices) + 1);
    bool spine = machine->rail_nodes > 0 && reached > machine->rail_nodes;
    group.reach = spine ? ZR_SIM_SPINE : ZR_SIM_RAIL;
    const zr_sim_link *link = &machine->links[group.reach];
    double rate = link->rate / ZR_MAX(1, link->sharers) * REACHED_BETWEEN * group.within;
    if (spine && machine->taper > 0)
        rate *= machine->taper;
    group.rate = ZR_MIN(group.rate, rate);
    group.latency = group.latency * group.nodes + link->latency * group.nodes;
    group.tree_latency += link->latency * log2(group.nodes);
    return group;
}

zr_sim_group zr_sim_group_make(const zr_sim_machine *machine, int ranks, int stride)
{
    return make_sim_group(machine, ranks, ranks_within(machine, ranks, stride),
                          (int64_t)stride * (ranks - 1));
}

static int axis_size(const zr_sim_run *run, zr_sim_axis axis)
{
    const int sizes[] = {
        [ZR_SIM_AXIS_TENSOR] = run->tensor,
        [ZR_SIM_AXIS_CONTEXT] = run->context,
        [ZR_SIM_AXIS_DATA] = run->data,
        [ZR_SIM_AXIS_PIPELINE] = run->pipeline,
    };
    return sizes[axis];
}

// Returns how many devices lie between two neighbours of an axis, in the order of the run.
static int axis_stride(const zr_sim_run *run, zr_sim_axis axis)
{
    const char *order = run->order[0] != 0 ? run->order : "tensor,context,data,pipeline";
    const char *own = strstr(order, zr_sim_axis_names[axis]);
    int stride = 1;
    for (int i = 0; i < ZR_COUNT(zr_sim_axis_names); i++) {
        const char *other = strstr(order, zr_sim_axis_names[i]);
        if (other != NULL && other < own)
            stride *= axis_size(run, (zr_sim_axis)i);
    }
    return stride;
}

zr_sim_group zr_sim_group_of_axis(const zr_sim_run *run, zr_sim_axis axis)
{
    int size = axis_size(run, axis), stride = axis_stride(run, axis);
    if (axis != ZR_SIM_AXIS_PIPELINE)
        return zr_sim_group_make(&run->machine, size, stride);
    // Stages send to their neighbours, so a link has to carry one of them.
    zr_sim_group group = zr_sim_group_make(&run->machine, ZR_MIN(2, size), stride);
    if (size > group.within && stride * size > run->machine.devices)
        group =
            zr_sim_group_make(&run->machine, ZR_MIN(2, size), ZR_MAX(stride, run->machine.devices));
    return group;
}

zr_sim_group zr_sim_group_of_states(const zr_sim_run *run)
{
    const zr_sim_machine *machine = &run->machine;
    int of_data = axis_stride(run, ZR_SIM_AXIS_DATA),
        of_context = axis_stride(run, ZR_SIM_AXIS_CONTEXT);
    int data = ranks_within(machine, run->data, of_data),
        context = ranks_within(machine, run->context, of_context);
    int64_t last = (int64_t)of_data * (run->data - 1) + (int64_t)of_context * (run->context - 1);
    return make_sim_group(machine, run->data * run->context, data * context, last);
}

double zr_sim_all_gather(const zr_sim_group *group, double bytes)
{
    if (group->ranks <= 1)
        return 0;
    return bytes * (group->ranks - 1) / group->ranks / group->rate + group->latency;
}

double zr_sim_all_reduce(const zr_sim_group *group, double bytes)
{
    double ring = 2 * zr_sim_all_gather(group, bytes);
    double tree = ring - 2 * group->latency + 2 * group->tree_latency;
    return ZR_MIN(ring, tree);
}

double zr_sim_message(const zr_sim_group *group, double bytes)
{
    return group->ranks <= 1 ? 0 : bytes / group->rate + group->tree_latency;
}
