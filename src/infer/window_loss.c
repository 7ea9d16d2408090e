#include "infer/window_loss.h"

#include "base/numbers.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"

enum { ROUNDS_OF_STAGE = 4 };

typedef struct reader {
    zero_engine *engine;
    const zr_dataset *dataset;
    int64_t batch, batches, used; // windows of a batch; batches of the text; those that are read
    zr_rows rows;                 // (batch, seq)
    zr_exact sum;                 // of mean loss x targets that count, in units of windows
    int64_t windows, counted;     // counted: targets that count
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
    int32_t *const data[] = {of.tokens, of.targets, of.positions};
    zero_tensors batch = {.count = of.positions ? 3 : 2};
    for (int i = 0; i < batch.count; i++)
        batch.at[i] =
            (zero_tensor){.data = data[i], .dtype = ZERO_I32, .dims = 2, .shape = {rows, seq}};
    return batch;
}

zero_status zr_windows_alloc(const zr_dataset *dataset, int64_t rows, zr_rows *out,
                             zero_error *error)
{
    size_t bytes = (size_t)(rows * dataset->seq) * sizeof(int32_t);
    *out = (zr_rows){.tokens = zr_alloc(bytes, error), .targets = zr_alloc(bytes, error)};
    if (dataset->documents)
        out->positions = zr_alloc(bytes, error);
    return out->tokens && out->targets && (out->positions || !dataset->documents) ? ZERO_OK
                                                                                  : ZERO_ERR_MEMORY;
}

void zr_windows_free(zr_rows *rows)
{
    zr_free(rows->tokens);
    zr_free(rows->targets);
    zr_free(rows->positions);
    *rows = (zr_rows){0};
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

// Evaluates the n-th of the batches that are used, which are spread evenly over all batches.
static zero_status evaluate_batch(reader *r, int64_t n, bool counts, zero_error *error)
{
    int64_t seq = r->dataset->seq, first = n * r->batches / r->used * r->batch;
    int64_t count = ZR_MIN(r->batch, zr_dataset_eval_windows(r->dataset) - first);
    zr_dataset_eval_batch(r->dataset, first, count, r->rows);
    ZERO_TRY(zr_windows_check_files(zr_engine_comm(r->engine), r->dataset, error));
    const zero_tensors input = zr_windows_batch(r->rows, count, seq);
    double loss;
    ZERO_TRY(zr_engine_evaluate(r->engine, &input, &loss, error));
    if (counts && is_last_stage(r->engine)) {
        int64_t tokens = zr_count_targets(r->rows.targets, count * seq);
        // This weight is just the number of windows if no target is masked.
        zr_exact_add(&r->sum, loss * ((double)tokens / (double)seq));
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
    zero_status status = zr_windows_alloc(r->dataset, r->batch, &r->rows, error);
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
    return zr_comm_broadcast(pipeline, &r->counted, (int64_t)sizeof r->counted, last, error);
}

static zero_status sum_over_ranks(reader *r, zero_error *error)
{
    zero_comm *comm = zr_engine_grid(r->engine)->data;
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->sum, ZR_EXACT_WORDS, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->windows, 1, ZERO_I64, ZR_SUM, error));
    ZERO_TRY(zr_comm_all_reduce_small(comm, &r->counted, 1, ZERO_I64, ZR_SUM, error));
    return share_sums(r, error);
}

zero_status zr_windows_loss(zero_engine *engine, const zr_dataset *dataset, int64_t batch,
                            int64_t most, const zr_windows_leave *leave, zr_windows_result *out,
                            zero_error *error)
{
    int64_t batches = (zr_dataset_eval_windows(dataset) + batch - 1) / batch;
    reader r = {
        .engine = engine,
        .dataset = dataset,
        .batch = batch,
        .batches = batches,
        .used = most > 0 ? ZR_MIN(most, batches) : batches,
        .leave = leave,
    };
    zr_exact_zero(&r.sum);
    ZERO_TRY(evaluate_with_buffers(&r, error));
    ZERO_TRY(sum_over_ranks(&r, error));
    double counted = (double)r.counted / (double)dataset->seq;
    *out = (zr_windows_result){
        .loss = r.counted ? zr_exact_value(&r.sum) / counted : 0,
        .windows = r.windows,
        .tokens = r.counted,
        .left = r.left,
    };
    return ZERO_OK;
}
