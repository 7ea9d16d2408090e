// The state of zero compare. compare_all.c runs the comparison; compare_ways.c lists the ways,
// compare_open.c what all ways have in common, compare_plan.c plans and predictions,
// compare_largest.c how large a model may be, compare_measure.c trains, compare_text.c and
// compare_json.c write.
#ifndef ZR_TUNE_COMPARISON_H
#define ZR_TUNE_COMPARISON_H

#include "compute/compute.h"
#include "setup/estimate.h"
#include "setup/model_choice.h"
#include "tune/compare_ways.h"
#include "tune/trial.h"
#include <zero/commands.h>

enum {
    ZR_COMPARE_ROUNDS = 3,
    ZR_COMPARE_SKIPPED = 2, // steps at the start of each training
    ZR_COMPARE_STEPS = 10,
    ZR_COMPARE_WHY = 1024, // as long as the message of an error
};

typedef struct zr_compare_row { // of one way
    zr_way way;
    zr_config *config; // resolved
    char *text;        // from which it was made: JSON
    // Why some numbers are missing: it cannot be planned, does not fit, or its training fails.
    char why[ZR_COMPARE_WHY];

    // As planned. 0: it is not.
    int64_t needed; // bytes of memory of the rank that needs most
    int64_t held;   // bytes that rank 0 will say it holds, on all tiers
    bool fits;
    // Bytes of a step that rank 0 fetches from other ranks of an axis, or sends in a pipeline.
    int64_t exchanged[ZERO_AXIS_COUNT];
    // Bytes of a step that come to the rank to which most comes, if each were a machine of its own.
    int64_t network[ZR_NETWORK_USES];
    zr_forecast step; // seconds 0: it is not predicted

    // The largest model: its layers and parameters. layers 0: not even one layer fits.
    int64_t layers, parameters;
    bool larger; // the search has ended there, not the memory

    // Steps of all rounds. count 0: it was not measured.
    zr_trial_answer measured;
} zr_compare_row;

typedef struct zr_comparison {
    const zero_compare_options *options;
    zr_model_choice subject; // the model that is trained
    int ranks, threads;      // of the job, of a rank
    int cores;               // of this machine
    bool crowded;            // there are more threads of ranks than cores
    int64_t memory;          // bytes that a rank may hold
    int64_t nvme;            // bytes of NVMe that a rank may use; 0: there is none
    json_t *base;            // the user's configuration, resolved for data parallelism
    char dtype[16];          // of it: "fp32"
    zr_way_batch batch;      // of every way
    zr_queue *queue;         // which knows the scratch of products
    zr_machine machine;      // of a rank
    zr_rate_book book;       // what is known of this machine
    zr_lm_config family;     // the shape to which the largest models add layers
    int64_t widened;         // how many times as wide as the model the family is
    char *scratch, *made;    // a directory, and the text in it; NULL: the data are the user's
    zr_compare_row rows[ZR_MOST_WAYS]; // (count)
    int count;
    bool stopped; // by a signal, before all rounds were made
} zr_comparison;

// Finds what all ways have in common, and the configuration of each. A way without one is a row
// with the reason. Closed with zr_comparison_close, also after an error.
zero_status zr_comparison_open(const zero_compare_options *options, zr_comparison *out,
                               zero_error *error);
void zr_comparison_close(zr_comparison *c);

// Plans a row. Unless it is crowded, measures what the book lacks, then predicts it. If it cannot
// be planned, `why` gets the reason.
zero_status zr_compare_plan(zr_comparison *c, zr_compare_row *row, zero_error *error);
// Returns the question for an estimate of the row with a model of that shape, on machines of
// `together` ranks.
zr_estimate_question zr_compare_question(const zr_comparison *c, const zr_compare_row *row,
                                         const zr_lm_config *shape, int together);
// Chooses the family of the largest models: the model's shape, as many times as wide (a power of
// two) as lets data parallelism hold no more than some dozens of layers.
void zr_compare_choose_family(zr_comparison *c);
// Finds the most layers with which a model of the family fits.
void zr_compare_find_largest(zr_comparison *c, zr_compare_row *row);

// Trains the rows that fit, in turn, in rounds. ZERO_ERR_CANCELLED, ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_compare_measure(zr_comparison *c, zero_error *error);

void zr_compare_text(const zr_comparison *c, zr_buffer *out); // Markdown
void zr_compare_json(const zr_comparison *c, zr_buffer *out);
// Writes in one line what was compared, and on what.
void zr_compare_title(const zr_comparison *c, zr_buffer *out);

#endif
