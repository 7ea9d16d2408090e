// `zero plan`: what the files of plan_*.c share: rows of bytes, and how they are written.
#ifndef ZR_REPORT_PLAN_REPORT_H
#define ZR_REPORT_PLAN_REPORT_H

#include "base/alloc.h"
#include "base/text.h"
#include "base/report.h"
#include "config/elastic.h"
#include "plan/pipeline/part.h"
#include "plan/plan_settings.h"
#include "plan/visit.h"
#include "predict/forecast.h"
#include "setup/estimate.h"
#include "report/plan_machines.h"
#include <zero/grid.h>
#include <zero/memory.h>
#include <zero/plan.h>

// What tensor ranks keep of an activation checkpoint.
typedef enum zr_checkpoint_layout {
    ZR_KEEP_NONE, // there are no activation checkpoints
    ZR_KEEP_WHOLE,
    ZR_KEEP_SHARE, // partition_activations
    ZR_KEEP_ROWS,  // its own rows (sequence parallelism)
} zr_checkpoint_layout;

// What a rank sends and fetches in a step among the ranks of one axis. Of a pipeline it is what it
// sends.
typedef struct zr_plan_messages {
    int64_t calls, bytes;
} zr_plan_messages;

typedef struct zr_report_pipeline_stage { // a rank of one pipeline stage
    int64_t parameters;                   // of its units, over all tensor ranks
    int64_t bytes[ZERO_MEM_COUNT];        // as in a row
    int64_t tiers[ZERO_TIER_COUNT];       // the same
    int sets[ZR_MOST_CHUNKS];             // of activations that live at one time, by chunk
    int slots;                            // of the channels through which it receives
    int versions;                         // of its parameters, in `bytes`
    int summed_steps;                     // whose gradients it has at one time, in `bytes`
    zr_plan_messages messages[ZERO_AXIS_COUNT];
    zr_plan_messages sums; // of those in the pipeline: 2bw, loss and norm of a step
} zr_report_pipeline_stage;

typedef struct zr_plan_pipeline { // of a row
    zr_pipeline_part *part;
    const zero_model *model; // whose units it divides
    double bubble;
    zr_report_pipeline_stage at[]; // (part->pipeline.stages)
} zr_plan_pipeline;

typedef struct zr_plan_row {
    int stage, ranks;
    int tensor; // of the ranks, those that hold slices of the same layers; 0, 1: there are none
    int64_t exchanged;           // bytes that a rank fetches from other tensor ranks in a step
    zr_exchange_table exchanges; // of a micro-batch
    int64_t windows;             // bytes of those through which all exchanges go
    zr_checkpoint_layout keeps;
    int64_t joins, joined; // how often and how many bytes of `exchanged` for divided checkpoints
    // Bytes of activation checkpoints on all tiers, as the plan has them, and if they were divided
    // where they are whole, or whole where they are divided.
    int64_t kept, kept_otherwise;
    int64_t micro_batch;            // for which `bytes` hold; 0: the formula does not depend on it
    int64_t bytes[ZERO_MEM_COUNT];  // of one rank, on device and host together
    int64_t tiers[ZERO_TIER_COUNT]; // the same bytes by tier, and those on NVMe
    // Largest micro-batch that fits into the memory given; 0 if no one fits, -1 if no memory was
    // given.
    int64_t largest;
    // The other fields are those of the pipeline stage whose rank needs most; NULL: there is none.
    zr_plan_pipeline *pipeline;
    zr_plan_network *network; // what crosses it; NULL: nobody has said on how many machines
    zr_forecast time;         // of a step here; seconds 0: it is not known
    zr_overheads overheads;   // what is known of the rest of a run here
} zr_plan_row;

int64_t zr_plan_row_total(const zr_plan_row *row); // Returns the bytes of memory: device and host.
void zr_plan_rows_free(zr_plan_row *rows, int count); // what they own

// Writes a heading with the categories that any row uses, then one line for each row, and where
// there are tensor ranks what they exchange and which ZeRO-R techniques the plan uses. width: of
// the terminal; 0: any.
void zr_plan_table(const zr_plan_row *rows, int count, int width, zr_buffer *out);
// Writes the same rows as a JSON object. `model` and `policy` name what they are for. `settings`
// are the configuration's, with all fields, but a row has a stage of its own; NULL: there are none.
// `elastic` says who can share the batch; NULL: leave that out.
void zr_plan_json(const zr_plan_row *rows, int count, const char *model, const char *policy,
                  double parameters, const zr_settings *settings, const zr_elastic *elastic,
                  zr_buffer *out);

// What rows that differ only with their micro-batches say of a number of bytes, for a line of text.
typedef struct zr_plan_range {
    char bytes[2 * ZR_BYTES_TEXT + 8]; // "3.00 MB", "1.00 MB to 3.00 MB"
    char micro_batches[64];            // " (micro-batch 4)", " (micro-batches 4 to 8)"
    bool several;                      // micro-batches
    const zr_plan_row *largest;        // the first row of the largest micro-batch
} zr_plan_range;
// There has to be a row.
zr_plan_range zr_plan_range_of(const zr_plan_row *rows, int count,
                               int64_t (*bytes_of)(const zr_plan_row *row));

// JSON: keys of the object that is open. Messages are an object of their own; bytes are "bytes" by
// category, "total" and "tiers".
void zr_plan_messages_json(const zr_plan_messages *messages, zr_json_writer *w, const char *key);
void zr_plan_bytes_json(const int64_t bytes[ZERO_MEM_COUNT], int64_t total,
                        const int64_t tiers[ZERO_TIER_COUNT], zr_json_writer *w);

// plan_tensor_exchange.c: what tensor ranks exchange, if there are any, and what it is for.
void zr_plan_exchanged_text(const zr_plan_row *rows, int count, int width, zr_buffer *out);
void zr_plan_exchanged_json(const zr_plan_row *row, zr_json_writer *w);

// plan_pipeline_table.c: what each pipeline stage has, if there are any.
void zr_plan_pipeline_stages_text(const zr_plan_row *row, int width, zr_buffer *out);
void zr_plan_pipeline_stages_json(const zr_plan_row *row, zr_json_writer *w);

// plan_network.c: who is on which machine, and what crosses the network, if machines were said.
void zr_plan_network_text(const zr_plan_row *row, int width, zr_buffer *out);
void zr_plan_network_json(const zr_plan_row *row, zr_json_writer *w);

// plan_time.c: how long a step takes here, if that is known.
void zr_plan_time_json(const zr_plan_row *row, zr_json_writer *w);

// plan_zero_r.c: which ZeRO-R techniques (arXiv 1910.02054, section 6) are used, if there are
// tensor ranks.
void zr_plan_residual_text(const zr_plan_row *rows, int count, zr_buffer *out);
void zr_plan_residual_json(const zr_plan_row *row, zr_json_writer *w);

// Plans from a number of parameters alone (plan_formula.c).
zero_status zr_plan_by_formula(const zero_plan_options *options, zr_buffer *out, zero_error *error);
// Plans from the model's own plan (plan_model.c).
zero_status zr_plan_by_model(const zero_plan_options *options, zr_buffer *out, zero_error *error);

#endif
