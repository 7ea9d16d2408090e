// The configuration that zero tune starts from: the user's DeepSpeed file with the flags put in,
// which of its keys are set and which are open, and the files of candidates that are made from it.
//
// A key is set if the file has it with a value other than "auto". DeepSpeed's autotuning gives
// lists for two keys, zero_optimization.stage and train_micro_batch_size_per_gpu, which no other
// reader of the file knows: they are taken out, and list what may be tried. The section itself is
// taken out, too.
#ifndef ZR_TUNE_BASE_CONFIG_H
#define ZR_TUNE_BASE_CONFIG_H

#include "config/config.h"
#include "tune/candidates.h"
#include <zero/configuration.h>

#define ZR_TUNING_STAGE "zero_optimization.stage"
#define ZR_TUNING_BATCH "train_batch_size"
#define ZR_TUNING_MICRO_BATCH "train_micro_batch_size_per_gpu"
#define ZR_TUNING_ACCUMULATION "gradient_accumulation_steps"
#define ZR_TUNING_CHECKPOINTS "activation_checkpointing.number_checkpoints"
#define ZR_TUNING_OPTIMIZER "zero_optimization.offload_optimizer.device"
#define ZR_TUNING_PARAMETERS "zero_optimization.offload_param.device"
#define ZR_TUNING_SUB_GROUP "zero_optimization.sub_group_size"
#define ZR_TUNING_DELAYED "libzero.delayed_update.start_step"
#define ZR_TUNING_TENSOR "tensor_parallel.autotp_size"
#define ZR_TUNING_PIPELINE "pipeline.stages"
#define ZR_TUNING_SCHEDULE "libzero.pipeline.schedule"
#define ZR_TUNING_SPLIT "libzero.pipeline.split"

enum { ZR_TUNING_MOST_MICROS = 1 << 20 }; // samples of a micro-batch; micro-batches of a step

typedef struct zr_tuning_file {
    char *name;                          // for messages
    json_t *root;                        // the file, with flags, without what only tuning reads
    json_t *section;                     // {"autotuning": {...}}; NULL: there is none
    zr_space_list stages, micro_batches; // lists of the file; count 0: none
    zr_config *config;                   // root, parsed, not resolved: what it says
    zr_config *tuning;                   // its section
} zr_tuning_file;

typedef struct zr_tuning_flags {
    const zero_override *overrides; // (count)
    int count;
    zero_parallel parallel; // further flags
} zr_tuning_flags;

// Reads the file (path NULL: an empty one) and puts the flags in. The caller frees *out with
// zr_tuning_file_free, also after an error. ZERO_ERR_CONFIG, as in reading any configuration.
zero_status zr_tuning_file_read(const char *path, const zr_tuning_flags *flags, zr_tuning_file *out,
                                zero_error *error);
void zr_tuning_file_free(zr_tuning_file *file);

// Whether the file or a flag says a key; null says one, too, except of the batch's.
bool zr_tuning_file_says(const zr_tuning_file *file, const char *path);
int64_t zr_tuning_file_number(const zr_tuning_file *file, const char *path);   // 0 if not set
const char *zr_tuning_file_text(const zr_tuning_file *file, const char *path); // NULL if not set

// Writes the configuration of a candidate as JSON: what is set, and what the candidate chooses.
// quiet: without what a trial does not need: monitors, profilers. Freed with zr_free; NULL: no
// memory.
char *zr_tuning_file_of(const zr_tuning_file *file, const zr_run_candidate *candidate, bool quiet,
                        zero_error *error);

#endif
