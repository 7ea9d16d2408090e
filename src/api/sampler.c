// Generation. When the model's context is full, its later half is read again from the first position on.
#include "api/sampler.h"

#include "api/choose.h"
#include "api/machine.h"
#include "base/bytes_text.h"
#include "base/random.h"
#include "engine/engine.h"
#include "layers/layers.h"
#include "memory/arena.h"

#include <math.h>
#include <string.h>

typedef struct sampler {
    zero_engine *engine;
    const zr_lm_config *config;
    zr_lm_shape shape;
    const zr_tokenizer *tokenizer;
    zr_ledger ledger;
    zr_arena arena;
    zr_decode_cache cache;
    void *state[2];        // (width) of the stream's type, into and out of a unit, in turn
    float *logits;         // (vocabulary)
    zr_candidate *room;    // (vocabulary)
    void *workspace;
    int32_t *window;       // (capacity) tokens that the cache holds
    int32_t token;         // being decoded
    bool wants_logits;
    int turn;
} sampler;

static zero_status decode_unit(void *user, zero_context *context, zero_error *error)
{
    sampler *s = user;
    zero_context mine = *context;
    mine.workspace = s->workspace;
    mine.shape = (zero_shape){.batch = 1, .seq = 1, .threads = context->shape.threads, .dtype = context->shape.dtype};
    mine.error = error;
    bool head = zr_lm_is_head(mine.unit);
    void *out = !head ? s->state[!s->turn] : s->wants_logits ? s->logits : NULL;
    ZERO_TRY(zr_lm_decode(&mine, &s->cache, s->token, s->state[s->turn], out));
    s->turn = !s->turn;
    return ZERO_OK;
}

static zero_status decode(sampler *s, int32_t token, bool wants_logits, zero_error *error)
{
    s->window[s->cache.length] = token;
    s->token = token;
    s->wants_logits = wants_logits;
    s->turn = 0;
    return zr_engine_visit_units(s->engine, decode_unit, s, error);
}

// Makes room by starting again with the later half of what the cache held.
static zero_status slide(sampler *s, zero_error *error)
{
    int64_t keep = s->cache.capacity / 2, first = s->cache.length - keep;
    memmove(s->window, s->window + first, (size_t)keep * sizeof *s->window);
    s->cache.length = 0;
    for (int64_t i = 0; i < keep; i++)
        ZERO_TRY(decode(s, s->window[i], false, error));
    return ZERO_OK;
}

static zero_status feed(sampler *s, int32_t token, bool wants_logits, zero_error *error)
{
    if (s->cache.length == s->cache.capacity)
        ZERO_TRY(slide(s, error));
    return decode(s, token, wants_logits, error);
}

static zero_status decode_needs(const sampler *s, zr_queue *queue, size_t *workspace, size_t *scratch, zero_error *error)
{
    const zr_plan *plan = zr_engine_plan(s->engine);
    *workspace = *scratch = 0;
    for (int u = 0; u < plan->unit_count; u++) {
        zero_unit_sizes sizes;
        ZERO_TRY(zr_lm_decode_sizes(&plan->model->units[u], plan->shape.dtype, queue->threads, &sizes));
        *workspace = ZR_MAX(*workspace, sizes.workspace_bytes);
        for (int i = 0; i < sizes.product_count; i++) {
            size_t bytes = zr_product_scratch(queue, plan->shape.dtype, &sizes.products[i]);
            *scratch = ZR_MAX(*scratch, bytes);
        }
    }
    return ZERO_OK;
}

typedef struct room { // bytes
    size_t cache, width, logits, candidates, window, workspace, scratch;
    size_t total;
} room;

static zero_status measure(const sampler *s, zr_queue *queue, room *out, zero_error *error)
{
    size_t vocabulary = (size_t)s->shape.vocab;
    *out = (room){.cache = zr_lm_decode_cache_bytes(s->config, s->shape.positions), .width = sizeof(float) * (size_t)s->shape.width,
                  .logits = vocabulary * sizeof(float), .candidates = vocabulary * sizeof(zr_candidate),
                  .window = sizeof(int32_t) * (size_t)s->shape.positions};
    ZERO_TRY(decode_needs(s, queue, &out->workspace, &out->scratch, error));
    size_t parts[] = {out->cache, out->cache, out->width, out->width, out->logits, out->candidates, out->window, out->workspace, out->scratch};
    for (int i = 0; i < ZR_COUNT(parts); i++)
        out->total += ZR_ROUND_UP(parts[i], ZR_ALIGN);
    return ZERO_OK;
}

static zero_status reserve(sampler *s, zr_queue *queue, zero_error *error)
{
    room room;
    ZERO_TRY(measure(s, queue, &room, error));
    ZERO_TRY(zr_arena_create(&s->ledger, ZERO_TIER_host, ZERO_MEM_workspace, room.total, &s->arena, error));
    s->cache = (zr_decode_cache){.capacity = s->shape.positions, .k = zr_arena_take(&s->arena, room.cache), .v = zr_arena_take(&s->arena, room.cache)};
    s->state[0] = zr_arena_take(&s->arena, room.width);
    s->state[1] = zr_arena_take(&s->arena, room.width);
    s->logits = zr_arena_take(&s->arena, room.logits);
    s->room = zr_arena_take(&s->arena, room.candidates);
    s->window = zr_arena_take(&s->arena, room.window);
    s->workspace = zr_arena_take(&s->arena, room.workspace);
    queue->scratch = zr_arena_take(&s->arena, room.scratch);
    queue->scratch_bytes = room.scratch;
    return ZERO_OK;
}

zero_status zr_sample_check_memory(zero_engine *engine, const zr_lm_config *config, zero_error *error)
{
    const sampler s = {.engine = engine, .config = config, .shape = zr_lm_shape_of(config)};
    int64_t budget = zr_engine_config(engine)->offload.host_memory / zr_local_ranks(zr_engine_comm(engine));
    int64_t planned = zr_plan_tier_bytes(zr_engine_plan(engine), ZERO_TIER_host);
    char own[ZR_BYTES_TEXT], parameters[ZR_BYTES_TEXT], limit[ZR_BYTES_TEXT];
    room room;
    ZERO_TRY(measure(&s, zr_engine_queue(engine), &room, error));
    if (budget <= 0 || planned + (int64_t)room.total <= budget)
        return ZERO_OK;
    zr_bytes_text((double)room.total, own);
    zr_bytes_text((double)planned, parameters);
    zr_bytes_text((double)budget, limit);
    return zr_fail(error, ZERO_ERR_LIMIT, "generating with a context of %lld: %s are needed on the host for keys, values and logits, and %s for parameters; its budget is %s (--host-memory)",
                   (long long)s.shape.positions, own, parameters, limit);
}

// The prompt's tokens; a vocabulary of characters may lack the new line, then its first token begins.
static zero_status encode_prompt(const sampler *s, const char *prompt, int32_t **ids, int64_t *count, zero_error *error)
{
    bool none = !prompt || !*prompt;
    const char *text = none ? "\n" : prompt;
    *ids = zr_alloc((size_t)(zr_tokenizer_room(s->tokenizer, strlen(text)) + 1) * sizeof **ids, error);
    if (!*ids)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_tokenizer_encode(s->tokenizer, text, strlen(text), "the prompt", *ids, count, none ? NULL : error);
    if (status == ZERO_ERR_DATA && none) {
        (*ids)[0] = 0;
        *count = 1;
        status = ZERO_OK;
    }
    if (status != ZERO_OK)
        zr_free(*ids);
    return status;
}

// Of a prompt longer than the context only the end is read. Ends with the logits of the first new token.
static zero_status read_prompt(sampler *s, const char *prompt, zero_error *error)
{
    int32_t *ids;
    int64_t count;
    ZERO_TRY(encode_prompt(s, prompt, &ids, &count, error));
    int64_t first = count > s->cache.capacity ? count - ZR_MAX(s->cache.capacity / 2, 1) : 0;
    zero_status status = ZERO_OK;
    for (int64_t i = first; i < count && status == ZERO_OK; i++)
        status = feed(s, ids[i], i == count - 1, error);
    zr_free(ids);
    return status;
}

// Hands on what is whole; bytes that cannot become a character are U+FFFD. `last`: nothing follows.
static int emit_whole(zr_buffer *pending, bool last, zr_emit emit, void *user)
{
    size_t at = 0;
    int stop = 0;
    while (at < pending->length && !stop) {
        int length = zr_character_length(pending->data + at, pending->length - at);
        if (length == 0 && !last)
            break;
        stop = length > 0 ? emit(user, pending->data + at, (size_t)length) : emit(user, "\xef\xbf\xbd", 3);
        at += length > 0 ? (size_t)length : 1;
    }
    memmove(pending->data, pending->data + at, pending->length - at);
    pending->length -= at;
    return stop;
}

static double random_of(uint64_t seed, int64_t index)
{
    zr_philox bits = zr_philox4x32(seed, 0, (uint64_t)index);
    return (double)(((uint64_t)bits.v[0] << 32 | bits.v[1]) >> 11) * 0x1p-53;
}

static zero_status generate(sampler *s, const zr_sampling *how, zr_emit emit, void *user, zero_error *error)
{
    zr_buffer pending = {0};
    int32_t ids = (int32_t)ZR_MIN(s->shape.vocab, zr_tokenizer_vocabulary(s->tokenizer)); // a model may have more rows than tokens
    zero_status status = read_prompt(s, how->prompt, error);
    int stop = 0;
    for (int64_t i = 0; i < how->tokens && status == ZERO_OK && !stop; i++) {
        if (!isfinite(s->logits[0])) {
            status = zr_fail(error, ZERO_ERR_NONFINITE, "generating token %lld: the model's logits are not finite", (long long)i);
            break;
        }
        int32_t token = zr_choose_token(s->logits, ids, how->temperature, how->top_k, how->top_p, random_of(how->seed, i), s->room);
        zr_tokenizer_decode(s->tokenizer, token, &pending);
        if (pending.failed)
            status = zr_fail(error, ZERO_ERR_MEMORY, "generating token %lld: no memory for its text", (long long)i);
        else
            stop = emit_whole(&pending, i + 1 == how->tokens, emit, user);
        if (status == ZERO_OK && !stop && i + 1 < how->tokens)
            status = feed(s, token, true, error);
    }
    zr_buffer_free(&pending);
    return status;
}

zero_status zr_sample(zero_engine *engine, const zr_lm_config *config, const zr_tokenizer *tokenizer, const zr_sampling *how, zr_emit emit, void *user,
                      zero_error *error)
{
    zr_queue *queue = zr_engine_queue(engine);
    void *scratch = queue->scratch;
    size_t scratch_bytes = queue->scratch_bytes;
    sampler s = {.engine = engine, .config = config, .shape = zr_lm_shape_of(config), .tokenizer = tokenizer};
    zero_status status = reserve(&s, queue, error);
    if (status == ZERO_OK)
        status = generate(&s, how, emit, user, error);
    queue->scratch = scratch;
    queue->scratch_bytes = scratch_bytes;
    zr_arena_destroy(&s.arena);
    return status;
}

static int append(void *user, const char *text, size_t length)
{
    zr_buffer_append(user, text, length);
    return 0;
}

zero_status zr_sample_text(zero_engine *engine, const zr_lm_config *config, const zr_tokenizer *tokenizer, const zr_sampling *how, zr_buffer *out,
                           zero_error *error)
{
    ZERO_TRY(zr_sample(engine, config, tokenizer, how, append, out, error));
    return out->failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for a sample of %lld tokens", (long long)how->tokens) : ZERO_OK;
}
