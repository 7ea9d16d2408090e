// A candidate in words, for tables and messages.
#include "base/alloc.h"
#include "tune/candidates.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct words {
    char *out;
    size_t size, used;
} words;

static void append_words(words *w, const char *format, ...) ZERO_PRINTF(2, 3);

static void append_words(words *w, const char *format, ...)
{
    va_list arguments;
    if (w->used >= w->size)
        return;
    va_start(arguments, format);
    int length = vsnprintf(w->out + w->used, w->size - w->used, format, arguments);
    va_end(arguments);
    w->used += (size_t)ZR_MAX(length, 0);
}

static void append_place(words *w, zero_tier tier, const char *what)
{
    if (tier != ZERO_TIER_device)
        append_words(w, ", %s on %s", what, tier == ZERO_TIER_host ? "the host" : "NVMe");
}

void zr_candidate_text(const zr_run_candidate *c, char *out, size_t size)
{
    words w = {.out = out, .size = size};
    append_words(&w, "%d x %d", c->ranks, c->threads);
    if (c->tensor > 1)
        append_words(&w, ", tensor %d", c->tensor);
    if (c->stages > 1)
        append_words(&w, ", pipeline %d %s", c->stages, zr_pipeline_kind_name(c->schedule));
    if (c->stages > 1 && c->chunks > 1)
        append_words(&w, ":%d", c->chunks);
    append_words(&w, ", stage %lld, micro-batch %lld x %lld", (long long)c->stage,
                 (long long)c->micro_batch, (long long)c->accumulation);
    if (c->checkpoints)
        append_words(&w, ", checkpoints %lld", (long long)c->checkpoints);
    append_place(&w, c->optimizer, "optimizer");
    append_place(&w, c->parameters, "parameters");
    if (c->delayed)
        append_words(&w, ", delayed update");
    if (c->sub_group)
        append_words(&w, ", sub-groups %lld", (long long)c->sub_group);
    if (c->tiling)
        append_words(&w, ", tiling %d", c->tiling);
}
