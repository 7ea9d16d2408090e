// Text from a model: one prompt or many.
#ifndef ZERO_GENERATE_H
#define ZERO_GENERATE_H

#include <zero/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// Why an answer is complete: it has as many tokens as were asked for, or the model ended it.
typedef enum zero_finish { ZERO_FINISH_LENGTH, ZERO_FINISH_END } zero_finish;

typedef struct zero_generate_options {
    size_t struct_size;
    const char *model_dir;
    // (prompt_count) each becomes the tokens of transformers' tokenizer(prompt): with the begin
    // token where the tokenizer has one, special tokens where they are spelled. NULL or "": the
    // begin token, else a new line
    const char *const *prompts;
    int64_t prompt_count; // 0: one, empty
    // each prompt is what a user says: "auto": by the model's chat template; "chatml", "llama2",
    // ...; NULL: no chat
    const char *chat;
    int64_t tokens; // to generate for each, at least 1
    // prompts that are answered at once, at most; 0: 8. An answer does not depend on it (in fp32
    // bit by bit)
    int64_t batch;
    // goes on after end tokens: eos_token_id of generation_config.json, of config.json, or the
    // tokenizer's
    int ignore_end;
    double temperature; // 0: greedy
    int top_k;          // 0: off
    double top_p;       // 1: off
    uint64_t seed;      // with a prompt's number, of its random numbers
    int threads;
    const char *backend;                // as in zero_options (engine.h); NULL: cpu
    const char *config_path, *dtype;    // as in zero_eval_options (eval.h)
    int64_t device_memory, host_memory; // likewise
    // Called as text comes, whole UTF-8 characters, of the prompts that are being answered in turn;
    // the prompt and the end token are not part of it. Non-zero stops all of it.
    int (*emit)(void *user, int64_t prompt, const char *text, size_t length);
    // nothing of this prompt comes any more; may be NULL
    void (*finish)(void *user, int64_t prompt, zero_finish why, int64_t tokens);
    void *user;
    zero_logger logger;
    // tensors of model_dir that the model has no place for are left out with a warning, not refused
    int ignore_unused;
} zero_generate_options;

// One rank. ZERO_ERR_LIMIT where keys and values of so many prompts exceed the budgets;
// ZERO_ERR_UNSUPPORTED for a chat template that is not known.
ZERO_API zero_status zero_generate(const zero_generate_options *options, zero_error *error);

// (count) as zero_generate_options takes them
typedef struct zero_prompts {
    char **at;
    int64_t count;
} zero_prompts;

// The prompts of a file: its lines; or, where its name ends in .jsonl, .ndjson or .json or begins
// with "jsonl:", the field of its records (NULL: "prompt"). Blank lines are passed over.
// ZERO_ERR_IO; ZERO_ERR_DATA with file and line. zero_prompts_free.
ZERO_API zero_status zero_prompts_read(const char *path, const char *field, zero_prompts *out,
                                       zero_error *error);
ZERO_API void zero_prompts_free(zero_prompts *prompts); // zeroed ones and NULL are fine

#ifdef __cplusplus
}
#endif
#endif
