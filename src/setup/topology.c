#include "setup/topology.h"

#include "base/text.h"
#include "comm/agreement.h"
#include "model/pipeline_stage_cut.h"
#include "plan/exchanges.h"

#include <unistd.h>

static bool are_on_one_machine(const zr_topology *s, int first, int count)
{
    for (int r = 1; r < count; r++)
        if (s->machines[first + r] != s->machines[first])
            return false;
    return true;
}

// Returns the first of `count` neighbouring ranks that are not on one machine; -1: there are none.
static int find_torn_group(const zr_topology *s, int count)
{
    for (int first = 0; first < s->ranks; first += count)
        if (!are_on_one_machine(s, first, count))
            return first;
    return -1;
}

static int count_ranks(const zr_topology *s, int machine, int first, int end)
{
    int count = 0;
    for (int r = first; r < end; r++)
        count += s->machines[r] == machine;
    return count;
}

enum { MOST_LISTED = 8, LEAST_RANGE = 4 }; // machines; ranks

// Returns the end of what the list says of rank r at once: of a range of ranks on its machine, if
// it is long.
static int end_of_same_machine(const zr_topology *s, int r, int end)
{
    int next = r + 1;
    while (next < end && s->machines[next] == s->machines[r])
        next++;
    return next - r >= LEAST_RANGE ? next : r + 1;
}

// Writes which of neighbouring ranks are on a machine: "0, 2 and 3", "0 to 7".
static void list_machine(const zr_topology *s, int machine, int first, int end, zr_buffer *out)
{
    const char *separator = "";
    for (int r = first, next; r < end; r = next) {
        next = end_of_same_machine(s, r, end);
        if (s->machines[r] != machine)
            continue;
        if (*separator && count_ranks(s, machine, next, end) == 0)
            separator = " and ";
        zr_buffer_printf(out, next - r > 1 ? "%s%d to %d" : "%s%d", separator, r, next - 1);
        separator = ", ";
    }
}

// Writes where neighbouring ranks are: "0, 2 and 3 on a; 1 on b".
static void list_ranks(const zr_topology *s, int first, int end, zr_buffer *out)
{
    int listed = 0;
    for (int m = 0; m < s->machine_count; m++) {
        if (count_ranks(s, m, first, end) == 0 || listed++ >= MOST_LISTED)
            continue;
        zr_buffer_printf(out, listed > 1 ? "; " : "");
        list_machine(s, m, first, end, out);
        zr_buffer_printf(out, " on %s", s->names[m]);
    }
    if (listed > MOST_LISTED)
        zr_buffer_printf(out, "; others on %d more machine%s", listed - MOST_LISTED,
                         listed - MOST_LISTED == 1 ? "" : "s");
}

// Whether every machine has all of each `count` ranks, if they follow each other on it.
static bool another_order_helps(const zr_topology *s, int count)
{
    for (int m = 0; m < s->machine_count; m++)
        if (count_ranks(s, m, 0, s->ranks) % count)
            return false;
    return true;
}

// Returns the most tensor ranks that are on one machine wherever they are.
static int find_fitting(const zr_topology *s)
{
    int tensor = s->tensor - 1;
    while (s->tensor % tensor || find_torn_group(s, tensor) >= 0)
        tensor--;
    return tensor;
}

#define IN_ORDER                                                                                   \
    "ranks in the order of their machines (mpirun --map-by slot, srun --distribution=block) "

static void describe_tensor(const zr_topology *s, int first, zr_buffer *out)
{
    char step[ZR_BYTES_TEXT], unit[ZR_BYTES_TEXT];
    zr_bytes_text((double)s->most.step_bytes, step);
    zr_bytes_text((double)s->most.unit_bytes, unit);
    zr_buffer_printf(out, "the tensor ranks of a model are on several machines (");
    list_ranks(s, first, first + s->tensor, out);
    zr_buffer_printf(
        out,
        "): in a step up to %s of its sums come to a rank over the network, %s of them "
        "for %s; ",
        step, unit, s->unit);
    if (another_order_helps(s, s->tensor))
        zr_buffer_printf(out, IN_ORDER "or --tensor %d keep them together", find_fitting(s));
    else
        zr_buffer_printf(out, "--tensor %d keeps them together", find_fitting(s));
}

static void describe_stage(const zr_topology *s, int first, zr_buffer *out)
{
    char data[ZR_BYTES_TEXT], link[ZR_BYTES_TEXT];
    zr_bytes_text((double)s->most.data_bytes, data);
    zr_bytes_text((double)s->most.link_bytes, link);
    zr_buffer_printf(out, "the ranks of pipeline stage %d are on several machines (",
                     first / s->stage_ranks);
    list_ranks(s, first, first + s->stage_ranks, out);
    zr_buffer_printf(out,
                     "): in a step up to %s of gradients and parameters come to a rank over the "
                     "network, where it sends at most %s to other pipeline stages; " IN_ORDER
                     "keep them together",
                     data, link);
}

// Returns the first rank of a pipeline stage that another order of ranks would keep on one machine;
// -1: there is none.
static int find_torn_stage(const zr_topology *s)
{
    int first = s->stage_ranks < s->ranks ? find_torn_group(s, s->stage_ranks) : -1;
    return first >= 0 && another_order_helps(s, s->stage_ranks) ? first : -1;
}

bool zr_topology_is_torn(const zr_topology *s)
{
    return find_torn_group(s, s->tensor) >= 0 || find_torn_stage(s) >= 0;
}

void zr_topology_describe(const zr_topology *s, zr_buffer *out)
{
    int model = find_torn_group(s, s->tensor), stage = find_torn_stage(s);
    if (model >= 0)
        describe_tensor(s, model, out);
    else if (stage >= 0)
        describe_stage(s, stage, out);
}

static int64_t network_bytes_of_unit(const zr_plan *plan, const zr_reaches *at, int unit)
{
    zr_pass_traffic t = {0};
    zr_exchanges_of_unit(plan, unit, &t);
    return plan->settings.accumulation *
           (zr_network_bytes(&t.tensor, &at->tensor, at->tensor.size - 1) +
            zr_network_bytes(&t.replicas, &at->replicas, at->replicas.size - 1));
}

zr_topology_costs zr_topology_costs_of(const zr_plan *plan, const zr_step_traffic *step,
                                       const zr_reaches *at)
{
    const zr_network network = zr_network_of(step, at);
    int most = 0;
    int64_t most_bytes = network_bytes_of_unit(plan, at, most);
    for (int u = 1; u < plan->unit_count; u++) {
        int64_t bytes = network_bytes_of_unit(plan, at, u);
        most = bytes > most_bytes ? u : most;
        most_bytes = ZR_MAX(bytes, most_bytes);
    }
    return (zr_topology_costs){.step_bytes = network.bytes[ZR_NETWORK_TENSOR],
                               .unit_bytes = most_bytes,
                               .unit = zr_pipeline_stage_unit(plan->model, most),
                               .data_bytes = network.bytes[ZR_NETWORK_DATA],
                               .link_bytes = step->groups.pipeline.bytes[ZERO_COMM_send]};
}

// Pipeline stages have other units, so it is a rank with the most that says which unit it is; of
// several, that with the last unit.
void zr_topology_costs_raise(zr_topology_costs *most, const zr_topology_costs *of)
{
    if (of->unit_bytes > most->unit_bytes)
        most->unit = of->unit;
    else if (of->unit_bytes == most->unit_bytes)
        most->unit = ZR_MAX(most->unit, of->unit);
    most->unit_bytes = ZR_MAX(most->unit_bytes, of->unit_bytes);
    most->step_bytes = ZR_MAX(most->step_bytes, of->step_bytes);
    most->data_bytes = ZR_MAX(most->data_bytes, of->data_bytes);
    most->link_bytes = ZR_MAX(most->link_bytes, of->link_bytes);
}

static zr_reach reach_of_group(const zero_comm *group)
{
    return group ? (zr_reach){group->size, group->strangers, group->fetches, group->even}
                 : (zr_reach){0};
}

// Finds the most of all ranks, as zr_topology_costs_raise does: some have no neighbour on another
// machine.
static zero_status find_costs(const zr_grid *grid, const zr_plan *plan, zr_topology_costs *most,
                              zero_error *error)
{
    const zr_reaches at = {.data = reach_of_group(grid->data),
                           .tensor = reach_of_group(grid->tensor),
                           .replicas = reach_of_group(grid->replicas),
                           .stages = grid->pipeline ? grid->pipeline->machines : NULL};
    zr_step_traffic step;
    zr_step_traffic_find(plan, &step);
    const zr_topology_costs own = zr_topology_costs_of(plan, &step, &at);
    *most = own;
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &most->unit_bytes, error));
    int64_t unit = own.unit_bytes == most->unit_bytes ? own.unit : 0;
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &unit, error));
    most->unit = (int)unit;
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &most->step_bytes, error));
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &most->data_bytes, error));
    return zr_comm_agree_on_largest(grid->world, &most->link_bytes, error);
}

static int count_machines(const zero_comm *world)
{
    int count = 0;
    for (int r = 0; r < world->size; r++)
        count = ZR_MAX(count, world->machines[r] + 1);
    return count;
}

// Lets the first rank of each machine say its name.
static zero_status find_names(zero_comm *world, zr_topology *s, zero_error *error)
{
    int first = 0;
    while (world->machines[first] != world->machines[world->rank])
        first++;
    if (first == world->rank)
        gethostname(s->names[world->machines[first]], ZR_MACHINE_NAME - 1);
    return zr_comm_all_reduce_small(world, s->names,
                                    s->machine_count * (int64_t)(ZR_MACHINE_NAME / sizeof(int64_t)),
                                    ZERO_I64, ZR_SUM, error);
}

static zero_status warn_of_torn_groups(const zr_grid *grid, const zr_plan *plan, zr_topology *s,
                                       const zero_logger *logger, zero_error *error)
{
    zr_buffer text = {0};
    ZERO_TRY(find_costs(grid, plan, &s->most, error));
    s->unit = zr_pipeline_stage_origin(plan->model)->units[s->most.unit].name;
    ZERO_TRY(find_names(grid->world, s, error));
    zr_topology_describe(s, &text);
    if (grid->world->rank == 0 && !text.failed)
        zr_log(logger, ZERO_LOG_WARNING, "%s", text.data);
    zr_buffer_free(&text);
    return ZERO_OK;
}

void zr_topology_note_codes(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger)
{
    const zr_settings *settings = &plan->settings;
    bool weights = settings->weight_bits || settings->frozen_bits, sums = settings->gradient_bits;
    if (grid->world->rank == 0 && grid->data->strangers == 0 && (weights || sums))
        zr_log(
            logger, ZERO_LOG_INFO,
            "network  ranks that exchange %s%s%s are on one machine and read each other's memory: "
            "rounded to codes they save no time here",
            weights ? "weights" : "", weights && sums ? " and " : "", sums ? "gradients" : "");
}

zero_status zr_topology_warn(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger,
                             zero_error *error)
{
    zero_comm *world = grid->world;
    if ((!grid->tensor && !grid->pipeline) || !world->machines)
        return ZERO_OK;
    zr_topology s = {.ranks = world->size,
                     .tensor = plan->tensor_ranks,
                     .stage_ranks = plan->tensor_ranks * plan->ranks,
                     .machines = world->machines,
                     .machine_count = count_machines(world)};
    if (!zr_topology_is_torn(&s))
        return ZERO_OK;
    s.names = zr_alloc(sizeof *s.names * (size_t)s.machine_count, error);
    zero_status status = zr_comm_agree(world, s.names ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK)
        status = warn_of_torn_groups(grid, plan, &s, logger, error);
    zr_free(s.names);
    return status;
}
