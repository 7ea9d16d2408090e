// The optimizers' defaults and state vectors, from DeepSpeed and PyTorch, and the names of
// learning-rate schedules.
#include "config/optimizer_spec.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static const zr_optimizer_traits traits[ZR_OPTIMIZER_KINDS];

const zr_optimizer_traits *zr_optimizer_traits_of(zr_optimizer_kind kind) { return &traits[kind]; }

int zr_optimizer_states(const zr_optimizer_spec *spec)
{
    if (spec->kind == ZR_OPTIMIZER_SGD)
        return spec->momentum != 0;
    const zr_optimizer_traits *of = &traits[spec->kind];
    return (of->states[0] != NULL) + (of->states[1] != NULL);
}

double zr_optimizer_rate(const zr_optimizer_spec *spec, bool matrices, double lr)
{
    bool own = spec->kind == ZR_OPTIMIZER_MUON && spec->lr > 0;
    return own ? lr * ((matrices ? spec->muon_lr : spec->adam_lr) / spec->lr) : lr;
}

int zr_optimizer_find(const char *name, bool adam_w_mode)
{
    if (!strcasecmp(name, "Adam"))
        return adam_w_mode ? ZR_OPTIMIZER_ADAMW : ZR_OPTIMIZER_ADAM_L2;
    for (int kind = 0; kind < ZR_OPTIMIZER_KINDS; kind++)
        if (!strcasecmp(name, traits[kind].name))
            return kind;
    return -1;
}

static const char *const schedule_names[ZR_SCHEDULE_COUNT] = {
    [ZR_SCHEDULE_CONSTANT] = "constant",          [ZR_SCHEDULE_WARMUP] = "WarmupLR",
    [ZR_SCHEDULE_WARMUP_DECAY] = "WarmupDecayLR", [ZR_SCHEDULE_WARMUP_COSINE] = "WarmupCosineLR",
    [ZR_SCHEDULE_ONE_CYCLE] = "OneCycle",         [ZR_SCHEDULE_RANGE_TEST] = "LRRangeTest",
    [ZR_SCHEDULE_OWN_CONSTANT] = "constant",      [ZR_SCHEDULE_OWN_LINEAR] = "linear",
    [ZR_SCHEDULE_OWN_COSINE] = "cosine",          [ZR_SCHEDULE_OWN_WSD] = "wsd",
};

const char *zr_schedule_name(zr_lr_schedule_kind kind) { return schedule_names[kind]; }

int zr_schedule_find(const char *name)
{
    for (int kind = ZR_SCHEDULE_WARMUP; kind < ZR_SCHEDULE_COUNT; kind++)
        if (!strcasecmp(name, schedule_names[kind]))
            return kind;
    return -1;
}

double zr_schedule_cycle_length(const zr_lr_schedule *s)
{
    return (double)s->first_steps + (double)s->second_steps;
}

double zr_schedule_decay_factor(const zr_lr_schedule *s, double n, double rate)
{
    if (s->decay_steps == 0 || rate == 0)
        return 1;
    return 1 + rate * ((n - zr_schedule_cycle_length(s)) / (double)s->decay_steps);
}

int64_t zr_schedule_momentum_leaves(const zr_lr_schedule *s)
{
    double start = s->max_momentum, rate = s->decay_momentum_rate, growth = start * rate;
    double decays = growth > 0 ? (1 - start) / growth : INFINITY;
    double updates = zr_schedule_cycle_length(s) + decays * (double)s->decay_steps;
    if (s->kind != ZR_SCHEDULE_ONE_CYCLE || !s->cycle_momentum || s->decay_steps == 0 ||
        !(updates < 0x1p53))
        return INT64_MAX;
    // Start one update early, since `updates` is rounded: what counts is the value that an update
    // takes (zr_schedule_betas).
    int64_t n = (int64_t)fmax(updates - 1, zr_schedule_cycle_length(s));
    while (start * zr_schedule_decay_factor(s, (double)n, rate) < 1)
        n++;
    return n;
}

#define ADAM_NUMBERS .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8

static const zr_optimizer_traits traits[ZR_OPTIMIZER_KINDS] = {
    [ZR_OPTIMIZER_ADAMW] = {.name = "AdamW",
                            .states = {"exp_avg", "exp_avg_sq"},
                            .elementwise = true,
                            .standard = {.kind = ZR_OPTIMIZER_ADAMW, ADAM_NUMBERS}},
    [ZR_OPTIMIZER_ADAM_L2] = {.name = "Adam",
                              .states = {"exp_avg", "exp_avg_sq"},
                              .elementwise = true,
                              .standard = {.kind = ZR_OPTIMIZER_ADAM_L2, ADAM_NUMBERS}},
    [ZR_OPTIMIZER_SGD] = {.name = "SGD",
                          .states = {"momentum_buffer"},
                          .elementwise = true,
                          .standard = {.kind = ZR_OPTIMIZER_SGD, .lr = 1e-3}},
    [ZR_OPTIMIZER_ADAGRAD] = {.name = "Adagrad",
                              .states = {"sum"},
                              .elementwise = true,
                              .standard = {.kind = ZR_OPTIMIZER_ADAGRAD, .lr = 1e-2, .eps = 1e-10}},
    [ZR_OPTIMIZER_LION] =
        {.name = "Lion",
         .states = {"exp_avg"},
         .elementwise = true,
         .standard = {.kind = ZR_OPTIMIZER_LION, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999}},
    [ZR_OPTIMIZER_LAMB] =
        {.name = "LAMB",
         .states = {"exp_avg", "exp_avg_sq"},
         .elementwise = false,
         .standard = {.kind = ZR_OPTIMIZER_LAMB, ADAM_NUMBERS, .min_coeff = 0.01, .max_coeff = 10}},
    [ZR_OPTIMIZER_MUON] = {.name = "Muon",
                           .states = {"exp_avg", "exp_avg_sq"},
                           .elementwise = false,
                           .standard = {.kind = ZR_OPTIMIZER_MUON,
                                        .lr = 1e-3,
                                        .beta1 = 0.9,
                                        .beta2 = 0.95,
                                        .eps = 1e-10,
                                        .momentum = 0.95,
                                        .nesterov = true,
                                        .ns_method = 1}},
    [ZR_OPTIMIZER_ADAFACTOR] = {.name = "Adafactor",
                                .elementwise = false,
                                .standard = {.kind = ZR_OPTIMIZER_ADAFACTOR,
                                             .lr = 1e-2,
                                             .eps = 1e-3,
                                             .beta2_decay = -0.8,
                                             .least_root = FLT_EPSILON,
                                             .clip = 1}},
};
