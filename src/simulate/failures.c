// The best checkpoint interval under random failures, and what is left of the time.
#include "simulate/failures.h"

#include <math.h>

double zr_sim_goodput(const zr_sim_failures *failures, double interval)
{
    double rate = 1 / failures->mtbf;
    double lost = exp(-rate * (failures->restart + failures->behind));
    return rate * interval * lost / expm1(rate * (interval + failures->blocked));
}

// Returns the x = interval / mtbf in [0, 1) where x = 1 - exp(-x - b), with b = blocked / mtbf.
// Newton's steps on a concave function, from the right of its root, never pass it.
static double best_interval_share(double b)
{
    double x = 1;
    for (int i = 0; i < 200; i++) {
        double left = exp(-x - b), step = (x - 1 + left) / (1 - left);
        x -= step;
        if (step < 1e-15 * x)
            break;
    }
    return fmax(x, 0);
}

zero_status zr_sim_survive(const zr_sim_failures *failures, zr_sim_survival *out, zero_error *error)
{
    const zr_sim_failures *f = failures;
    // One checkpoint is written at a time, so an interval is no shorter than a write.
    double least = fmax(f->behind - f->blocked, 1e-6 * f->mtbf);
    out->interval = fmax(best_interval_share(f->blocked / f->mtbf) * f->mtbf, least);
    out->goodput = zr_sim_goodput(f, out->interval);
    out->young = sqrt(2 * f->blocked * f->mtbf);
    if (!(out->goodput > 1e-6))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "a failure every %.4g s, and a checkpoint takes %.4g s and a restart %.4g "
                       "s: no step would ever last; a longer --mtbf, a higher --checkpoint-rate or "
                       "fewer --ranks",
                       f->mtbf, f->blocked + f->behind, f->restart);
    return ZERO_OK;
}
