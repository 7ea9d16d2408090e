// Rotary frequencies and their scaling. Every term and every rounding (fp32) follows transformers'
// modeling_rope_utils: angles grow with the position, so the last bit of a frequency becomes
// visible after a few thousand positions.
//
//   default  1 / theta^(2j/d)
//   linear   default divided by `factor`
//   dynamic  same as default while no window is longer than max_positions; longer windows are
//            refused elsewhere
//   llama3   divided by `factor` if the wavelength exceeds the old context / low_freq_factor;
//            unchanged if it is below the old context / high_freq_factor; interpolated linearly
//            in between
//   yarn     Peng et al., 2023: like llama3 with a ramp over j; cosines and sines are scaled, too
#include "model/rope.h"

#include "base/errors.h"

#include <math.h>

enum { MOST_POSITIONS = 1 << 30 };

const char *zr_rope_scaling_name(zero_rope_scaling scaling)
{
#define NAME(name) [ZERO_ROPE_##name] = #name,
    static const char *const names[] = {ZERO_ROPE_SCALINGS(NAME)};
#undef NAME
    return names[scaling];
}

static bool is_positive(double value) { return value > 0 && isfinite(value); }

static zero_status llama3_check(const zero_rope *rope, const char *title, zero_error *error)
{
    bool ordered =
        is_positive(rope->low_freq_factor) && rope->high_freq_factor > rope->low_freq_factor;
    if (ordered && isfinite(rope->high_freq_factor))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "%s: rope scaling \"llama3\" between low_freq_factor %g and high_freq_factor "
                   "%g: the second must be the greater",
                   title, rope->low_freq_factor, rope->high_freq_factor);
}

static zero_status yarn_check(const zero_rope *rope, const char *title, zero_error *error)
{
    const double all[] = {rope->beta_fast, rope->beta_slow, rope->attention_factor, rope->mscale,
                          rope->mscale_all_dim};
    bool good = true;
    double sum = 0; // finite if all terms are
    for (int i = 0; i < ZR_COUNT(all); i++) {
        good = good && all[i] >= 0;
        sum += all[i];
    }
    if (good && isfinite(sum))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "%s: rope scaling \"yarn\" with beta_fast %g, beta_slow %g, attention_factor "
                   "%g, mscale %g, mscale_all_dim %g: none may be negative",
                   title, all[0], all[1], all[2], all[3], all[4]);
}

static zero_status scaling_check(const zero_rope *rope, const char *title, zero_error *error)
{
    if (rope->scaling == ZERO_ROPE_default)
        return ZERO_OK;
    if (!is_positive(rope->factor) || rope->factor < 1)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "%s: rope scaling \"%s\" by a factor of %g: it must be 1 or more", title,
                       zr_rope_scaling_name(rope->scaling), rope->factor);
    if (rope->scaling == ZERO_ROPE_llama3)
        return llama3_check(rope, title, error);
    return rope->scaling == ZERO_ROPE_yarn ? yarn_check(rope, title, error) : ZERO_OK;
}

zero_status zr_rope_check(const zero_rope *rope, const char *title, zero_error *error)
{
    int64_t original = rope->original_max_positions;
    if (rope->scaling < 0 || rope->scaling >= ZERO_ROPE_SCALING_COUNT)
        return zr_fail(error, ZERO_ERR_USAGE, "%s: rope.scaling is %d: there are %d", title,
                       (int)rope->scaling, ZERO_ROPE_SCALING_COUNT);
    ZERO_TRY(scaling_check(rope, title, error));
    if (original >= 0 && original <= MOST_POSITIONS)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "%s: original_max_position_embeddings is %lld: it must be 1 to %d", title,
                   (long long)original, MOST_POSITIONS);
}

static float default_power(const zero_rope *rope, int64_t j, int64_t dim) // theta^(2j/d)
{
    return (float)pow((double)(float)rope->theta, (double)((float)(2 * j) / (float)dim));
}

static float stretch_llama3(const zero_rope *rope, float frequency, double context)
{
    float wavelength = (float)(2 * M_PI) / frequency, slowed = frequency / (float)rope->factor;
    double low = context / rope->low_freq_factor, high = context / rope->high_freq_factor;
    if (wavelength > (float)low)
        return slowed;
    if (wavelength < (float)high)
        return frequency;
    float smooth = ((float)context / wavelength - (float)rope->low_freq_factor) /
                   (float)(rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * frequency / (float)rope->factor + smooth * frequency;
}

// Returns the dimension that makes `rotations` turns over the old context.
static double turning_dimension(const zero_rope *rope, double rotations, int64_t dim,
                                double context)
{
    return (double)dim * log(context / (rotations * 2 * M_PI)) / (2 * log(rope->theta));
}

typedef struct ramp {
    double low, high;
} ramp;

static ramp yarn_ramp(const zero_rope *rope, int64_t dim, double context)
{
    double low = turning_dimension(rope, rope->beta_fast > 0 ? rope->beta_fast : 32, dim, context);
    double high = turning_dimension(rope, rope->beta_slow > 0 ? rope->beta_slow : 1, dim, context);
    if (!rope->whole_range) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)dim - 1);
    return (ramp){low, low == high ? high + 0.001 : high};
}

static float stretch_yarn(const zero_rope *rope, float power, int64_t j, ramp ramp)
{
    float along = ((float)j - (float)ramp.low) / (float)(ramp.high - ramp.low);
    float extrapolated = 1 - fminf(fmaxf(along, 0), 1);
    float apart = 1 / ((float)rope->factor * power), as_is = 1 / power;
    return apart * (1 - extrapolated) + as_is * extrapolated;
}

static double yarn_magnitude(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * log(factor) + 1;
}

static float yarn_factor(const zero_rope *rope)
{
    if (rope->attention_factor > 0)
        return (float)rope->attention_factor;
    if (rope->mscale > 0 && rope->mscale_all_dim > 0)
        return (float)(yarn_magnitude(rope->factor, rope->mscale) /
                       yarn_magnitude(rope->factor, rope->mscale_all_dim));
    return (float)yarn_magnitude(rope->factor, 1);
}

void zr_rope_frequencies(const zero_rope *rope, int64_t rotated, int64_t positions,
                         float *frequency, float *factor)
{
    double context =
        (double)(rope->original_max_positions ? rope->original_max_positions : positions);
    ramp ramp = yarn_ramp(rope, rotated, context);
    *factor = rope->scaling == ZERO_ROPE_yarn ? yarn_factor(rope) : 1;
    for (int64_t j = 0; j < rotated / 2; j++) {
        float power = default_power(rope, j, rotated), plain = 1 / power;
        frequency[j] = rope->scaling == ZERO_ROPE_linear   ? plain / (float)rope->factor
                       : rope->scaling == ZERO_ROPE_llama3 ? stretch_llama3(rope, plain, context)
                       : rope->scaling == ZERO_ROPE_yarn   ? stretch_yarn(rope, power, j, ramp)
                                                           : plain;
    }
}
