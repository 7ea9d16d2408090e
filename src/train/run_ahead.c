#include "train/run_ahead.h"

// What is left of a step's weight after each later one.
static const double KEPT = 0.9;

void zr_run_pace_add(zr_run_pace *pace, double seconds, bool cold)
{
    if (!cold && !pace->warm)
        *pace = (zr_run_pace){.steps = pace->steps, .warm = true};
    pace->sum = KEPT * pace->sum + (1 - KEPT) * seconds;
    pace->weight = KEPT * pace->weight + (1 - KEPT);
    pace->steps++;
}

double zr_run_pace_step(const zr_run_pace *pace)
{
    return pace->weight > 0 ? pace->sum / pace->weight : 0;
}

static double seconds_of(zr_run_item item) { return (double)item.count * item.seconds; }

double zr_run_ahead_seconds(const zr_run_ahead *ahead)
{
    if (ahead->steps.count > 0 && !(ahead->steps.seconds > 0))
        return 0;
    return seconds_of(ahead->steps) + seconds_of(ahead->micro_batches) +
           seconds_of(ahead->checkpoints) + seconds_of(ahead->models) + seconds_of(ahead->samples);
}

int64_t zr_run_multiples(int64_t after, int64_t last, int64_t every)
{
    return every > 0 && last > after ? last / every - after / every : 0;
}
