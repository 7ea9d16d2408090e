// The head of a model that classifies texts: the logits that it gives to labels, for those who
// compare the largest with the target.
#include "layers/head.h"

enum { SCORES = 3 }; // number of the tensor in the micro-batch

zero_status zr_head_find_scores(zr_head *h)
{
    const zero_tensors *batch = h->context->batch;
    int64_t outputs = h->hyper->shape.outputs;
    if (!h->hyper->config.labels.count || batch->count <= SCORES)
        return ZERO_OK;
    const zero_tensor *tensor = &batch->at[SCORES];
    if (tensor->dtype != ZERO_F32 || tensor->dims != 2 || tensor->shape[0] != h->counted ||
        tensor->shape[1] != outputs || !tensor->data)
        return zr_fail(
            h->context->error, ZERO_ERR_USAGE,
            "unit \"%s\": tensor %d of the micro-batch, scores, is not (%lld, %lld) fp32",
            h->context->unit->name, SCORES, (long long)h->counted, (long long)outputs);
    h->scores = tensor->data;
    return ZERO_OK;
}

void zr_head_keep_scores(const zr_head *h, const void *logits, int64_t first, int64_t tokens)
{
    const zr_conversion conversion = {h->dtype, ZERO_F32, tokens};
    int64_t bytes = zr_head_step(h, tokens) * (int64_t)zero_dtype_bytes(h->dtype);
    if (!h->scores || tokens == 0)
        return;
    float *out = h->scores + first;
    for (int64_t row = 0; row < h->first + h->count; row++) {
        if (h->host_target[row] < 0)
            continue;
        if (row >= h->first)
            zr_run(
                h->context->queue,
                zr_op_convert(&conversion, (const char *)logits + (row - h->first) * bytes, out));
        out += h->hyper->shape.outputs;
    }
}
