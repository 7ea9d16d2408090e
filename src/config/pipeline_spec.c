// The names of schedules, as flags and keys have them.
#include "config/pipeline_spec.h"

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

const char *zr_pipeline_kinds(void)
{
    return "1f1b, gpipe, interleaved:CHUNKS (2 to 8), zb-h1, pipedream, 2bw";
}
