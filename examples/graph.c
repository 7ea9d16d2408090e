// A graph convolution network (Kipf and Welling, arXiv 1609.02907) of two layers, A relu(A X W0)
// W1, on a stochastic block model (block_model.h). It learns which block a node is of.
//   build/zero run --ranks 2 build/examples/graph [STAGE [STEPS [WEIGHTS [NODES [FILE]]]]]
// WEIGHTS: mean or symmetric. FILE: where those of the layers are saved. A micro-batch is 32 nodes;
// 8 of them are a step, on 1, 2 or 4 ranks with the same bits. NODES: each computes all of them
// (full) or its own, 6 neighbours of each, and 6 of each of these (sampled).
#include "block_model.h"
#include "small_matrices.h"

static const zero_tensor_desc weights[] = {
    {"w0", 2, {WIDTH, WIDTH}, ZERO_INIT_NORMAL, 0.3f, -1, 1},
    {"w1", 2, {WIDTH, BLOCKS}, ZERO_INIT_NORMAL, 0.3f, -1, 1}};
static const zero_flat_param_desc flat_params[] = {{ZERO_TRAINABLE, 2, weights}};

typedef struct values { // kept for backward: A X, relu(S0 W0), A H, the gradient of the logits
    zero_tensor s0, h, s1, d_z;
} values;

static values values_at(float *at, const int64_t rows[2])
{
    float *h = at + rows[0] * WIDTH, *s1 = h + rows[0] * WIDTH, *d_z = s1 + rows[1] * WIDTH;
    return (values){matrix(at, rows[0], WIDTH), matrix(h, rows[0], WIDTH),
                    matrix(s1, rows[1], WIDTH), matrix(d_z, rows[1], BLOCKS)};
}

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    const int64_t *rows = unit->hyper;
    size_t bytes = (size_t)(rows[0] * 2 * WIDTH + rows[1] * (WIDTH + BLOCKS)) * sizeof(float);
    *out = (zero_unit_sizes){.saved_bytes = bytes, .workspace_bytes = bytes, .backward_reads = 1};
    return ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    const zero_graph *const *graphs = context->batch->at[GRAPHS].data;
    known_node *of = context->batch->at[OF].data;
    values v = values_at(context->saved, context->unit->hyper);
    zero_tensor w0 = matrix(zero_parameter(context, 0, 0), WIDTH, WIDTH),
                w1 = matrix(zero_parameter(context, 0, 1), WIDTH, BLOCKS);
    float *h = v.h.data, *z = context->workspace;
    zero_status status = zero_graph_sum(context, graphs[0], &context->batch->at[X], &v.s0);
    if (status != ZERO_OK)
        return status;
    multiply(&v.s0, 0, &w0, 0, h);
    for (int64_t i = 0; i < v.h.shape[0] * WIDTH; i++)
        h[i] = h[i] < 0 ? 0 : h[i]; // not a number stays one
    status = zero_graph_sum(context, graphs[1], &v.h, &v.s1);
    if (status != ZERO_OK)
        return status;
    multiply(&v.s1, 0, &w1, 0, z);
    memset(v.d_z.data, 0, (size_t)(v.d_z.shape[0] * BLOCKS) * sizeof(float));
    *context->loss = 0;
    for (int t = 0; t < BATCH; t++)
        *context->loss += cross_entropy(z + of[t].row * BLOCKS, BLOCKS, of[t].block,
                                        (float *)v.d_z.data + of[t].row * BLOCKS, &of[t].right) /
                          BATCH;
    return ZERO_OK;
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    const zero_graph *const *graphs = context->batch->at[GRAPHS].data;
    values v = values_at(context->saved, context->unit->hyper),
           d = values_at(context->workspace, context->unit->hyper);
    zero_tensor w1 = matrix(zero_parameter(context, 0, 1), WIDTH, BLOCKS);
    int add; // 0, because a gradient has one contribution here
    for (int64_t i = 0; i < v.d_z.shape[0] * BLOCKS; i++)
        ((float *)v.d_z.data)[i] *= context->loss_factor / BATCH;
    multiply(&v.s1, 1, &v.d_z, 0, zero_gradient(context, 0, 1, &add));
    multiply(&v.d_z, 0, &w1, 1, d.s1.data);
    zero_status status = zero_graph_sum_backward(context, graphs[1], &d.s1, &d.h);
    if (status != ZERO_OK)
        return status;
    for (int64_t i = 0; i < v.h.shape[0] * WIDTH; i++)
        ((float *)d.h.data)[i] *= ((float *)v.h.data)[i] > 0;
    multiply(&v.s0, 1, &d.h, 0, zero_gradient(context, 0, 0, &add));
    return ZERO_OK;
}

static const zero_unit_ops network = {"network", 0, sizes, forward, backward};

// Computes the next micro-batch of a step; or only evaluates the nodes from `unseen` on.
static zero_status run_nodes(zero_engine *engine, const block_model *model, int unseen,
                             zero_step_info *info, int *right, zero_error *error)
{
    micro_batch nodes;
    zero_tensors batch;
    double loss;
    zero_status status = take_nodes(engine, model, unseen, &nodes, &batch, error);
    if (status == ZERO_OK && unseen)
        status = zero_evaluate(engine, &batch, &loss, error);
    else if (status == ZERO_OK &&
             (status = zero_forward(engine, &batch, &loss, error)) == ZERO_OK &&
             (status = zero_backward(engine, error)) == ZERO_OK)
        status = zero_step(engine, info, error);
    leave_nodes(&nodes, unseen ? right : NULL);
    return status;
}

static zero_status learn(zero_engine *engine, const block_model *model, int steps, int says,
                         zero_error *error)
{
    zero_status status = ZERO_OK;
    int right = 0;
    for (zero_step_info info = {0}; status == ZERO_OK && info.step < steps;) {
        status = run_nodes(engine, model, 0, &info, &right, error);
        if (status == ZERO_OK && says && info.updated)
            printf("step %3lld  loss %.9g\n", (long long)info.step, info.loss);
    }
    for (int first = KNOWN; first < NODES && status == ZERO_OK; first += BATCH)
        status = run_nodes(engine, model, first, NULL, &right, error);
    if (status == ZERO_OK && says)
        printf("%d of %d unseen nodes right\n", right, NODES - KNOWN);
    return status;
}

int main(int argc, char **argv)
{
    static block_model blocks;
    char config[256];
    words of = {0};
    zero_comm *comm = NULL;
    zero_engine *engine = NULL;
    zero_error error = {0};
    zero_status status = zero_comm_open(NULL, &comm, &error);
    if (status == ZERO_OK)
        status = take_words(argc, argv, &of, &error);
    const int64_t rows[] = {of.sampled ? INNER : NODES, of.sampled ? BATCH : NODES};
    const zero_unit unit = {"network", &network, rows, 1, flat_params};
    const zero_model model = {"graph", 1, &unit};
    snprintf(config, sizeof config,
             "{\"zero_optimization\": {\"stage\": %d}, \"libzero\": {\"exact_world\": true}, "
             "\"train_batch_size\": %d, \"train_micro_batch_size_per_gpu\": %d, "
             "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 0.05}}}",
             of.stage, KNOWN, BATCH);
    zero_options options = {sizeof options, &model, comm, .config_text = config, .seed = 1};
    options.shape.seq = 1;
    if (status == ZERO_OK)
        status = make_blocks(&of, &blocks, &error);
    if (status == ZERO_OK)
        status = zero_initialize(&options, &engine, &error);
    if (status == ZERO_OK)
        status = learn(engine, &blocks, of.steps, zero_comm_rank(comm) == 0, &error);
    if (status == ZERO_OK && of.file)
        status = zero_save_weights(engine, of.file, &error);
    if (status != ZERO_OK && zero_comm_rank(comm) == 0)
        fprintf(stderr, "graph: %s\n", error.message);
    zero_destroy(engine);
    zero_comm_destroy(comm);
    zero_graph_destroy(blocks.graph);
    return zero_status_exit_code(status);
}
