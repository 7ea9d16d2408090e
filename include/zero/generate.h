// zero_generate: text from a model, for one prompt or many, by one rank or several.
#ifndef ZERO_GENERATE_H
#define ZERO_GENERATE_H

#include <zero/comm.h>

#ifdef __cplusplus
extern "C" {
#endif

// Why an answer is complete: it has the requested number of tokens, or the model ended it.
typedef enum zero_finish { ZERO_FINISH_LENGTH, ZERO_FINISH_END } zero_finish;

// What a person says next in a conversation: nothing more, a message that continues it, or one that
// begins another.
typedef enum zero_turn { ZERO_TURN_END, ZERO_TURN_ON, ZERO_TURN_ANEW } zero_turn;

typedef struct zero_generate_options {
    size_t struct_size;
    const char *model_dir;
    // (prompt_count) Each becomes the tokens that transformers' tokenizer(prompt) gives: with the
    // begin token if the tokenizer has one, and with special tokens where their spelling occurs.
    // NULL or "": the begin token, or else a new line.
    const char *const *prompts;
    int64_t prompt_count; // 0: one empty prompt
    // How to wrap each prompt as the message of a user: "auto": by the model's chat template; or
    // "chatml", "llama2", ..., or the file of a template, NAME.jinja; NULL: no chat.
    const char *chat;
    int64_t tokens; // to generate for each, at least 1
    // The most prompts that are answered at once; 0: 8. An answer does not depend on it (in fp32
    // bit by bit).
    int64_t batch;
    // 1: continues after end tokens, which are eos_token_id of generation_config.json or of
    // config.json, or the tokenizer's.
    int ignore_end;
    double temperature; // 0: greedy
    int top_k;          // 0: off
    double top_p;       // 1: off
    uint64_t seed;      // determines the random numbers, together with a prompt's number
    int threads;
    const char *backend;                // as in zero_options (engine.h); NULL: cpu
    const char *config_path, *dtype;    // as in zero_eval_options (eval.h)
    int64_t device_memory, host_memory; // as in zero_eval_options
    // Called with text as it is generated, in whole UTF-8 characters, in turn for the prompts that
    // are being answered. The text includes neither the prompt nor the end token. A non-zero result
    // stops everything.
    int (*emit)(void *user, int64_t prompt, const char *text, size_t length);
    // Called when no more text follows for this prompt; may be NULL.
    void (*finish)(void *user, int64_t prompt, zero_finish why, int64_t tokens);
    void *user;
    zero_logger logger;
    // 1: tensors of model_dir that the model has no place for cause a warning, not an error.
    int ignore_unused;
    int reserved; // not read: it was padding, in which older programs have anything
    // Ranks that compute one model together (tensor parallelism), a divisor of comm's ranks; 0: 1,
    // because what the configuration says of this is a training's.
    int tensor;
    // The ranks that generate together: they divide the parameters, and their options are the same.
    // Rank 0's prompts are answered, and it alone calls emit, finish and logger; on other ranks
    // these fields may be zeroed. NULL: this process is the only rank.
    zero_comm *comm;
    // 1: keeps nothing of what the generation measures of itself, from which later ones are
    // predicted (as in zero_train_options, tools.h).
    int no_learn;
    // Called once all answers are there with a line that says what they took, next to what was
    // predicted; may be NULL.
    void (*took)(void *user, const char *text);
    const char *adapter; // as in zero_eval_options
    // The date that a chat template takes for today, "YYYY-MM-DD"; NULL: today.
    const char *chat_date;
    // (stop_count) An answer ends before the first of these texts that occurs in it; none is empty.
    const char *const *stops;
    int stop_count;
    // 1: a conversation, which needs `chat` and `ask`, in place of prompts.
    int converses;
    // Called on rank 0 once the answer before is complete, for what the user says next. *text is
    // valid up to the next call; ZERO_TURN_END comes without one. took is not called.
    zero_turn (*ask)(void *user, const char **text);
    // "nf4" or "int8": the weights of the blocks are kept so, as libzero.base says of a training
    // (docs/fine-tuning.md); NULL: as their files have them.
    const char *base;
} zero_generate_options;

// Generates answers to all prompts; they do not depend on the number of ranks (in fp32 bit by bit;
// on that of tensor ranks only with libzero.exact_tensor).
// Collective over options->comm; once emit has stopped it, it ends on all ranks, without an error.
// Returns ZERO_ERR_LIMIT if the keys and values of all prompts exceed the memory budgets, and
// ZERO_ERR_UNSUPPORTED for an unknown chat template.
ZERO_API zero_status zero_generate(const zero_generate_options *options, zero_error *error);

// (count) prompts, in the form that zero_generate_options takes.
typedef struct zero_prompts {
    char **at;
    int64_t count;
} zero_prompts;

// Reads the prompts of a file: its lines or, if its name ends in .jsonl, .ndjson or .json or begins
// with "jsonl:", the field `field` of its records (NULL: "prompt"). Blank lines are skipped.
// Returns ZERO_ERR_IO, or ZERO_ERR_DATA with file and line. Free them with zero_prompts_free.
ZERO_API zero_status zero_prompts_read(const char *path, const char *field, zero_prompts *out,
                                       zero_error *error);
ZERO_API void zero_prompts_free(zero_prompts *prompts); // NULL and zeroed prompts are allowed

#ifdef __cplusplus
}
#endif
#endif
