// Attention by mma.sync, the kernel that an emulator has run before: whether it is right here, the
// same twice, and how fast.
#include "probe.h"

#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQ = 192, HEADS = 2, WIDTH = PROBE_HEAD_WIDTH, THREADS = 128 };

static const double most_error = 4e-3; // weights are rounded to bf16, so 2e-3 is what comes out

typedef struct attention_setup {
    zr_cuda_function function;
    probe_attention_args arguments;
    unsigned batch;
} attention_setup;

static size_t elements(const attention_setup *setup) // of the result
{
    return (size_t)setup->batch * (size_t)setup->arguments.seq * (size_t)setup->arguments.heads *
           WIDTH;
}

static bool attend(probe_session *session, void *of)
{
    attention_setup *setup = of;
    const probe_attention_args *a = &setup->arguments;
    return probe_launch(session, setup->function, (unsigned)(a->seq / PROBE_ROWS),
                        setup->batch * (unsigned)a->heads, THREADS, session->stream,
                        &setup->arguments);
}

static bool open_setup(probe_session *session, unsigned batch, int seq, int heads,
                       attention_setup *out)
{
    zr_cuda_address qkv, result, sums;
    out->batch = batch;
    out->arguments = (probe_attention_args){.seq = seq, .heads = heads, .scale = 0.125f};
    const size_t count = elements(out);
    if (!probe_function(session, "probe_attention", &out->function) ||
        !probe_hold_device(session, count * 3 * sizeof(uint16_t), &qkv) ||
        !probe_hold_device(session, count * sizeof(uint16_t), &result) ||
        !probe_hold_device(session, count / WIDTH * sizeof(float), &sums) ||
        !probe_fill(session, qkv, count * 3 * sizeof(uint16_t)))
        return false;
    PROBE_TRY(session, cuMemsetD8Async, result, 0xff, count * sizeof(uint16_t), session->stream);
    out->arguments.qkv = (const uint16_t *)qkv;
    out->arguments.out = (uint16_t *)result;
    out->arguments.log_sums = (float *)sums;
    return true;
}

// One element of qkv of the small case, which is the pattern.
static double input(const probe_session *session, int row, int which, int head, int column)
{
    size_t at = (((size_t)row * 3 + (size_t)which) * HEADS + (size_t)head) * WIDTH + (size_t)column;
    return probe_widen(session->pattern[at % session->pattern_count]);
}

// The weights of the keys of one row, in double.
static void weigh_keys(const probe_session *session, int head, int row, double *weights)
{
    double most = -INFINITY, sum = 0;
    for (int key = 0; key <= row; key++) {
        weights[key] = 0;
        for (int c = 0; c < WIDTH; c++)
            weights[key] += input(session, row, 0, head, c) * input(session, key, 1, head, c);
        weights[key] *= 0.125;
        most = fmax(most, weights[key]);
    }
    for (int key = 0; key <= row; key++)
        sum += weights[key] = exp(weights[key] - most);
    for (int key = 0; key <= row; key++)
        weights[key] /= sum;
}

// Adds to sums[0] the squares of a row's differences, to sums[1] those of what is right.
static void compare_row(const probe_session *session, int head, int row, const uint16_t *got,
                        double *sums)
{
    double weights[SEQ];
    weigh_keys(session, head, row, weights);
    for (int c = 0; c < WIDTH; c++) {
        double right = 0;
        for (int key = 0; key <= row; key++)
            right += weights[key] * input(session, key, 2, head, c);
        double difference = probe_widen(got[(row * HEADS + head) * WIDTH + c]) - right;
        sums[0] += difference * difference;
        sums[1] += right * right;
    }
}

static bool read_result(probe_session *session, const attention_setup *setup, uint16_t *out)
{
    PROBE_TRY(session, cuMemcpyAsync, (zr_cuda_address)out, (zr_cuda_address)setup->arguments.out,
              elements(setup) * sizeof *out, session->stream);
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    return true;
}

static bool check_small(probe_session *session)
{
    attention_setup setup;
    void *got, *again;
    double sums[2] = {0, 0};
    if (!open_setup(session, 1, SEQ, HEADS, &setup) ||
        !probe_hold_host(session, elements(&setup) * sizeof(uint16_t), &got) ||
        !probe_hold_host(session, elements(&setup) * sizeof(uint16_t), &again) ||
        !attend(session, &setup) || !read_result(session, &setup, got) ||
        !attend(session, &setup) || !read_result(session, &setup, again))
        return false;
    for (int head = 0; head < HEADS; head++)
        for (int row = 0; row < SEQ; row++)
            compare_row(session, head, row, got, sums);
    const double error = sqrt(sums[0] / sums[1]);
    const bool same = !memcmp(got, again, elements(&setup) * sizeof(uint16_t));
    probe_answer_number(session->answer, "error", error);
    probe_answer_integer(session->answer, "same", same);
    if (!(error < most_error) || !same)
        probe_answer_fail(session->answer, "attention is wrong: error %.2e, at most %.0e%s", error,
                          most_error, same ? "" : ", and differs the second time");
    return true;
}

// The shape of GPT-2 124M with 64 sequences of 1,024.
static bool time_large(probe_session *session)
{
    attention_setup setup;
    double seconds;
    const unsigned batch = (unsigned)probe_size(session, 64, 1);
    const int seq = (int)probe_size(session, 1024, 128), heads = (int)probe_size(session, 12, 2);
    if (!open_setup(session, batch, seq, heads, &setup) ||
        !probe_time(session, (int)probe_size(session, 10, 1), attend, &setup, &seconds))
        return false;
    const double operations = 2.0 * seq * seq * WIDTH * heads * batch; // half of the scores
    probe_answer_number(session->answer, "seconds_each", seconds);
    probe_answer_number(session->answer, "TFs", operations / seconds / 1e12);
    return true;
}

bool probe_attention(probe_session *session)
{
    return check_small(session) && time_large(session) && !session->answer->failed;
}
