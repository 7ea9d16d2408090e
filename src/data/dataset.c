// The token stream and the windows cut from it.
//
//   n tokens, windows of T+1 (T inputs and, shifted by one, T targets), neighbours sharing one token:
//
//     [ phase ][ window 0 | window 1 | ... | window W-1 ][ tail ]        phase + W*T + 1 <= n
//
//   W     = max(1, floor(n/T) - 1)           the same in every epoch; n >= T+1
//   phase < min(T, n - W*T)                  drawn anew for each epoch, so that the borders move
//
// Hence no window runs past the end, and an epoch takes every token as an input once, but for at most 2T-1 of them before and
// after the windows (n >= 2T). Sample s is window permute(s mod W) of epoch floor(s/W): a pure function of (seed, s).
#include "data/dataset.h"
#include "base/random.h"
#include "data/vocabulary.h"

#include <assert.h>
#include <string.h>

#define PART_BYTES ((size_t)4 << 20) // encoded between two signs of life

size_t zr_text_split(const zr_text *text)
{
    size_t nine_tenths = text->length / 10 * 9 + text->length % 10 * 9 / 10;
    return zr_character_boundary(text->data, nine_tenths, text->length);
}

// Whole parts, cut where no token is: the result is that of the text in one.
static zero_status encode_all(zr_encoder *encoder, const zr_tokenizer *tokenizer, const char *text, size_t length, const char *name, void (*beat)(void *user), void *user,
                              zr_ids *ids, zero_error *error)
{
    for (size_t at = 0, end; at < length; at = end) {
        end = zr_tokenizer_boundary(tokenizer, text, at, ZR_MIN(length, at + PART_BYTES), length);
        ZERO_TRY(zr_encoder_append(encoder, ZR_ENCODE_TEXT, text, at, end, name, ids, error));
        if (beat)
            beat(user);
    }
    return ZERO_OK;
}

static zero_status check_count(const zr_dataset *dataset, const char *name, zero_error *error)
{
    if (dataset->count < dataset->seq + 1)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: %lld tokens, fewer than the %lld of one window (%lld and the last one's target)", name,
                       (long long)dataset->count, (long long)dataset->seq + 1, (long long)dataset->seq);
    return ZERO_OK;
}

zero_status zr_dataset_create(const zr_tokenizer *tokenizer, const char *text, size_t length, const char *name,
                              int64_t seq, uint64_t seed, void (*beat)(void *user), void *user, zr_dataset *out,
                              zero_error *error)
{
    *out = (zr_dataset){.seq = seq, .seed = seed};
    if (seq < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "%s: windows of %lld tokens, where at least 1 is needed", name,
                       (long long)seq);
    zr_encoder *encoder;
    zr_ids ids = {0};
    ZERO_TRY(zr_encoder_create(tokenizer, &encoder, error));
    zero_status status = encode_all(encoder, tokenizer, text, length, name, beat, user, &ids, error);
    zr_encoder_destroy(encoder);
    out->tokens = ids.at;
    out->count = ids.count;
    if (status == ZERO_OK)
        status = check_count(out, name, error);
    if (status == ZERO_OK && ids.count < ids.capacity) {
        int32_t *smaller = zr_realloc(out->tokens, (size_t)out->count * sizeof(int32_t), error);
        if (smaller)
            out->tokens = smaller;
        else
            status = ZERO_ERR_MEMORY;
    }
    if (status != ZERO_OK)
        zr_dataset_free(out);
    return status;
}

void zr_dataset_free(zr_dataset *dataset)
{
    zr_free(dataset->tokens);
    *dataset = (zr_dataset){0};
}

int64_t zr_dataset_windows(const zr_dataset *dataset)
{
    return ZR_MAX(dataset->count / dataset->seq - 1, (int64_t)1);
}

int64_t zr_dataset_eval_windows(const zr_dataset *dataset)
{
    return (dataset->count - 1) / dataset->seq;
}

static void copy_window(const zr_dataset *dataset, int64_t start, int64_t row, int32_t *tokens, int32_t *targets)
{
    int64_t seq = dataset->seq;
    assert(start >= 0 && start + seq + 1 <= dataset->count);
    memcpy(tokens + row * seq, dataset->tokens + start, (size_t)seq * sizeof(int32_t));
    memcpy(targets + row * seq, dataset->tokens + start + 1, (size_t)seq * sizeof(int32_t));
}

static int64_t sample_start(const zr_dataset *dataset, int64_t sample)
{
    static const char purpose[] = "order of samples"; // keeps these numbers apart from those of weights and dropout
    int64_t windows = zr_dataset_windows(dataset);
    int64_t epoch = sample / windows;
    int64_t phases = ZR_MIN(dataset->seq, dataset->count - windows * dataset->seq);
    zr_philox random = zr_philox4x32(zr_hash_bytes(purpose, sizeof purpose - 1, dataset->seed), (uint64_t)epoch, 0);
    uint64_t order = (uint64_t)random.v[1] << 32 | random.v[0];
    int64_t phase = (int64_t)(((uint64_t)random.v[3] << 32 | random.v[2]) % (uint64_t)phases);
    return phase + (int64_t)zr_permute(order, (uint64_t)(sample % windows), (uint64_t)windows) * dataset->seq;
}

void zr_dataset_train_batch(const zr_dataset *dataset, int64_t first_sample, int64_t batch, int32_t *tokens,
                            int32_t *targets)
{
    for (int64_t i = 0; i < batch; i++)
        copy_window(dataset, sample_start(dataset, first_sample + i), i, tokens, targets);
}

void zr_dataset_eval_batch(const zr_dataset *dataset, int64_t first_window, int64_t batch, int32_t *tokens,
                           int32_t *targets)
{
    for (int64_t i = 0; i < batch; i++)
        copy_window(dataset, (first_window + i) * dataset->seq, i, tokens, targets);
}
