// The directory of --out: metrics.jsonl, config.json, checkpoints/, model/ and best/. Rank 0 holds
// its lock for the whole run; nothing is written before everything that can be checked has been,
// and each file is whole or absent.
#ifndef ZR_TRAIN_OUTPUTS_H
#define ZR_TRAIN_OUTPUTS_H

#include "files/reads.h"
#include "model/architecture.h"
#include "monitor/metrics.h"
#include "tokenizer/tokenizer_core.h"

typedef struct zr_outputs {
    const char *directory;
    int lock;     // -1: not held
    bool created; // the directory is ours
    zr_metrics *metrics;
    int64_t lost_steps; // of an earlier attempt, after what zr_outputs_go_on kept
    double lost_milliseconds;
} zr_outputs;

// with a run that lies there: refuse, remove, go on
typedef enum zr_outputs_way { ZR_OUTPUTS_NEW, ZR_OUTPUTS_REPLACE, ZR_OUTPUTS_GO_ON } zr_outputs_way;

typedef struct zr_outputs_place {
    const char *directory;
    zr_outputs_way way;
    // going on: there is no checkpoint, so it begins anew and replaces the models that lie there
    bool loses;
    zr_reads reads; // what is never replaced
} zr_outputs_place;

// Rank 0, changes nothing: ZERO_ERR_USAGE where a run lies there and may not be replaced, or what
// lies there under a run's names is not a run's, or is read;
// ZERO_ERR_IO where nothing can be written.
zero_status zr_outputs_check(const zr_outputs_place *place, zero_error *error);

// Rank 0: makes and locks the directory (going on, it waits up to 5 s for the lock), and checks it
// again. Nothing of an earlier run has changed.
zero_status zr_outputs_open(const zr_outputs_place *place, zr_outputs *out, zero_error *error);
// Rank 0, then: removes what an earlier run left and what killed ones did, notes whose it is (job,
// or NULL), writes the configuration and opens the metrics; going on, it leaves these two to
// zr_outputs_go_on, once it is known from where.
zero_status zr_outputs_begin(zr_outputs *out, const zr_outputs_place *place,
                             const char *config_text, const char *job, zero_error *error);
// A file in the directory that shows other ranks which it is: rank 0 makes one, of a name that no
// other has; the others look for it, for as long as a network's file system may take to show it;
// rank 0 removes it. Not collective.
enum { ZR_OUTPUTS_MARK = 64 };
zero_status zr_outputs_mark(const char *directory, char name[static ZR_OUTPUTS_MARK],
                            zero_error *error);
bool zr_outputs_sees(const char *directory, const char *name);
void zr_outputs_unmark(const char *directory, const char *name);
// lines of the metrics; those after them are cut off
zero_status zr_outputs_go_on(zr_outputs *out, const char *config_text, int64_t lines,
                             zero_error *error);
bool zr_outputs_are_of(const char *directory, const char *job); // not under the lock
// Closes; with `discard` a directory that holds no step of a run is removed again. Zeroed outputs
// (lock -1) are fine.
void zr_outputs_close(zr_outputs *outputs, bool discard);

#define ZR_GENERATION_CONFIG "generation_config.json"

// Rank 0: makes directory/name and writes everything but the weights; generation: of
// generation_config.json, NULL: there is none. *path: where the weights go; zr_free.
zero_status zr_outputs_model(const char *directory, const char *name, const zr_lm_config *config,
                             const zr_tokenizer *tokenizer, const char *generation, char **path,
                             zero_error *error);

#endif
