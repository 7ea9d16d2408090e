#include "plan/network.h"

#include "base/traffic.h"
#include "plan/exchanges.h"

int64_t zr_reach_bytes(const zr_reach *reach, zero_comm_op op, int64_t bytes, int counted)
{
    return zr_collective_network_bytes(op, bytes, counted, reach->strangers, reach->fetches);
}

int64_t zr_reach_coded_bytes(const zr_reach *reach, int64_t bytes, int counted)
{
    int shards = zr_coded_network_shards(reach->size, reach->strangers, reach->even);
    return counted > 0 ? bytes / counted * shards : 0;
}

int64_t zr_network_bytes(const zr_traffic_plan *traffic, const zr_reach *reach, int gathered)
{
    const int64_t *bytes = traffic->bytes;
    int others = reach->size - 1;
    return zr_reach_bytes(reach, ZERO_COMM_reduce_scatter,
                          bytes[ZERO_COMM_reduce_scatter] - traffic->coded, others) +
           zr_reach_coded_bytes(reach, traffic->coded, others) +
           zr_reach_bytes(reach, ZERO_COMM_all_gather, bytes[ZERO_COMM_all_gather], gathered) +
           zr_reach_bytes(reach, ZERO_COMM_all_reduce, bytes[ZERO_COMM_all_reduce], 2 * others);
}

int zr_plan_gathered(const zr_plan *plan)
{
    bool shared = plan->holding == ZR_HOLDS_SHARDS && plan->machine_ranks > 1;
    return (plan->ranks - 1) / (shared ? plan->machine_ranks : 1);
}

static bool is_of_tied_weight(const zr_plan *plan, int link)
{
    for (int t = 0; t < plan->tied_weight_count; t++)
        if (plan->tied_weights[t].sum_link == link || plan->tied_weights[t].parameter_link == link)
            return true;
    return false;
}

// Adds what a pass receives through links, `times` times.
static void add_received(const zr_plan *plan, zr_pass_kind kind, int64_t times,
                         zr_step_traffic *out)
{
    const zr_pass *pass = &plan->program.passes[kind];
    for (const zr_instruction *i = pass->at; i < pass->at + pass->count; i++) {
        if (i->code != ZR_RECEIVE)
            continue;
        int64_t *from = is_of_tied_weight(plan, i->slot.index) ? out->tied_weights : out->links;
        from[plan->links[i->slot.index].from] += times * i->bytes;
    }
}

void zr_step_traffic_find(const zr_plan *plan, zr_step_traffic *out)
{
    *out = (zr_step_traffic){.groups = zr_traffic_of_step(plan),
                             .gathered = zr_plan_gathered(plan),
                             .stage = plan->pipeline ? plan->pipeline->stage : 0,
                             .stages = plan->pipeline ? plan->pipeline->pipeline.stages : 1};
    for (int kind = 0; kind < ZR_PASSES; kind++)
        add_received(plan, kind, zr_pass_times(plan, kind), out);
}

zr_network zr_network_of(const zr_step_traffic *step, const zr_reaches *at)
{
    const zr_pass_traffic *groups = &step->groups;
    zr_network out = {{
        [ZR_NETWORK_TENSOR] =
            zr_network_bytes(&groups->tensor, &at->tensor, at->tensor.size - 1) +
            zr_network_bytes(&groups->replicas, &at->replicas, at->replicas.size - 1),
        [ZR_NETWORK_DATA] = zr_network_bytes(&groups->data, &at->data, step->gathered),
    }};
    for (int s = 0; at->stages && s < step->stages; s++) {
        if (at->stages[s] == at->stages[step->stage])
            continue;
        out.bytes[ZR_NETWORK_LINKS] += step->links[s];
        out.bytes[ZR_NETWORK_TIED_WEIGHTS] += step->tied_weights[s];
    }
    return out;
}

// Returns the reach of a rank among `size` ranks, each `stride` after the one before; it is number
// `place` of them. Those on its machine are neighbours, because ranks fill machines in order.
static zr_reach reach_at_place(const zr_job_machines *machines, int rank, int stride, int size,
                               int place)
{
    int machine = machines->of[rank];
    int before = ZR_MIN(place, (rank - machines->first[machine]) / stride);
    int after = ZR_MIN(size - 1 - place, (machines->first[machine + 1] - 1 - rank) / stride);
    int locals = before + 1 + after, strangers = size - locals;
    return (zr_reach){
        .size = size, .strangers = strangers, .fetches = zr_fetches(strangers, locals, before)};
}

// Says whether a group has equal numbers of ranks on each of its machines. rank: its first one.
static bool is_even(const zr_job_machines *machines, int rank, int stride, int size)
{
    int locals = size - reach_at_place(machines, rank, stride, size, 0).strangers;
    bool even = true;
    for (int place = 0; place < size && even; place += locals)
        even =
            size - reach_at_place(machines, rank + place * stride, stride, size, place).strangers ==
            locals;
    return even;
}

static int stride_of_axis(const zr_mesh *mesh, zero_axis axis)
{
    int stride = 1;
    for (zero_axis below = 0; below < axis; below++)
        stride *= mesh->size[below];
    return stride;
}

zr_reach zr_job_reach(const zr_job_machines *machines, const zr_mesh *mesh, zero_axis axis)
{
    int stride = stride_of_axis(mesh, axis), size = mesh->size[axis];
    zr_reach reach =
        reach_at_place(machines, zr_mesh_rank(mesh, mesh->place), stride, size, mesh->place[axis]);
    reach.even = is_even(machines, zr_mesh_colour(mesh, axis), stride, size);
    return reach;
}

zr_reach zr_job_reach_replicas(const zr_job_machines *machines, const zr_mesh *mesh, int replicas)
{
    int rank = zr_mesh_rank(mesh, mesh->place);
    return replicas ? reach_at_place(machines, rank, 1, replicas, rank % replicas) : (zr_reach){0};
}

int zr_job_kv_replicas(const zr_job_machines *machines, const zr_mesh *mesh, zero_axis axis)
{
    int rank = zr_mesh_colour(mesh, axis), stride = stride_of_axis(mesh, axis),
        size = mesh->size[axis], least = size;
    for (int place = 0; place < size;) {
        zr_reach reach = reach_at_place(machines, rank + place * stride, stride, size, place);
        int locals = size - reach.strangers;
        least = ZR_MIN(least, locals);
        place += locals; // the first one of a machine, which has none before it there
    }
    return least;
}
