// `zero bench blocks`: how fast numbers become blocks (compute/block_ops.h), and blocks numbers.
// Each is compared with a loop that reads and writes as many bytes of the same vectors and computes
// next to nothing.
#include "base/dtype.h"
#include "base/numbers.h"
#include "base/random.h"
#include "comm/agreement.h"
#include "memory/arena.h"
#include "predict/meter.h"
#include "commands/bench_shared.h"

#include <string.h>

enum { ROUNDS = 3, ELEMENTS = 1 << 25, SOME = 64 * ZR_BLOCK };

typedef struct vectors {
    zr_queue *queue;
    int64_t count; // a multiple of ZR_BLOCK
    void *numbers; // (count) of any type
    float *sums;   // (count)
    void *encoded;
    zr_op op; // what is measured
} vectors;

static zero_status run_operation(void *user, zero_error *error)
{
    vectors *v = user;
    zr_run(v->queue, v->op);
    return ZERO_OK;
}

// What the loop does for a block, in words of 8 bytes.
typedef struct traffic {
    const uint64_t *read;
    uint64_t *written, *both;
    int64_t reads, writes, boths; // words
} traffic;

static void move_block(const traffic *t, int64_t block)
{
    const uint64_t *restrict from = t->read + block * t->reads;
    uint64_t *restrict to = t->written + block * t->writes;
    uint64_t *restrict both = t->both + block * t->boths;
    uint64_t all = 0;
    for (int64_t i = 0; i < t->reads; i++)
        all += from[i];
    for (int64_t i = 0; i < t->writes; i++)
        to[i] = all;
    for (int64_t i = 0; i < t->boths; i++)
        both[i] += all;
}

// Adds the operand to the traffic of a block.
static void add_operand(traffic *t, const zr_operand *operand, int64_t blocks)
{
    int64_t bytes = operand->elements * (int64_t)zero_dtype_bytes(operand->storage),
            words = operand->at ? bytes / blocks / 8 : 0;
    if (words > 0 && operand->access == ZR_READ)
        t->read = operand->at, t->reads = words;
    else if (words > 0 && operand->access == ZR_WRITTEN)
        t->written = (void *)operand->at, t->writes = words;
    else if (words > 0)
        t->both = (void *)operand->at, t->boths = words;
}

static zero_status move_as_much(void *user, zero_error *error)
{
    const vectors *v = user;
    zr_operand operands[ZR_MOST_OPERANDS];
    traffic t = {.read = v->numbers, .written = v->encoded, .both = (void *)v->sums};
    int64_t blocks = v->count / ZR_BLOCK;
    for (int i = 0, count = zr_op_operands(&v->op, operands); i < count; i++)
        add_operand(&t, &operands[i], blocks);
#pragma omp parallel for schedule(static) num_threads(v->queue->threads)
    for (int64_t k = 0; k < blocks; k++)
        move_block(&t, k);
    return ZERO_OK;
}

typedef struct row {
    const char *name;
    zr_op_kind kind;
    zero_dtype dtype;
    bool carried;
} row;

static const row rows[] = {
    {"encode fp32", ZR_OP_blocks_encode, ZERO_F32, false},
    {"encode bf16", ZR_OP_blocks_encode, ZERO_BF16, false},
    {"encode fp32, carried", ZR_OP_blocks_encode, ZERO_F32, true},
    {"decode to fp32", ZR_OP_blocks_decode, ZERO_F32, false},
    {"decode to bf16", ZR_OP_blocks_decode, ZERO_BF16, false},
    {"add to fp32", ZR_OP_blocks_add, ZERO_F32, false},
};

static zr_op op_of(const vectors *v, const row *of, int bits)
{
    const zr_blocks s = {.bits = bits, .dtype = of->dtype, .n = v->count, .err_beta = 0.8f};
    if (of->kind == ZR_OP_blocks_encode)
        return zr_op_blocks_encode(&s, v->numbers, of->carried ? v->sums : NULL, v->encoded);
    return of->kind == ZR_OP_blocks_decode ? zr_op_blocks_decode(&s, v->encoded, v->numbers)
                                           : zr_op_blocks_add(&s, v->encoded, v->sums);
}

static void fill_numbers(const vectors *v, zero_dtype dtype)
{
    float some[SOME];
    char *to = v->numbers;
    zr_random_uniform(1, 0, SOME, 1, some);
    for (int64_t at = 0; at < v->count; at += SOME) {
        int64_t count = ZR_MIN(v->count - at, SOME);
        zr_narrow(dtype, some, count, to);
        to += count * (int64_t)zero_dtype_bytes(dtype);
    }
}

static zero_status measure_row(const zr_bench *bench, vectors *v, const row *of, int bits,
                               zero_error *error)
{
    zr_meter meter = bench->meter;
    double seconds[ROUNDS], moving[ROUNDS];
    meter.seconds /= ROUNDS;
    fill_numbers(v, of->dtype);
    memset(v->sums, 0, (size_t)v->count * sizeof *v->sums);
    v->op = op_of(v, of, bits);
    for (int i = 0; i < ROUNDS; i++) {
        ZERO_TRY(zr_meter_time(&meter, run_operation, v, &seconds[i], error));
        ZERO_TRY(zr_meter_time(&meter, move_as_much, v, &moving[i], error));
    }
    double bytes = (double)zr_op_bytes(&v->op), own = zr_median(seconds, ROUNDS),
           loop = zr_median(moving, ROUNDS);
    zr_bench_say(bench, "%-21s %d bits %9.2f  %8.2f GB/s  %6.2f\n", of->name, bits,
                 bytes / own * 1e-9, bytes / loop * 1e-9, loop / own);
    return zr_queue_check(v->queue, error);
}

static zero_status measure_rows(const zr_bench *bench, vectors *v, zero_error *error)
{
    zr_bench_say(bench,
                 "%lld numbers a rank in blocks of %d; a loop moves as many bytes, the median of "
                 "%d:\n                             blocks      loop       blocks / loop\n",
                 (long long)v->count, ZR_BLOCK, ROUNDS);
    for (int bits = 8; bits >= 4; bits -= 4)
        for (int i = 0; i < ZR_COUNT(rows); i++)
            ZERO_TRY(measure_row(bench, v, &rows[i], bits, error));
    return ZERO_OK;
}

static zero_status reserve_vectors(vectors *v, zr_ledger *ledger, zr_arena *arena,
                                   zero_error *error)
{
    size_t wide = (size_t)v->count * sizeof(float),
           encoded = ZR_ROUND_UP((size_t)zr_block_bytes(8, v->count), 64);
    ZERO_TRY(zr_arena_on_host(ledger, ZERO_TIER_host, ZERO_MEM_workspace, 2 * wide + encoded, arena,
                              error));
    v->numbers = zr_arena_take(arena, wide);
    v->sums = zr_arena_take(arena, wide);
    v->encoded = zr_arena_take(arena, encoded);
    return ZERO_OK;
}

zero_status zr_bench_blocks(const zr_bench *bench, const zero_bench_options *options,
                            zero_error *error)
{
    double parameters = options->parameters;
    zr_ledger ledger = {0};
    zr_arena arena = {0};
    vectors v = {.count = (int64_t)(parameters > 0 ? parameters + ZR_BLOCK - 1 : ELEMENTS) /
                          ZR_BLOCK * ZR_BLOCK};
    ZERO_TRY(zr_queue_open("cpu", NULL, bench->meter.threads, &v.queue, error));
    zero_status status =
        zr_comm_agree(bench->meter.comm, reserve_vectors(&v, &ledger, &arena, error), error);
    if (status == ZERO_OK)
        status = measure_rows(bench, &v, error);
    zr_arena_destroy(&arena);
    zr_queue_close(v.queue);
    return status;
}
