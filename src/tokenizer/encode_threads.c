// Encodes in rounds: each thread encodes a part, then the ids of the parts are passed on in order.
// A part is small compared with a text and large compared with the cost of a round.
#include "base/thread.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

#define PART_BYTES ((size_t)1 << 20)
#define SECONDS_BETWEEN_SIGNS 0.1

typedef struct part_job { // the part that one thread encodes, and its ids
    zr_encoder *encoder;
    zr_ids ids;
    zr_encode_mode mode;
    const char *text, *name;
    size_t first, end;
    zero_status status;
    zero_error error;
} part_job;

struct zr_encode_threads {
    const zr_tokenizer *tokenizer;
    zr_workers *workers; // NULL while the caller alone encodes, and no part was long
    part_job *jobs;      // (count)
    int count;
};

zero_status zr_encode_threads_create(const zr_tokenizer *tokenizer, int threads,
                                     zr_encode_threads **out, zero_error *error)
{
    zr_encode_threads *pool = zr_alloc(sizeof *pool, error);
    *out = NULL;
    if (!pool)
        return ZERO_ERR_MEMORY;
    pool->tokenizer = tokenizer;
    pool->count = ZR_MAX(threads, 1);
    pool->jobs = zr_alloc((size_t)pool->count * sizeof *pool->jobs, error);
    zero_status status = pool->jobs ? ZERO_OK : ZERO_ERR_MEMORY;
    for (int i = 0; i < pool->count && status == ZERO_OK; i++)
        status = zr_encoder_create(tokenizer, &pool->jobs[i].encoder, error);
    if (status == ZERO_OK && pool->count > 1)
        status = zr_workers_create(pool->count, pool->count, &pool->workers, error);
    if (status == ZERO_OK)
        *out = pool;
    else
        zr_encode_threads_destroy(pool);
    return status;
}

void zr_encode_threads_destroy(zr_encode_threads *pool)
{
    if (!pool)
        return;
    zr_workers_destroy(pool->workers);
    for (int i = 0; pool->jobs && i < pool->count; i++) {
        zr_encoder_destroy(pool->jobs[i].encoder);
        zr_ids_free(&pool->jobs[i].ids);
    }
    zr_free(pool->jobs);
    zr_free(pool);
}

static void encode_own_part(void *argument)
{
    part_job *mine = argument;
    mine->ids.count = 0;
    mine->status = zr_encoder_append(mine->encoder, mine->mode, mine->text, mine->first, mine->end,
                                     mine->name, &mine->ids, &mine->error);
}

typedef struct progress {                    // the caller's callback for signs of life
    void (*taken)(void *user, size_t bytes); // may be NULL
    void *user;
    size_t bytes;
} progress;

// Gives a part to a thread. A part that cannot be cut may take longer than other ranks wait for a
// sign of life, so another thread encodes it even if there is only one job.
static zero_status submit_part(zr_encode_threads *pool, part_job *next, const progress *signs,
                               zero_error *error)
{
    if (!pool->workers && signs->taken && next->end - next->first > 8 * PART_BYTES)
        ZERO_TRY(zr_workers_create(1, 1, &pool->workers, error));
    if (pool->workers)
        return zr_workers_submit(pool->workers, encode_own_part, next, error);
    encode_own_part(next);
    return ZERO_OK;
}

static void wait_for_all(zr_encode_threads *pool, const progress *signs)
{
    if (!pool->workers)
        return;
    while (!zr_workers_drain_for(pool->workers, SECONDS_BETWEEN_SIGNS))
        if (signs->taken)
            signs->taken(signs->user, signs->bytes);
}

// Cuts parts from `at` on and encodes them; *end is the end of the last one.
static zero_status encode_parts_in_parallel(zr_encode_threads *pool, const part_job *what,
                                            size_t at, size_t length, const progress *signs,
                                            int *busy, size_t *end, zero_error *error)
{
    zero_status status = ZERO_OK;
    for (*busy = 0; *busy < pool->count && at < length && status == ZERO_OK; ++*busy) {
        part_job *next = &pool->jobs[*busy];
        next->mode = what->mode;
        next->text = what->text;
        next->name = what->name;
        next->first = at;
        next->end = at = zr_tokenizer_cut(pool->tokenizer, what->text, at,
                                          ZR_MIN(length, at + PART_BYTES), length);
        status = submit_part(pool, next, signs, error);
    }
    wait_for_all(pool, signs);
    *end = at;
    return status;
}

zero_status zr_encode_threads_run(zr_encode_threads *pool, zr_encode_mode mode, const char *text,
                                  size_t length, const char *name, zr_take_ids take,
                                  void (*taken)(void *user, size_t bytes), void *user,
                                  zero_error *error)
{
    const part_job what = {.mode = mode, .text = text, .name = name};
    for (size_t at = 0, end; at < length; at = end) {
        const progress signs = {.taken = taken, .user = user, .bytes = at};
        int busy;
        ZERO_TRY(encode_parts_in_parallel(pool, &what, at, length, &signs, &busy, &end, error));
        for (int i = 0; i < busy; i++) {
            const part_job *done = &pool->jobs[i];
            if (done->status != ZERO_OK)
                return zr_fail(error, done->status, "%s", done->error.message);
            ZERO_TRY(take(user, done->ids.at, done->ids.count, error));
        }
        if (taken)
            taken(user, end);
    }
    return ZERO_OK;
}
