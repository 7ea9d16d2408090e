// The one way from a configuration's text to a resolved configuration, which run_setup.h makes a
// plan of:
//
//   text + flags + facts -> configuration
//
// zero_initialize, zero train, zero plan and everything that opens a model for inference use it;
// the fields of zr_resolution are what they differ in. Nothing here is collective.
#ifndef ZR_SETUP_RESOLVE_H
#define ZR_SETUP_RESOLVE_H

#include "config/config.h"
typedef struct zr_resolution zr_resolution;
struct zr_resolution {
    const char *text;           // JSON; NULL: an empty configuration
    size_t length;              // in bytes
    const char *name;           // name of the text, for messages; NULL: "defaults"
    const zero_override *flags; // (flag_count), applied to the text in this order
    int flag_count;
    bool strict;        // refuses a flag that contradicts the text
    bool for_inference; // forgets, and does not choose, what only training reads
    bool quiet;         // does not print the program's own choices, only what "auto" means
    zr_config_facts facts;
    const zero_logger *logger; // NULL: nothing is printed
    // Puts whatever else the caller wants into the configuration, after the flags, once its ranks
    // are known (zr_config_find_ranks); it may change the facts. NULL: nothing.
    zero_status (*amend)(zr_resolution *how, zr_config *config, zero_error *error);
    void *user; // for amend
};

// All flags of a job as overrides: those that its caller gives, and those that its options have
// fields for.
typedef struct zr_flag_list {
    zero_override *at; // (count)
    int count;
    zr_parallel_flags parallel; // this and the next two have values of `at`
    char seed[24], lr[32];
} zr_flag_list;
// seed -1, lr 0: not given. *out must not move afterwards, and uses the texts of `given` and
// `parallel`. It may be freed after a failure.
zero_status zr_flag_list_make(const zero_override *given, int count, const zero_parallel *parallel,
                              int64_t seed, double lr, zr_flag_list *out, zero_error *error);
void zr_flag_list_free(zr_flag_list *list); // A zeroed one is allowed.

// Reads a configuration file once, because it may be a pipe and a job may resolve it again. path
// NULL gives *text NULL. Returns ZERO_ERR_CONFIG if the path exists but cannot be a configuration.
// The caller frees *text with zr_free.
zero_status zr_resolve_text(const char *path, char **text, size_t *length, zero_error *error);

typedef struct zr_run_outline { // a run before its configuration is resolved; 0: unknown
    int ranks;                  // of the job
    int64_t parameters;         // of the model; the learning rate follows from them
    int64_t seq;                // tokens of a window; with the parameters, the batch follows
    int64_t width;              // of the model; "auto" sizes of buckets follow
    int64_t steps;              // updates; the schedule follows
    bool continues;             // from weights that were trained before
    bool on_card;               // "auto" precision is bf16 there
} zr_run_outline;
// Returns the facts with which every configuration is resolved. Some callers add a micro-batch, a
// batch or flags of their own.
zr_config_facts zr_resolve_facts(const zr_run_outline *outline);

// Does both halves, one after the other. On failure *out is NULL.
zero_status zr_resolve(zr_resolution *how, zr_config **out, zero_error *error);
// The same with the text of the file how->name; NULL: an empty configuration.
zero_status zr_resolve_file(zr_resolution *how, zr_config **out, zero_error *error);
// First half: text, flags and what `amend` puts in. Everything may still be overridden.
zero_status zr_resolve_read(zr_resolution *how, zr_config **out, zero_error *error);
// Second half: defaults and fields. Afterwards the configuration is final.
zero_status zr_resolve_finish(const zr_resolution *how, zr_config *config, zero_error *error);

// Returns ZERO_ERR_USAGE for a window (--seq) that is empty or longer than the model's context.
zero_status zr_window_check(int64_t seq, int64_t positions, zero_error *error);

#endif
