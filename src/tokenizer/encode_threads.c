// Encodes in rounds: each thread encodes a part, then the parts are handed on in their order. A
// part is small compared with a text and large compared with the cost of a round.
#include "base/thread.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

#define PART_BYTES ((size_t)1 << 20)
#define SECONDS_BETWEEN_SIGNS 0.1

typedef struct hand { // the work of one thread
    zr_encoder *encoder;
    zr_ids ids;
    zr_encode_mode mode;
    const char *text, *name;
    size_t first, end;
    zero_status status;
    zero_error error;
} hand;

struct zr_encode_threads {
    const zr_tokenizer *tokenizer;
    zr_workers *workers; // NULL: the caller is the only hand, and no part was long yet
    hand *hands;         // (count)
    int count;
};

zero_status zr_encode_threads_create(const zr_tokenizer *tokenizer, int threads,
                                     zr_encode_threads **out, zero_error *error)
{
    zr_encode_threads *crew = zr_alloc(sizeof *crew, error);
    *out = NULL;
    if (!crew)
        return ZERO_ERR_MEMORY;
    crew->tokenizer = tokenizer;
    crew->count = ZR_MAX(threads, 1);
    crew->hands = zr_alloc((size_t)crew->count * sizeof *crew->hands, error);
    zero_status status = crew->hands ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < crew->count && status == ZERO_OK; i++)
        status = zr_encoder_create(tokenizer, &crew->hands[i].encoder, error);
    if (status == ZERO_OK && crew->count > 1)
        status = zr_workers_create(crew->count, crew->count, &crew->workers, error);
    if (status == ZERO_OK)
        *out = crew;
    else
        zr_encode_threads_destroy(crew);
    return status;
}

void zr_encode_threads_destroy(zr_encode_threads *crew)
{
    if (!crew)
        return;
    zr_workers_destroy(crew->workers);
    for (int i = 0; crew->hands && i < crew->count; i++) {
        zr_encoder_destroy(crew->hands[i].encoder);
        zr_ids_free(&crew->hands[i].ids);
    }
    zr_free(crew->hands);
    zr_free(crew);
}

static void work_encode_threads(void *argument)
{
    hand *mine = argument;
    mine->ids.count = 0;
    mine->status = zr_encoder_append(mine->encoder, mine->mode, mine->text, mine->first, mine->end,
                                     mine->name, &mine->ids, &mine->error);
}

typedef struct saying {                      // who is told about the progress
    void (*taken)(void *user, size_t bytes); // NULL: nobody
    void *user;
    size_t bytes;
} saying;

// Gives a part to a thread. A part that cannot be cut may take longer than others wait for a sign
// of life, so another thread encodes it even if there is only one hand.
static zero_status give(zr_encode_threads *crew, hand *next, const saying *say, zero_error *error)
{
    if (!crew->workers && say->taken && next->end - next->first > 8 * PART_BYTES)
        ZERO_TRY(zr_workers_create(1, 1, &crew->workers, error));
    if (crew->workers)
        return zr_workers_submit(crew->workers, work_encode_threads, next, error);
    work_encode_threads(next);
    return ZERO_OK;
}

static void wait_for_all(zr_encode_threads *crew, const saying *say)
{
    if (!crew->workers)
        return;
    while (!zr_workers_drain_for(crew->workers, SECONDS_BETWEEN_SIGNS))
        if (say->taken)
            say->taken(say->user, say->bytes);
}

// Cuts parts from `at` on and encodes them; *end is where the last one ends.
static zero_status encode_round(zr_encode_threads *crew, const hand *what, size_t at, size_t length,
                                const saying *say, int *busy, size_t *end, zero_error *error)
{
    zero_status status = ZERO_OK;
    for (*busy = 0; *busy < crew->count && at < length && status == ZERO_OK; ++*busy) {
        hand *next = &crew->hands[*busy];
        next->mode = what->mode;
        next->text = what->text;
        next->name = what->name;
        next->first = at;
        next->end = at = zr_tokenizer_cut(crew->tokenizer, what->text, at,
                                          ZR_MIN(length, at + PART_BYTES), length);
        status = give(crew, next, say, error);
    }
    wait_for_all(crew, say);
    *end = at;
    return status;
}

zero_status zr_encode_threads_run(zr_encode_threads *crew, zr_encode_mode mode, const char *text,
                                  size_t length, const char *name, zr_take_ids take,
                                  void (*taken)(void *user, size_t bytes), void *user,
                                  zero_error *error)
{
    const hand what = {.mode = mode, .text = text, .name = name};
    for (size_t at = 0, end; at < length; at = end) {
        const saying say = {.taken = taken, .user = user, .bytes = at};
        int busy;
        ZERO_TRY(encode_round(crew, &what, at, length, &say, &busy, &end, error));
        for (int i = 0; i < busy; i++) {
            const hand *done = &crew->hands[i];
            if (done->status != ZERO_OK)
                return zr_fail(error, done->status, "%s", done->error.message);
            ZERO_TRY(take(user, done->ids.at, done->ids.count, error));
        }
        if (taken)
            taken(user, end);
    }
    return ZERO_OK;
}
