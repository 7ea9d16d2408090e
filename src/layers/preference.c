#include "layers/preference.h"

#include <math.h>

// The largest mean that ORPO's odds are taken of: that of a completion which is certain, as far as
// fp32 says.
#define CERTAIN (-0x1p-24)

static double log_sigmoid(double x) { return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x)); }

static double sigmoid(double x) { return exp(log_sigmoid(x)); }

// Returns log(1 - e^a), a < 0.
static double log_of_rest(double a) { return a > -M_LN2 ? log(-expm1(a)) : log1p(-exp(a)); }

static bool is_completion(int32_t role)
{
    return role > ZERO_ROLE_none && role <= ZERO_ROLE_mismatched;
}

zero_status zr_completion_read(const zr_preference_rows *rows, int64_t row, zr_completion *out,
                               zero_error *error)
{
    *out = (zr_completion){.begin = row, .reference = rows->reference[row]};
    do {
        int32_t role = rows->roles[row];
        double loss = rows->row_loss[row];
        bool counts = is_completion(role);
        if (role < ZERO_ROLE_none || role > ZERO_ROLE_prompt ||
            (counts && out->role && role != out->role))
            return zr_fail(error, ZERO_ERR_DATA,
                           "row %lld of a micro-batch has the role %d, where %s is expected",
                           (long long)row, role,
                           counts ? "that of its document's other rows" : "a zero_role");
        out->role = counts ? role : out->role;
        out->length += counts;
        out->log_probability -= counts ? loss : 0;
        out->counted += role != ZERO_ROLE_none;
        out->loss += role != ZERO_ROLE_none ? loss : 0;
    } while (++row < rows->rows && rows->positions[row]);
    out->end = row;
    return ZERO_OK;
}

typedef struct computation {
    const zr_preference *preference;
    const zr_preference_rows *rows;
    float *weight;
    zr_preference_sums *sums;
    double baseline; // z
} computation;

// Adds to the weights of a document's rows of its completion.
static void add_weight(const computation *c, const zr_completion *of, double weight)
{
    for (int64_t row = of->begin; c->weight && row < of->end; row++)
        c->weight[row] += is_completion(c->rows->roles[row]) ? (float)weight : 0;
}

static double mean_of(const zr_completion *of) { return of->log_probability / (double)of->length; }

static double gain_of(const zr_completion *of) { return of->log_probability - of->reference; }

static double reward_of(const computation *c, const zr_completion *of)
{
    return c->preference->beta *
           (zr_preference_has_reference(c->preference) ? gain_of(of) : mean_of(of));
}

static void add_reward(const computation *c, const zr_completion *of, double reward)
{
    int side = of->role == ZERO_ROLE_rejected;
    c->sums->rewards[side] += reward;
    c->sums->counted[side]++;
}

// Adds the loss of x, which grows by beta with each of the two, or with their means.
static void add_smoothed(const computation *c, const zr_completion *chosen,
                         const zr_completion *rejected, double x)
{
    const zr_preference *of = c->preference;
    bool means = !zr_preference_has_reference(of);
    double wrong = of->smoothing,
           slope = of->beta * (wrong * sigmoid(x) - (1 - wrong) * sigmoid(-x));
    c->sums->loss -= (1 - wrong) * log_sigmoid(x) + wrong * log_sigmoid(-x);
    add_weight(c, chosen, -slope / (means ? (double)chosen->length : 1));
    add_weight(c, rejected, slope / (means ? (double)rejected->length : 1));
}

static void add_dpo(const computation *c, const zr_completion *chosen,
                    const zr_completion *rejected)
{
    add_smoothed(c, chosen, rejected, c->preference->beta * (gain_of(chosen) - gain_of(rejected)));
}

static void add_simpo(const computation *c, const zr_completion *chosen,
                      const zr_completion *rejected)
{
    add_smoothed(c, chosen, rejected,
                 c->preference->beta * (mean_of(chosen) - mean_of(rejected)) -
                     c->preference->gamma);
}

// Adds the language loss: the mean over the document's rows that have a loss.
static void add_language_loss(const computation *c, const zr_completion *chosen)
{
    c->sums->loss += chosen->loss / (double)chosen->counted;
    for (int64_t row = chosen->begin; c->weight && row < chosen->end; row++)
        c->weight[row] += c->rows->roles[row] != ZERO_ROLE_none ? 1 / (float)chosen->counted : 0;
}

static void add_orpo(const computation *c, const zr_completion *chosen,
                     const zr_completion *rejected)
{
    double beta = c->preference->beta;
    double a = fmin(mean_of(chosen), CERTAIN), b = fmin(mean_of(rejected), CERTAIN);
    double odds = a - b - (log_of_rest(a) - log_of_rest(b)), slope = beta * sigmoid(-odds);
    c->sums->loss -= beta * log_sigmoid(odds);
    add_weight(c, chosen, slope / -expm1(a) / (double)chosen->length);
    add_weight(c, rejected, slope / expm1(b) / (double)rejected->length);
    add_language_loss(c, chosen);
}

static void add_pair(const computation *c, const zr_completion *chosen,
                     const zr_completion *rejected)
{
    static void (*const add[])(const computation *c, const zr_completion *chosen,
                               const zr_completion *rejected) = {
        [ZR_PREFERENCE_DPO] = add_dpo,
        [ZR_PREFERENCE_ORPO] = add_orpo,
        [ZR_PREFERENCE_SIMPO] = add_simpo,
    };
    double rewards[] = {reward_of(c, chosen), reward_of(c, rejected)};
    add_reward(c, chosen, rewards[0]);
    add_reward(c, rejected, rewards[1]);
    c->sums->pairs++;
    c->sums->correct += rewards[0] > rewards[1];
    add[c->preference->kind](c, chosen, rejected);
}

static zero_status refuse_lone(const zr_completion *of, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_DATA,
                   "the document at row %lld of a micro-batch has a %s completion and no %s one "
                   "next to it",
                   (long long)of->begin, of->role == ZERO_ROLE_chosen ? "chosen" : "rejected",
                   of->role == ZERO_ROLE_chosen ? "rejected" : "chosen");
}

static zero_status add_pairs(const computation *c, zero_error *error)
{
    zr_completion of, rejected;
    for (int64_t row = 0; row < c->rows->rows; row = of.end) {
        ZERO_TRY(zr_completion_read(c->rows, row, &of, error));
        if (of.role == ZERO_ROLE_none || of.role == ZERO_ROLE_mismatched)
            continue;
        if (of.role != ZERO_ROLE_chosen || of.end == c->rows->rows)
            return refuse_lone(&of, error);
        ZERO_TRY(zr_completion_read(c->rows, of.end, &rejected, error));
        if (rejected.role != ZERO_ROLE_rejected)
            return refuse_lone(&of, error);
        add_pair(c, &of, &rejected);
        of.end = rejected.end;
    }
    return ZERO_OK;
}

static zero_status find_baseline(computation *c, zero_error *error)
{
    zr_completion of;
    double sum = 0, count = 0;
    for (int64_t row = 0; row < c->rows->rows; row = of.end) {
        ZERO_TRY(zr_completion_read(c->rows, row, &of, error));
        sum += of.role == ZERO_ROLE_mismatched ? gain_of(&of) : 0;
        count += of.role == ZERO_ROLE_mismatched;
    }
    c->baseline = count > 0 ? fmax(sum / count, 0) : 0;
    return ZERO_OK;
}

static void add_example(const computation *c, const zr_completion *of)
{
    const zr_preference *preference = c->preference;
    double sign = of->role == ZERO_ROLE_chosen ? 1 : -1,
           weight = of->role == ZERO_ROLE_chosen ? preference->desirable : preference->undesirable,
           x = sign * preference->beta * (gain_of(of) - c->baseline);
    c->sums->pairs++;
    c->sums->loss += weight * sigmoid(-x);
    add_reward(c, of, reward_of(c, of));
    add_weight(c, of, weight * sign * preference->beta * sigmoid(x) * sigmoid(-x));
}

static zero_status add_examples(computation *c, zero_error *error)
{
    zr_completion of;
    ZERO_TRY(find_baseline(c, error));
    for (int64_t row = 0; row < c->rows->rows; row = of.end) {
        ZERO_TRY(zr_completion_read(c->rows, row, &of, error));
        if (of.role == ZERO_ROLE_chosen || of.role == ZERO_ROLE_rejected)
            add_example(c, &of);
    }
    return ZERO_OK;
}

zero_status zr_preference_compute(const zr_preference *preference, const zr_preference_rows *rows,
                                  float *weight, zr_preference_sums *out, zero_error *error)
{
    computation c = {.preference = preference, .rows = rows, .weight = weight, .sums = out};
    *out = (zr_preference_sums){0};
    for (int64_t row = 0; weight && row < rows->rows; row++)
        weight[row] = 0;
    return preference->kind == ZR_PREFERENCE_KTO ? add_examples(&c, error) : add_pairs(&c, error);
}
