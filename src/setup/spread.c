#include "setup/spread.h"

#include "base/bytes_text.h"
#include "comm/agree.h"
#include "model/stage_cut.h"
#include "plan/exchanges.h"

#include <unistd.h>

static bool is_together(const zr_spread *s, int first, int count)
{
    for (int r = 1; r < count; r++)
        if (s->machines[first + r] != s->machines[first])
            return false;
    return true;
}

// Returns the first of `count` neighbouring ranks that are not on one machine; -1: there are none.
static int find_spread(const zr_spread *s, int count)
{
    for (int first = 0; first < s->ranks; first += count)
        if (!is_together(s, first, count))
            return first;
    return -1;
}

static int count_ranks(const zr_spread *s, int machine, int first, int end)
{
    int count = 0;
    for (int r = first; r < end; r++)
        count += s->machines[r] == machine;
    return count;
}

// Writes where neighbouring ranks are: "0, 2 and 3 on a; 1 on b".
static void list_ranks(const zr_spread *s, int first, int end, zr_buffer *out)
{
    const char *separator = "";
    for (int m = 0; m < s->machine_count; m++) {
        int left = count_ranks(s, m, first, end);
        for (int r = first; r < end; r++) {
            if (s->machines[r] != m)
                continue;
            left--;
            zr_buffer_printf(out, "%s%d", separator, r);
            if (left == 0)
                zr_buffer_printf(out, " on %s", s->names[m]);
            separator = left > 1 ? ", " : left == 1 ? " and " : "; ";
        }
    }
}

// Whether every machine has all of each `count` ranks, if they follow each other on it.
static bool order_helps(const zr_spread *s, int count)
{
    for (int m = 0; m < s->machine_count; m++)
        if (count_ranks(s, m, 0, s->ranks) % count)
            return false;
    return true;
}

// Returns the most tensor ranks that are on one machine wherever they are.
static int find_fitting(const zr_spread *s)
{
    int tensor = s->tensor - 1;
    while (s->tensor % tensor || find_spread(s, tensor) >= 0)
        tensor--;
    return tensor;
}

#define IN_ORDER                                                                                   \
    "ranks in the order of their machines (mpirun --map-by slot, srun --distribution=block) "

static void describe_tensor(const zr_spread *s, int first, zr_buffer *out)
{
    char step[ZR_BYTES_TEXT], unit[ZR_BYTES_TEXT];
    zr_bytes_text((double)s->step_bytes, step);
    zr_bytes_text((double)s->unit_bytes, unit);
    zr_buffer_printf(out, "the tensor ranks of a model are on several machines (");
    list_ranks(s, first, first + s->tensor, out);
    zr_buffer_printf(
        out,
        "): in a step up to %s of its sums come to a rank over the network, %s of them "
        "for %s; ",
        step, unit, s->unit);
    if (order_helps(s, s->tensor))
        zr_buffer_printf(out, IN_ORDER "or --tensor %d keep them together", find_fitting(s));
    else
        zr_buffer_printf(out, "--tensor %d keeps them together", find_fitting(s));
}

static void describe_stage(const zr_spread *s, int first, zr_buffer *out)
{
    char data[ZR_BYTES_TEXT], link[ZR_BYTES_TEXT];
    zr_bytes_text((double)s->data_bytes, data);
    zr_bytes_text((double)s->link_bytes, link);
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
static int find_torn_stage(const zr_spread *s)
{
    return s->stage_ranks < s->ranks && order_helps(s, s->stage_ranks)
               ? find_spread(s, s->stage_ranks)
               : -1;
}

void zr_spread_describe(const zr_spread *s, zr_buffer *out)
{
    int model = find_spread(s, s->tensor), stage = find_torn_stage(s);
    if (model >= 0)
        describe_tensor(s, model, out);
    else if (stage >= 0)
        describe_stage(s, stage, out);
}

// Returns what of a traffic comes to this rank over the network. A reduce-scatter takes the shares
// of all strangers, an all-gather those that this rank brings to its machine, an all-reduce both.
static int64_t over_network(const zero_comm *group, const zr_traffic_plan *traffic)
{
    if (!group || group->size == 1)
        return 0;
    const int64_t *bytes = traffic->bytes;
    int64_t others = group->size - 1;
    return bytes[ZERO_COMM_reduce_scatter] / others * group->strangers +
           bytes[ZERO_COMM_all_gather] / others * group->fetches +
           bytes[ZERO_COMM_all_reduce] / (2 * others) * (group->strangers + group->fetches);
}

static int64_t network_bytes(const zr_grid *grid, const zr_plan *plan, const zr_pass_traffic *t)
{
    return plan->settings.accumulation *
           (over_network(grid->tensor, &t->tensor) + over_network(grid->holders, &t->holders));
}

// Adds up the passes of a step; evaluations are none.
static void count_step(const zr_grid *grid, const zr_plan *plan, zr_spread *s)
{
    for (int kind = 0; kind < ZR_PASSES; kind++) {
        const zr_pass_traffic *t = &plan->traffic[kind];
        bool ends = kind >= ZR_PASS_BOUNDARY && kind < ZR_PASS_COUNT;
        int64_t times = zr_pass_is_of_micro_batch(kind) ? plan->settings.accumulation : ends;
        s->data_bytes += times * over_network(grid->data, &t->data);
        s->link_bytes += times * t->pipeline.bytes[ZERO_COMM_send];
        if (zr_pass_is_of_micro_batch(kind))
            s->step_bytes += network_bytes(grid, plan, t);
    }
}

static int64_t bytes_of_unit(const zr_grid *grid, const zr_plan *plan, int unit)
{
    zr_pass_traffic traffic = {0};
    zr_exchanges_of_unit(plan, unit, &traffic);
    return network_bytes(grid, plan, &traffic);
}

// Finds the largest costs of all ranks, of which some have no neighbour on another machine.
static zero_status find_costs(const zr_grid *grid, const zr_plan *plan, zr_spread *s,
                              zero_error *error)
{
    int own = 0;
    for (int u = 1; u < plan->unit_count; u++)
        if (bytes_of_unit(grid, plan, u) > bytes_of_unit(grid, plan, own))
            own = u;
    int64_t bytes = bytes_of_unit(grid, plan, own);
    s->unit_bytes = bytes;
    count_step(grid, plan, s);
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &s->unit_bytes, error));
    // Pipeline stages have other units, so it is a rank with that cost that says which unit it is.
    int64_t unit = bytes == s->unit_bytes ? zr_stage_unit(plan->model, own) : 0;
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &unit, error));
    s->unit = zr_stage_origin(plan->model)->units[unit].name;
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &s->step_bytes, error));
    ZERO_TRY(zr_comm_agree_on_largest(grid->world, &s->data_bytes, error));
    return zr_comm_agree_on_largest(grid->world, &s->link_bytes, error);
}

static int count_machines(const zero_comm *world)
{
    int count = 0;
    for (int r = 0; r < world->size; r++)
        count = ZR_MAX(count, world->machines[r] + 1);
    return count;
}

// Lets the first rank of each machine say its name.
static zero_status find_names(zero_comm *world, zr_spread *s, zero_error *error)
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

static zero_status warn(const zr_grid *grid, const zr_plan *plan, zr_spread *s,
                        const zero_logger *logger, zero_error *error)
{
    zr_buffer text = {0};
    ZERO_TRY(find_costs(grid, plan, s, error));
    ZERO_TRY(find_names(grid->world, s, error));
    zr_spread_describe(s, &text);
    if (grid->world->rank == 0 && !text.failed)
        zr_log(logger, ZERO_LOG_WARNING, "%s", text.data);
    zr_buffer_free(&text);
    return ZERO_OK;
}

zero_status zr_spread_warn(const zr_grid *grid, const zr_plan *plan, const zero_logger *logger,
                           zero_error *error)
{
    zero_comm *world = grid->world;
    if ((!grid->tensor && !grid->pipeline) || !world->machines)
        return ZERO_OK;
    zr_spread s = {.ranks = world->size,
                   .tensor = plan->tensor_ranks,
                   .stage_ranks = plan->tensor_ranks * plan->ranks,
                   .machines = world->machines,
                   .machine_count = count_machines(world)};
    if (find_spread(&s, s.tensor) < 0 && find_torn_stage(&s) < 0)
        return ZERO_OK;
    s.names = zr_alloc(sizeof *s.names * (size_t)s.machine_count, error);
    zero_status status = zr_comm_agree(world, s.names ? ZERO_OK : ZERO_ERR_MEMORY, error);
    if (status == ZERO_OK)
        status = warn(grid, plan, &s, logger, error);
    zr_free(s.names);
    return status;
}
