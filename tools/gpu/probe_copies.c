// How fast memory of the device is copied: by the copy engine, and by a kernel with grids of
// several sizes. Bytes read and written both count.
#include "probe.h"

#include "kernels.h"

#include <string.h>

typedef struct copy_setup {
    zr_cuda_address from, to;
    size_t bytes;
    zr_cuda_function function;
    unsigned blocks;
} copy_setup;

static bool copy_by_engine(probe_session *session, void *of)
{
    copy_setup *setup = of;
    PROBE_TRY(session, cuMemcpyAsync, setup->to, setup->from, setup->bytes, session->stream);
    return true;
}

static bool copy_by_kernel(probe_session *session, void *of)
{
    copy_setup *setup = of;
    probe_copy_args arguments = {
        .from = (const void *)setup->from,
        .to = (void *)setup->to,
        .words = (int64_t)(setup->bytes / 16),
    };
    return probe_launch(session, setup->function, setup->blocks, 1, 256, session->stream,
                        &arguments);
}

static bool open_setup(probe_session *session, copy_setup *out)
{
    size_t most = probe_size(session, (size_t)4 << 30, (size_t)16 << 10);
    if (!probe_device_share(session, most, 4, &out->bytes) ||
        !probe_function(session, "probe_copy", &out->function) ||
        !probe_hold_device(session, out->bytes, &out->from) ||
        !probe_hold_device(session, out->bytes, &out->to))
        return false;
    PROBE_TRY(session, cuMemsetD8Async, out->from, 7, out->bytes, session->stream);
    PROBE_TRY(session, cuMemsetD8Async, out->to, 0, out->bytes, session->stream);
    return true;
}

// That the last bytes have arrived.
static bool check_copied(probe_session *session, const copy_setup *setup)
{
    unsigned char last[64] = {0}, right[64];
    PROBE_TRY(session, cuMemcpyAsync, (zr_cuda_address)last, setup->to + setup->bytes - 64, 64,
              session->stream);
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    memset(right, 7, sizeof right);
    if (memcmp(last, right, sizeof last))
        probe_answer_fail(session->answer, "the copy differs from what was copied");
    return !session->answer->failed;
}

bool probe_copies(probe_session *session)
{
    copy_setup setup = {0};
    double engine, seconds, best = 0;
    unsigned best_blocks = 0;
    if (!open_setup(session, &setup))
        return false;
    for (unsigned blocks = 4; blocks <= 32; blocks *= 2) {
        setup.blocks = blocks * (unsigned)session->processors;
        if (!probe_time(session, 5, copy_by_kernel, &setup, &seconds))
            return false;
        if (!best_blocks || seconds < best) {
            best = seconds;
            best_blocks = blocks;
        }
    }
    if (!check_copied(session, &setup) || !probe_time(session, 5, copy_by_engine, &setup, &engine))
        return false;
    probe_answer_integer(session->answer, "copied_bytes", (long long)setup.bytes);
    probe_answer_number(session->answer, "kernel_TBs", 2e-12 * (double)setup.bytes / best);
    probe_answer_integer(session->answer, "blocks_per_processor", best_blocks);
    probe_answer_number(session->answer, "engine_TBs", 2e-12 * (double)setup.bytes / engine);
    return true;
}
