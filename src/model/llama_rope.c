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
#include "model/llama_model.h"
#include <math.h>

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

void zr_llama_frequencies(const zero_llama_config *config, float *frequency, float *factor)
{
    const zero_rope *rope = &config->rope;
    int64_t dim = zr_llama_head_dim(config);
    double context = (double)(rope->original_max_positions ? rope->original_max_positions
                                                           : config->max_positions);
    ramp ramp = yarn_ramp(rope, dim, context);
    *factor = rope->scaling == ZERO_ROPE_yarn ? yarn_factor(rope) : 1;
    for (int64_t j = 0; j < dim / 2; j++) {
        float power = default_power(rope, j, dim), plain = 1 / power;
        frequency[j] = rope->scaling == ZERO_ROPE_linear   ? plain / (float)rope->factor
                       : rope->scaling == ZERO_ROPE_llama3 ? stretch_llama3(rope, plain, context)
                       : rope->scaling == ZERO_ROPE_yarn   ? stretch_yarn(rope, power, j, ramp)
                                                           : plain;
    }
}
