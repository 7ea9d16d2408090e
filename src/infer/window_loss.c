#include "infer/window_loss.h"

#include "base/numbers.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"
#include "layers/layers.h"

#include <math.h>
#include <string.h>

enum { ROUNDS_OF_STAGE = 4, SHARED_AT_ONCE = ZR_COMM_SMALL_BYTES / sizeof(zr_text_score) };
enum { SCORE_FLOATS = sizeof(zr_text_score) / sizeof(float) };

typedef struct preferred { // sums over pairs
    zr_exact rewards[2];   // of chosen answers, and of rejected ones
    int64_t counts[4];     // of these; pairs; pairs whose chosen answer has the larger reward
} preferred;
enum { PAIRS = 2, CORRECT };

typedef struct reader {
    zero_engine *engine;
    const zr_dataset *dataset;
    int64_t batch, batches, used; // windows of a batch; batches of the text; those that are read
    zr_rows rows;                 // (batch, seq)
    zr_exact sum;                 // of mean loss x targets that count, in units of windows
    int64_t windows, counted;     // counted: targets that count
    // Of preferences, else NULL: `sum` is of the losses of pairs.
    const zr_preference *preference;
    preferred preferred;
    int64_t labels, correct; // of a model with labels: their number; texts that got theirs
    int64_t room;            // rows that rows.scores has room for
    zr_text_score *scores;   // (zr_dataset_examples), or NULL
    const zr_windows_leave *leave;
    int64_t left;
} reader;

zero_status zr_windows_check_files(zero_comm *comm, const zr_dataset *dataset, zero_error *error)
{
    zero_status status = zr_dataset_check_files(dataset, error);
    if (status != ZERO_OK)
        zero_comm_abort(comm, error->message);
    return status;
}

zero_tensors zr_windows_batch(zr_rows of, int64_t rows, int64_t seq)
{
    void *const data[] = {of.tokens, of.targets, of.positions, of.roles, of.reference, of.losses};
    zero_tensors batch = {.count = 0};
    for (; batch.count < ZR_COUNT(data) && data[batch.count]; batch.count++)
        batch.at[batch.count] = (zero_tensor){.data = data[batch.count],
                                              .dtype = batch.count < 4 ? ZERO_I32 : ZERO_F32,
                                              .dims = 2,
                                              .shape = {rows, seq}};
    if (of.scored)
        batch.at[batch.count++] = (zero_tensor){
            .data = of.scores, .dtype = ZERO_F32, .dims = 2, .shape = {of.scored, of.labels}};
    return batch;
}

zero_status zr_windows_alloc(const zr_dataset *dataset, int64_t rows, zr_rows *out,
                             zero_error *error)
{
    size_t bytes = (size_t)(rows * dataset->seq) * sizeof(int32_t);
    *out = (zr_rows){.tokens = zr_alloc(bytes, error), .targets = zr_alloc(bytes, error)};
    bool had = out->tokens && out->targets;
    if (had && dataset->documents)
        had = (out->positions = zr_alloc(bytes, error)) != NULL;
    if (had && dataset->preferences)
        had = (out->roles = zr_alloc(bytes, error)) != NULL &&
              (out->reference = zr_alloc(bytes, error)) != NULL;
    return had ? ZERO_OK : ZERO_ERR_MEMORY;
}

zero_status zr_windows_alloc_losses(const zr_dataset *dataset, int64_t rows, zr_rows *out,
                                    zero_error *error)
{
    ZERO_TRY(zr_windows_alloc(dataset, rows, out, error));
    if (!dataset->preferences)
        return ZERO_OK;
    out->losses = zr_alloc((size_t)(rows * dataset->seq) * sizeof *out->losses, error);
    return out->losses ? ZERO_OK : ZERO_ERR_MEMORY;
}

void zr_windows_free(zr_rows *rows)
{
    zr_free(rows->tokens);
    zr_free(rows->targets);
    zr_free(rows->positions);
    zr_free(rows->roles);
    zr_free(rows->reference);
    zr_free(rows->losses);
    zr_free(rows->scores);
    *rows = (zr_rows){0};
}

zr_preference_rows zr_windows_preference_rows(zr_rows of, int64_t rows)
{
    return (zr_preference_rows){.rows = rows,
                                .positions = of.positions,
                                .roles = of.roles,
                                .reference = of.reference,
                                .row_loss = of.losses};
}

static int count_stages(zero_engine *engine)
{
    return zr_engine_grid(engine)->mesh.size[ZERO_AXIS_pipeline];
}

// Says whether this rank gets the losses: that of a pipeline's last stage does.
static bool is_last_stage(zero_engine *engine)
{
    return zr_engine_grid(engine)->mesh.place[ZERO_AXIS_pipeline] == count_stages(engine) - 1;
}

// Returns the weight of a batch's mean loss: the number of windows if no target is masked.
static double target_share(const reader *r, int64_t count)
{
    int64_t seq = r->dataset->seq;
    return (double)zr_count_targets(r->rows.targets, count * seq) / (double)seq;
}

// Adds up the pairs of a batch, of whose rows the last unit has written the losses.
static zero_status add_pairs(reader *r, int64_t count, zero_error *error)
{
    const zr_preference_rows rows = zr_windows_preference_rows(r->rows, count * r->dataset->seq);
    zr_preference_sums sums;
    ZERO_TRY(zr_preference_compute(r->preference, &rows, NULL, &sums, error));
    zr_exact_add(&r->sum, sums.loss);
    for (int i = 0; i < ZR_COUNT(sums.rewards); i++) {
        zr_exact_add(&r->preferred.rewards[i], sums.rewards[i]);
        r->preferred.counts[i] += sums.counted[i];
    }
    r->preferred.counts[PAIRS] += sums.pairs;
    r->preferred.counts[CORRECT] += sums.correct;
    return ZERO_OK;
}

// Returns the label with the largest logit; -1 if one is not finite.
static int64_t find_largest(const float *scores, int64_t count)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(scores[i]))
            return -1;
        largest = scores[i] > scores[largest] ? i : largest;
    }
    return largest;
}

static float probability_of(const float *scores, int64_t count, int64_t label)
{
    double sum = 0;
    if (label < 0)
        return NAN;
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)scores[i] - (double)scores[label]);
    return (float)(1 / sum);
}

// Keeps the score of the text whose last token a row of a window is.
static zero_status keep_score(const reader *r, int64_t window, int64_t row,
                              const zr_text_score *score, zero_error *error)
{
    int64_t example = zr_dataset_example_of(r->dataset, window, row);
    if (example < 0)
        return zr_fail(error, ZERO_ERR_INTERNAL,
                       "row %lld of window %lld has a label as its target, and is of no text",
                       (long long)row, (long long)window);
    r->scores[example] = *score;
    return ZERO_OK;
}

// Looks at the texts of a batch, from window `first` on: counts those to whose label the last unit
// has given the largest logit.
static zero_status judge_texts(reader *r, int64_t first, int64_t rows, zero_error *error)
{
    int64_t seq = r->dataset->seq;
    const float *scores = r->rows.scores;
    for (int64_t row = 0; row < rows; row++) {
        int32_t label = r->rows.targets[row];
        if (label < 0)
            continue;
        int64_t predicted = find_largest(scores, r->labels);
        r->correct += predicted == label;
        const zr_text_score score = {.read = 1,
                                     .label = (float)label,
                                     .predicted = (float)predicted,
                                     .probability = probability_of(scores, r->labels, predicted)};
        if (r->scores)
            ZERO_TRY(keep_score(r, first + row / seq, row % seq, &score, error));
        scores += r->labels;
    }
    return ZERO_OK;
}

// Adds up what each tensor rank has written: the logits of its own labels, and 0 for others.
static zero_status join_scores(reader *r, zero_error *error)
{
    zero_comm *tensor = zr_engine_grid(r->engine)->tensor;
    if (!tensor || tensor->size == 1 || !is_last_stage(r->engine))
        return ZERO_OK;
    for (int64_t i = 0; i < r->rows.scored; i++)
        ZERO_TRY(zr_comm_all_reduce_small(tensor, r->rows.scores + i * r->labels, r->labels,
                                          ZERO_F32, ZR_SUM, error));
    return ZERO_OK;
}

// Makes room for the logits of those of the rows that have a target, all 0.
static zero_status reserve_scores(reader *r, int64_t rows, zero_error *error)
{
    size_t row_bytes = (size_t)r->labels * sizeof *r->rows.scores;
    int64_t scored = zr_count_targets(r->rows.targets, rows);
    if (scored > r->room) {
        zr_free(r->rows.scores);
        r->room = 0;
        r->rows.scores = zr_alloc((size_t)scored * row_bytes, error);
        if (!r->rows.scores)
            return ZERO_ERR_MEMORY;
        r->room = scored;
    }
    if (scored)
        memset(r->rows.scores, 0, (size_t)scored * row_bytes);
    r->rows.scored = scored;
    r->rows.labels = r->labels;
    return ZERO_OK;
}

// Evaluates the n-th of the batches that are used, which are spread evenly over all batches.
static zero_status evaluate_batch(reader *r, int64_t n, bool counts, zero_error *error)
{
    int64_t seq = r->dataset->seq, first = n * r->batches / r->used * r->batch;
    int64_t count = ZR_MIN(r->batch, zr_dataset_eval_windows(r->dataset) - first);
    zr_dataset_eval_batch(r->dataset, first, count, r->rows);
    ZERO_TRY(zr_windows_check_files(zr_engine_comm(r->engine), r->dataset, error));
    if (r->labels)
        ZERO_TRY(reserve_scores(r, count * seq, error));
    const zero_tensors input = zr_windows_batch(r->rows, count, seq);
    double loss;
    ZERO_TRY(zr_engine_evaluate(r->engine, &input, &loss, error));
    if (r->labels)
        ZERO_TRY(join_scores(r, error));
    if (counts && is_last_stage(r->engine)) {
        if (r->preference)
            ZERO_TRY(add_pairs(r, count, error));
        else
            zr_exact_add(&r->sum, loss * target_share(r, count));
        if (r->labels)
            ZERO_TRY(judge_texts(r, first, count * seq, error));
        int64_t tokens = zr_count_targets(r->rows.targets, count * seq);
        r->windows += count;
        r->counted += tokens;
    }
    return ZERO_OK;
}

// Evaluates all batches. A rank that has no batch left takes part with one that does not count,
// because evaluating is collective. Tensor ranks, and those of a pipeline, read the same batch; a
// pipeline is full of batches between two questions whether to leave.
static zero_status evaluate_batches(reader *r, zero_error *error)
{
    zero_comm *comm = zr_engine_comm(r->engine);
    const zero_comm *data = zr_engine_grid(r->engine)->data;
    int stages = count_stages(r->engine);
    int64_t between = stages > 1 ? ROUNDS_OF_STAGE * stages : 1;
    for (int64_t round = 0; round * data->size < r->used; round++) {
        if (r->leave && round % between == 0) {
            r->left = r->leave->wanted(r->leave->user);
            ZERO_TRY(zr_comm_agree_on_largest(comm, &r->left, error));
        }
        if (r->left)
            break;
        int64_t n = round * data->size + data->rank;
        ZERO_TRY(evaluate_batch(r, n < r->used ? n : 0, n < r->used, error));
    }
    return ZERO_OK;
}

static zero_status evaluate_with_buffers(reader *r, zero_error *error)
{
    zero_status status = zr_windows_alloc_losses(r->dataset, r->batch, &r->rows, error);
    if (status == ZERO_OK)
        status = evaluate_batches(r, error);
    zr_windows_free(&r->rows);
    return status;
}

// Tells the other stages of the pipeline what the last one has.
static zero_status share_sums(reader *r, zero_error *error)
{
    zero_comm *pipeline = zr_engine_grid(r->engine)->pipeline;
    if (!pipeline)
        return ZERO_OK;
    int last = pipeline->size - 1;
    ZERO_TRY(zr_comm_broadcast(pipeline, &r->sum, (int64_t)sizeof r->sum, last, error));
    ZERO_TRY(zr_comm_broadcast(pipeline, &r->windows, (int64_t)sizeof r->windows, last, error));
    if (r->preference)
        ZERO_TRY(
            zr_comm_broadcast(pipeline, &r->preferred, (int64_t)sizeof r->preferred, last, error));
    ZERO_TRY(zr_comm_broadcast(pipeline, &r->correct, (int64_t)sizeof r->correct, last, error));
    return zr_comm_broadcast(pipeline, &r->counted, (int64_t)sizeof r->counted, last, error);
}

static zero_status sum_over_ranks(reader *r, zero_error *error)
{
    zero_comm *comm = zr_engine_grid(r->engine)->data;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->sum, ZR_EXACT_WORDS, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->windows, 1, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->counted, 1, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->correct, 1, ZERO_I64, ZR_SUM, error));
    if (r->preference)
        ZERO_TRY(zr_comm_all_reduce_small(comm, &r->preferred,
                                          (int64_t)(sizeof r->preferred / sizeof(int64_t)),
                                          ZERO_I64, ZR_SUM, error));
    return share_sums(r, error);
}

// Adds up scores: each rank has those that it has read, and zeros for others.
static zero_status share_scores(reader *r, zero_error *error)
{
    const zr_grid *grid = zr_engine_grid(r->engine);
    int64_t count = zr_dataset_examples(r->dataset), n;
    for (int64_t at = 0; r->scores && at < count; at += n) {
        zr_text_score *scores = r->scores + at;
        n = ZR_MIN(count - at, (int64_t)SHARED_AT_ONCE);
        ZERO_TRY(zr_comm_all_reduce_small(grid->data, scores, n * SCORE_FLOATS, ZERO_F32, ZR_SUM,
                                          error));
        if (grid->pipeline)
            ZERO_TRY(zr_comm_broadcast(grid->pipeline, scores, n * (int64_t)sizeof *scores,
                                       grid->pipeline->size - 1, error));
    }
    return ZERO_OK;
}

static double accuracy_of(const reader *r)
{
    const int64_t *counts = r->preferred.counts;
    if (r->labels)
        return r->counted ? (double)r->correct / (double)r->counted : NAN;
    bool pairs = r->preference && r->preference->kind != ZR_PREFERENCE_KTO && counts[PAIRS];
    return pairs ? (double)counts[CORRECT] / (double)counts[PAIRS] : NAN;
}

static double margin_of(const preferred *of)
{
    if (!of->counts[0] || !of->counts[1])
        return NAN;
    return zr_exact_value(&of->rewards[0]) / (double)of->counts[0] -
           zr_exact_value(&of->rewards[1]) / (double)of->counts[1];
}

// Measures with a reader that says what is read.
static zero_status measure(reader *r, int64_t most, zr_windows_result *out, zero_error *error)
{
    const zr_lm_config *model = zr_lm_config_of(zr_engine_plan(r->engine)->model);
    r->batches = (zr_dataset_eval_windows(r->dataset) + r->batch - 1) / r->batch;
    r->used = most > 0 ? ZR_MIN(most, r->batches) : r->batches;
    zr_exact_zero(&r->sum);
    if (model && model->preference.kind && r->dataset->preferences)
        r->preference = &model->preference;
    r->labels = model ? model->labels.count : 0;
    ZERO_TRY(evaluate_with_buffers(r, error));
    ZERO_TRY(sum_over_ranks(r, error));
    ZERO_TRY(share_scores(r, error));
    double counted = r->preference ? (double)r->preferred.counts[PAIRS]
                                   : (double)r->counted / (double)r->dataset->seq;
    *out = (zr_windows_result){
        .loss = counted > 0 ? zr_exact_value(&r->sum) / counted : 0,
        .windows = r->windows,
        .tokens = r->counted,
        .left = r->left,
        .pairs = r->labels ? r->counted : r->preferred.counts[PAIRS],
        .accuracy = accuracy_of(r),
        .margin = margin_of(&r->preferred),
    };
    return ZERO_OK;
}

zero_status zr_windows_loss(zero_engine *engine, const zr_dataset *dataset, int64_t batch,
                            int64_t most, const zr_windows_leave *leave, zr_windows_result *out,
                            zero_error *error)
{
    reader r = {.engine = engine, .dataset = dataset, .batch = batch, .leave = leave};
    return measure(&r, most, out, error);
}

zero_status zr_windows_label(zero_engine *engine, const zr_dataset *dataset, int64_t batch,
                             zr_text_score *scores, zr_windows_result *out, zero_error *error)
{
    reader r = {.engine = engine, .dataset = dataset, .batch = batch, .scores = scores};
    return measure(&r, 0, out, error);
}
