// Whether a sum by integer atomics has the same bits on two grids, and those that the host gets;
// and how fast it is.
#include "probe.h"

#include "kernels.h"

typedef struct limb_setup {
    zr_cuda_function function;
    probe_limb_args arguments;
    unsigned blocks;
} limb_setup;

static bool open_setup(probe_session *session, limb_setup *out)
{
    size_t bytes;
    zr_cuda_address x, sum;
    size_t most = probe_size(session, (size_t)1 << 30, (size_t)64 << 10);
    if (!probe_function(session, "probe_limbs", &out->function) ||
        !probe_device_share(session, most, 4, &bytes) || !probe_hold_device(session, bytes, &x) ||
        !probe_hold_device(session, sizeof(int64_t), &sum) || !probe_fill(session, x, bytes))
        return false;
    out->arguments = (probe_limb_args){
        .x = (const float *)x,
        .count = (int64_t)(bytes / sizeof(float)),
        .sum = (int64_t *)sum,
    };
    return true;
}

static bool add_up(probe_session *session, void *of)
{
    limb_setup *setup = of;
    PROBE_TRY(session, cuMemsetD8Async, (zr_cuda_address)setup->arguments.sum, 0, sizeof(int64_t),
              session->stream);
    return probe_launch(session, setup->function, setup->blocks, 1, PROBE_LIMB_THREADS,
                        session->stream, &setup->arguments);
}

// A chunk in the order of the kernel.
static int64_t add_chunk(const float *x, int64_t count)
{
    double part[PROBE_LIMB_THREADS] = {0};
    const int each = PROBE_CHUNK / PROBE_LIMB_THREADS;
    for (int64_t i = 0; i < PROBE_MIN(count, PROBE_CHUNK); i++)
        part[i / each] += (double)x[i] * x[i];
    for (int half = PROBE_LIMB_THREADS / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    return (int64_t)(part[0] * 0x1p20);
}

// The sum of `count` numbers that are the pattern again and again.
static int64_t add_pattern(const probe_session *session, int64_t count)
{
    const float *x = (const float *)session->pattern;
    const int64_t whole = (int64_t)session->pattern_count / 2; // a float is two of its elements
    int64_t once = 0, rest = 0;
    for (int64_t at = 0; at < whole; at += PROBE_CHUNK)
        once += add_chunk(x + at, whole - at);
    for (int64_t at = 0; at < count % whole; at += PROBE_CHUNK)
        rest += add_chunk(x + at, count % whole - at);
    return count / whole * once + rest;
}

static bool read_sum(probe_session *session, const limb_setup *setup, int64_t *out)
{
    *out = -1;
    PROBE_TRY(session, cuMemcpyAsync, (zr_cuda_address)out, (zr_cuda_address)setup->arguments.sum,
              sizeof *out, session->stream);
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    return true;
}

bool probe_limbs(probe_session *session)
{
    limb_setup setup;
    int64_t sums[2];
    double seconds = 0, ignored;
    if (!open_setup(session, &setup))
        return false;
    setup.blocks = (unsigned)session->processors * 8;
    if (!probe_time(session, 3, add_up, &setup, &seconds) || !read_sum(session, &setup, &sums[0]))
        return false;
    setup.blocks = 33;
    if (!probe_time(session, 1, add_up, &setup, &ignored) || !read_sum(session, &setup, &sums[1]))
        return false;
    const int64_t right = add_pattern(session, setup.arguments.count);
    probe_answer_integer(session->answer, "same", sums[0] == sums[1]);
    probe_answer_integer(session->answer, "right", sums[0] == right);
    probe_answer_number(session->answer, "TBs",
                        (double)setup.arguments.count * sizeof(float) / seconds / 1e12);
    if (sums[0] != right || sums[1] != right)
        probe_answer_fail(session->answer, "the sums are %lld and %lld, the host's is %lld",
                          (long long)sums[0], (long long)sums[1], (long long)right);
    return !session->answer->failed;
}
