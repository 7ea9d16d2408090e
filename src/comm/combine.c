#include "comm/comm_ops.h"

static void combine_f64(double *restrict total, const double *restrict x, int64_t count,
                        zr_reduction how)
{
    if (how == ZR_SUM) {
        for (int64_t i = 0; i < count; i++)
            total[i] += x[i];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (x[i] != x[i] || (how == ZR_MAX ? x[i] > total[i] : x[i] < total[i]))
            total[i] = x[i];
}

static void combine_f32(float *restrict total, const float *restrict x, int64_t count,
                        zr_reduction how)
{
    if (how == ZR_SUM) {
        for (int64_t i = 0; i < count; i++)
            total[i] += x[i];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        if (x[i] != x[i] || (how == ZR_MAX ? x[i] > total[i] : x[i] < total[i]))
            total[i] = x[i];
}

static void combine_i64(int64_t *total, const int64_t *x, int64_t count, zr_reduction how)
{
    for (int64_t i = 0; i < count; i++)
        if (how == ZR_SUM)
            total[i] = (int64_t)((uint64_t)total[i] + (uint64_t)x[i]);
        else if (how == ZR_MAX ? x[i] > total[i] : x[i] < total[i])
            total[i] = x[i];
}

void zr_comm_combine(void *total, const void *operand, int64_t count, zero_dtype dtype,
                     zr_reduction how)
{
    assert(dtype == ZERO_F64 || dtype == ZERO_F32 || dtype == ZERO_I64);
    if (dtype == ZERO_F64)
        combine_f64(total, operand, count, how);
    else if (dtype == ZERO_F32)
        combine_f32(total, operand, count, how);
    else
        combine_i64(total, operand, count, how);
}
