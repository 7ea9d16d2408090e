// Dense fp32 matrices, for graph.c: their product, and the loss of a row of logits.
#include <math.h>
#include <string.h>
#include <zero/zero.h>

static zero_tensor matrix(const void *data, int64_t rows, int64_t width)
{
    return (zero_tensor){(void *)data, ZERO_F32, 2, {rows, width}};
}

// c = a b; of each that is turned, the transposed matrix.
static void multiply(const zero_tensor *a, int turn_a, const zero_tensor *b, int turn_b, float *c)
{
    int64_t k = a->shape[!turn_a], n = b->shape[!turn_b], wa = a->shape[1], wb = b->shape[1];
    for (int64_t i = 0; i < a->shape[turn_a] * n; i++) {
        c[i] = 0;
        for (int64_t l = 0; l < k; l++)
            c[i] += ((float *)a->data)[turn_a ? l * wa + i / n : i / n * wa + l] *
                    ((float *)b->data)[turn_b ? i % n * wb + l : l * wb + i % n];
    }
}

// Returns the cross-entropy of a row of logits, and writes its gradient and whether no other class
// has a logit as large.
static double cross_entropy(const float *logits, int classes, int class, float *gradient,
                            int32_t *right)
{
    double sum = 0, largest = (double)logits[class]; // is subtracted, so that no exp overflows
    *right = 1;
    for (int k = 0; k < classes; k++)
        largest = (double)logits[k] > largest ? (double)logits[k] : largest;
    for (int k = 0; k < classes; k++)
        sum += exp((double)logits[k] - largest);
    for (int k = 0; k < classes; k++) {
        gradient[k] = (float)(exp((double)logits[k] - largest) / sum - (k == class));
        *right = *right && (k == class || logits[k] < logits[class]);
    }
    return log(sum) + largest - (double)logits[class];
}
