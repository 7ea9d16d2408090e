// A model of one's own whose layers are split over tensor ranks (Megatron-LM, arXiv 1909.08053).
//
//   build/zero run --ranks 4 build/examples/split [TENSOR] [STEPS]
//
// Two blocks y = V h + b of h = relu(W x), and a loss. Of TENSOR ranks, each has a part of h: some
// rows of W, and the same columns of V; b is on all of them. What each gives of V h is summed in
// forward, and what each gives of the gradient of x in backward.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zero/zero.h>

enum { BLOCKS = 2, BATCH = 16, WIDTH = 8, INNER = 48 };
static const char *const names[BLOCKS][3] = {{"0.w", "0.v", "0.b"}, {"1.w", "1.v", "1.b"}};
static const char *const units[BLOCKS] = {"block.0", "block.1"};

typedef struct net {  // a whole model, or the part of it that one of `ranks` tensor ranks holds
    int ranks, inner; // inner: the part of the inner width
    zero_tensor_desc tensors[BLOCKS][3];
    zero_flat_param_desc flat_params[BLOCKS][2]; // {W, V}, {b}
    zero_unit units[BLOCKS + 1];
    zero_model model;
} net;

// c(m,n) = a(m,k) b(k,n). c is dense; rows of a lie am apart and its columns ak, those of b bk, bn.
static void multiply(int64_t m, int64_t n, int64_t k, const float *a, int64_t am, int64_t ak,
                     const float *b, int64_t bk, int64_t bn, float *c)
{
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    for (int64_t i = 0; i < m * n; i++)
        for (int64_t l = 0; l < k; l++)
            c[i] += a[i / n * am + l * ak] * b[l * bk + i % n * bn];
}

// Lists the sums that forward and backward make, by the elements of one of P shares. The first
// block makes none in backward, because nobody wants the gradient of the batch.
static zero_status block_sizes(const zero_unit *unit, const zero_shape *shape,
                               const zero_tensors *in, zero_unit_sizes *out)
{
    const net *n = unit->hyper;
    int64_t share = (shape->batch * WIDTH + n->ranks - 1) / n->ranks;
    *out = (zero_unit_sizes){
        .out = {1, {{.dtype = ZERO_F32, .dims = 2, .shape = {shape->batch, WIDTH}}}},
        .saved_bytes = (size_t)(shape->batch * n->inner) * sizeof(float),
        .workspace_bytes = (size_t)(shape->batch * n->inner) * sizeof(float),
        .backward_reads = 1, // bit 0: flat parameter 0, W and V
        .exchange_count = in->count ? 2 : 1,
        .exchanges = {{ZERO_EXCHANGE_SUM, .elements = share, .calls = 1},
                      {ZERO_EXCHANGE_SUM, .backward = 1, .elements = share, .calls = 1}},
        .exchange_bytes = (size_t)(n->ranks * share) * sizeof(float)};
    return ZERO_OK;
}

static zero_status block_forward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *out)
{
    int64_t rows = context->shape.batch, inner = ((const net *)context->unit->hyper)->inner;
    const float *w = zero_parameter(context, 0, 0), *v = zero_parameter(context, 0, 1),
                *b = zero_parameter(context, 1, 0);
    const float *x = in->count ? in->at[0].data : context->batch->at[0].data;
    float *h = context->saved, *y = out->at[0].data;
    multiply(rows, inner, WIDTH, x, WIDTH, 1, w, 1, WIDTH, h);
    for (int64_t i = 0; i < rows * inner; i++)
        h[i] = fmaxf(h[i], 0);
    multiply(rows, WIDTH, inner, h, inner, 1, v, 1, inner, y);
    zero_status status = zero_tensor_sum(context, y, rows * WIDTH);
    for (int64_t i = 0; i < rows * WIDTH; i++) // once, so after the sum
        y[i] += b[i % WIDTH];
    return status;
}

// A gradient has one contribution here, so zero_gradient never asks to add to what is there.
static zero_status block_backward(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in)
{
    static const float one = 1;
    int64_t rows = context->shape.batch, inner = ((const net *)context->unit->hyper)->inner;
    const float *w = zero_parameter(context, 0, 0), *v = zero_parameter(context, 0, 1);
    const float *x = in->count ? in->at[0].data : context->batch->at[0].data;
    const float *h = context->saved, *dy = d_out->at[0].data;
    int add;
    float *dw = zero_gradient(context, 0, 0, &add), *dv = zero_gradient(context, 0, 1, &add),
          *db = zero_gradient(context, 1, 0, &add), *dh = context->workspace;
    multiply(rows, inner, WIDTH, dy, WIDTH, 1, v, inner, 1, dh);
    for (int64_t i = 0; i < rows * inner; i++)
        dh[i] = h[i] > 0 ? dh[i] : 0;
    multiply(inner, WIDTH, rows, dh, 1, inner, x, WIDTH, 1, dw);
    multiply(WIDTH, inner, rows, dy, 1, WIDTH, h, inner, 1, dv);
    multiply(1, WIDTH, rows, &one, 0, 0, dy, WIDTH, 1, db); // the same on all tensor ranks
    if (d_in->count == 0)
        return ZERO_OK;
    multiply(rows, WIDTH, inner, dh, inner, 1, w, WIDTH, 1, d_in->at[0].data);
    return zero_tensor_sum(context, d_in->at[0].data, rows * WIDTH);
}

static zero_status loss_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){0};
    return ZERO_OK;
}

static zero_status loss_forward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *out)
{
    const float *y = in->at[0].data, *target = context->batch->at[1].data;
    *context->loss = 0;
    for (int64_t i = 0; i < context->shape.batch * WIDTH; i++)
        *context->loss += pow(y[i] - target[i], 2) / (double)context->shape.batch;
    return ZERO_OK;
}

static zero_status loss_backward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    const float *y = in->at[0].data, *target = context->batch->at[1].data;
    float *dy = d_in->at[0].data;
    for (int64_t i = 0; i < context->shape.batch * WIDTH; i++)
        dy[i] = context->loss_factor * 2 * (y[i] - target[i]) / (float)context->shape.batch;
    return ZERO_OK;
}

static const zero_unit_ops block = {
    .kind = "block", .sizes = block_sizes, .forward = block_forward, .backward = block_backward};
static const zero_unit_ops loss = {
    .kind = "loss", .sizes = loss_sizes, .forward = loss_forward, .backward = loss_backward};

// Makes a rank's part of a model; of one rank, the whole model, of which `whole` is NULL.
static void make(net *n, int rank, int ranks, const zero_model *whole)
{
    int first = INNER * rank / ranks, inner = INNER * (rank + 1) / ranks - first;
    *n = (net){.ranks = ranks, .inner = inner};
    for (int b = 0; b < BLOCKS; b++) {
        zero_tensor_desc *t = n->tensors[b];
        t[0] = (zero_tensor_desc){names[b][0], 2, {inner, WIDTH}, ZERO_INIT_NORMAL, 0.3f, 0};
        t[1] = (zero_tensor_desc){names[b][1], 2, {WIDTH, inner}, ZERO_INIT_NORMAL, 0.3f, 1};
        t[2] = (zero_tensor_desc){names[b][2], 1, {WIDTH}, ZERO_INIT_CONSTANT, 0, -1};
        for (int i = 0; i < 2 && whole; i++) // rows of W, columns of V
            t[i].tile = (zero_tile){names[b][i], .axis = i, .first = first, .size = INNER};
        n->flat_params[b][0] = (zero_flat_param_desc){ZERO_TRAINABLE, 2, t};
        n->flat_params[b][1] = (zero_flat_param_desc){ZERO_TRAINABLE, 1, t + 2};
        n->units[b] = (zero_unit){units[b], &block, n, 2, n->flat_params[b]};
    }
    n->units[BLOCKS] = (zero_unit){"loss", &loss};
    n->model = (zero_model){"split", BLOCKS + 1, n->units, whole};
}

// Tensor ranks pass the same samples: those of the number that zero_position tells.
static zero_status one_step(zero_engine *engine, zero_step_info *info, zero_error *error)
{
    float x[BATCH * WIDTH], target[BATCH * WIDTH];
    int64_t step, number;
    double mean;
    zero_position(engine, &step, &number);
    for (int i = 0; i < BATCH * WIDTH; i++) {
        x[i] = sinf((float)(i * 13 + step * 7 + number * 5));
        target[i] = fabsf(x[i]);
    }
    const zero_tensors batch = {
        2, {{x, ZERO_F32, 2, {BATCH, WIDTH}}, {target, ZERO_F32, 2, {BATCH, WIDTH}}}};
    zero_status status = zero_forward(engine, &batch, &mean, error);
    if (status == ZERO_OK)
        status = zero_backward(engine, error);
    return status == ZERO_OK ? zero_step(engine, info, error) : status;
}

int main(int argc, char **argv)
{
    int tensor = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    int steps = argc > 2 ? atoi(argv[2]) : 200;
    char config[64];
    net whole, part;
    zero_comm *comm = NULL;
    zero_engine *engine = NULL;
    zero_step_info info;
    zero_error error = {0};
    zero_status status = zero_comm_open(NULL, &comm, &error);
    int rank = status == ZERO_OK ? zero_comm_rank(comm) : 0;
    make(&whole, 0, 1, NULL);
    // The part is made before there is an engine to ask; neighbours in the job are tensor ranks.
    make(&part, rank % tensor, tensor, &whole.model);
    snprintf(config, sizeof config, "{\"tensor_parallel\": {\"autotp_size\": %d}}", tensor);
    zero_options options = {.struct_size = sizeof options, .comm = comm, .config_text = config};
    options.model = &part.model;
    options.shape = (zero_shape){.batch = BATCH, .seq = 1};
    if (status == ZERO_OK)
        status = zero_initialize(&options, &engine, &error);
    for (int s = 0; s < steps && status == ZERO_OK; s++) {
        status = one_step(engine, &info, &error);
        if (status == ZERO_OK && rank == 0 && info.step % 50 == 0)
            printf("step %3lld  loss %.5f\n", (long long)info.step, info.loss);
    }
    if (status != ZERO_OK)
        fprintf(stderr, "split: %s\n", error.message);
    zero_destroy(engine);
    zero_comm_destroy(comm);
    return zero_status_exit_code(status);
}
