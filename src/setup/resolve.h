// The one way from a configuration's text to what an engine is made by:
//
//   text + flags + facts -> configuration -> settings -> plan
//
// zero_initialize, zero train, zero plan and all that opens a model for inference take it. What
// they differ in are the fields of zr_resolution. Nothing here is collective.
#ifndef ZR_SETUP_RESOLVE_H
#define ZR_SETUP_RESOLVE_H

#include "config/config.h"
#include "plan/full_plan.h"
#include <zero/engine.h>
#include <zero/inspect.h>

struct zr_queue;

typedef struct zr_resolution zr_resolution;
struct zr_resolution {
    const char *text;           // JSON; NULL: an empty configuration
    size_t length;              // bytes of it
    const char *name;           // of the text, for messages; NULL: "defaults"
    const zero_override *flags; // (flag_count), over the text, in this order
    int flag_count;
    bool strict;        // a flag that contradicts the text is refused
    bool for_inference; // what only training reads is forgotten, and not chosen
    bool quiet;         // the program's own choices are not said; what "auto" means is
    zr_config_facts facts;
    const zero_logger *logger; // NULL: nothing is said
    // What else the caller puts into the configuration, after the flags; it may change the facts.
    // NULL: nothing.
    zero_status (*amend)(zr_resolution *how, zr_config *config, zero_error *error);
    void *user; // of amend
};

// A configuration file is read once, because it may be a pipe and a job may resolve it again.
// path NULL: *text NULL. ZERO_ERR_CONFIG for what is there and cannot be one; zr_free(*text).
zero_status zr_resolve_text(const char *path, char **text, size_t *length, zero_error *error);
// The program's own facts of a training of `parameters` from new weights; total_steps 0: unknown.
zr_config_facts zr_resolve_facts(int ranks, int64_t parameters, int64_t total_steps);

// Both halves, one after the other. On failure *out is NULL.
zero_status zr_resolve(zr_resolution *how, zr_config **out, zero_error *error);
// Text, flags and what `amend` puts in: what is there may still be overridden.
zero_status zr_resolve_read(zr_resolution *how, zr_config **out, zero_error *error);
// Defaults and fields: afterwards the configuration stands.
zero_status zr_resolve_finish(const zr_resolution *how, zr_config *config, zero_error *error);

zr_settings zr_settings_of(const zr_config *config, bool inference);
// The plan that an engine of these options would be made by, and for which machine.
zero_status zr_plan_of(const zero_options *options, const zr_config *config, struct zr_queue *queue,
                       zr_machine *machine, zr_plan **out, zero_error *error);

// ZERO_ERR_USAGE for a window (--seq) that is empty, or longer than the model's context.
zero_status zr_window_check(int64_t seq, int64_t positions, zero_error *error);

#endif
