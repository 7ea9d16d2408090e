// The losses of preferences as functions of rows: their values by the formulas of trl, written down
// here plainly, their weights by finite differences, and what is refused.
#include "layers/preference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 26 };

// Two windows. Of each document: the rows without a role, of prompt, and of the completion.
static const struct document {
    int none, prompt, completion;
    int32_t role;
    float reference;
} pairs[] = {{1, 2, 3, ZERO_ROLE_chosen, -5.25f}, {3, 0, 2, ZERO_ROLE_rejected, -3.5f},
             {0, 1, 1, ZERO_ROLE_chosen, -0.5f},  {0, 0, 4, ZERO_ROLE_rejected, -7},
             {2, 0, 0, ZERO_ROLE_none, 0},        {1, 0, 2, ZERO_ROLE_chosen, -9},
             {2, 0, 1, ZERO_ROLE_rejected, -1.5f}},
  examples[] = {{1, 0, 3, ZERO_ROLE_rejected, -5.25f}, {1, 0, 2, ZERO_ROLE_mismatched, -4},
                {2, 0, 4, ZERO_ROLE_chosen, -7},       {2, 0, 2, ZERO_ROLE_mismatched, -5.5f},
                {3, 0, 0, ZERO_ROLE_none, 0},          {1, 0, 3, ZERO_ROLE_chosen, -2},
                {1, 0, 1, ZERO_ROLE_mismatched, -2}};

typedef struct batch {
    int32_t positions[ROWS], roles[ROWS];
    float reference[ROWS], row_loss[ROWS], weight[ROWS];
    zr_preference_rows rows;
    zr_preference preference;
} batch;

static void add(batch *b, const struct document *of)
{
    int count = of->none + of->prompt + of->completion;
    for (int i = 0; i < count; i++) {
        int64_t row = b->rows.rows++;
        assert_true(row < ROWS);
        b->positions[row] = i;
        b->roles[row] = i < of->none                ? ZERO_ROLE_none
                        : i < of->none + of->prompt ? ZERO_ROLE_prompt
                                                    : of->role;
        b->reference[row] = of->reference;
        b->row_loss[row] = b->roles[row] ? 0.25f + (float)((row * 7) % 11) * 0.3f : 0;
    }
}

static void make(batch *b, const char *text)
{
    *b = (batch){.rows = {.positions = b->positions,
                          .roles = b->roles,
                          .reference = b->reference,
                          .row_loss = b->row_loss}};
    assert_int_equal(zr_preference_parse(text, "", &b->preference, NULL), ZERO_OK);
    bool kto = b->preference.kind == ZR_PREFERENCE_KTO;
    for (int i = 0; i < 7; i++)
        add(b, kto ? &examples[i] : &pairs[i]);
}

static zr_preference_sums compute(batch *b, float *weight)
{
    zr_preference_sums sums;
    zero_error error = {0};
    if (zr_preference_compute(&b->preference, &b->rows, weight, &sums, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return sums;
}

// ---- the formulas, plainly ----------------------------------------------------------------------

static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }

typedef struct plain { // of a document
    int32_t role;
    double log_probability, length, reference, loss, counted;
} plain;

static plain read(const batch *b, int number)
{
    plain out = {0};
    int at = -1;
    for (int row = 0; row < b->rows.rows; row++) {
        at += b->positions[row] == 0;
        int32_t role = at == number ? b->roles[row] : ZERO_ROLE_none;
        if (!role)
            continue;
        out.loss += b->row_loss[row];
        out.counted++;
        out.reference = b->reference[row];
        if (role == ZERO_ROLE_prompt)
            continue;
        out.role = role;
        out.length++;
        out.log_probability -= b->row_loss[row];
    }
    return out;
}

static double pair_of(const zr_preference *p, const plain *c, const plain *r)
{
    double mean_c = c->log_probability / c->length, mean_r = r->log_probability / r->length, x;
    if (p->kind == ZR_PREFERENCE_ORPO) {
        x = mean_c - mean_r - (log(1 - exp(mean_c)) - log(1 - exp(mean_r)));
        return c->loss / c->counted - p->beta * log(sigmoid_of(x));
    }
    x = p->kind == ZR_PREFERENCE_SIMPO
            ? p->beta * (mean_c - mean_r - p->gamma / p->beta)
            : p->beta * (c->log_probability - r->log_probability - (c->reference - r->reference));
    return -log(sigmoid_of(x)) * (1 - p->smoothing) - log(sigmoid_of(-x)) * p->smoothing;
}

static double plain_loss(const batch *b)
{
    const zr_preference *p = &b->preference;
    double sum = 0, baseline = 0, mismatched = 0;
    plain of[7];
    for (int i = 0; i < 7; i++) {
        of[i] = read(b, i);
        if (of[i].role == ZERO_ROLE_mismatched) {
            baseline += of[i].log_probability - of[i].reference;
            mismatched++;
        }
    }
    baseline = mismatched > 0 ? fmax(0, baseline / mismatched) : 0;
    for (int i = 0; i < 7; i++) {
        double gain = of[i].log_probability - of[i].reference;
        if (p->kind != ZR_PREFERENCE_KTO && of[i].role == ZERO_ROLE_chosen)
            sum += pair_of(p, &of[i], &of[i + 1]);
        else if (p->kind == ZR_PREFERENCE_KTO && of[i].role == ZERO_ROLE_chosen)
            sum += p->desirable * (1 - sigmoid_of(p->beta * (gain - baseline)));
        else if (p->kind == ZR_PREFERENCE_KTO && of[i].role == ZERO_ROLE_rejected)
            sum += p->undesirable * (1 - sigmoid_of(p->beta * (baseline - gain)));
    }
    return sum;
}

// ---- tests --------------------------------------------------------------------------------------

static const char *const texts[] = {"dpo",   "dpo,beta=1.5,smoothing=0.2",
                                    "orpo",  "orpo,beta=0.7,prompt_loss=false",
                                    "simpo", "simpo,beta=1.25,gamma=0.4,smoothing=0.1",
                                    "kto",   "kto,beta=0.6,desirable=1.5,undesirable=0.25"};

static void losses_are_those_of_the_formulas(void **state)
{
    for (int t = 0; t < (int)(sizeof texts / sizeof *texts); t++) {
        batch b;
        make(&b, texts[t]);
        zr_preference_sums sums = compute(&b, NULL);
        if (!(fabs(sums.loss - plain_loss(&b)) <= 1e-12 * fabs(sums.loss)))
            fail_msg("%s: loss %.15g, not %.15g", texts[t], sums.loss, plain_loss(&b));
        assert_int_equal(sums.pairs, 3);
    }
}

// The baseline of KTO is a constant: its rows weigh nothing.
static void weights_are_the_slopes(void **state)
{
    const float step = 0x1p-7f;
    for (int t = 0; t < (int)(sizeof texts / sizeof *texts); t++) {
        batch b;
        make(&b, texts[t]);
        compute(&b, b.weight);
        for (int row = 0; row < b.rows.rows; row++) {
            float kept = b.row_loss[row];
            b.row_loss[row] = kept + step;
            double up = compute(&b, NULL).loss;
            b.row_loss[row] = kept - step;
            double down = compute(&b, NULL).loss, slope = (up - down) / (2 * step);
            b.row_loss[row] = kept;
            if (b.roles[row] == ZERO_ROLE_mismatched || !b.roles[row])
                slope = 0;
            if (!(fabs(b.weight[row] - slope) <= 2e-4 * fabs(slope) + 1e-7))
                fail_msg("%s, row %d: weight %.9g, slope %.9g", texts[t], row,
                         (double)b.weight[row], slope);
        }
    }
}

static void rewards_are_counted(void **state)
{
    batch b;
    make(&b, "dpo,beta=2");
    zr_preference_sums sums = compute(&b, NULL);
    double rewards[2] = {0}, correct = 0;
    for (int i = 0; i < 7; i++) {
        plain of = read(&b, i);
        if (of.role)
            rewards[of.role == ZERO_ROLE_rejected] += 2 * (of.log_probability - of.reference);
        if (of.role == ZERO_ROLE_chosen) {
            plain other = read(&b, i + 1);
            correct += of.log_probability - of.reference > other.log_probability - other.reference;
        }
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sums.counted[i], 3);
        assert_true(fabs(sums.rewards[i] - rewards[i]) < 1e-12);
    }
    assert_int_equal(sums.correct, (int)correct);
    assert_true(correct > 0 && correct < 3);
    // A tie is no success, as in trl.
    for (int row = 0; row < b.rows.rows; row++)
        b.row_loss[row] = b.reference[row] = 0;
    assert_int_equal(compute(&b, NULL).correct, 0);
}

// The baseline is a mean that is cut at 0, and there may be nothing to take it of.
static void the_baseline_of_kto(void **state)
{
    batch b;
    make(&b, "kto,beta=1");
    double with = compute(&b, NULL).loss;
    for (int row = 0; row < b.rows.rows; row++)
        if (b.roles[row] == ZERO_ROLE_mismatched)
            b.row_loss[row] += 100; // far below 0
    double cut = compute(&b, NULL).loss;
    for (int row = 0; row < b.rows.rows; row++)
        b.roles[row] = b.roles[row] == ZERO_ROLE_mismatched ? ZERO_ROLE_none : b.roles[row];
    assert_true(compute(&b, NULL).loss == cut);
    for (int row = 0; row < b.rows.rows; row++)
        assert_true(isfinite(b.weight[row]));
    assert_true(with != cut);
}

// fp32 may say that a completion is certain, and its odds are not finite then.
static void certain_completions(void **state)
{
    batch b;
    make(&b, "orpo");
    memset(b.row_loss, 0, sizeof b.row_loss);
    assert_true(isfinite(compute(&b, b.weight).loss));
    for (int row = 0; row < b.rows.rows; row++)
        assert_true(isfinite(b.weight[row]));
}

static void no_pair_has_no_loss(void **state)
{
    batch b;
    for (int t = 0; t < (int)(sizeof texts / sizeof *texts); t++) {
        make(&b, texts[t]);
        memset(b.roles, 0, sizeof b.roles);
        zr_preference_sums sums = compute(&b, b.weight);
        assert_true(sums.pairs == 0 && sums.loss == 0);
        for (int row = 0; row < b.rows.rows; row++)
            assert_true(b.weight[row] == 0);
    }
}

static void refused(batch *b, const char *what)
{
    zr_preference_sums sums;
    zero_error error = {0};
    assert_int_equal(zr_preference_compute(&b->preference, &b->rows, b->weight, &sums, &error),
                     ZERO_ERR_DATA);
    if (!strstr(error.message, what))
        fail_msg("\"%s\" lacks \"%s\"", error.message, what);
}

static void what_makes_no_pairs_is_refused(void **state)
{
    batch b;
    make(&b, "dpo");
    for (int row = 6; row < 11; row++) // the rejected one of the first pair
        b.roles[row] = ZERO_ROLE_none;
    refused(&b, "at row 0 of a micro-batch has a chosen completion and no rejected one");
    make(&b, "simpo");
    for (int row = 0; row < 6; row++)
        b.roles[row] = ZERO_ROLE_none;
    refused(&b, "at row 6 of a micro-batch has a rejected completion and no chosen one");
    make(&b, "orpo");
    b.rows.rows = 6;
    refused(&b, "at row 0 of a micro-batch has a chosen completion");
    make(&b, "kto");
    b.roles[2] = ZERO_ROLE_chosen;
    refused(&b, "row 2 of a micro-batch has the role 1");
    make(&b, "dpo");
    b.roles[4] = 7;
    refused(&b, "row 4 of a micro-batch has the role 7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_are_those_of_the_formulas),
        cmocka_unit_test(weights_are_the_slopes),
        cmocka_unit_test(rewards_are_counted),
        cmocka_unit_test(the_baseline_of_kto),
        cmocka_unit_test(certain_completions),
        cmocka_unit_test(no_pair_has_no_loss),
        cmocka_unit_test(what_makes_no_pairs_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
