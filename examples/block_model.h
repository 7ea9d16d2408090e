// A stochastic block model, and the micro-batches of nodes that graph.c learns from: 4 blocks of
// nodes, in turn, each joined to about 16 nodes of its own block and 6 of others. A node's features
// say little about its block: they are noise, and a little more in the place of the block.
#include "graph_words.h"
#include <stdlib.h>
#include <zero/zero.h>

enum { NODES = 1024, BLOCKS = 4, WIDTH = 16, BATCH = 32, MOST = 6, KNOWN = 256 };
enum { INNER = BATCH * (1 + MOST), OUTER = INNER * (1 + MOST) }; // columns of the samples
enum { OF, X, GRAPHS }; // tensors of a micro-batch: its nodes, features, the graphs of two layers

typedef struct known_node {
    int32_t row, block; // of the logits; of the model
    int32_t right;      // 1 if the logits say the block
} known_node;

typedef struct block_model {
    int sampled; // micro-batches compute samples in place of the whole graph
    zero_graph *graph;
    float x[NODES * WIDTH];
} block_model;

typedef struct micro_batch {
    zero_graph *samples[2];
    const zero_graph *graphs[2]; // of the two layers
    float x[OUTER * WIDTH];
    known_node of[BATCH];
} micro_batch;

static double draw(uint64_t *state) // uniform in [0, 1)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (1 << 24);
}

static zero_status make_blocks(const words *of, block_model *out, zero_error *error)
{
    uint64_t state = 1;
    int32_t *from = malloc(2 * sizeof *from * NODES * NODES);
    zero_graph_weights weights = of->symmetric ? ZERO_GRAPH_SYMMETRIC : ZERO_GRAPH_MEAN;
    out->sampled = of->sampled;
    if (!from) {
        snprintf(error->message, sizeof error->message, "no memory for the edges of the graph");
        return ZERO_ERR_MEMORY;
    }
    int32_t *to = from + NODES * NODES;
    zero_graph_options options = {sizeof options, NODES, 0, from, to, NULL, weights, 1};
    for (int32_t a = 0; a < NODES; a++)
        for (int32_t b = 0; b < a; b++)
            if (draw(&state) < (a % BLOCKS == b % BLOCKS ? 1. / 16 : 1. / 128)) {
                from[options.edges] = to[options.edges + 1] = a;
                to[options.edges] = from[options.edges + 1] = b;
                options.edges += 2;
            }
    for (int i = 0; i < NODES * WIDTH; i++)
        out->x[i] = (float)(draw(&state) - 0.5) + (i % WIDTH == i / WIDTH % BLOCKS ? 0.4f : 0);
    zero_status status = zero_graph_create(&options, &out->graph, error);
    free(from);
    return status;
}

// Takes the nodes of the next micro-batch, or those from `unseen` on if that is not 0.
static zero_status take_nodes(const zero_engine *engine, const block_model *model, int unseen,
                              micro_batch *out, zero_tensors *tensors, zero_error *error)
{
    int64_t step, number;
    int32_t nodes[BATCH];
    zero_status status = ZERO_OK;
    int sampled = model->sampled;
    zero_position(engine, &step, &number);
    *out = (micro_batch){.graphs = {model->graph, model->graph}};
    for (int t = 0; t < BATCH; t++) {
        nodes[t] = (unseen ? unseen : (int32_t)number * BATCH) + t;
        out->of[t] = (known_node){sampled ? t : nodes[t], nodes[t] % BLOCKS, 0};
    }
    const int32_t *all = nodes;
    int64_t count = BATCH;
    // The last layer's sample is first; each has a seed of its own, so that they are independent.
    for (int l = 1; sampled && l >= 0 && status == ZERO_OK; l--) {
        status = zero_graph_sample(model->graph, all, count, MOST, (uint64_t)(1 + l),
                                   (uint64_t)step, &out->samples[l], error);
        out->graphs[l] = out->samples[l];
        all = zero_graph_nodes(out->samples[l], &count);
    }
    for (int64_t c = 0; sampled && status == ZERO_OK && c < count * WIDTH; c++)
        out->x[c] = all[c / WIDTH] < 0 ? 0 : model->x[all[c / WIDTH] * WIDTH + c % WIDTH];
    *tensors = (zero_tensors){
        3,
        {{out->of, ZERO_I32, 2, {BATCH, 3}},
         {sampled ? out->x : (float *)model->x, ZERO_F32, 2, {sampled ? count : NODES, WIDTH}},
         {out->graphs, ZERO_U8, 1, {sizeof out->graphs}}}};
    return status;
}

// Adds those whose blocks were found to *right, if that is wanted.
static void leave_nodes(micro_batch *nodes, int *right)
{
    for (int t = 0; right && t < BATCH; t++)
        *right += nodes->of[t].right;
    zero_graph_destroy(nodes->samples[0]);
    zero_graph_destroy(nodes->samples[1]);
}
