// What failures cost a simulated run: its checkpoints, and the time between failures of all nodes.
#include "commands/simulate_report.h"

#include <math.h>

// Bytes of a parameter in a checkpoint: fp32 weights and two moments; 16-bit weights follow from
// them.
enum { CHECKPOINT_BYTES = 12 };

// Seconds in which all devices copy their states to their hosts at once.
static double seconds_to_copy(const zr_sim_run *run, double bytes)
{
    return bytes / ((double)run->devices * run->machine.host_link);
}

// The least goodput that is an answer.
#define LEAST_GOODPUT 1e-6

// Takes the better of the two whole numbers of steps around the best interval, because a run saves
// after whole steps. No interval is shorter than a write.
static void take_whole_steps(zr_simulate_saving *saving, double step)
{
    const zr_sim_failures *f = &saving->failures;
    zr_sim_survival *best = &saving->survival;
    double most = fmax(ceil(best->interval / step), 1), least = fmax(most - 1, 1);
    if (least * step + f->blocked < f->behind)
        least = most;
    bool shorter = zr_sim_goodput(f, least * step) >= zr_sim_goodput(f, most * step);
    saving->steps = shorter ? least : most;
    best->interval = saving->steps * step;
    best->goodput = zr_sim_goodput(f, best->interval);
}

zero_status zr_simulate_save(const zero_simulate_options *options, zr_simulate_answer *answer,
                             zero_error *error)
{
    const zr_sim_run *run = &answer->run;
    zr_simulate_saving *saving = &answer->saving;
    if (!options->mtbf_hours)
        return ZERO_OK;
    saving->asked = true;
    saving->nodes = (run->devices + run->machine.devices - 1) / run->machine.devices;
    saving->bytes = CHECKPOINT_BYTES * run->parameters;
    saving->rate = options->checkpoint_rate > 0 ? options->checkpoint_rate
                                                : run->machine.nvme_write * saving->nodes;
    if (!saving->rate)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "the nodes of %s have no NVMe: --checkpoint-rate says how many GB/s the "
                       "storage takes",
                       run->machine.name);
    double written = saving->bytes / saving->rate;
    bool asynchronous = options->asynchronous && run->machine.host_link > 0;
    saving->failures = (zr_sim_failures){
        .mtbf = options->mtbf_hours * 3600 / saving->nodes,
        .blocked = asynchronous ? seconds_to_copy(run, saving->bytes) : written,
        .behind = asynchronous ? written : 0,
        .restart = options->restart + written, // it is read again as fast as it was written
    };
    ZERO_TRY(zr_sim_survive(&saving->failures, &saving->survival, error));
    take_whole_steps(saving, answer->step.seconds);
    if (!(saving->survival.goodput > LEAST_GOODPUT))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a failure every %.4g s, and a step takes %.4g s: no step would ever last; "
                       "a longer --mtbf or fewer --ranks",
                       saving->failures.mtbf, answer->step.seconds);
    return ZERO_OK;
}
