// The directory of a training (--out): the names in it, and what a reader finds there.
//
//   OUT/config.json  metrics.jsonl  times.json  .lock
//   OUT/checkpoints/latest
//   OUT/checkpoints/step-00000100/    whole or absent
//   OUT/model/  OUT/best/             a model's files (model/architecture.h), receipt.json
//   OUT/ema/                          the same of the average of the weights, if there is one
//   OUT/adapter/                      instead of model/, if adapters train; best/ then has one, too
//
// The names are a format: readers of earlier runs look for the same ones.
#ifndef ZR_CHECKPOINT_RUN_DIRECTORY_H
#define ZR_CHECKPOINT_RUN_DIRECTORY_H

#include "base/errors.h"
#include "base/json.h"
#include <zero/tensor.h>

struct zr_source; // formats/source.h

#define ZR_RUN_CONFIG_FILE "config.json"
#define ZR_METRICS_FILE "metrics.jsonl"
#define ZR_TIMES_FILE "times.json"
#define ZR_CHECKPOINTS "checkpoints"
#define ZR_CHECKPOINT_NAME "step-%08lld"
#define ZR_LATEST "latest"
#define ZR_LAST_MODEL "model"
#define ZR_BEST_MODEL "best"
#define ZR_EMA_MODEL "ema"
#define ZR_RUN_ADAPTER_DIRECTORY "adapter"
#define ZR_RECEIPT "receipt.json"

enum { ZR_CHECKPOINT_NAME_BYTES = 32 };

// Newest first.
typedef struct zr_checkpoints {
    int64_t *steps;
    int count;
} zr_checkpoints;

// Lists everything in RUN/checkpoints that has a checkpoint's name; nothing if there is no such
// folder. `run` is the --out of a training.
zero_status zr_checkpoints_list(const char *run, zr_checkpoints *out, zero_error *error);
// Parses "step-00000100"; false if the name is not a checkpoint's.
bool zr_checkpoint_step(const char *name, int64_t *step);
void zr_checkpoints_free(zr_checkpoints *checkpoints); // a zeroed one is allowed
// Creates RUN/checkpoints; it may exist.
zero_status zr_checkpoints_make(const char *run, zero_error *error);
char *zr_checkpoint_path(const char *run, int64_t step, zero_error *error); // zr_free
// Returns whether its manifest is whole and all files are there, with the sizes that the manifest
// states. Only reading the files checks their content.
bool zr_checkpoint_is_whole(const char *run, int64_t step);
// The same for a directory of any name.
bool zr_checkpoint_is_intact(const char *path);
// Finds the newest whole checkpoint; NULL if there is none. zr_free.
zero_status zr_checkpoint_newest_whole(const char *run, char **out, zero_error *error);
// Writes RUN/checkpoints/latest, "step-00000100 1a2b3c4d": a name and its checksum. It is only a
// hint, because the directories themselves count.
zero_status zr_checkpoint_write_latest(const char *run, int64_t step, zero_error *error);
// Warns if it is damaged or names a checkpoint that does not exist.
void zr_checkpoint_check_latest(const char *run, const zr_checkpoints *found,
                                const zero_logger *logger);
// Returns whether it is the --out of a training: it has metrics, or it has checkpoints and is not
// one itself.
bool zr_is_run(const char *path);
// Returns whether it has a model's weights, in one file or several.
bool zr_has_weights(const char *directory);
// Finds the result of a run: its newest whole checkpoint, else its model; NULL and ZERO_OK if the
// path is not a run. zr_free.
zero_status zr_run_find_result(const char *path, char **out, zero_error *error);
// Resolves `given`, which names a model or a tokenizer; may be NULL. A run stands for its model,
// which is logged, or for the files that belong to its newest checkpoint while it has no model; any
// other path stands for itself. ZERO_ERR_USAGE if the run has neither, or if a checkpoint was
// given; the message explains how to make a model. ZERO_ERR_IO if a model does not exist, or is a
// file other than a config.json; the message explains how to get it. zr_free.
zero_status zr_model_directory(const char *given, const zero_logger *logger, char **out,
                               zero_error *error);
// Finds the weights of a model that zr_model_directory has found, for zr_weights_load: the
// directory or, where a run was interrupted, the file of its newest whole checkpoint.
// zr_free.
zero_status zr_find_weights(const char *directory, char **out, zero_error *error);
// The same, but "bytes" and "chars" stay words.
zero_status zr_tokenizer_directory(const char *given, const zero_logger *logger, char **out,
                                   zero_error *error);
// Finds the directory with the config.json of `path`, which is a checkpoint of a run or a model;
// NULL if there is none. zr_free.
zero_status zr_find_model_files(const char *path, char **out, zero_error *error);

// The files next to the weights in a model directory: config.json and those of the tokenizer
// (model_directory.c).

// Returns whether it is config.json or one of the files next to it.
bool zr_model_file_is_copied(const char *name);
const char *zr_config_dtype_name(zero_dtype dtype); // "float32", ...: as in config.json
// Copies these files into `directory`: from model_dir or, if that is NULL, from the directory that
// belongs to the source. If there is no config.json, it is made from the checkpoint's own state.
// dtype: the weights' type for config.json; NULL to leave it unchanged. ZERO_ERR_IO if model_dir
// has no config.json.
zero_status zr_model_files_copy(const struct zr_source *source, const char *model_dir,
                                const char *dtype, const char *directory, bool *has_config,
                                bool *has_tokenizer, zero_error *error);
// Writes config.json.
zero_status zr_model_config_write(const json_t *config, const char *directory, zero_error *error);
// Copies the files of the tokenizer alone, as far as `from` has them.
zero_status zr_tokenizer_files_copy(const char *from, const char *to, zero_error *error);
// Puts them in place of those that `to` has; its chat template stays if `from` has none.
zero_status zr_tokenizer_files_replace(const char *from, const char *to, zero_error *error);

#endif
