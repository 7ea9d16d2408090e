// Orders of a mesh over the nodes: reading one, and trying all.
#include "simulate/costs.h"
#include "simulate/step.h"

#include <stdio.h>
#include <string.h>

// Returns the number of the axis that a text names; -1 if it names no axis.
static int find_axis(const char *text, size_t length)
{
    for (int i = 0; i < ZR_SIM_AXES; i++)
        if (strlen(zr_sim_axis_names[i]) == length && !strncmp(zr_sim_axis_names[i], text, length))
            return i;
    return -1;
}

zero_status zr_sim_order_read(const char *text, zr_sim_run *run, zero_error *error)
{
    int axes[ZR_SIM_AXES], count = 0;
    bool named[ZR_SIM_AXES] = {false};
    for (const char *at = text, *comma; at; at = comma ? comma + 1 : NULL) {
        comma = strchr(at, ',');
        int axis = find_axis(at, strcspn(at, ","));
        if (axis < 0 || named[axis])
            return zr_fail(error, ZERO_ERR_USAGE,
                           "order \"%s\": tensor, context, data and pipeline, each once, in any "
                           "order, the first of which has neighbouring devices; or best",
                           text);
        named[axis] = true;
        axes[count++] = axis;
    }
    for (int i = 0; i < ZR_SIM_AXES; i++)
        if (!named[i])
            axes[count++] = i;
    snprintf(run->order, sizeof run->order, "%s,%s,%s,%s", zr_sim_axis_names[axes[0]],
             zr_sim_axis_names[axes[1]], zr_sim_axis_names[axes[2]], zr_sim_axis_names[axes[3]]);
    return ZERO_OK;
}

typedef struct axis {
    const char *name;
    int ranks;
} axis;

// Swaps the axes at `at` and `with`: one more place of a permutation is decided.
static void swap_axes(axis *axes, int at, int with)
{
    axis kept = axes[at];
    axes[at] = axes[with];
    axes[with] = kept;
}

typedef struct search {
    zr_sim_run run; // the best one so far
    zr_sim_step step;
    zero_status status; // of `run`; ZERO_ERR_LIMIT: no order fits
    bool found;
} search;

static zero_status keep_order_if_better(const axis axes[ZR_SIM_AXES], search *best,
                                        zero_error *error)
{
    zr_sim_run run = best->run;
    zr_sim_step step;
    snprintf(run.order, sizeof run.order, "%s,%s,%s,%s", axes[0].name, axes[1].name, axes[2].name,
             axes[3].name);
    zero_status status = zr_sim_step_find(&run, &step, error);
    if (status != ZERO_OK && status != ZERO_ERR_LIMIT)
        return status;
    if (best->found && step.seconds >= best->step.seconds)
        return ZERO_OK;
    *best = (search){.run = run, .step = step, .status = status, .found = true};
    return ZERO_OK;
}

// Tries all orders of the axes from `at` on. Axes of one rank stay where they are, because their
// places make no difference.
static zero_status try_orders(axis axes[ZR_SIM_AXES], int at, search *best, zero_error *error)
{
    if (at == ZR_SIM_AXES)
        return keep_order_if_better(axes, best, error);
    if (axes[at].ranks == 1)
        return try_orders(axes, at + 1, best, error);
    for (int with = at; with < ZR_SIM_AXES; with++) {
        if (axes[with].ranks == 1)
            continue;
        swap_axes(axes, at, with);
        ZERO_TRY(try_orders(axes, at + 1, best, error));
        swap_axes(axes, at, with);
    }
    return ZERO_OK;
}

zero_status zr_sim_best_order(zr_sim_run *run, zr_sim_step *out, zero_error *error)
{
    axis axes[ZR_SIM_AXES] = {{"tensor", run->tensor},
                              {"context", run->context},
                              {"data", run->data},
                              {"pipeline", run->pipeline}};
    search best = {.run = *run};
    ZERO_TRY(try_orders(axes, 0, &best, error));
    *run = best.run;
    *out = best.step;
    return best.status;
}
