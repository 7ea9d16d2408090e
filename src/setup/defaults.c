#include "setup/defaults.h"

#include "base/cpu.h"

#include <math.h>

enum {
    TOKENS_SMALL = 768,
    PASSES = 5,
    LEAST_STEPS = 100,
    MOST_STEPS = 5000,
    MOST_WARMUP = 100,
    MOST_WINDOW = 4096
};

static const double SMALL = 8e5; // parameters of the model for which TOKENS_SMALL is right

static const struct {
    double parameters, lr;
} rates[] = {{1e6, 1e-3}, {124e6, 6e-4}, {355e6, 3e-4}, {774e6, 2.5e-4}, {1.56e9, 2e-4}};

double zr_default_lr(int64_t parameters)
{
    double size = (double)parameters;
    if (size <= rates[0].parameters)
        return rates[0].lr;
    for (int i = 1; i < ZR_COUNT(rates); i++) {
        if (size > rates[i].parameters)
            continue;
        double part = log(size / rates[i - 1].parameters) /
                      log(rates[i].parameters / rates[i - 1].parameters);
        return rates[i - 1].lr * pow(rates[i].lr / rates[i - 1].lr, part);
    }
    return rates[ZR_COUNT(rates) - 1].lr;
}

double zr_default_lr_further(int64_t parameters) { return zr_default_lr(parameters) / 10; }

int64_t zr_default_batch(int64_t parameters, int64_t seq)
{
    double growth = pow(fmax(1, (double)parameters / SMALL), 0.35);
    return ZR_MAX(1, llround(TOKENS_SMALL * growth / (double)seq));
}

int64_t zr_default_steps(int64_t tokens, int64_t tokens_per_step)
{
    int64_t steps = PASSES * tokens / tokens_per_step;
    return ZR_MIN(ZR_MAX(steps, LEAST_STEPS), MOST_STEPS);
}

int64_t zr_default_warmup(int64_t steps) { return ZR_MIN(MOST_WARMUP, ZR_MAX(steps / 10, 1)); }

// Activations grow with the window, and contexts of 131,072 tokens fit nowhere.
int64_t zr_default_window(int64_t requested, int64_t context, const zero_logger *logger)
{
    if (requested || context <= MOST_WINDOW)
        return requested ? requested : context;
    zr_log(logger, ZERO_LOG_WARNING, "--seq %d: the model's context is %lld; --seq says another",
           MOST_WINDOW, (long long)context);
    return MOST_WINDOW;
}

zero_dtype zr_default_dtype(void)
{
    zr_cpu_features has = zr_cpu_detect();
    return has.avx512_bf16 || has.amx_bf16 ? ZERO_BF16 : ZERO_F32;
}
