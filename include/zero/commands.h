// What the program `zero` calls and other programs rarely do: looking at files and making them from
// others; and, in <zero/machine_commands.h>, which this includes, what measures and predicts.
//
// Unlike the rest of the interface this is not promised: functions and structs change as the
// program's commands do, and a program that uses them is compiled again for each version.
#ifndef ZERO_COMMANDS_H
#define ZERO_COMMANDS_H

#include <zero/comm.h>
#include <zero/eval.h>
#include <zero/machine_commands.h>
#include <zero/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- zero_inspect: describes checkpoints and models on disk.
typedef struct zero_inspect_options {
    // A checkpoint, a run (--out), a Hugging Face directory, a file *.safetensors, a GGUF file,
    // a DeepSpeed checkpoint (ZeRO 1 to 3), or pytorch_model.bin or its directory.
    const char *path;
    // 1: reads every tensor, and writes its minimum, maximum, mean and root mean square, how many
    // values are NaN or infinite, and the CRC32C of its bytes.
    int sums;
    // 1: reads every byte that has a checksum; of a run, those of all checkpoints that it keeps.
    int verify;
    int json; // 1: writes one JSON object, on one line
} zero_inspect_options;

// Describes `path` through `write`: its step, lineage, schedule and tensors. Takes one rank and one
// block of memory. With `verify` it lists damage with file, tensor and bytes, and then returns
// ZERO_ERR_DATA.
ZERO_API zero_status zero_inspect(const zero_inspect_options *options,
                                  void (*write)(void *user, const char *text), void *user,
                                  zero_error *error);

// ---- zero_convert: makes a model or a checkpoint from another one.
typedef struct zero_convert_options {
    // As zero_inspect_options.path, but not a single file. Of a run, its newest intact checkpoint.
    // A checkpoint of adapters becomes an adapter's directory, as peft saves it.
    const char *from;
    const char *to; // a directory; "gguf": a file
    // "hf": a Hugging Face directory; "libzero": TO/checkpoints/step-N, from which zero_train can
    // continue; "gguf": a file of llama.cpp; NULL: "gguf" if `to` ends with .gguf, else "hf".
    const char *format;
    // hf: the type of the weights, "fp32", "bf16" or "fp16". NULL: fp32, or that of model files.
    const char *dtype;
    int64_t shard_bytes; // hf: the most bytes of tensors in one file; 0: 5 GB
    // The directory with config.json and the tokenizer; NULL: `from`, if they are there.
    const char *model_dir;
    // 1: replaces a model that libzero wrote to `to`, provided that nothing else is in there, or a
    // GGUF file; never what is being read.
    int overwrite;
    zero_logger logger;
    void (*progress)(void *user, int64_t done, int64_t total); // bytes; NULL: not wanted
    void *progress_user;
    const char *type; // gguf: "f32", "f16", "bf16", "q8_0" or "q4_0"; NULL: f16, of an adapter f32
    const char *base_dir; // of an adapter's base model; NULL: adapter_config.json names it
    // hf, gguf: the directory of an adapter, or of its run, that is added to the model: W + s B A.
    const char *adapter;
} zero_convert_options;

// Converts `from` into `to`. Takes one rank and a few MiB of memory, whatever the size. The result
// is either complete or absent. Checksums of what is read are verified: damage is ZERO_ERR_DATA,
// naming file and tensor. The pickles of DeepSpeed are parsed, never executed.
// Returns ZERO_ERR_USAGE if something that may not be replaced is at `to`, and ZERO_ERR_UNSUPPORTED
// for a conversion that does not exist (to make a checkpoint from a model, use zero_load_weights).
ZERO_API zero_status zero_convert(const zero_convert_options *options, zero_error *error);

// ---- zero_diff: whether two runs, or two models, are identical.
typedef struct zero_diff_options {
    // Two runs (--out); or two of: a checkpoint, a Hugging Face directory, a file of weights.
    const char *a, *b;
    int json; // 1: writes one JSON object, on one line
} zero_diff_options;

typedef struct zero_diff_result {
    int identical;
    int64_t steps;   // runs: steps whose losses were compared
    int64_t tensors; // tensors that were compared
} zero_diff_result;

// Compares `a` with `b`. Of runs it compares what each step computed (loss, gradient norm, learning
// rate, loss scale, held-out loss), the checkpoints of the same steps, and the models; otherwise it
// compares the tensors. Times and byte counts are ignored.
// Writes "identical, 2,000 steps", or the first step and tensor that differ and by how much. If
// only one run has a model, that is a difference; so are checkpoints that only one has, if there
// are no other tensors. If the runs have no tensors of a common step, it writes that no tensors
// were compared.
// Returns ZERO_ERR_DATA for damage and for what cannot be compared. Not collective.
ZERO_API zero_status zero_diff(const zero_diff_options *options,
                               void (*write)(void *user, const char *text), void *user,
                               zero_diff_result *out, zero_error *error);

// ---- zero_verify: whether a run is what it claims to be.
typedef struct zero_verify_options {
    // The --out of a training that was started from new weights or from a model directory.
    const char *run;
    int64_t from, to;        // steps of two of its checkpoints; 0: the two newest
    const char *const *data; // (data_count) where its text is now; NULL: where it was
    int data_count;
    // Per rank; 0: as many as made the run. Another number may round differently, which the report
    // then says.
    int threads;
    zero_logger logger;
    int json; // 1: writes one JSON object, on one line, when all is compared
} zero_verify_options;

typedef struct zero_verify_result {
    int confirmed;
    int64_t from, to; // steps
} zero_verify_result;

// Replays the steps between two checkpoints of a run, on as many ranks and (by default)
// threads as made it. Compares every loss and every bit of the state with what the run has kept,
// and each model with its receipt. Writes what it found through `write`, and nothing into the run.
// Refuses a configuration or a text that is not the run's, an instruction path that this machine
// lacks (ZERO_ERR_UNSUPPORTED), and steps before a resume with another number of ranks or another
// micro-batch, as far as the later checkpoints show it. Collective; rank 0 writes.
ZERO_API zero_status zero_verify(zero_comm *comm, const zero_verify_options *options,
                                 void (*write)(void *user, const char *text), void *user,
                                 zero_verify_result *out, zero_error *error);
// Gives the number of ranks that zero_verify needs for this run. Not collective.
ZERO_API zero_status zero_verify_ranks(const char *run, int *ranks, zero_error *error);

// ---- zero_data_show: shows what a training will read, as text, before the run.
typedef struct zero_data_options {
    const char *const *data; // (data_count) this and the next five are as in zero_train_options
    int data_count;
    const char *val, *field, *chat, *chat_date;
    // The model whose tokenizer, vocabulary, context and chat template are used; or NULL.
    const char *model_dir;
    const char *tokenizer; // as in zero_train_options
    int64_t seq;           // tokens of a window; 0: the model's context, or 128
    int64_t micro_batch;   // samples; 0: 2
    int64_t seed;          // of the order of samples; -1: 1337
    int threads;           // threads that read text; 0: what this machine allows
    int json;              // 1: one JSON object per sample, on one line, with ids of tokens
    int color;             // 1: the text has colors in place of brackets
    int terminal;          // 1: its control characters become dots, not commands to a terminal
    zero_logger logger;
    // Gets one sample after the other, in UTF-8; bytes may be 0. A non-zero result stops.
    int (*emit)(void *user, const char *text, size_t length);
    void *user;
    const char *attention, *preference; // as in zero_eval_options
    const char *task; // NULL, or "classify": of the model's labels, or, if it has none, the data's
} zero_data_options;

// Passes the samples of micro-batch 0 of step 0, as zero_train would take them with these options,
// to `emit` in order: a line about its place and how much counts in the loss; then its text, in
// brackets what does not count (prompts, and the first token of a window, which no token precedes).
// A text's label has a line before it (in JSON: "label"). Not collective; zero_train's errors.
ZERO_API zero_status zero_data_show(const zero_data_options *options, zero_error *error);

// ---- zero_evaluation_report: writes what zero_eval has measured; preferred may be NULL.
ZERO_API zero_status zero_evaluation_report(const zero_eval_result *result,
                                            const zero_preference_result *preferred, int json,
                                            void (*write)(void *user, const char *text), void *user,
                                            zero_error *error);

// ---- zero_tokenize: turns text into a file of tokens.
typedef struct zero_tokenize_options {
    // "bytes", a directory or a file as for zero_train_options (zero/train.h), or a run.
    const char *tokenizer;
    // (data_count) as in zero_train_options; the tokenizer's end token, if any, follows each text.
    const char *const *data;
    int data_count;
    const char *field, *chat, *chat_date; // of JSONL, as in zero_train_options
    // The file to write, in llm.c's format: uint16 if the ids fit, otherwise uint32. out.json next
    // to it tells which tokenizer made it.
    const char *out;
    // 1: the spelling of a special token in the text becomes that token; 0: it is ordinary text.
    int special;
    int threads; // 0: the cores that this machine allows
    // 0: an `out` that exists is refused; 1: it is replaced, if it is a token file of libzero.
    int overwrite;
    zero_logger logger;
    zero_bytes_done progress; // may be NULL
    void *user;
} zero_tokenize_options;

typedef struct zero_tokenize_result {
    int64_t bytes, tokens, documents;
    int token_bytes;
    double seconds;
} zero_tokenize_result;

// Writes the token file. Takes one rank. After a failure the file still holds its old content, and
// a training that reads it gets the ids that it would have made of these data itself.
// Returns ZERO_ERR_DATA for data that hold tokens already, ZERO_ERR_USAGE for data with weights,
// and ZERO_ERR_UNSUPPORTED for records whose parts are not all targets, because a token file
// cannot express that.
ZERO_API zero_status zero_tokenize(const zero_tokenize_options *options, zero_tokenize_result *out,
                                   zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
