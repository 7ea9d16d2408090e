// The directory of --out: metrics.jsonl, config.json, checkpoints/, model/ and best/. Rank 0 holds
// its lock for the whole run. Nothing is written before everything that can be checked has been
// checked, and each file is whole or absent.
#ifndef ZR_TRAIN_OUTPUTS_H
#define ZR_TRAIN_OUTPUTS_H

#include "checkpoint/ownership.h"
#include "model/architecture.h"
#include "monitor/metrics.h"
#include "tokenizer/tokenizer.h"

typedef struct zr_outputs {
    const char *directory;
    int lock;     // -1: not held
    bool created; // this run created the directory
    zr_metrics *metrics;
    int64_t lost_steps; // steps of an earlier attempt that zr_outputs_go_on cut off
    double lost_milliseconds;
} zr_outputs;

// What to do with a run that is already there: refuse, replace it, or continue it.
typedef enum zr_outputs_way { ZR_OUTPUTS_NEW, ZR_OUTPUTS_REPLACE, ZR_OUTPUTS_GO_ON } zr_outputs_way;

typedef struct zr_outputs_place {
    const char *directory;
    zr_outputs_way way;
    // GO_ON: there is no checkpoint, so the run starts over and replaces the models that are there.
    bool loses;
    zr_input_paths reads; // files that are never replaced
} zr_outputs_place;

// Checks whether the run may write there; changes nothing. Rank 0 calls it. Returns ZERO_ERR_USAGE
// if a run is there and may not be replaced, or if something that has the name of a run's file is
// not a run's, or is read by this run; ZERO_ERR_IO if nothing can be written.
zero_status zr_outputs_check(const zr_outputs_place *place, zero_error *error);

// Makes and locks the directory, and checks it again. Rank 0 calls it. With GO_ON it waits up to 5
// s for the lock. Nothing of an earlier run has changed yet.
zero_status zr_outputs_open(const zr_outputs_place *place, zr_outputs *out, zero_error *error);
// Removes what an earlier run or killed runs left, notes whose run this is (job, or NULL), writes
// the configuration and opens the metrics. Rank 0 calls it after zr_outputs_open. With GO_ON it
// leaves configuration and metrics to zr_outputs_go_on, which is called once the checkpoint is
// known.
zero_status zr_outputs_begin(zr_outputs *out, const zr_outputs_place *place,
                             const char *config_text, const char *job, zero_error *error);
// A file by which other ranks recognise the directory. Rank 0 makes one with a unique name
// (zr_outputs_create_beacon), the others look for it for as long as a network's file system may
// take to show it (zr_outputs_sees_beacon), and rank 0 removes it. Not collective.
enum { ZR_OUTPUTS_BEACON = 64 };
zero_status zr_outputs_create_beacon(const char *directory, char name[static ZR_OUTPUTS_BEACON],
                                     zero_error *error);
bool zr_outputs_sees_beacon(const char *directory, const char *name);
void zr_outputs_remove_beacon(const char *directory, const char *name);
// Keeps `lines` lines of the metrics and cuts off those after them; writes the configuration.
zero_status zr_outputs_go_on(zr_outputs *out, const char *config_text, int64_t lines,
                             zero_error *error);
// Returns whether the outputs are of this job. The lock is not held.
bool zr_outputs_are_of(const char *directory, const char *job);
// Closes the outputs; `discard` also removes a directory that this run created. Zeroed outputs with
// lock -1 are allowed.
void zr_outputs_close(zr_outputs *outputs, bool discard);

typedef struct zr_outputs_files { // of a model's or adapter's directory, without the weights
    const zr_lm_config *config;   // where it has adapters, the directory is an adapter's
    const char *base;             // of an adapter: the directory of the model that it adapts
    const zr_tokenizer *tokenizer;
    // The texts of generation_config.json and chat_template.jinja; NULL: there is none, but the
    // tokenizer's own.
    const char *generation, *template;
} zr_outputs_files;
// Makes directory/name and writes these files. Rank 0 calls it.
zero_status zr_outputs_model(const char *directory, const char *name, const zr_outputs_files *files,
                             zero_error *error);
// Returns the name of the file of weights in it.
const char *zr_outputs_weights(const zr_lm_config *config);

#endif
