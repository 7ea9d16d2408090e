// zero_compare: one model trained on this machine in every way that ranks can share the work, side
// by side: what each way needs, how fast it is, what it exchanges, and what a user writes for it.
#ifndef ZERO_COMPARISON_H
#define ZERO_COMPARISON_H

#include <zero/configuration.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zero_compare_options {
    size_t struct_size;
    const char *new_spec, *model; // a SPEC; or a directory
    const char *const *data;      // (data_count) as zero_train reads it
    int data_count;               // 0: a text is made up
    const char *config_path;
    const zero_override *overrides;
    int override_count;
    int64_t seq;
    int ranks;           // of the job, at least 2; 0: the cores of this machine, at least 2
    int threads;         // of a rank; 0: its share of the cores
    int64_t memory;      // bytes of a machine, for the largest models; 0: this machine's
    const char *nvme;    // a directory on NVMe for the states; NULL: that way is left out
    int steps;           // measured in each of three rounds, at most 83; 0: 10
    int json;            // writes JSON
    const char *path;    // a file to which the tables are durably written, too; or NULL
    const char *program; // that trains; NULL: this one if it is zero, else the zero in PATH
    zero_logger logger;
    // The caller sets it to a signal number to end the comparison. May be NULL.
    const volatile int *stop;
} zero_compare_options;

// Plans every way, predicts those for which there are cores, and trains each in turn for some
// steps, in processes of their own. A way that is impossible on these ranks, does not fit, or fails
// is one line of the answer, which goes through `write`, as Markdown or JSON.
// ZERO_ERR_USAGE: bad options, or nothing could be trained; ZERO_ERR_CONFIG: a configuration that
// leaves no choice; ZERO_ERR_CANCELLED: *stop was set; what was measured before it is written.
ZERO_API zero_status zero_compare(const zero_compare_options *options,
                                  void (*write)(void *user, const char *text), void *user,
                                  zero_error *error);

#ifdef __cplusplus
}
#endif
#endif
