// The directory of --out as a reader sees it: its checkpoints, and where its model lies.
//
//   OUT/checkpoints/step-00000100/    whole or absent
//   OUT/model/, OUT/best/             as Hugging Face has them
#ifndef ZR_API_RUN_DIRECTORY_H
#define ZR_API_RUN_DIRECTORY_H

#include "base/status.h"

#define ZR_CHECKPOINTS "checkpoints"
#define ZR_CHECKPOINT_NAME "step-%08lld"
enum { ZR_CHECKPOINT_NAME_BYTES = 32, ZR_MOST_CHECKPOINTS = 4096 };

// Steps of the directories in `folder` that are named like checkpoints, newest first, and how many; none where there is no folder.
int zr_list_checkpoints(const char *folder, int64_t steps[static ZR_MOST_CHECKPOINTS]);
// Whether the manifest is whole; its files were there before it was.
bool zr_checkpoint_is_whole(const char *path);
// OUT/checkpoints/latest, "step-00000100 1a2b3c4d": a name and its checksum; a hint, the directories themselves count.
zero_status zr_write_latest(const char *folder, int64_t step, zero_error *error);
// Path of what a run came to: its newest whole checkpoint, else its model; NULL and ZERO_OK where the path is no run. zr_free.
zero_status zr_run_newest(const char *path, char **out, zero_error *error);
// A directory with config.json that belongs to what lies at `path` (a checkpoint of a run, or a model); NULL where there is none.
// zr_free.
zero_status zr_find_model_files(const char *path, char **out, zero_error *error);

#endif
