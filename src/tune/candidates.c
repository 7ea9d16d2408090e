#include "tune/candidates.h"

#include "base/alloc.h"
#include "setup/placement.h"

#include <math.h>
#include <string.h>

enum { MOST_DIVISORS = 1344 }; // no number of samples up to ZR_SPACE_MOST_BATCH has more

typedef struct search {
    const zr_tuning_space *space;
    const zr_candidate_judge *judge;
    zr_candidates *out;
    zero_error *error;
} search;

double zr_candidate_cost_at(const zr_run_candidate *c, zr_tuning_metric metric, double seconds)
{
    return metric == ZR_METRIC_LATENCY || c->tokens == 0 ? seconds : seconds / (double)c->tokens;
}

double zr_candidate_cost(const zr_run_candidate *c, zr_tuning_metric metric)
{
    bool known = c->step.seconds > 0 && c->tokens > 0;
    return known ? zr_candidate_cost_at(c, metric, c->step.seconds) : INFINITY;
}

bool zr_candidate_is_same(const zr_run_candidate *a, const zr_run_candidate *b)
{
    return a->ranks == b->ranks && a->threads == b->threads && a->tensor == b->tensor &&
           a->stages == b->stages && a->schedule == b->schedule && a->chunks == b->chunks &&
           a->stage == b->stage && a->micro_batch == b->micro_batch &&
           a->accumulation == b->accumulation && a->checkpoints == b->checkpoints &&
           a->optimizer == b->optimizer && a->parameters == b->parameters &&
           a->sub_group == b->sub_group && a->tiling == b->tiling && a->delayed == b->delayed;
}

bool zr_candidate_travels(const zr_run_candidate *c, bool budgets)
{
    zero_tier least = budgets ? ZERO_TIER_host : ZERO_TIER_nvme;
    return c->optimizer >= least || c->parameters >= least;
}

static bool is_listed(const zr_candidates *list, const zr_run_candidate *c)
{
    for (int i = 0; i < list->count; i++)
        if (zr_candidate_is_same(&list->at[i], c))
            return true;
    return false;
}

// Judges a candidate and lists it, unless it is listed. *index: its place; -1 if it was left out.
static zero_status judge_and_list(search *s, const zr_run_candidate *candidate, int *index)
{
    zr_candidates *list = s->out;
    *index = -1;
    if (is_listed(list, candidate))
        return ZERO_OK;
    if (s->space->most && list->count >= s->space->most) {
        list->left++;
        return ZERO_OK;
    }
    zr_run_candidate *grown =
        zr_list_grow(list->at, list->count, &list->capacity, sizeof *list->at, s->error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    list->at = grown;
    list->at[list->count] = *candidate;
    ZERO_TRY(s->judge->judge(s->judge->user, &list->at[list->count], s->error));
    *index = list->count++;
    return ZERO_OK;
}

static bool listed_fits(const search *s, int index)
{
    return index >= 0 && s->out->at[index].state == ZR_CANDIDATE_FITS;
}

// ---- micro-batches

// Finds the divisors of a number, ascending: those up to its root, then what each of them leaves.
static int find_divisors(int64_t of, int64_t out[MOST_DIVISORS])
{
    int count = 0;
    for (int64_t divisor = 1; divisor <= of / divisor && count < MOST_DIVISORS; divisor++)
        if (of % divisor == 0)
            out[count++] = divisor;
    for (int i = count - 1; i >= 0 && count < MOST_DIVISORS; i--)
        if (of / out[i] != out[i])
            out[count++] = of / out[i];
    return count;
}

// Takes `most` of (count) values, evenly, the first and the last among them; one: the last.
static void take_evenly(const int64_t *values, int count, int most, zr_space_list *out)
{
    out->count = ZR_MIN(count, most);
    for (int i = 0; i < out->count; i++)
        out->at[i] = values[out->count == 1 ? count - 1 : i * (count - 1) / (out->count - 1)];
}

#define MOST_ACCUMULATION ((int64_t)1 << 20)

static bool may_be_micro_batch(const zr_tuning_space *space, int64_t share, int64_t micro)
{
    const zr_space_list *given = &space->micro_batches;
    bool listed = given->count == 0;
    for (int i = 0; i < given->count; i++)
        listed = listed || given->at[i] == micro;
    bool accumulates = !space->accumulation || micro * space->accumulation == share;
    // A step of more micro-batches takes as long to plan and predict as a training.
    bool few = share / micro <= MOST_ACCUMULATION;
    return listed && accumulates && few && micro >= space->least_micro_batch &&
           (space->most_micro_batch == 0 || micro <= space->most_micro_batch);
}

// Lists the micro-batches of a data rank that has `share` samples of a step, ascending.
static void list_micro_batches(const zr_tuning_space *space, int64_t share, zr_space_list *out)
{
    int64_t divisors[MOST_DIVISORS];
    int found = find_divisors(share, divisors), count = 0;
    int most = space->micro_batch_count ? space->micro_batch_count : ZR_SPACE_MOST;
    for (int i = 0; i < found; i++)
        if (may_be_micro_batch(space, share, divisors[i]))
            divisors[count++] = divisors[i];
    take_evenly(divisors, count, ZR_MIN(most, ZR_SPACE_MOST), out);
}

// Judges the micro-batches of one grid and stage, from the least on: where one does not fit, larger
// ones do not, either, and only the largest is judged, to tell what memory would be worth.
static zero_status consider_micro_batches(search *s, zr_run_candidate c, int64_t share)
{
    zr_space_list list;
    int index;
    list_micro_batches(s->space, share, &list);
    for (int i = 0; i < list.count; i++) {
        c.micro_batch = list.at[i];
        c.accumulation = share / c.micro_batch;
        ZERO_TRY(judge_and_list(s, &c, &index));
        if (index >= 0 && s->out->at[index].state == ZR_CANDIDATE_TOO_LARGE)
            i = ZR_MAX(i, list.count - 2); // the next one is the last
    }
    return ZERO_OK;
}

// With a batch that follows from the rest, the micro-batches are those that the user has set.
static zero_status consider_following(search *s, zr_run_candidate c)
{
    int index;
    c.accumulation = ZR_MAX(s->space->accumulation, 1);
    for (int i = 0; i < s->space->micro_batches.count; i++) {
        c.micro_batch = s->space->micro_batches.at[i];
        ZERO_TRY(judge_and_list(s, &c, &index));
    }
    return ZERO_OK;
}

static zero_status consider_batches(search *s, const zr_run_candidate *c)
{
    int data = c->ranks / (c->tensor * c->stages);
    if (s->space->batch_follows)
        return consider_following(s, *c);
    for (int b = 0; b < s->space->batches.count; b++)
        if (s->space->batches.at[b] % data == 0)
            ZERO_TRY(consider_micro_batches(s, *c, s->space->batches.at[b] / data));
    return ZERO_OK;
}

// ---- grids

// Where a single data rank has everything, stages divide nothing: the first open one is all of
// them. Tiers, which need a higher stage, are variations.
static zero_status consider_stages(search *s, zr_run_candidate c)
{
    int data = c.ranks / (c.tensor * c.stages);
    for (int i = 0; i < s->space->stages.count; i++) {
        c.stage = s->space->stages.at[i];
        ZERO_TRY(consider_batches(s, &c));
        if (data == 1)
            break;
    }
    return ZERO_OK;
}

static zero_status consider_schedules(search *s, zr_run_candidate c)
{
    const zr_space_list *schedules = &s->space->schedules;
    c.chunks = 1;
    if (c.stages == 1)
        return consider_stages(s, c);
    for (int i = 0; i < schedules->count; i++) {
        c.schedule = (zr_pipeline_kind)schedules->at[i];
        c.chunks = c.schedule == ZR_PIPELINE_INTERLEAVED ? s->space->chunks : 1;
        ZERO_TRY(consider_stages(s, c));
    }
    return ZERO_OK;
}

static zero_status consider_grids(search *s, zr_run_candidate c)
{
    const zr_tuning_space *space = s->space;
    for (int t = 0; t < space->tensor.count; t++)
        for (int p = 0; p < space->pipeline.count; p++) {
            c.tensor = (int)space->tensor.at[t];
            c.stages = (int)space->pipeline.at[p];
            if (c.ranks % (c.tensor * c.stages) == 0)
                ZERO_TRY(consider_schedules(s, c));
        }
    return ZERO_OK;
}

static zero_status consider_ranks(search *s)
{
    const zr_tuning_space *space = s->space;
    for (int r = 0; r < space->ranks.count; r++) {
        zr_run_candidate c = space->as_said;
        c.ranks = (int)space->ranks.at[r];
        c.threads = space->threads ? space->threads : ZR_MAX(space->cores / c.ranks, 1);
        ZERO_TRY(consider_grids(s, c));
    }
    return ZERO_OK;
}

// ---- variations

// Raises the stage so far that the tiers are possible. Returns false if such a stage is not open.
static bool raise_stage(const zr_tuning_space *space, zr_run_candidate *c)
{
    int64_t least = c->parameters != ZERO_TIER_device  ? 3
                    : c->optimizer != ZERO_TIER_device ? 1
                                                       : 0;
    if (c->stage >= least)
        return true;
    for (int i = 0; i < space->stages.count; i++)
        if (space->stages.at[i] >= least) {
            c->stage = space->stages.at[i];
            return true;
        }
    return false;
}

// States move between tiers in sub-groups. Small ones hold less memory, and may overlap better.
static zero_status vary_sub_groups(search *s, const zr_run_candidate *c)
{
    int index;
    bool travels = zr_candidate_travels(c, s->space->budgets);
    for (int i = 0; i < ZR_SUB_GROUPS && travels && s->space->vary_sub_group; i++) {
        zr_run_candidate other = *c;
        other.sub_group = zr_sub_groups[i];
        ZERO_TRY(judge_and_list(s, &other, &index));
    }
    return ZERO_OK;
}

// Tiles cost time, so they are tried only where nothing else makes it fit, from few to many.
static zero_status vary_tiles(search *s, const zr_run_candidate *c)
{
    int index;
    for (int t = 1; t < s->space->tilings && s->space->vary_tiles; t++) {
        zr_run_candidate other = *c;
        other.tiling = t;
        ZERO_TRY(judge_and_list(s, &other, &index));
        if (listed_fits(s, index))
            return ZERO_OK;
    }
    return ZERO_OK;
}

static zero_status vary_delayed(search *s, const zr_run_candidate *c)
{
    int index;
    if (!s->space->vary_delayed || c->optimizer == ZERO_TIER_device || c->stages > 1)
        return ZERO_OK;
    zr_run_candidate other = *c;
    other.delayed = true;
    return judge_and_list(s, &other, &index);
}

static bool tier_is_open(const zr_tuning_space *space, zero_tier tier)
{
    return tier == ZERO_TIER_device || (tier == ZERO_TIER_host && space->budgets) ||
           (tier == ZERO_TIER_nvme && space->nvme);
}

// On one memory the optimizer's states gain nothing by lying on the host, except that their update
// may then overlap the step.
static bool is_place(const zr_tuning_space *space, const zr_run_candidate *c)
{
    bool for_delay =
        space->vary_delayed && c->optimizer == ZERO_TIER_host && c->parameters == ZERO_TIER_device;
    return for_delay || (tier_is_open(space, c->optimizer) && tier_is_open(space, c->parameters));
}

static zero_status vary_places(search *s, const zr_run_candidate *c)
{
    const zr_tuning_space *space = s->space;
    int parameters = space->vary_parameters ? ZERO_TIER_nvme : 0;
    int optimizer = space->vary_optimizer ? ZERO_TIER_nvme : 0;
    int index;
    for (int p = 0; p <= parameters; p++)
        for (int o = 0; o <= optimizer; o++) {
            zr_run_candidate other = *c;
            if (space->vary_parameters)
                other.parameters = (zero_tier)p;
            if (space->vary_optimizer)
                other.optimizer = (zero_tier)o;
            if (!is_place(space, &other) || !raise_stage(space, &other))
                continue;
            bool moves = other.parameters != c->parameters || other.optimizer != c->optimizer;
            if (moves && tier_is_open(space, other.optimizer))
                ZERO_TRY(judge_and_list(s, &other, &index));
            ZERO_TRY(vary_delayed(s, &other));
            ZERO_TRY(vary_sub_groups(s, &other));
        }
    return ZERO_OK;
}

static zero_status vary_candidate(search *s, int of)
{
    const zr_run_candidate c = s->out->at[of]; // a copy, because the list grows
    zr_run_candidate other = c;
    int index = -1, before = s->out->count;
    ZERO_TRY(vary_places(s, &c));
    if (s->space->vary_checkpoints && c.checkpoints == 0) {
        other.checkpoints = s->space->checkpoints;
        ZERO_TRY(judge_and_list(s, &other, &index));
        ZERO_TRY(vary_places(s, &other));
    }
    for (int i = before; i < s->out->count; i++)
        if (s->out->at[i].state == ZR_CANDIDATE_FITS)
            return ZERO_OK;
    if (c.state == ZR_CANDIDATE_FITS)
        return ZERO_OK;
    return vary_tiles(s, &other);
}

static bool is_same_grid(const zr_run_candidate *a, const zr_run_candidate *b)
{
    return a->ranks == b->ranks && a->tensor == b->tensor && a->stages == b->stages;
}

static double listed_cost(const search *s, int index)
{
    return zr_candidate_cost(&s->out->at[index], s->space->metric);
}

// Returns the best of a candidate's grid that fits, among the first `count` and except `but`; -1 if
// there is none.
static int best_of_grid(const search *s, int count, const zr_run_candidate *grid, int but)
{
    int best = -1;
    for (int i = 0; i < count; i++) {
        const zr_run_candidate *c = &s->out->at[i];
        bool good = i != but && c->state == ZR_CANDIDATE_FITS && is_same_grid(c, grid);
        if (good && (best < 0 || listed_cost(s, i) < listed_cost(s, best)))
            best = i;
    }
    return best;
}

static bool is_first_of_grid(const search *s, int index)
{
    for (int i = 0; i < index; i++)
        if (is_same_grid(&s->out->at[i], &s->out->at[index]))
            return false;
    return true;
}

// Returns whether the one listed before it, with a smaller micro-batch, is too large already.
static bool follows_too_large(const search *s, int index)
{
    if (index == 0)
        return false;
    const zr_run_candidate *c = &s->out->at[index], *before = c - 1;
    return before->state == ZR_CANDIDATE_TOO_LARGE && is_same_grid(before, c) &&
           before->schedule == c->schedule && before->chunks == c->chunks &&
           before->stage == c->stage && before->micro_batch < c->micro_batch &&
           before->micro_batch * before->accumulation == c->micro_batch * c->accumulation;
}

// Varies the two best of each grid, and of each grid and stage the least micro-batch that does not
// fit.
static zero_status vary_all(search *s)
{
    int count = s->out->count;
    for (int i = 0; i < count; i++) {
        if (s->out->at[i].state == ZR_CANDIDATE_TOO_LARGE && !follows_too_large(s, i))
            ZERO_TRY(vary_candidate(s, i));
        if (!is_first_of_grid(s, i))
            continue;
        const zr_run_candidate grid = s->out->at[i];
        int best = best_of_grid(s, count, &grid, -1);
        int second = best_of_grid(s, count, &grid, best);
        if (best >= 0)
            ZERO_TRY(vary_candidate(s, best));
        if (second >= 0)
            ZERO_TRY(vary_candidate(s, second));
    }
    return ZERO_OK;
}

zero_status zr_candidates_search(const zr_tuning_space *space, const zr_candidate_judge *judge,
                                 zr_candidates *out, zero_error *error)
{
    search s = {.space = space, .judge = judge, .out = out, .error = error};
    *out = (zr_candidates){0};
    ZERO_TRY(consider_ranks(&s));
    return vary_all(&s);
}

void zr_candidates_free(zr_candidates *candidates)
{
    zr_free(candidates->at);
    *candidates = (zr_candidates){0};
}
