// Runs the kernels of attention on tensor cores, in each order of threads, and compares them with
// plain loops in double: prints the names of those that are wrong in one order or more. The texts
// are copies in which test_planted_attention.sh has made a mistake.
#include "simt.h"

#include "attention_mma.cu"

#include "attention_backward.cu"

namespace {

constexpr int seq = 150, heads = 2, dim = 64, row = (heads + 2) * dim;
constexpr float scale = 0.125f;

struct arrays {
    std::vector<uint16_t> qkv, dout, out, dqkv; // bf16; two heads share keys
    std::vector<float> lse, delta;
};

float widened(uint16_t bits) { return simt::bf16_of(bits); }

std::vector<uint16_t> drawn(size_t count, uint32_t state, float size)
{
    std::vector<uint16_t> values(count);
    for (uint16_t &value : values) {
        state = state * 1664525u + 1013904223u;
        value = (uint16_t)zr_round_bf16((float)(int32_t)state * 0x1p-31f * size);
    }
    return values;
}

// What must come out, in double: out (seq, heads * dim) and dqkv (seq, row).
struct results {
    std::vector<double> out, dqkv;
};

double dot(const uint16_t *a, const uint16_t *b)
{
    double sum = 0;
    for (int c = 0; c < dim; c++)
        sum += (double)widened(a[c]) * widened(b[c]);
    return sum;
}

void compute_row(arrays &of, int h, int i, results &want)
{
    const uint16_t *q = &of.qkv[i * row + h * dim], *dout = &of.dout[(i * heads + h) * dim];
    const uint16_t *k = &of.qkv[heads * dim], *v = k + dim;
    std::vector<double> weight(i + 1);
    double sum = 0, delta = 0;
    for (int j = 0; j <= i; j++)
        sum += weight[j] = exp(dot(q, k + j * row) * scale);
    for (int j = 0; j <= i; j++) {
        weight[j] /= sum;
        delta += weight[j] * dot(dout, v + j * row);
        for (int c = 0; c < dim; c++)
            want.out[(i * heads + h) * dim + c] += weight[j] * widened(v[j * row + c]);
    }
    of.lse[h * seq + i] = (float)log(sum);
    of.delta[h * seq + i] = (float)delta;
    for (int j = 0; j <= i; j++) {
        const double gradient = weight[j] * (dot(dout, v + j * row) - delta) * scale;
        double *dq = &want.dqkv[i * row + h * dim], *dk = &want.dqkv[j * row + heads * dim];
        for (int c = 0; c < dim; c++) {
            dq[c] += gradient * widened(k[j * row + c]);
            dk[c] += gradient * widened(q[c]);
            dk[dim + c] += weight[j] * widened(dout[c]);
        }
    }
}

template <class A> A shape_of()
{
    A a = {};
    a.batch = 1;
    a.seq = seq;
    a.heads = heads;
    a.kv_heads = 1;
    a.head_dim = dim;
    a.scale = scale;
    a.kept = 1;
    a.type = ZR_TYPE_BF16;
    return a;
}

template <class A> A backward_of(arrays &of)
{
    A a = shape_of<A>();
    a.qkv = of.qkv.data();
    a.dout = of.dout.data();
    a.lse = of.lse.data();
    a.delta = of.delta.data();
    a.dqkv = of.dqkv.data();
    return a;
}

// The largest error in columns [first, end) of rows.
double worst(const std::vector<uint16_t> &got, const std::vector<double> &want, size_t first,
             size_t end, size_t width)
{
    double most = 0;
    for (size_t i = 0; i < want.size(); i++) {
        if (i % width < first || i % width >= end)
            continue;
        const double error = fabs(widened(got[i]) - want[i]);
        most = error <= most ? most : std::isnan(error) ? INFINITY : error;
    }
    return most;
}

bool are_near(const std::vector<float> &got, const std::vector<float> &want)
{
    for (size_t i = 0; i < want.size(); i++)
        if (!(fabsf(got[i] - want[i]) < 1e-5f))
            return false;
    return true;
}

constexpr unsigned blocks = (seq + 63) / 64;

bool forward_is_wrong(arrays &of, const results &want, simt::order how)
{
    std::vector<float> lse(of.lse.size());
    auto a = shape_of<zr_attention_forward_64_args>();
    a.qkv = of.qkv.data();
    a.out = of.out.data();
    a.lse = lse.data();
    return !simt::launch(heads * blocks, 128, how, [&] { zr_attention_forward_64(a); }).empty() ||
           worst(of.out, want.out, 0, heads * dim, heads * dim) > 0.02 || !are_near(lse, of.lse);
}

bool keys_are_wrong(arrays &of, const results &want, simt::order how)
{
    const auto a = backward_of<zr_attention_keys_64_args>(of);
    return !simt::launch(blocks, 128, how, [&] { zr_attention_keys_64(a); }).empty() ||
           worst(of.dqkv, want.dqkv, heads * dim, row, row) > 0.1;
}

bool queries_are_wrong(arrays &of, const results &want, simt::order how)
{
    const auto a = backward_of<zr_attention_queries_64_args>(of);
    return !simt::launch(heads * blocks, 128, how, [&] { zr_attention_queries_64(a); }).empty() ||
           worst(of.dqkv, want.dqkv, 0, heads * dim, row) > 0.1;
}

} // namespace

int main()
{
    arrays of = {drawn(seq * row, 1, 2), drawn(seq * heads * dim, 2, 1), {}, {}, {}, {}};
    of.out.resize(seq * heads * dim);
    of.dqkv.resize(seq * row);
    of.lse.resize(heads * seq);
    of.delta.resize(heads * seq);
    results want = {std::vector<double>(of.out.size()), std::vector<double>(of.dqkv.size())};
    for (int h = 0; h < heads; h++)
        for (int i = 0; i < seq; i++)
            compute_row(of, h, i, want);
    bool forward = false, keys = false, queries = false; // wrong: in one order is enough
    for (simt::order how : {simt::order::forward, simt::order::backward, simt::order::drawn}) {
        forward = forward || forward_is_wrong(of, want, how);
        keys = keys || keys_are_wrong(of, want, how);
        queries = queries || queries_are_wrong(of, want, how);
    }
    printf("%s%s%s\n", forward ? "forward " : "", keys ? "keys " : "", queries ? "queries " : "");
}
