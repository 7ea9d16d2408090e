// Rows of the top level: batch sizes, averaging, clipping, printing; and our own section.
#include "config/config_ranks.h"
#include "config/key_rows.h"

#define ALWAYS_PRESCALED                                                                           \
    "the factor 1 / (accumulation x data ranks) enters at the loss: gradients are small before "   \
    "they are summed"

// clang-format off
const zr_key zr_keys_batch[] = {
    KEY(INT, "train_batch_size", "null", .nullable = true, .least = 1, FIELD(train_batch),
        .help = "samples of one update, over all data ranks: ranks / tensor ranks"),
    KEY(INT, "train_micro_batch_size_per_gpu", "null", .nullable = true, .least = 1,
        FIELD(micro_batch),
        .help = "samples that a data rank takes at a time: a rank, or the tensor ranks of a model "
                "together"),
    KEY(INT, "gradient_accumulation_steps", "null", .nullable = true, .least = 1,
        FIELD(accumulation),
        .help = "micro-batches of each data rank before an update"),
    KEY(NUMBER, "gradient_clipping", "1.0", FIELD(clipping),
        .help = "largest norm of the gradient; 0: no clipping"),
    KEY(BOOL, "prescale_gradients", "false", NO_EFFECT(ALWAYS_PRESCALED),
        .help = "divide by the number of ranks before the sum, not after it"),
    KEY(NUMBER, "gradient_predivide_factor", "1.0", .above = true, NO_EFFECT(ALWAYS_PRESCALED),
        .help = "gradients are divided by it before the sum and multiplied after it"),
    KEY(ENUM, "gradient_allreduce_op", "mean", .choices = "mean|sum", .allowed = "mean",
        .reason = "only the mean over the ranks is built",
        .help = "how the ranks' gradients become one"),
    KEY(INT, "steps_per_print", "null", .nullable = true, FIELD(steps_per_print),
        .help = "updates between two printed lines; null: the program's choice"),
    KEY(ENUM, "communication_data_type", "null", .nullable = true, .any_case = true,
        .choices = "fp32|fp16|bf16",
        .help = "type of gradients on the wire; null: the type of the parameters"),
    KEY(ENUM, "seq_parallel_communication_data_type", "fp32", .nullable = true, .any_case = true,
        .choices = "fp32|fp16|bf16",
        NO_EFFECT("sums of slices are fp32; 16 bits are refused where a model has slices"),
        .help = "type of sequence-parallel messages"),
    KEY(BOOL, "managed_gradient_accumulation", "true",
        REFUSED("true", "accumulation is always managed here"),
        .help = "the engine counts the micro-batches"),
    KEY(INT, "seed", NULL, RENAMED("libzero.seed", "our settings live in the section libzero"),
        .help = "the same as libzero.seed"),
    KEY(BOOL, "wall_clock_breakdown", "false", FIELD(wall_clock_breakdown),
        .help = "print where the time of a step went"),
    KEY(BOOL, "memory_breakdown", "false", FIELD(memory_breakdown),
        .help = "print what memory is held for"),
    KEY(BOOL, "dump_state", "false",
        NO_EFFECT("the resolved configuration is always written to config.json"),
        .help = "print the configuration"),
    KEY(BOOL, "dataloader_drop_last", "false",
        NO_EFFECT("the loader only makes full micro-batches"),
        .help = "drop an incomplete last batch"),
    KEY(BOOL, "disable_allgather", "false",
        NO_EFFECT("on one machine weights are mapped, not gathered; elsewhere one all-gather "
                  "publishes them"),
        .help = "publish weights by broadcasts"),
    KEY(BOOL, "zero_allow_untested_optimizer", "false",
        NO_EFFECT("every optimizer here works at every stage"),
        .help = "optimizers of the user's own"),
    KEY(BOOL, "zero_force_ds_cpu_optimizer", "true",
        NO_EFFECT("there is one implementation of each optimizer"),
        .help = "insist on DeepSpeed's CPU optimizer"),
    KEY(INT, "vocabulary_size", "null", .nullable = true,
        NO_EFFECT("the vocabulary comes from the model"),
        .help = "tokens in the vocabulary"),
    KEY(STRING, "log_level", "null", .nullable = true,
        NO_EFFECT("the caller's log callback decides what is shown"),
        .help = "how much is logged"),
    KEY(BOOL, "timers.throughput.enabled", "true",
        NO_EFFECT("tokens per second are always measured"),
        .help = "measure throughput"),
    KEY(BOOL, "timers.throughput.synchronized", "true",
        NO_EFFECT("tokens per second are always measured"),
        .help = "synchronise the device around the timers"),
    KEY(ANY, "_comment", NULL, NO_EFFECT("it is a comment"), .help = "a remark"),
    KEY(BOOL, "libzero.allow_unknown", "false",
        .help = "warn of unknown keys at the top of this file (--allow-unknown), as a trainer's "
                "own are, instead of refusing them"),
    KEY(INT, "libzero.seed", "0", FIELD(seed), .help = "seed of weights, dropout and data order"),
    KEY(ENUM, "libzero.dtype", "null", .nullable = true, .any_case = true,
        .choices = "fp32|bf16|fp16",
        .help = "type of parameters and activations, as --dtype says it; auto: bf16 where the "
                "processor multiplies it, else fp32; null: as fp16.enabled and bf16.enabled say"),
    KEY(ENUM, "libzero.optimizer_states", "null", .nullable = true, .any_case = true,
        .choices = "fp32|bf16|8bit",
        .help = "type of optimizer states (--optimizer-states): 8bit: Adam's in bitsandbytes' "
                "blocks of 256 elements, 2.03 bytes a weight in place of 8; bf16: 4; null: as "
                "bf16.bf16_optimizer_states and fp32_optimizer_states say, or fp32"),
    KEY(NUMBER, "libzero.ema_decay", "0", .most = 1, FIELD(optimizer.ema_decay),
        .help = "decay of an average of the weights (--ema), e <- decay x e + (1 - decay) x w "
                "after each update, exported beside the model; 0: none"),
    KEY(BOOL, "libzero.decay_all", "false", FIELD(optimizer.decay_all),
        .help = "weight decay on every tensor, DeepSpeed's way; false: only on tensors of two or "
                "more dimensions"),
    KEY(ENUM, "libzero.reduce", "per_microbatch", .choices = "per_microbatch|per_step",
        .allowed = "per_microbatch", .reason = "reducing once a step is not built yet",
        .help = "when gradients are reduced: after each micro-batch, or once a step (other bits)"),
    KEY(ENUM, "libzero.loss_mean", "targets", FIELD(loss_mean), .choices = "targets|micro_batch",
        .help = "loss and gradient of a step are means over its targets that count, of all ranks; "
                "micro_batch: over its micro-batches with equal weights, as DeepSpeed does: others "
                "where targets are masked; docs/data.md"),
    KEY(BOOL, "libzero.exact_world", "false", FIELD(exact_world),
        .help = "losses and weights are the same bits on 1, 2, 4, ... data ranks, at the same "
                "train_batch_size, micro-batch and threads a rank: gradients are fp32 until their "
                "sum is complete, and summed along one tree; docs/exactness.md"),
    KEY(INT, "libzero.exact_tensor", "null", .nullable = true, .above = true,
        .most = ZR_CONFIG_MOST_SLICES,
        .help = "slices into which the model is cut, a power of two: losses and weights are the "
                "same bits on any number of tensor ranks that divides it; null: as many as there "
                "are tensor ranks, and other bits on others"),
    KEY(BOOL, ZR_TENSOR_SEQUENCE, "null", .nullable = true, FIELD(sequence_parallel), AGREES(0),
        .help = "tensor ranks divide the rows of the residual stream, norms and dropout, as "
                "Megatron's sequence parallelism does (--sequence-parallel); null: false"),
    KEY(BOOL, "libzero.schedule_from_one", "false", FIELD(schedule.from_one),
        .help = "WarmupCosineLR without an update at rate 0: the first has lr / warmup_num_steps, "
                "the last of the warm-up lr, that of the run cos_min_ratio of lr (where no "
                "scheduler is named: true); false: as DeepSpeed counts, whose first two updates "
                "are at the warm-up's least"),
    KEY(ENUM, "libzero.attention", "auto", FIELD(attention), .choices = "auto|causal|document",
        .help = "document: whole examples are packed into windows, positions begin anew in each, "
                "and attention does not look across; causal: windows are cut from one stream; "
                "auto: document for data with records of prompts or messages, causal for other "
                "data (--attention)"),
    KEY(ANY, "libzero.lora", "null", .nullable = true,
        .help = "low-rank adapters that train in place of the model, whose weights are frozen "
                "(--lora): text, \"r=16,alpha=32,targets=all-linear,dropout=0.05,rslora,dora\", or "
                "an object with these keys; null: the model trains"),
    KEY(ENUM, "libzero.base", "auto", FIELD(base), .choices = "auto|nf4|int8",
        .help = "how the weights of the blocks' linears are kept, which then do not train "
                "(--base): in bitsandbytes' nf4, 0.52 bytes a weight, or int8 by rows, a byte a "
                "weight; auto: as their files have them"),
    KEY(ANY, "libzero.preference", "null", .nullable = true,
        .help = "the loss of preferences that is trained in place of the language loss "
                "(--preference): text, \"dpo,beta=0.1\", or an object with the same settings and "
                "the name as \"loss\"; null: none"),
    KEY(ENUM, "libzero.task", "null", .nullable = true, .choices = "classify",
        .help = "what is trained (--task): classify, the label of each text by a head of labels; "
                "null: what the model's config.json says, else to continue texts"),
    KEY(STRING, "libzero.reference", "null", .nullable = true,
        .help = "the file of the reference's log-probabilities that dpo and kto compare with "
                "(--reference); null: next to the first data file"),
    KEY(STRING, "libzero.cuda_libraries", "null", .nullable = true,
        .help = "folders, with colons between them, where cuBLASLt and NVRTC lie, beside those "
                "that are looked in anyway (docs/devices.md); null: none"),
    KEY(OBJECT, "libzero.run", "null", .nullable = true,
        .help = "what a run was made with in addition to this file (model, text, windows, steps, "
                "ranks, threads); written by zero train, read by people"),
};
// clang-format on
const int zr_keys_batch_count = ZR_COUNT(zr_keys_batch);
