// Rows of the optimizer. The defaults of lr, betas and eps depend on the optimizer, so they are in
// optimizer_spec.c.
#include "config/key_rows.h"

#define P "optimizer.params."
#define IS(kind) (1u << ZR_OPTIMIZER_##kind)
#define ADAMS (IS(ADAMW) | IS(ADAM_L2))

// clang-format off
const zr_key zr_keys_optimizer[] = {
    KEY(ENUM, "optimizer.type", "AdamW", .any_case = true,
        .choices = "Adam|AdamW|SGD|Adagrad|Lion|LAMB|Muon|OneBitAdam|ZeroOneAdam|OneBitLamb|MuAdam|"
                   "MuAdamW|MuSGD|Adadelta|Adafactor|Adamax|ASGD|LBFGS|NAdam|RAdam|RMSprop|Rprop|"
                   "SparseAdam", .allowed = "Adam|AdamW|SGD|Adagrad|Lion|LAMB|Muon|Adafactor",
        .removed = "OneBitAdam|ZeroOneAdam|OneBitLamb", .reason = "this optimizer is not built yet",
        .help = "Adam is AdamW unless adam_w_mode is false"),
    KEY(NUMBER, P "lr", "0.001", FIELD(optimizer.lr),
        .help = "learning rate, unless the schedule has its own (Adagrad and Adafactor: 0.01)"),
    KEY(LIST, P "betas", "[0.9, 0.999]", .kinds = ADAMS | IS(LION) | IS(LAMB) | IS(MUON),
        .help = "decay of the two averages, each at least 0 and below 1 (Muon: [0.9, 0.95], of "
                "what is no matrix)"),
    KEY(NUMBERS, P "eps", "1e-8",
        .kinds = ADAMS | IS(ADAGRAD) | IS(LAMB) | IS(MUON) | IS(ADAFACTOR), FIELD(optimizer.eps),
        .help = "added to the denominator (Adagrad and Muon: 1e-10). Adafactor has a list, by "
                "default [null, 1e-3]: the least root of an average (null: that of fp32, 1.2e-7), "
                "and the least scale of a tensor"),
    KEY(NUMBER, P "weight_decay", "0", FIELD(optimizer.weight_decay),
        .help = "weight decay; see libzero.decay_all"),
    KEY(NUMBER, P "momentum", "0", .kinds = IS(SGD) | IS(MUON), FIELD(optimizer.momentum),
        .help = "momentum (Muon: 0.95)"),
    KEY(NUMBER, P "dampening", "0", .kinds = IS(SGD), FIELD(optimizer.dampening),
        .help = "part of the gradient kept out of the momentum"),
    KEY(BOOL, P "nesterov", "false", .kinds = IS(SGD) | IS(MUON), FIELD(optimizer.nesterov),
        .help = "Nesterov's momentum (Muon: true)"),
    KEY(NUMBER, P "muon_lr", "null", .nullable = true, .kinds = IS(MUON), FIELD(optimizer.muon_lr),
        .help = "Muon's rate of matrices, the two-dimensional parameters of all units but the "
                "first and the last; a schedule moves it in proportion to lr; null: lr"),
    KEY(NUMBER, P "adam_lr", "null", .nullable = true, .kinds = IS(MUON), FIELD(optimizer.adam_lr),
        .help = "Muon's rate of all else, which AdamW updates, moved in the same way; null: lr"),
    KEY(ENUM, P "ns_method", "gram", .kinds = IS(MUON), FIELD(optimizer.ns_method),
        .choices = "standard|gram",
        .help = "Muon's iteration: torch's in bf16, or DeepSpeed's on the Gram matrix in fp16, "
                "with fewer products"),
    KEY(ENUM, P "adjust_lr_fn", "original", .kinds = IS(MUON), FIELD(optimizer.adjust_lr_fn),
        .choices = "original|match_rms_adamw",
        .help = "what Muon's rate is multiplied by: sqrt(max(1, rows/columns)), or 0.2 "
                "sqrt(max(rows, columns)), with which AdamW's rates fit"),
    KEY(NUMBER, P "min_coeff", "0.01", .kinds = IS(LAMB), FIELD(optimizer.min_coeff),
        .help = "least trust ratio"),
    KEY(NUMBER, P "max_coeff", "10", .kinds = IS(LAMB), FIELD(optimizer.max_coeff),
        .help = "largest trust ratio"),
    KEY(NUMBER, P "beta2_decay", "-0.8", .kinds = IS(ADAFACTOR), .least = -10,
        FIELD(optimizer.beta2_decay),
        .help = "exponent, at most 0: update t takes t^beta2_decay of its squares into the "
                "averages"),
    KEY(NUMBER, P "d", "1", .kinds = IS(ADAFACTOR), .least = 1, FIELD(optimizer.clip),
        .help = "largest root of the mean square of a tensor's update, before its scale"),
    KEY(ANY, P "clip_threshold", NULL, .kinds = IS(ADAFACTOR),
        FORBIDDEN(NULL, "it is named d, as in torch.optim.Adafactor"),
        .help = "the name of d in transformers"),
    KEY(ANY, P "decay_rate", NULL, .kinds = IS(ADAFACTOR),
        FORBIDDEN(NULL, "it is named beta2_decay, as in torch.optim.Adafactor"),
        .help = "the name of beta2_decay in transformers"),
    KEY(ANY, P "scale_parameter", NULL, .kinds = IS(ADAFACTOR),
        FORBIDDEN("true", "updates are always scaled by a tensor's root mean square, but at least "
                          "by the second number of eps"),
        .help = "of transformers' Adafactor"),
    KEY(ANY, P "relative_step", NULL, .kinds = IS(ADAFACTOR),
        FORBIDDEN(NULL, "the rate is always the lesser of lr and 1/sqrt(t); write lr 1e-2 for that "
                        "of transformers' relative_step, or a schedule"),
        .help = "of transformers' Adafactor"),
    KEY(ANY, P "warmup_init", NULL, .kinds = IS(ADAFACTOR),
        FORBIDDEN("false", "write a schedule with a warm-up instead, such as WarmupLR"),
        .help = "of transformers' Adafactor"),
    KEY(BOOL, P "adam_w_mode", "true", .kinds = ADAMS, FIELD(adam_w_mode),
        .help = "of Adam: false adds the decay to the gradient; AdamW ignores it"),
    KEY(BOOL, P "torch_adam", "false", .kinds = ADAMS,
        NO_EFFECT("there is one implementation of each optimizer"),
        .help = "take PyTorch's Adam"),
    KEY(BOOL, P "amsgrad", "false", .kinds = ADAMS | IS(LAMB),
        REFUSED("false", "AMSGrad is not built yet"),
        .help = "keep the largest second average"),
    KEY(BOOL, P "bias_correction", "true", .kinds = ADAMS | IS(LAMB) | IS(MUON),
        FIELD(optimizer.bias_correction),
        .help = "correct the averages' start at zero"),
    KEY(BOOL, P "fp32_optimizer_states", "true", .kinds = ADAMS | IS(ADAGRAD) | IS(LION),
        .help = "of DeepSpeed's optimizers on CPUs: false keeps the states in bf16, as "
                "libzero.optimizer_states bf16 says it"),
    KEY(NUMBER, P "lr_decay", "0", .kinds = IS(ADAGRAD),
        REFUSED("0", "take a schedule instead; Adagrad's own decay is not built yet"),
        .help = "decay of lr"),
    KEY(ANY, P "max_grad_norm", NULL,
        FORBIDDEN(NULL, "clipping is gradient_clipping, at the top level"),
        .help = "not a parameter of an optimizer"),
    KEY(BOOL, "optimizer.legacy_fusion", "false",
        NO_EFFECT("there is one implementation of each optimizer"),
        .help = "DeepSpeed's old fused optimizer"),
};
// clang-format on
const int zr_keys_optimizer_count = ZR_COUNT(zr_keys_optimizer);
