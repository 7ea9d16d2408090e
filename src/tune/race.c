#include "tune/race.h"

#include <string.h>

// How far trials of the same run may differ: all that is known of a single trial, and added to the
// spread of several.
#define DOUBT 0.12

static bool was_measured(const zr_race_lane *lane) { return lane->trials > 0; }

int zr_race_best(const zr_race *race, int but)
{
    int best = -1;
    for (int i = 0; i < race->count; i++) {
        const zr_race_lane *lane = &race->lanes[i];
        if (i != but && was_measured(lane) && (best < 0 || lane->cost < race->lanes[best].cost))
            best = i;
    }
    return best;
}

static void sort_costs(const zr_race_lane *lane, double out[ZR_RACE_ROUNDS])
{
    memcpy(out, lane->costs, sizeof lane->costs);
    for (int i = 1; i < lane->trials; i++)
        for (int k = i; k > 0 && out[k] < out[k - 1]; k--) {
            double other = out[k];
            out[k] = out[k - 1];
            out[k - 1] = other;
        }
}

static void summarize_trials(zr_race_lane *lane)
{
    double sorted[ZR_RACE_ROUNDS], doubt = DOUBT / lane->trials;
    int n = lane->trials;
    sort_costs(lane, sorted);
    lane->cost = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    lane->low = sorted[0] * (1 - doubt);
    lane->high = sorted[n - 1] * (1 + doubt);
}

static void drop_slower_lanes(zr_race *race)
{
    int best = zr_race_best(race, -1);
    for (int i = 0; i < race->count && best >= 0; i++) {
        zr_race_lane *lane = &race->lanes[i];
        lane->parted = i != best && was_measured(lane) && lane->low > race->lanes[best].high;
    }
}

static bool may_go_on(const zr_race *race)
{
    return race->trials < race->most_trials && race->has_time(race->user);
}

static zero_status run_lane(zr_race *race, int i, zero_error *error)
{
    zr_race_lane *lane = &race->lanes[i];
    double cost = 0;
    bool failed = false;
    race->trials++;
    ZERO_TRY(race->run(race->user, i, &cost, &failed, error));
    lane->failed = failed;
    if (failed)
        return ZERO_OK;
    lane->costs[lane->trials++] = cost;
    summarize_trials(lane);
    return ZERO_OK;
}

// The first trial of each lane.
static zero_status run_first_round(zr_race *race, zero_error *error)
{
    int best = -1, without = 0;
    for (int i = 0; i < race->count && may_go_on(race); i++) {
        if (race->early_stopping && without >= race->early_stopping)
            return ZERO_OK;
        ZERO_TRY(run_lane(race, i, error));
        int now = zr_race_best(race, -1);
        without = now == best ? without + 1 : 0;
        best = now;
    }
    return ZERO_OK;
}

static bool is_contested(const zr_race *race, int i)
{
    const zr_race_lane *lane = &race->lanes[i];
    return was_measured(lane) && !lane->parted && !lane->failed;
}

static int count_contested(const zr_race *race)
{
    int count = 0;
    for (int i = 0; i < race->count; i++)
        count += is_contested(race, i);
    return count;
}

zero_status zr_race_run(zr_race *race, int *best, zero_error *error)
{
    ZERO_TRY(run_first_round(race, error));
    drop_slower_lanes(race);
    for (int round = 1; round < ZR_RACE_ROUNDS && count_contested(race) > 1; round++) {
        for (int i = 0; i < race->count && may_go_on(race); i++)
            if (is_contested(race, i))
                ZERO_TRY(run_lane(race, i, error));
        drop_slower_lanes(race);
        if (!may_go_on(race))
            break;
    }
    *best = zr_race_best(race, -1);
    return ZERO_OK;
}
