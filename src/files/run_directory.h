// The directory of --out as a reader sees it: its checkpoints, and where its model lies.
//
//   OUT/checkpoints/step-00000100/    whole or absent
//   OUT/model/, OUT/best/             as Hugging Face has them
#ifndef ZR_FILES_RUN_DIRECTORY_H
#define ZR_FILES_RUN_DIRECTORY_H

#include "base/errors.h"

#define ZR_CHECKPOINTS "checkpoints"
#define ZR_CHECKPOINT_NAME "step-%08lld"
enum { ZR_CHECKPOINT_NAME_BYTES = 32 };

// newest first
typedef struct zr_checkpoints {
    int64_t *steps;
    int count;
} zr_checkpoints;

// run: the --out of a training. What is named like a checkpoint in RUN/checkpoints; none where
// there is no such folder.
zero_status zr_checkpoints_list(const char *run, zr_checkpoints *out, zero_error *error);
// of "step-00000100"; false where the name is none of a checkpoint
bool zr_checkpoint_step(const char *name, int64_t *step);
void zr_checkpoints_free(zr_checkpoints *checkpoints); // zeroed ones are fine
// RUN/checkpoints; one that exists is fine
zero_status zr_checkpoints_make(const char *run, zero_error *error);
char *zr_checkpoint_path(const char *run, int64_t step, zero_error *error); // zr_free
// Whether its manifest is whole and its files are there, as long as that says. What is in them, who
// reads them finds out.
bool zr_checkpoint_is_whole(const char *run, int64_t step);
bool zr_checkpoint_is_intact(const char *path); // the same of a directory by any name
// Path of the newest that is whole, NULL where there is none. zr_free.
zero_status zr_newest_whole(const char *run, char **out, zero_error *error);
// RUN/checkpoints/latest, "step-00000100 1a2b3c4d": a name and its checksum; a hint, the
// directories themselves count.
zero_status zr_write_latest(const char *run, int64_t step, zero_error *error);
// Warns where it is damaged or names what is not there.
void zr_check_latest(const char *run, const zr_checkpoints *found, const zero_logger *logger);
// Whether it is the --out of a training: it has metrics, or checkpoints and is none itself.
bool zr_is_run(const char *path);
bool zr_has_weights(const char *directory); // of a model, in one file or in several
// Path of what a run came to: its newest whole checkpoint, else its model; NULL and ZERO_OK where
// the path is no run. zr_free.
zero_status zr_run_newest(const char *path, char **out, zero_error *error);
// Where a model, or a tokenizer, is that is asked for as `given` (NULL: none is): of a run its
// model, which the logger is told, else what was given. ZERO_ERR_USAGE where the run has none yet,
// or a checkpoint was given; the message says how one is made. zr_free.
zero_status zr_model_directory(const char *given, const zero_logger *logger, char **out,
                               zero_error *error);
// "bytes" and "chars" stay words
zero_status zr_tokenizer_directory(const char *given, const zero_logger *logger, char **out,
                                   zero_error *error);
// A directory with config.json that belongs to what lies at `path` (a checkpoint of a run, or a
// model); NULL where there is none.
// zr_free.
zero_status zr_find_model_files(const char *path, char **out, zero_error *error);

#endif
