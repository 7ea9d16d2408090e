// The names of schedules, as flags and keys have them.
#include "config/pipeline_spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[ZR_PIPELINE_KIND_COUNT] = {
    [ZR_PIPELINE_1F1B] = "1f1b",
    [ZR_PIPELINE_GPIPE] = "gpipe",
    [ZR_PIPELINE_INTERLEAVED] = "interleaved",
    [ZR_PIPELINE_ZB_H1] = "zb-h1",
    [ZR_PIPELINE_PIPEDREAM] = "pipedream",
    [ZR_PIPELINE_2BW] = "2bw",
};

const char *zr_pipeline_kind_name(zr_pipeline_kind kind) { return names[kind]; }

bool zr_pipeline_is_asynchronous(zr_pipeline_kind kind)
{
    return kind == ZR_PIPELINE_PIPEDREAM || kind == ZR_PIPELINE_2BW;
}

// Reads what follows "interleaved": ":" and one digit. One chunk would be 1f1b with more sets.
static int read_chunks(const char *text)
{
    _Static_assert(ZR_MOST_CHUNKS < 10, "a number of chunks is one digit");
    bool digit = text[0] == ':' && text[1] >= '2' && text[1] <= '0' + ZR_MOST_CHUNKS;
    return digit && !text[2] ? text[1] - '0' : 0;
}

bool zr_pipeline_kind_read(const char *text, zr_pipeline_kind *kind, int *chunks)
{
    for (int k = 0; k < ZR_PIPELINE_KIND_COUNT; k++) {
        size_t length = strlen(names[k]);
        if (strncmp(text, names[k], length))
            continue;
        int count = k == ZR_PIPELINE_INTERLEAVED ? read_chunks(text + length) : !text[length];
        if (!count)
            continue;
        *kind = (zr_pipeline_kind)k;
        *chunks = count;
        return true;
    }
    return false;
}

bool zr_pipeline_refuses_count(zr_pipeline_kind kind, int stages, int64_t micro_batches,
                               char why[static ZR_PIPELINE_WHY])
{
    int64_t m = micro_batches, p = stages, multiple = ZR_MAX(m - m % p, p);
    if (p > 1 && kind == ZR_PIPELINE_INTERLEAVED && m % p) {
        snprintf(why, ZR_PIPELINE_WHY,
                 "no multiple of %" PRId64 " pipeline stages; %" PRId64 " or %" PRId64
                 " would do, or 1f1b",
                 p, multiple, multiple + p);
        return true;
    }
    if (p > 1 && kind == ZR_PIPELINE_2BW && m < p) {
        snprintf(why, ZR_PIPELINE_WHY,
                 "fewer than %" PRId64 " pipeline stages, so two versions of the weights are too "
                 "few; %" PRId64 " would do, or pipedream",
                 p, p);
        return true;
    }
    return false;
}

bool zr_pipeline_refuses_zero(zr_pipeline_kind kind, int stages, int zero_stage,
                              char why[static ZR_PIPELINE_WHY])
{
    if (stages == 1 || kind != ZR_PIPELINE_PIPEDREAM || zero_stage < 3)
        return false;
    snprintf(why, ZR_PIPELINE_WHY,
             "keeps whole versions of the parameters (up to %d on the first pipeline stage), which "
             "zero_optimization.stage 3 divides: expected 0, 1 or 2",
             stages);
    return true;
}
