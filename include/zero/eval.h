// zero_eval: the loss of a model over a whole text.
#ifndef ZERO_EVAL_H
#define ZERO_EVAL_H

#include <zero/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

// A text to which a model has given a label. The strings are valid during the call alone that has
// them.
typedef struct zero_labelled_text {
    int64_t number;    // among the texts of all data that are not empty, in their order, from 1
    const char *label; // its own
    // The one with the largest logit, and its probability; NULL and NaN: a logit of the text is not
    // finite, and the text counts as one that did not get its own label.
    const char *predicted;
    double probability;
} zero_labelled_text;

typedef struct zero_eval_options {
    size_t struct_size;
    const char *model_dir;
    const char *const *data; // (data_count) as in zero_train_options, without weights
    int data_count;
    const char *field, *chat; // as in zero_train_options
    int64_t seq;              // 0: the model's context
    int threads;
    const char *backend; // as in zero_train_options
    // A DeepSpeed file, from which precision and offload_param are read, and what only a training
    // uses is not; NULL: none.
    const char *config_path;
    const char *dtype; // "fp32", "bf16", "fp16", "auto"; NULL: the configuration's, or fp32
    // Bytes for one rank, and for all ranks of a machine; 0: the configuration's.
    int64_t device_memory, host_memory;
    zero_logger logger;
    int ignore_unused; // as in zero_train_options
    int reserved;      // not read: it was padding, in which older programs have anything
    // Ranks that compute one model together (tensor parallelism), a divisor of comm's ranks; 0: 1,
    // because what the configuration says of this is a training's.
    int tensor;
    int sequence_parallel; // 1: these ranks also divide rows, Megatron's sequence parallelism
    // "bytes", or a directory or file as in zero_train_options; NULL: the model's, without which
    // only token files can be evaluated.
    const char *tokenizer;
    // A directory with an adapter of the model, as peft saves it, or that of a run that trained
    // one; NULL: none.
    const char *adapter;
    // The date that a chat template takes for today, "YYYY-MM-DD"; NULL: today.
    const char *chat_date;
    // "auto", "causal" or "document": whether examples are measured whole, each for itself, as
    // libzero.attention says of a training (docs/data.md); NULL: auto.
    const char *attention;
    // "nf4" or "int8": the weights of the blocks are kept so, as libzero.base says of a training
    // (docs/fine-tuning.md); NULL: as their files have them.
    const char *base;
    // "dpo,beta=0.1", ... as libzero.preference says it of a training: the loss of preferences is
    // measured; NULL: that of the next token.
    const char *preference;
    // The model with which dpo and kto compare: a directory as model_dir; NULL: model_dir without
    // its adapter.
    const char *reference;
    // Filled if there is a preference, or the model gives texts labels; NULL: not wanted.
    struct zero_preference_result *preferred;
    const char *task; // "classify": the model must give texts labels; NULL: what its files say
    // Of a model that gives texts labels: called on each rank whose options have it, once all is
    // measured, for each text that was read, in the order of the data. NULL: not wanted.
    void (*labelled)(void *user, const zero_labelled_text *text);
    void *labelled_user;
} zero_eval_options;

// `tokens` counts those whose loss was measured, which excludes prompts; `bytes` is the size of the
// text that those tokens cover; 0: there is no tokenizer that knows.
typedef struct zero_eval_result {
    double loss;
    int64_t windows, tokens, bytes;
} zero_eval_result;

// Next to a loss of preferences, which is the mean over pairs (KTO: examples): their number; the
// share of the pairs whose chosen answer has the larger reward; the mean reward of chosen answers
// minus that of rejected ones. NaN: there is none, or it is not finite.
// Of a model that gives texts labels: the number of texts; the share that got their own; NaN.
typedef struct zero_preference_result {
    int64_t pairs;
    double accuracy, margin;
    int labels; // 1: of a model that gives texts labels
} zero_preference_result;

// Computes the mean cross-entropy in nats over the windows i*seq, i < floor((n-1)/seq); each token
// has the same weight. Collective over comm: the windows are divided among the ranks (of those that
// compute one model together all read the same ones), and the sum is exact.
ZERO_API zero_status zero_eval(zero_comm *comm, const zero_eval_options *options,
                               zero_eval_result *out, zero_error *error);

// Writes what zero_eval tells of a text with a label, as a line of JSON: its "text" (the number),
// "label", "predicted" and "probability", the latter two null if there are none. Not collective.
// Returns ZERO_ERR_USAGE or ZERO_ERR_MEMORY, and then has not called `write`.
ZERO_API zero_status zero_labelled_text_report(const zero_labelled_text *text,
                                               void (*write)(void *user, const char *text),
                                               void *user, zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
