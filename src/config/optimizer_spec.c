// The optimizers' defaults and state vectors, from DeepSpeed and PyTorch. The formulas are in
// compute/.
#include "config/optimizer_spec.h"

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

int zr_optimizer_find(const char *name, bool adam_w_mode)
{
    if (!strcasecmp(name, "Adam"))
        return adam_w_mode ? ZR_OPTIMIZER_ADAMW : ZR_OPTIMIZER_ADAM_L2;
    for (int kind = 0; kind < ZR_OPTIMIZER_KINDS; kind++)
        if (!strcasecmp(name, traits[kind].name))
            return kind;
    return -1;
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
};
