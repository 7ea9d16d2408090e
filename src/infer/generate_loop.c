#include "infer/generate_loop.h"

#include "base/random.h"
#include "comm/agreement.h"
#include "infer/decoding.h"

#include <math.h>
#include <string.h>

// Tokens of a prompt that go through the units at once. With this many, the arithmetic of a unit
// takes longer than fetching it.
#define CHUNK 256

typedef struct sequence {   // a place in the batch
    int64_t prompt;         // -1: none
    int32_t *window;        // (capacity) its tokens; those after the cached ones are waiting
    int64_t length, cached; // cached: how many of its tokens are in the cache
    int64_t generated;
    zr_decoder decoder;
    zr_buffer held; // text that may be the beginning of one that ends the answer
    bool ended;     // by such a text
} sequence;

typedef struct sampler {
    zr_decoding decoding;
    const zr_tokenizer *tokenizer;
    const zr_sampling *how;
    const zr_sample_sink *sink;
    sequence *sequences; // (decoding.limits.sequences)
    int64_t next;        // the next prompt that has had no place yet
    // Number of ids that may be drawn, because a model may have more rows than its tokenizer
    // tokens.
    int32_t ids;
    zr_buffer text; // waits to be emitted
    bool stopped, told;
} sampler;

static zr_decoding_limits limits_of_sampling(const zr_lm_config *config, const zr_sampling *how)
{
    int64_t positions = zr_lm_shape_of(config).positions, longest = how->prompts->longest;
    // If they do not fit, a full context has to be read again.
    bool fits = longest <= positions && how->tokens <= positions - longest;
    int64_t capacity = fits ? longest + how->tokens : positions;
    return (zr_decoding_limits){.sequences = ZR_MAX(1, ZR_MIN(how->batch, how->prompts->count)),
                                .capacity = capacity,
                                .chunk = ZR_MIN(CHUNK, fits ? longest : capacity)};
}

static void emit(sampler *s, const sequence *q, const char *text, size_t length)
{
    if (length && !s->stopped)
        s->stopped = s->sink->emit(s->sink->user, q->prompt, text, length) != 0;
}

// Emits what is known not to be the beginning of a text that ends the answer.
static void emit_up_to_stop(sampler *s, sequence *q, bool last)
{
    bool found = false;
    zr_buffer_append(&q->held, s->text.data, s->text.length);
    size_t ready = q->ended || q->held.failed
                       ? 0
                       : zr_stop_scan(&s->how->stops, q->held.data, q->held.length, last, &found);
    emit(s, q, q->held.data, ready);
    q->ended |= found;
    q->held.length -= ready;
    if (q->held.length)
        memmove(q->held.data, q->held.data + ready, q->held.length);
}

// Emits what the decoder has written; `text` is empty afterwards. `last`: the answer is complete.
static zero_status emit_text(sampler *s, sequence *q, bool last, zero_error *error)
{
    if (s->how->stops.count)
        emit_up_to_stop(s, q, last);
    else
        emit(s, q, s->text.data, s->text.length);
    if (s->text.failed || q->held.failed)
        return zr_fail(error, ZERO_ERR_MEMORY, "generating token %lld: no memory for its text",
                       (long long)q->generated);
    s->text.length = 0;
    return ZERO_OK;
}

static void warn_context_full(sampler *s, const sequence *q, int64_t kept)
{
    if (s->told)
        return;
    s->told = true;
    zr_log(s->how->logger, ZERO_LOG_WARNING,
           "prompt %lld: the context of %lld tokens is full; from its last %lld on it is read "
           "again, and what was before is forgotten (said once)",
           (long long)q->prompt, (long long)s->decoding.limits.capacity, (long long)kept);
}

// Assigns the next prompt to a place. The prompt's text is not emitted, but the decoder must see
// it, because the answer continues it.
static void begin_next_prompt(sampler *s, sequence *q)
{
    const zr_prompts *prompts = s->how->prompts;
    q->prompt = s->next < prompts->count ? s->next++ : -1;
    if (q->prompt < 0)
        return;
    const int32_t *ids = prompts->ids.at + prompts->first[q->prompt];
    int64_t count = prompts->first[q->prompt + 1] - prompts->first[q->prompt],
            capacity = s->decoding.limits.capacity;
    q->length = count <= capacity ? count : ZR_MAX(capacity / 2, 1);
    if (q->length < count)
        warn_context_full(s, q, q->length);
    memcpy(q->window, ids + count - q->length, (size_t)q->length * sizeof *ids);
    q->cached = q->generated = 0;
    q->held.length = 0;
    q->ended = false;
    zr_decoder_begin(&q->decoder, s->tokenizer, true);
    for (int64_t i = 0; i < count; i++)
        zr_decoder_push(&q->decoder, ids[i], &s->text);
    q->decoder.skip_special = false;
    s->text.length = 0;
}

static zero_status finish_sequence(sampler *s, sequence *q, zero_finish why, zero_error *error)
{
    zr_decoder_end(&q->decoder, &s->text);
    ZERO_TRY(emit_text(s, q, true, error));
    why = q->ended ? ZERO_FINISH_END : why;
    if (s->sink->finish && !s->stopped)
        s->sink->finish(s->sink->user, q->prompt, why, q->generated);
    begin_next_prompt(s, q);
    return ZERO_OK;
}

// Appends a token. If the context is full, the later half of its tokens is read again first.
static void append_to_window(sampler *s, sequence *q, int32_t token)
{
    int64_t capacity = s->decoding.limits.capacity, keep = capacity / 2;
    if (q->length == capacity) {
        warn_context_full(s, q, keep);
        memmove(q->window, q->window + capacity - keep, (size_t)keep * sizeof *q->window);
        q->length = keep;
        q->cached = 0;
    }
    q->window[q->length++] = token;
}

static bool is_end(const sampler *s, int32_t token)
{
    const zr_ids *ends = s->how->ends;
    for (int64_t i = 0; ends && i < ends->count; i++)
        if (ends->at[i] == token)
            return true;
    return false;
}

static double draw_uniform(uint64_t seed, int64_t prompt, int64_t index)
{
    zr_philox bits = zr_philox4x32(seed, (uint64_t)prompt, (uint64_t)index);
    return (double)(((uint64_t)bits.v[0] << 32 | bits.v[1]) >> 11) * 0x1p-53;
}

static zero_status choose_next_token(sampler *s, sequence *q, const float *logits,
                                     zero_error *error)
{
    const zr_sampling *how = s->how;
    if (!isfinite(logits[0]))
        return zr_fail(error, ZERO_ERR_NONFINITE,
                       "generating token %lld: the model's logits are not finite",
                       (long long)q->generated);
    int32_t token =
        zr_choose_token(logits, s->ids, how->temperature, how->top_k, how->top_p,
                        draw_uniform(how->seed, q->prompt, q->generated), s->decoding.candidates);
    if (is_end(s, token))
        return finish_sequence(s, q, ZERO_FINISH_END, error);
    q->generated++;
    zr_decoder_push(&q->decoder, token, &s->text);
    ZERO_TRY(emit_text(s, q, false, error));
    if (q->ended)
        return finish_sequence(s, q, ZERO_FINISH_END, error);
    if (q->generated == how->tokens)
        return finish_sequence(s, q, ZERO_FINISH_LENGTH, error);
    append_to_window(s, q, token);
    return ZERO_OK;
}

// Takes the waiting tokens of every sequence in turn, at most a chunk of each. A chunk that does
// not fit in addition to the others' waits for the next step as a whole, so that prompts are always
// cut in the same places.
static zr_decode_step make_step(sampler *s)
{
    zr_decoding *d = &s->decoding;
    zr_decode_step step = {.runs = d->runs, .tokens = d->tokens, .wanted = d->wanted};
    for (int64_t i = 0; i < d->limits.sequences; i++) {
        sequence *q = &s->sequences[i];
        int64_t waiting = q->length - q->cached, taken = ZR_MIN(waiting, d->limits.chunk);
        if (q->prompt < 0 || step.rows + taken > d->rows)
            continue;
        d->runs[step.run_count++] =
            (zr_attention_run){.sequence = i, .first = q->cached, .rows = taken};
        memcpy(d->tokens + step.rows, q->window + q->cached, (size_t)taken * sizeof *d->tokens);
        step.rows += taken;
        q->cached += taken;
        if (taken == waiting)
            d->wanted[step.wanted_count++] = step.rows - 1;
    }
    return step;
}

static zero_status run_step(sampler *s, const zr_decode_step *step, zero_error *error)
{
    const float *logits = s->decoding.logits;
    ZERO_TRY(zr_generation_begin_step(s->how->times, error));
    ZERO_TRY(zr_decoding_take_step(&s->decoding, step, error));
    ZERO_TRY(zr_generation_end_step(s->how->times, step, error));
    for (int r = 0; r < step->run_count && !s->stopped; r++) {
        sequence *q = &s->sequences[step->runs[r].sequence];
        if (q->cached < q->length)
            continue;
        ZERO_TRY(choose_next_token(s, q, logits, error));
        logits += s->decoding.shape.vocab;
    }
    return ZERO_OK;
}

// No rank may take a step without the others, so all learn when one of them has been stopped.
static zero_status agree_to_stop(sampler *s, zero_error *error)
{
    int64_t stopped = s->stopped;
    if (!s->sink->together)
        return ZERO_OK;
    ZERO_TRY(zr_comm_agree_on_largest(s->sink->together, &stopped, error));
    s->stopped = stopped;
    return ZERO_OK;
}

static void begin_times(sampler *s)
{
    zr_generation_times *times = s->how->times;
    if (!times)
        return;
    times->sequences = s->decoding.limits.sequences;
    times->capacity = s->decoding.limits.capacity;
    times->vocabulary = s->how->temperature > 0 ? s->ids : 0;
}

static zero_status generate_all(sampler *s, zero_error *error)
{
    begin_times(s);
    for (int64_t i = 0; i < s->decoding.limits.sequences; i++) {
        s->sequences[i].window = s->decoding.windows + i * s->decoding.limits.capacity;
        begin_next_prompt(s, &s->sequences[i]);
    }
    while (!s->stopped) {
        const zr_decode_step step = make_step(s);
        if (!step.run_count)
            return ZERO_OK;
        ZERO_TRY(run_step(s, &step, error));
        ZERO_TRY(agree_to_stop(s, error));
        zr_generation_end_choice(s->how->times, step.wanted_count, s->stopped);
    }
    return ZERO_OK;
}

zero_status zr_generate_loop(zero_engine *engine, const zr_lm_config *config,
                             const zr_tokenizer *tokenizer, const zr_sampling *how,
                             const zr_sample_sink *sink, zero_error *error)
{
    const zr_decoding_limits limits = limits_of_sampling(config, how);
    sampler s = {
        .tokenizer = tokenizer,
        .how = how,
        .sink = sink,
        .ids = (int32_t)ZR_MIN(zr_lm_shape_of(config).vocab, zr_tokenizer_vocabulary(tokenizer))};
    s.sequences = zr_alloc((size_t)limits.sequences * sizeof *s.sequences, error);
    zero_status status = s.sequences ? zr_decoding_open(engine, config, &limits, &s.decoding, error)
                                     : ZERO_ERR_MEMORY;
    if (status == ZERO_OK) {
        status = generate_all(&s, error);
        zr_decoding_close(&s.decoding);
    }
    for (int64_t i = 0; s.sequences && i < limits.sequences; i++) {
        if (s.sequences[i].decoder.tokenizer)
            zr_decoder_end(&s.sequences[i].decoder, &s.text);
        zr_buffer_free(&s.sequences[i].held);
    }
    zr_free(s.sequences);
    zr_buffer_free(&s.text);
    return status;
}

zero_status zr_generate_check_memory(zero_engine *engine, const zr_lm_config *config,
                                     const zr_sampling *how, zero_error *error)
{
    const zr_decoding_limits limits = limits_of_sampling(config, how);
    return zr_decoding_check_memory(engine, config, &limits, error);
}
