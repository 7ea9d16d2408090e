// What follows from the declarations of operations: names, operands, bytes and flops.
#include "compute/op.h"

static int64_t size_of(zero_dtype dtype) { return (int64_t)zero_dtype_bytes(dtype); }

static int64_t decode_flops(const zr_op *op)
{
    const zr_attention *a = &op->shape.attention;
    const zr_attention_run *runs = op->at.attention_decode.runs;
    int64_t pairs = 0; // of a row and a position that it sees
    for (int r = 0; r < a->run_count; r++)
        pairs += zr_attention_seen(a, runs[r].first, runs[r].rows);
    return 4 * pairs * a->heads * a->head_dim;
}

static int64_t decode_bytes(const zr_op *op)
{
    const zr_attention *a = &op->shape.attention;
    const zr_attention_run *runs = op->at.attention_decode.runs;
    int64_t positions = 0;
    for (int r = 0; r < a->run_count; r++)
        positions += runs[r].first + runs[r].rows - zr_attention_window_start(a, runs[r].first);
    return 2 * positions * a->kv_heads * a->head_dim * size_of(ZERO_F32);
}

#define OPERAND(name, type, access, storage, elements)                                             \
    out[n] = (zr_operand){#name, op->at.each[n], (unsigned)(access), storage, elements}, n++;
#define FUNCTIONS(kind, shape_, activity, flops_, bytes_)                                          \
    static int kind##_operands(const zr_op *op, zr_operand *out)                                   \
    {                                                                                              \
        const zr_##shape_ *s = &op->shape.shape_;                                                  \
        int n = 0;                                                                                 \
        (void)s;                                                                                   \
        ZR_OPERANDS_##kind(OPERAND) return n;                                                      \
    }                                                                                              \
    static int64_t kind##_flops(const zr_op *op)                                                   \
    {                                                                                              \
        const zr_##shape_ *s = &op->shape.shape_;                                                  \
        (void)s;                                                                                   \
        return flops_;                                                                             \
    }                                                                                              \
    static int64_t kind##_bytes(const zr_op *op)                                                   \
    {                                                                                              \
        const zr_##shape_ *s = &op->shape.shape_;                                                  \
        (void)s;                                                                                   \
        return bytes_;                                                                             \
    }
ZR_OPS(FUNCTIONS)

#define ROW(kind, shape, its_activity, its_flops, its_bytes)                                       \
    [ZR_OP_##kind] = {.name = #kind,                                                               \
                      .activity = ZR_ACTIVITY_##its_activity,                                      \
                      .operands = kind##_operands,                                                 \
                      .flops = kind##_flops,                                                       \
                      .bytes = kind##_bytes},
static const struct {
    const char *name;
    zr_activity activity;
    int (*operands)(const zr_op *op, zr_operand *out);
    int64_t (*flops)(const zr_op *op), (*bytes)(const zr_op *op);
} kinds[ZR_OP_KINDS] = {ZR_OPS(ROW)};

#define COUNT(name, type, access, storage, elements) +1
#define CHECK(kind, ...)                                                                           \
    static_assert(0 ZR_OPERANDS_##kind(COUNT) <= ZR_MOST_OPERANDS, "an operation has room");
ZR_OPS(CHECK)

const char *zr_op_kind_name(zr_op_kind kind) { return kinds[kind].name; }

zr_activity zr_op_activity(zr_op_kind kind) { return kinds[kind].activity; }

int64_t zr_op_flops(const zr_op *op) { return kinds[op->kind].flops(op); }

int zr_op_operands(const zr_op *op, zr_operand out[ZR_MOST_OPERANDS])
{
    return kinds[op->kind].operands(op, out);
}

int64_t zr_op_bytes(const zr_op *op)
{
    zr_operand operands[ZR_MOST_OPERANDS];
    int count = zr_op_operands(op, operands);
    int64_t bytes = kinds[op->kind].bytes(op);
    for (int i = 0; i < count; i++) {
        unsigned access = operands[i].at && !(operands[i].access & ZR_AUX) ? operands[i].access : 0;
        int times = !!(access & ZR_READ) + !!(access & ZR_WRITTEN);
        bytes += times * operands[i].elements * size_of(operands[i].storage);
    }
    return bytes;
}
