// The reference of a training on preferences: what the model, as it is now, gives to each answer
// of a dataset. Batches of windows are divided among the data ranks, and every rank gets all
// numbers, so they are the same on any number of ranks.
#include "infer/window_loss.h"

#include "base/alloc.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "engine/rank_grid.h"

#include <string.h>

typedef struct reference {
    zero_engine *engine;
    zr_dataset *dataset;
    int64_t batch, windows;
    zr_rows rows;   // (batch, seq)
    float *answers; // (batch, seq) of the documents of a batch, in their order
} reference;

static bool has_losses(const zr_grid *grid)
{
    return grid->mesh.place[ZERO_AXIS_pipeline] == grid->mesh.size[ZERO_AXIS_pipeline] - 1;
}

// Computes batch n, or, if there is none, takes part in it for the other ranks.
static zero_status compute_batch(reference *r, int64_t n, int64_t count, zero_error *error)
{
    int64_t seq = r->dataset->seq;
    double loss;
    zr_dataset_eval_batch(r->dataset, n * r->batch, count, r->rows);
    const zero_tensors input = zr_windows_batch(r->rows, count, seq);
    return zr_engine_evaluate(r->engine, &input, &loss, error);
}

static zero_status read_answers(reference *r, int64_t count, zero_error *error)
{
    const zr_preference_rows rows = zr_windows_preference_rows(r->rows, count * r->dataset->seq);
    zr_completion of;
    int64_t documents = 0;
    for (int64_t row = 0; row < rows.rows; row = of.end) {
        ZERO_TRY(zr_completion_read(&rows, row, &of, error));
        if (of.role != ZERO_ROLE_none)
            r->answers[documents++] = (float)of.log_probability;
    }
    return ZERO_OK;
}

// Writes the numbers of a batch's answers, which stand in the order of its windows.
static void keep_answers(reference *r, int64_t n, int64_t count)
{
    const float *from = r->answers;
    for (int64_t w = n * r->batch; w < n * r->batch + count; w++) {
        const zr_token_window window = zr_dataset_eval_window(r->dataset, w);
        zr_stream *stream = &r->dataset->streams[window.stream];
        const zr_packing *packing = &stream->packing;
        for (int64_t i = packing->begins[window.first]; i < packing->begins[window.first + 1]; i++)
            stream->references[packing->numbers[i]] = *from++;
    }
}

static int64_t count_of(const reference *r, int64_t n)
{
    return ZR_MIN(r->batch, r->windows - n * r->batch);
}

// Every rank gets the numbers of the batches that the data ranks have computed.
static zero_status share_round(reference *r, int64_t first, int64_t batches, zero_error *error)
{
    const zr_grid *grid = zr_engine_grid(r->engine);
    zero_comm *data = grid->data, *pipeline = grid->pipeline;
    int64_t bytes = r->batch * r->dataset->seq * (int64_t)sizeof *r->answers;
    if (pipeline)
        ZERO_TRY(zr_comm_broadcast(pipeline, r->answers, bytes, pipeline->size - 1, error));
    float *own = zr_alloc((size_t)bytes, error);
    if (!own)
        return ZERO_ERR_MEMORY;
    memcpy(own, r->answers, (size_t)bytes);
    zero_status status = ZERO_OK;
    for (int rank = 0; rank < data->size && first + rank < batches && status == ZERO_OK; rank++) {
        memcpy(r->answers, own, (size_t)bytes);
        status = zr_comm_broadcast(data, r->answers, bytes, rank, error);
        if (status == ZERO_OK)
            keep_answers(r, first + rank, count_of(r, first + rank));
    }
    zr_free(own);
    return status;
}

// Tells the caller how far this is, and ends if it wants that on any rank.
static zero_status tell(const reference *r, const zr_windows_watch *watch, int64_t done,
                        zero_error *error)
{
    int64_t ends;
    if (!watch)
        return ZERO_OK;
    ends = watch->ended(watch->user, done);
    ZERO_TRY(zr_comm_agree_on_largest(zr_engine_comm(r->engine), &ends, error));
    return ends ? ZERO_ERR_STOPPED : ZERO_OK;
}

static zero_status compute_all(reference *r, const zr_windows_watch *watch, zero_error *error)
{
    const zr_grid *grid = zr_engine_grid(r->engine);
    int64_t batches = (r->windows + r->batch - 1) / r->batch, size = grid->data->size;
    for (int64_t first = 0; first < batches; first += size) {
        int64_t mine = first + grid->data->rank, n = mine < batches ? mine : 0;
        ZERO_TRY(compute_batch(r, n, count_of(r, n), error));
        if (has_losses(grid))
            ZERO_TRY(read_answers(r, count_of(r, n), error));
        ZERO_TRY(share_round(r, first, batches, error));
        ZERO_TRY(tell(r, watch, ZR_MIN((first + size) * r->batch, r->windows), error));
    }
    return ZERO_OK;
}

zero_status zr_windows_reference(zero_engine *engine, zr_dataset *dataset, int64_t batch,
                                 const zr_windows_watch *watch, zero_error *error)
{
    reference r = {.engine = engine,
                   .dataset = dataset,
                   .batch = batch,
                   .windows = zr_dataset_eval_windows(dataset)};
    size_t rows = (size_t)(batch * dataset->seq);
    zero_status status = zr_windows_alloc_losses(dataset, batch, &r.rows, error);
    r.answers = status == ZERO_OK ? zr_alloc(rows * sizeof *r.answers, error) : NULL;
    if (status == ZERO_OK)
        status = r.answers ? compute_all(&r, watch, error) : ZERO_ERR_MEMORY;
    zr_free(r.answers);
    zr_windows_free(&r.rows);
    return status;
}
