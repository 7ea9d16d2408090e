// A model of your own: a small convolutional classifier with batch normalisation, trained with ZeRO
// through nothing but include/zero/.
//
//   zero run --ranks 2 build/examples/classifier
//   mpirun -n 2 build/examples/classifier           the same with MPI
//
// It has two units. "conv" owns a trainable flat parameter (filters, scale, shift) and a buffer
// flat parameter (running mean and variance, which all ranks average). "classify" pools 2x2 and
// computes the loss. The images are drawn here: noisy bars and blobs in four classes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zero/zero.h>

enum {
    SIDE = 12,
    PIXELS = SIDE * SIDE,
    CHANNELS = 8,
    TAPS = 9,
    HALF = SIDE / 2,
    FEATURES = CHANNELS * HALF * HALF,
    CLASSES = 4,
    BATCH = 16
};
enum { FILTERS, SCALE, SHIFT };          // tensors of conv's trainable flat parameter
enum { RUNNING_MEAN, RUNNING_VARIANCE }; // tensors of its buffer flat parameter
enum { WEIGHT, BIAS };                   // tensors of classify's flat parameter
static const float MOMENTUM = 0.1f, EPSILON = 1e-5f;

static const zero_tensor_desc conv_tensors[] = {
    [FILTERS] = {.name = "conv.filters",
                 .dims = 2,
                 .shape = {CHANNELS, TAPS},
                 .init = ZERO_INIT_NORMAL,
                 .init_value = 0.3f,
                 .tp_axis = -1,
                 .tp_parts = 1},
    [SCALE] = {.name = "conv.scale",
               .dims = 1,
               .shape = {CHANNELS},
               .init = ZERO_INIT_CONSTANT,
               .init_value = 1,
               .tp_axis = -1,
               .tp_parts = 1},
    [SHIFT] = {.name = "conv.shift",
               .dims = 1,
               .shape = {CHANNELS},
               .init = ZERO_INIT_CONSTANT,
               .init_value = 0,
               .tp_axis = -1,
               .tp_parts = 1},
};
static const zero_tensor_desc running_tensors[] = {
    [RUNNING_MEAN] = {.name = "conv.running_mean",
                      .dims = 1,
                      .shape = {CHANNELS},
                      .init = ZERO_INIT_CONSTANT,
                      .init_value = 0,
                      .tp_axis = -1,
                      .tp_parts = 1},
    [RUNNING_VARIANCE] = {.name = "conv.running_variance",
                          .dims = 1,
                          .shape = {CHANNELS},
                          .init = ZERO_INIT_CONSTANT,
                          .init_value = 1,
                          .tp_axis = -1,
                          .tp_parts = 1},
};
static const zero_tensor_desc classify_tensors[] = {
    [WEIGHT] = {.name = "classify.weight",
                .dims = 2,
                .shape = {CLASSES, FEATURES},
                .init = ZERO_INIT_NORMAL,
                .init_value = 0.05f,
                .tp_axis = -1,
                .tp_parts = 1},
    [BIAS] = {.name = "classify.bias",
              .dims = 1,
              .shape = {CLASSES},
              .init = ZERO_INIT_CONSTANT,
              .init_value = 0,
              .tp_axis = -1,
              .tp_parts = 1},
};
static const zero_flat_param_desc conv_flat_params[] = {{ZERO_TRAINABLE, 3, conv_tensors},
                                                        {ZERO_BUFFER, 2, running_tensors}};
static const zero_flat_param_desc classify_flat_params[] = {{ZERO_TRAINABLE, 2, classify_tensors}};

typedef struct conv_saved {                   // kept from forward to backward
    float mean[CHANNELS], variance[CHANNELS]; // of this micro-batch
    float normal[];                           // (batch, CHANNELS, PIXELS) convolved and normalised
} conv_saved;

static zero_status conv_sizes(const zero_unit *unit, const zero_shape *shape,
                              const zero_tensors *in, zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){
        .out = {1, {{NULL, ZERO_F32, 3, {shape->batch, CHANNELS, PIXELS}}}},
        .saved_bytes =
            sizeof(conv_saved) + (size_t)shape->batch * CHANNELS * PIXELS * sizeof(float),
        .workspace_bytes = (size_t)shape->batch * CHANNELS * PIXELS * sizeof(float),
        .backward_reads = 3,
    };
    return ZERO_OK;
}

static float pixel(const float *image, int y, int x)
{
    return y >= 0 && y < SIDE && x >= 0 && x < SIDE ? image[y * SIDE + x] : 0;
}

static void convolve(const float *image, const float *filter, float *out)
{
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            float sum = 0;
            for (int t = 0; t < TAPS; t++)
                sum += filter[t] * pixel(image, y + t / 3 - 1, x + t % 3 - 1);
            out[y * SIDE + x] = sum;
        }
}

static void batch_statistics(const float *x, int64_t batch, int channel, float *mean,
                             float *variance)
{
    double sum = 0, squares = 0, count = (double)batch * PIXELS;
    for (int64_t b = 0; b < batch; b++)
        for (int i = 0; i < PIXELS; i++) {
            double v = x[(b * CHANNELS + channel) * PIXELS + i];
            sum += v;
            squares += v * v;
        }
    *mean = (float)(sum / count);
    *variance = (float)(squares / count - sum / count * (sum / count));
}

// Computes y = relu(scale * (conv(x) - mean) / sqrt(variance + eps) + shift), with the statistics
// of the micro-batch or, in evaluation, the running ones.
static zero_status conv_forward(zero_context *context, const zero_tensors *in,
                                const zero_tensors *out)
{
    const float *images = context->batch->at[0].data,
                *filters = zero_parameter(context, 0, FILTERS);
    const float *scale = zero_parameter(context, 0, SCALE),
                *shift = zero_parameter(context, 0, SHIFT);
    float *y = out->at[0].data;
    conv_saved *saved = context->saved;
    int64_t batch = context->shape.batch;
    for (int64_t b = 0; b < batch; b++)
        for (int c = 0; c < CHANNELS; c++)
            convolve(images + b * PIXELS, filters + c * TAPS,
                     saved->normal + (b * CHANNELS + c) * PIXELS);
    for (int c = 0; c < CHANNELS; c++) {
        float mean = ((const float *)zero_parameter(context, 1, RUNNING_MEAN))[c],
              variance = ((const float *)zero_parameter(context, 1, RUNNING_VARIANCE))[c];
        if (context->training)
            batch_statistics(saved->normal, batch, c, &mean, &variance);
        saved->mean[c] = mean;
        saved->variance[c] = variance;
        for (int64_t b = 0; b < batch; b++)
            for (int i = 0; i < PIXELS; i++) {
                int64_t at = (b * CHANNELS + c) * PIXELS + i;
                saved->normal[at] = (saved->normal[at] - mean) / sqrtf(variance + EPSILON);
                y[at] = fmaxf(0, scale[c] * saved->normal[at] + shift[c]);
            }
    }
    return ZERO_OK;
}

static void set_or_add(float *to, float value, int add) { *to = add ? *to + value : value; }

// Computes the gradient of one channel; d holds dL/dy, and becomes dL/d(convolved).
static void channel_backward(zero_context *context, const float *y, float *d, int c, int64_t batch)
{
    const conv_saved *saved = context->saved;
    int add;
    float *d_scale = zero_gradient(context, 0, SCALE, &add),
          *d_shift = zero_gradient(context, 0, SHIFT, &add),
          *d_filters = zero_gradient(context, 0, FILTERS, &add);
    float scale = ((const float *)zero_parameter(context, 0, SCALE))[c],
          inverse = scale / sqrtf(saved->variance[c] + EPSILON);
    const float *images = context->batch->at[0].data;
    double sum = 0, product = 0, count = (double)batch * PIXELS, taps[TAPS] = {0};
    for (int64_t b = 0; b < batch; b++)
        for (int i = 0; i < PIXELS; i++) {
            int64_t at = (b * CHANNELS + c) * PIXELS + i;
            d[at] = y[at] > 0 ? d[at] : 0;
            sum += d[at];
            product += (double)d[at] * saved->normal[at];
        }
    for (int64_t b = 0; b < batch; b++)
        for (int i = 0; i < PIXELS; i++) {
            int64_t at = (b * CHANNELS + c) * PIXELS + i;
            double g = inverse * (d[at] - sum / count - saved->normal[at] * product / count);
            for (int t = 0; t < TAPS; t++)
                taps[t] +=
                    g * pixel(images + b * PIXELS, i / SIDE + t / 3 - 1, i % SIDE + t % 3 - 1);
        }
    set_or_add(&d_scale[c], (float)product, add);
    set_or_add(&d_shift[c], (float)sum, add);
    for (int t = 0; t < TAPS; t++)
        set_or_add(&d_filters[c * TAPS + t], (float)taps[t], add);
}

static zero_status conv_backward(zero_context *context, const zero_tensors *in,
                                 const zero_tensors *d_out, const zero_tensors *d_in)
{
    const conv_saved *saved = context->saved;
    const float *shift = zero_parameter(context, 0, SHIFT),
                *scale = zero_parameter(context, 0, SCALE);
    const float *old_mean = zero_parameter(context, 1, RUNNING_MEAN),
                *old_variance = zero_parameter(context, 1, RUNNING_VARIANCE);
    int64_t batch = context->shape.batch, n = batch * CHANNELS * PIXELS;
    int add;
    float *mean = zero_gradient(context, 1, RUNNING_MEAN, &add),
          *variance = zero_gradient(context, 1, RUNNING_VARIANCE, &add);
    float *y = context->workspace; // before the rectifier
    for (int64_t at = 0; at < n; at++) {
        int c = (int)(at / PIXELS % CHANNELS);
        y[at] = scale[c] * saved->normal[at] + shift[c];
    }
    for (int c = 0; c < CHANNELS; c++) {
        channel_backward(context, y, d_out->at[0].data, c, batch);
        mean[c] = (1 - MOMENTUM) * old_mean[c] + MOMENTUM * saved->mean[c];
        variance[c] = (1 - MOMENTUM) * old_variance[c] + MOMENTUM * saved->variance[c];
    }
    return ZERO_OK;
}

static zero_status classify_sizes(const zero_unit *unit, const zero_shape *shape,
                                  const zero_tensors *in, zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){.saved_bytes =
                                 (size_t)shape->batch * (FEATURES + CLASSES) * sizeof(float),
                             .backward_reads = 1};
    return ZERO_OK;
}

static void pool(const float *x, float *features)
{
    for (int f = 0; f < FEATURES; f++) {
        int c = f / (HALF * HALF), y = f / HALF % HALF, x0 = f % HALF;
        const float *p = x + c * PIXELS + 2 * y * SIDE + 2 * x0;
        features[f] = 0.25f * (p[0] + p[1] + p[SIDE] + p[SIDE + 1]);
    }
}

static int probabilities(const float *features, const float *weight, const float *bias, float *out)
{
    float largest = -INFINITY, sum = 0;
    int best = 0;
    for (int k = 0; k < CLASSES; k++) {
        out[k] = bias[k];
        for (int f = 0; f < FEATURES; f++)
            out[k] += weight[k * FEATURES + f] * features[f];
        if (out[k] > largest) {
            largest = out[k];
            best = k;
        }
    }
    for (int k = 0; k < CLASSES; k++)
        sum += out[k] = expf(out[k] - largest);
    for (int k = 0; k < CLASSES; k++)
        out[k] /= sum;
    return best;
}

// Computes the mean cross-entropy, and writes the predicted classes to the batch's third tensor.
static zero_status classify_forward(zero_context *context, const zero_tensors *in,
                                    const zero_tensors *out)
{
    const int32_t *labels = context->batch->at[1].data;
    int32_t *predicted = context->batch->at[2].data;
    int64_t batch = context->shape.batch;
    float *features = context->saved, *p = features + batch * FEATURES;
    double loss = 0;
    for (int64_t b = 0; b < batch; b++) {
        pool((const float *)in->at[0].data + b * CHANNELS * PIXELS, features + b * FEATURES);
        predicted[b] = probabilities(features + b * FEATURES, zero_parameter(context, 0, WEIGHT),
                                     zero_parameter(context, 0, BIAS), p + b * CLASSES);
        loss -= log(p[b * CLASSES + labels[b]] + 1e-30);
    }
    *context->loss = loss / (double)batch;
    return ZERO_OK;
}

static zero_status classify_backward(zero_context *context, const zero_tensors *in,
                                     const zero_tensors *d_out, const zero_tensors *d_in)
{
    const int32_t *labels = context->batch->at[1].data;
    const float *weight = zero_parameter(context, 0, WEIGHT);
    int64_t batch = context->shape.batch;
    float *features = context->saved, *p = features + batch * FEATURES, *d = d_in->at[0].data;
    int add;
    float *d_weight = zero_gradient(context, 0, WEIGHT, &add),
          *d_bias = zero_gradient(context, 0, BIAS, &add);
    if (!add) {
        memset(d_weight, 0, CLASSES * FEATURES * sizeof *d_weight);
        memset(d_bias, 0, CLASSES * sizeof *d_bias);
    }
    for (int64_t b = 0; b < batch; b++) {
        float d_features[FEATURES] = {0};
        for (int k = 0; k < CLASSES; k++) {
            float g = (p[b * CLASSES + k] - (labels[b] == k)) * context->loss_factor / (float)batch;
            d_bias[k] += g;
            for (int f = 0; f < FEATURES; f++) {
                d_weight[k * FEATURES + f] += g * features[b * FEATURES + f];
                d_features[f] += g * weight[k * FEATURES + f];
            }
        }
        for (int f = 0; f < FEATURES; f++) {
            int c = f / (HALF * HALF), y = f / HALF % HALF, x = f % HALF;
            float *to = d + (b * CHANNELS + c) * PIXELS + 2 * y * SIDE + 2 * x;
            to[0] = to[1] = to[SIDE] = to[SIDE + 1] = 0.25f * d_features[f];
        }
    }
    return ZERO_OK;
}

static const zero_unit_ops conv_ops = {
    .kind = "convolution", .sizes = conv_sizes, .forward = conv_forward, .backward = conv_backward};
static const zero_unit_ops classify_ops = {.kind = "classifier",
                                           .sizes = classify_sizes,
                                           .forward = classify_forward,
                                           .backward = classify_backward};
static const zero_unit units[] = {
    {.name = "conv", .ops = &conv_ops, .flat_param_count = 2, .flat_params = conv_flat_params},
    {.name = "classify",
     .ops = &classify_ops,
     .flat_param_count = 1,
     .flat_params = classify_flat_params},
};
static const zero_model model = {"classifier", 2, units};

// Draws image number n: noise, and a horizontal bar, a vertical bar, a diagonal or a blob
// somewhere. Returns its class.
static int draw(uint64_t n, float *image)
{
    uint64_t random = n * 6364136223846793005u + 1442695040888963407u;
    int label = (int)(n % CLASSES), at = 3 + (int)((random >> 33) % 6);
    for (int i = 0; i < PIXELS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int y = i / SIDE, x = i % SIDE;
        int on[CLASSES] = {y == at, x == at, y - x == at - 6,
                           (y - at) * (y - at) + (x - at) * (x - at) <= 5};
        image[i] = (float)((double)(random >> 40) / (1 << 24) - 0.5) + (on[label] ? 0.8f : 0);
    }
    return label;
}

static zero_tensors draw_batch(uint64_t first, float *images, int32_t *labels, int32_t *predicted)
{
    for (int b = 0; b < BATCH; b++)
        labels[b] = draw(first + (uint64_t)b, images + b * PIXELS);
    return (zero_tensors){3,
                          {{images, ZERO_F32, 2, {BATCH, PIXELS}},
                           {labels, ZERO_I32, 1, {BATCH}},
                           {predicted, ZERO_I32, 1, {BATCH}}}};
}

static zero_status run(zero_comm *comm, int steps, int stage, zero_error *error)
{
    char config[256];
    snprintf(config, sizeof config,
             "{\"zero_optimization\": {\"stage\": %d}, \"optimizer\": {\"type\": \"AdamW\", "
             "\"params\": {\"lr\": 0.01}}}",
             stage);
    zero_options options = {.struct_size = sizeof options,
                            .model = &model,
                            .comm = comm,
                            .config_text = config,
                            .shape = {.batch = BATCH, .seq = 1},
                            .seed = 1};
    zero_engine *engine = NULL;
    zero_status status = zero_initialize(&options, &engine, error);
    float images[BATCH * PIXELS];
    int32_t labels[BATCH], predicted[BATCH];
    int rank = zero_comm_rank(comm), ranks = zero_comm_size(comm), right = 0, tests = 20;
    for (int s = 0; s < steps && status == ZERO_OK; s++) {
        zero_step_info info;
        double loss;
        zero_tensors batch =
            draw_batch((uint64_t)(s * ranks + rank) * BATCH, images, labels, predicted);
        if ((status = zero_forward(engine, &batch, &loss, error)) != ZERO_OK ||
            (status = zero_backward(engine, error)) != ZERO_OK ||
            (status = zero_step(engine, &info, error)) != ZERO_OK)
            break;
        if (rank == 0 && (s + 1) % 25 == 0)
            printf("step %3d  loss %.9g  norm %.9g\n", s + 1, info.loss, info.grad_norm);
    }
    for (int t = 0; t < tests && status == ZERO_OK; t++) {
        double loss;
        zero_tensors batch = draw_batch(1000000 + (uint64_t)t * BATCH, images, labels, predicted);
        status = zero_evaluate(engine, &batch, &loss, error);
        for (int b = 0; b < BATCH; b++)
            right += predicted[b] == labels[b];
    }
    if (rank == 0 && status == ZERO_OK)
        printf("%d of %d unseen images right, %d ranks, stage %d\n", right, tests * BATCH, ranks,
               stage);
    zero_destroy(engine);
    return status;
}

int main(int argc, char **argv)
{
    zero_error error = {0};
    zero_comm *comm = NULL;
    zero_comm_options options = {.struct_size = sizeof options};
    int steps = argc > 1 ? atoi(argv[1]) : 150, stage = argc > 2 ? atoi(argv[2]) : 3;
    zero_status status = zero_comm_open(&options, &comm, &error);
    if (status == ZERO_OK)
        status = run(comm, steps, stage, &error);
    if (status != ZERO_OK)
        fprintf(stderr, "classifier: %s\n", error.message);
    if (status != ZERO_OK && comm)
        zero_comm_abort(comm, error.message);
    zero_comm_destroy(comm);
    return zero_status_exit_code(status);
}
