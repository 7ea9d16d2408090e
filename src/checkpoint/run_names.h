// What lies in the directory of a training (--out), by name. It is a format: readers of earlier
// runs look for the same names.
//
//   OUT/config.json  metrics.jsonl  times.json  .lock
//   OUT/checkpoints/latest  step-00000100/
//   OUT/model/  best/    a model's files (model/model_files.h), receipt.json
#ifndef ZR_CHECKPOINT_RUN_NAMES_H
#define ZR_CHECKPOINT_RUN_NAMES_H

#define ZR_RUN_CONFIG_FILE "config.json"
#define ZR_METRICS_FILE "metrics.jsonl"
#define ZR_TIMES_FILE "times.json"
#define ZR_CHECKPOINTS "checkpoints"
#define ZR_CHECKPOINT_NAME "step-%08lld"
#define ZR_LATEST "latest"
#define ZR_LAST_MODEL "model"
#define ZR_BEST_MODEL "best"
#define ZR_RECEIPT "receipt.json"

#endif
