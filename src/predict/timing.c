#include "predict/timing.h"

#include "base/clock.h"
#include "comm/agreement.h"

zero_status zr_meter_time(const zr_meter *meter, zr_timed_work work, void *user, double *seconds,
                          zero_error *error)
{
    ZERO_TRY(work(user, error)); // allocates what stays, and faults pages in
    for (int64_t calls = 1;; calls *= 2) {
        ZERO_TRY(zr_comm_barrier(meter->comm, error));
        double begin = zr_clock_seconds();
        for (int64_t i = 0; i < calls; i++)
            ZERO_TRY(work(user, error));
        int64_t nanoseconds = (int64_t)((zr_clock_seconds() - begin) * 1e9);
        ZERO_TRY(zr_comm_agree_on_largest(meter->comm, &nanoseconds, error));
        *seconds = (double)nanoseconds * 1e-9 / (double)calls;
        if ((double)nanoseconds * 1e-9 >= meter->seconds / 2 || calls >= (int64_t)1 << 30)
            return ZERO_OK;
    }
}
