// Numbers in blocks: any numbers are encoded to the same bytes on every path of this processor, and
// any bytes decoded to the same numbers; what was decoded is within half a step, and stays.
//
// Input: a byte (bit 0: codes of 4 bits; bits 1-2: the type; bit 3: a carry), then numbers. With
// a carry it is the same numbers as fp32, of which those that are not finite are 0.
#include "fuzz.h"

#include "compute/compute.h"

#include <math.h>
#include <string.h>

enum { MOST = 4 * ZR_BLOCK };

typedef struct room {
    float carry[MOST], numbers[MOST], sums[MOST];
    uint8_t encoded[2 * MOST];
} room;

static int64_t count_of(size_t size, zero_dtype dtype)
{
    return ZR_MIN((int64_t)size / (int64_t)zero_dtype_bytes(dtype), MOST);
}

static void fill_carry(const void *numbers, int64_t bytes, room *r)
{
    memset(r->carry, 0, sizeof r->carry);
    memcpy(r->carry, numbers, (size_t)(bytes / 4 * 4));
    for (int i = 0; i < MOST; i++)
        r->carry[i] = isfinite(r->carry[i]) ? r->carry[i] : 0;
}

static void run_all(zr_queue *queue, const zr_blocks *s, const void *numbers, bool carried, room *r)
{
    memset(r->encoded, 0xff, sizeof r->encoded);
    memset(r->numbers, 0, sizeof r->numbers);
    fill_carry(numbers, s->n * (int64_t)zero_dtype_bytes(s->dtype), r);
    memcpy(r->sums, r->carry, sizeof r->sums);
    zr_run(queue, zr_op_blocks_encode(s, numbers, carried ? r->carry : NULL, r->encoded));
    zr_run(queue, zr_op_blocks_decode(s, r->encoded, r->numbers));
    zr_run(queue, zr_op_blocks_add(s, r->encoded, r->sums));
    for (int i = 0; i < MOST; i++)
        fuzz_must(isfinite(r->carry[i]));
}

// What is decoded to fp32 stays in steps of its scale, and gives the same bytes again.
static void check_stable(zr_queue *queue, const zr_blocks *s, room *r, uint8_t *again)
{
    zr_blocks wide = *s;
    wide.dtype = ZERO_F32;
    zr_run(queue, zr_op_blocks_decode(&wide, r->encoded, r->numbers));
    zr_run(queue, zr_op_blocks_encode(&wide, r->numbers, NULL, again));
    fuzz_must(memcmp(again, r->encoded, (size_t)zr_block_bytes(s->bits, s->n)) == 0);
}

static void check_losses(const zr_blocks *s, const float *source, const room *r)
{
    for (int64_t i = 0; i < s->n; i++) {
        float scale;
        memcpy(&scale, r->encoded + i / ZR_BLOCK * zr_block_stride(s->bits), sizeof scale);
        double lost = fabs((double)source[i] - r->numbers[i]);
        fuzz_must(isnan(scale) ? isnan(r->numbers[i])
                               : lost <= scale * (0.5 + 1.0 / 60000) + (scale > 0 ? 0 : 0x1p-127));
    }
}

// The numbers are bytes of any encoder, too.
static void decode_bytes(zr_queue *queue, const zr_blocks *s, const void *bytes, room *r)
{
    memset(r->numbers, 0, sizeof r->numbers);
    zr_run(queue, zr_op_blocks_decode(s, bytes, r->numbers));
}

static void compare_path(zr_queue *queue, const zr_blocks *s, const void *numbers, bool carried,
                         const room *want, room *r)
{
    run_all(queue, s, numbers, carried, r);
    fuzz_must(memcmp(r, want, sizeof *r) == 0);
}

static zero_status fuzz_path(const char *path, const zr_blocks *s, const void *numbers, size_t size,
                             bool carried, room rooms[2], zero_error *error)
{
    zr_queue *queue, *ref;
    ZERO_TRY(zr_queue_open("ref", NULL, 1, &ref, error));
    zero_status status = zr_queue_open("cpu", path, 1, &queue, error);
    if (status == ZERO_OK) {
        run_all(ref, s, numbers, carried, &rooms[0]);
        compare_path(queue, s, numbers, carried, &rooms[0], &rooms[1]);
        check_stable(queue, s, &rooms[1], rooms[0].encoded);
        if (s->dtype == ZERO_F32 && !carried)
            check_losses(s, numbers, &rooms[1]);
        zr_blocks bytes = *s;
        while (bytes.n > 0 && zr_block_bytes(s->bits, bytes.n) > (int64_t)size)
            bytes.n--;
        decode_bytes(ref, &bytes, numbers, &rooms[0]);
        decode_bytes(queue, &bytes, numbers, &rooms[1]);
        fuzz_must(memcmp(rooms[0].numbers, rooms[1].numbers, sizeof rooms[0].numbers) == 0);
        zr_queue_close(queue);
    }
    zr_queue_close(ref);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    static const zero_dtype types[] = {ZERO_F32, ZERO_BF16, ZERO_F16, ZERO_F32};
    if (size < 5)
        return zr_fail(error, ZERO_ERR_DATA, "%zu bytes are no numbers", size);
    zero_dtype dtype = types[data[0] >> 1 & 3];
    const zr_blocks s = {.bits = data[0] & 1 ? 4 : 8,
                         .dtype = dtype,
                         .n = count_of(size - 1, dtype),
                         .err_beta = 0.8f};
    bool carried = data[0] & 8;
    room *rooms = zr_alloc(2 * sizeof *rooms, error);
    void *numbers = rooms ? zr_alloc(size - 1, error) : NULL;
    zero_status status = numbers ? ZERO_OK : ZERO_ERR_MEMORY;
    if (numbers)
        memcpy(numbers, data + 1, size - 1);
    for (const zr_backend *const *b = zr_backends(); *b && status == ZERO_OK; b++)
        if (strcmp((*b)->name, "cpu") == 0 && zr_backend_offered(*b))
            status = fuzz_path((*b)->path(), &s, numbers, size - 1, carried, rooms, error);
    zr_free(numbers);
    zr_free(rooms);
    return status;
}
