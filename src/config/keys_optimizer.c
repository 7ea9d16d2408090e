// Rows of the optimizer. The defaults of lr, betas and eps depend on the optimizer: optimizer_spec.c has them.
#include "config/config.h"

#define P "optimizer.params."
#define IS(kind) (1u << ZR_OPTIMIZER_##kind)
#define ADAMS (IS(ADAMW) | IS(ADAM_L2))

const zr_key zr_keys_optimizer[] = {
    {.path = "optimizer.type", .type = ZR_KEY_ENUM, .any_case = true, .standard = "AdamW",
     .choices = "Adam|AdamW|SGD|Adagrad|Lion|LAMB|Muon|OneBitAdam|ZeroOneAdam|OneBitLamb|MuAdam|MuAdamW|MuSGD|Adadelta|"
                "Adafactor|Adamax|ASGD|LBFGS|NAdam|RAdam|RMSprop|Rprop|SparseAdam",
     .allowed = "Adam|AdamW|SGD|Adagrad|Lion|LAMB", .reason = "this optimizer is not built yet",
     .help = "Adam is AdamW unless adam_w_mode is false"},
    {.path = P "lr", .type = ZR_KEY_NUMBER, .standard = "0.001", .field = offsetof(zr_config, optimizer.lr),
     .help = "learning rate, unless the schedule has its own (Adagrad: 0.01)"},
    {.path = P "betas", .type = ZR_KEY_LIST, .standard = "[0.9, 0.999]", .kinds = ADAMS | IS(LION) | IS(LAMB),
     .help = "decay of the two averages, each at least 0 and below 1"},
    {.path = P "eps", .type = ZR_KEY_NUMBER, .standard = "1e-8", .kinds = ADAMS | IS(ADAGRAD) | IS(LAMB),
     .field = offsetof(zr_config, optimizer.eps), .help = "added to the denominator (Adagrad: 1e-10)"},
    {.path = P "weight_decay", .type = ZR_KEY_NUMBER, .standard = "0",
     .field = offsetof(zr_config, optimizer.weight_decay), .help = "weight decay; see libzero.decay_all"},
    {.path = P "momentum", .type = ZR_KEY_NUMBER, .standard = "0", .kinds = IS(SGD),
     .field = offsetof(zr_config, optimizer.momentum), .help = "momentum"},
    {.path = P "dampening", .type = ZR_KEY_NUMBER, .standard = "0", .kinds = IS(SGD),
     .field = offsetof(zr_config, optimizer.dampening), .help = "part of the gradient kept out of the momentum"},
    {.path = P "nesterov", .type = ZR_KEY_BOOL, .standard = "false", .kinds = IS(SGD),
     .field = offsetof(zr_config, optimizer.nesterov), .help = "Nesterov's momentum"},
    {.path = P "min_coeff", .type = ZR_KEY_NUMBER, .standard = "0.01", .kinds = IS(LAMB),
     .field = offsetof(zr_config, optimizer.min_coeff), .help = "least trust ratio"},
    {.path = P "max_coeff", .type = ZR_KEY_NUMBER, .standard = "10", .kinds = IS(LAMB),
     .field = offsetof(zr_config, optimizer.max_coeff), .help = "largest trust ratio"},
    {.path = P "adam_w_mode", .type = ZR_KEY_BOOL, .standard = "true", .kinds = ADAMS,
     .field = offsetof(zr_config, adam_w_mode),
     .help = "of Adam: false adds the decay to the gradient; AdamW ignores it"},
    {.path = P "torch_adam", .type = ZR_KEY_BOOL, .standard = "false", .kinds = ADAMS, .treatment = ZR_KEY_NO_EFFECT,
     .reason = "there is one implementation of each optimizer", .help = "take PyTorch's Adam"},
    {.path = P "amsgrad", .type = ZR_KEY_BOOL, .standard = "false", .kinds = ADAMS | IS(LAMB),
     .treatment = ZR_KEY_REFUSED,
     .allowed = "false", .reason = "AMSGrad is not built yet", .help = "keep the largest second average"},
    {.path = P "bias_correction", .type = ZR_KEY_BOOL, .standard = "true", .kinds = ADAMS | IS(LAMB),
     .treatment = ZR_KEY_REFUSED, .allowed = "true", .reason = "updates without bias correction are not built yet",
     .help = "correct the averages' start at zero"},
    {.path = P "lr_decay", .type = ZR_KEY_NUMBER, .standard = "0", .kinds = IS(ADAGRAD), .treatment = ZR_KEY_REFUSED,
     .allowed = "0", .reason = "take a schedule instead; Adagrad's own decay is not built yet", .help = "decay of lr"},
    {.path = P "max_grad_norm", .type = ZR_KEY_ANY, .treatment = ZR_KEY_FORBIDDEN,
     .reason = "clipping is gradient_clipping, at the top level", .help = "not a parameter of an optimizer"},
    {.path = "optimizer.legacy_fusion", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_NO_EFFECT,
     .reason = "there is one implementation of each optimizer", .help = "DeepSpeed's old fused optimizer"},
};
const int zr_keys_optimizer_count = ZR_COUNT(zr_keys_optimizer);
