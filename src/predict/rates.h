// The book of rates: how long operations take on a machine, as runs and measurements have found.
// The user's file ~/.cache/libzero/rates-PROCESSOR.json keeps it. The seconds of an operation that
// was never measured are interpolated between those that were.
//
// A sample belongs to a setting: the path of the kernels, the storage type, the threads of a rank,
// and how many ranks of the machine work at once, because they share caches and memory. Exchanges
// by messages have settings of their own (rate_links.c).
#ifndef ZR_PREDICT_RATES_H
#define ZR_PREDICT_RATES_H

#include "base/alloc.h"
#include "base/errors.h"
#include "base/recorder.h"
#include "base/report.h"
#include "predict/rate_storage.h"
#include "predict/task_rates.h"
#include <zero/tensor.h>

enum { ZR_RATE_SAMPLES = 96, ZR_RATE_PATH = 24, ZR_MOST_RATE_SETTINGS = 24 };
enum { ZR_MOST_STORAGE_RATES = 64 };

typedef struct zr_rate_setting {
    char path[ZR_RATE_PATH]; // "avx512_bf16"
    zero_dtype dtype;
    int threads, together; // of a rank; ranks
    int machines;          // that exchange (rate_links.c); 0 for what a rank computes
} zr_rate_setting;

typedef struct zr_rate_sample {
    // Of one operation, as recorded. Two activities use `bytes` otherwise, with flops 0. A phase:
    // the number of operations in it; `seconds` is its time outside of them. A wait: the
    // nanoseconds that a rank is busy in a step; `seconds` is how long it waits for other ranks in
    // that step.
    int64_t bytes, flops;
    double seconds; // zr_usual_mean of one operation
    int64_t seen;   // operations
    double quiet;   // 1: nothing else ran; 0.5: others had half of the cores' time (base/clock.h)
} zr_rate_sample;

typedef struct zr_rates { // of one setting
    zr_rate_setting setting;
    zr_rate_sample at[ZR_ACTIVITY_COUNT][ZR_RATE_SAMPLES];
    int count[ZR_ACTIVITY_COUNT];
    int64_t measured; // seconds since 1970, of the newest sample; 0: there are none
    // How quiet the machine was, for all samples, where one run has found them; 0: see each sample.
    double quiet;
} zr_rates;

// Parts of a run's time, for reports and corrections.
typedef enum zr_time_part {
    ZR_TIME_COMPUTE,
    ZR_TIME_EXCHANGE, // with other ranks, waits for them included
    ZR_TIME_UPDATE,
    ZR_TIME_DISK, // waiting for NVMe while nothing else goes on
    ZR_TIME_DATA, // reading and arranging samples
    ZR_TIME_EVALUATION,
    ZR_TIME_SAVING,
    ZR_TIME_GENERATION, // of samples during a training, or all of a generation
    ZR_TIME_PARTS
} zr_time_part;
extern const char *const zr_time_part_names[ZR_TIME_PARTS];

// How far predictions for this machine were off: measured / predicted, learnt from runs.
typedef struct zr_correction {
    double factor; // geometric mean; later runs count more (zr_correction_factor)
    double spread; // standard deviation of its logarithm, of a run
    int64_t runs;
} zr_correction;

typedef struct zr_rate_book { // what is known of this machine
    zr_rates *settings;       // (count)
    int count;
    zr_correction corrections[ZR_TIME_PARTS];
    zr_correction whole; // of a step, after the parts' corrections: its spread is the interval
    zr_storage_rates *storage; // (storage_count)
    int storage_count;
    // Of the disk that was measured last, all ranks together, or of the one that
    // zr_rate_book_use_disk has chosen; 0 if unknown.
    double read, write, mix;
    double checksum;     // bytes a second of a thread
    zr_task_rates tasks; // everything but steps
} zr_rate_book;

// Returns the seconds of one operation, and sets *unknown to its distance from what was measured: 0
// for the same operation, 1 if its activity was never measured and the seconds are guessed from
// others. rates NULL: nothing was measured.
double zr_rates_seconds(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops,
                        double *unknown);
// Returns the least FLOP/s of large matrix products on a rank of a setting, assumed from the path
// of its kernels.
double zr_rates_assumed_flops(const zr_rate_setting *setting);
// Adds an operation's time. Samples of the same size are averaged, and later ones count more. If
// there is no room, the sample that is most like another one is dropped. A time that is not
// positive and finite is ignored.
void zr_rates_add(zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops, double seconds,
                  int64_t seen);
// Adds a sample with its `quiet`: one from a clearly quieter machine replaces what was known, one
// from a clearly busier machine hardly counts.
void zr_rates_add_sample(zr_rates *rates, zr_activity what, const zr_rate_sample *sample);
// Returns the rates of a setting, or of the nearest one with the same path and type, whose times
// have to be multiplied by zr_rates_factor; NULL if there is none.
const zr_rates *zr_rate_book_find(const zr_rate_book *book, const zr_rate_setting *setting,
                                  bool *exact);
// Returns the factor from times of these rates to those of another setting: times are inversely
// proportional to threads.
double zr_rates_factor(const zr_rates *rates, const zr_rate_setting *setting);
// Returns the rates of a setting to add to, and marks them as measured now. Missing ones are made,
// in place of the oldest if there is no room. Rates that were returned before may move. NULL: no
// memory.
zr_rates *zr_rate_book_take(zr_rate_book *book, const zr_rate_setting *setting, zero_error *error);
// Adds what a run has measured of a part, and what was predicted without the correction. Ignored if
// either is 0.
void zr_correction_learn(zr_correction *correction, double predicted, double measured);
// Returns the factor of a prediction of the part: 1 if nothing is known, and after few runs closer
// to 1 than what they have shown.
double zr_correction_factor(const zr_correction *correction);
// Adds one book to another, as if its runs came later. ZERO_ERR_MEMORY: only a part was added.
zero_status zr_rate_book_merge(zr_rate_book *into, const zr_rate_book *from, zero_error *error);
// Returns the facts from which tasks are estimated that were never timed.
zr_task_facts zr_rate_book_facts(const zr_rate_book *book);
void zr_rate_book_free(zr_rate_book *book);

// rate_storage.c. Returns the rates of this machine's disk that holds `directory` (NULL: of its
// memory); NULL if they are unknown or older than 180 days.
const zr_storage_rates *zr_rate_book_storage(const zr_rate_book *book, const char *directory);
// Adds rates, or replaces older ones of the same disk or memory. ZERO_ERR_MEMORY.
zero_status zr_rate_book_set_storage(zr_rate_book *book, const zr_storage_rates *rates,
                                     zero_error *error);
// Sets the book's read, write and mix to those of the disk that holds `directory`, if it is known.
void zr_rate_book_use_disk(zr_rate_book *book, const char *directory);
// Adds what an earlier version has kept in `file` (bandwidth.json) of machines of this processor.
// ZERO_ERR_DATA: the file is damaged; ZERO_ERR_IO, ZERO_ERR_MEMORY.
zero_status zr_rate_book_add_bandwidths(zr_rate_book *book, const char *file, const char *processor,
                                        zero_error *error);

// Return the path of the user's file for this processor (zr_user_cache_file), read the file, and
// merge `from`, what a run has found itself, into the file. Merging holds a lock and reads the file
// again, so that runs which end together lose nothing. A damaged file, or one of another processor,
// counts as empty; only reading warns of it. Reading never fails. If the file cannot be written,
// keeping warns and returns false.
zero_status zr_rate_book_file(char **file, zero_error *error);
void zr_rate_book_read(const zero_logger *logger, zr_rate_book *out);
bool zr_rate_book_keep(const zr_rate_book *from, const zero_logger *logger);
// Keeps the rates of the disk that holds `directory` (NULL: of the memory), and fills in their
// names.
// *file tells where (zr_free); NULL if they could not be kept, in which case a warning says why.
void zr_storage_keep(const char *directory, const zr_storage_rates *measured,
                     const zero_logger *logger, char **file);
// The same for a file and machine of the caller's, for tests.
zero_status zr_rate_book_parse(const char *text, size_t length, const char *name,
                               const char *processor, zr_rate_book *out, zero_error *error);
void zr_rate_book_json(const zr_rate_book *book, const char *processor, zr_buffer *out);
void zr_rate_book_report(const zr_rate_book *book, zr_report *r); // for zero doctor

// rate_links.c: how long exchanges by messages take, between machines over their network, and among
// ranks of this machine that do not map each other's memory. They are rates in settings of their
// own, by the number of machines and of the ranks on each that share its network. `bytes` of a
// sample come to a rank over the network (on one machine: from the others); `seconds` is the whole
// operation, with sums and what goes through memory.
// The command that measures them, for messages.
#define ZR_LINK_TEACHER "mpirun ... zero bench comm"

// Returns the setting of a link. machines 1: ranks of this machine. one_copy: all-gathers into
// memory that the ranks of a machine share.
zr_rate_setting zr_link_setting(int machines, int together, bool one_copy);
// Returns the rates of a link, or of the nearest link that is between machines, or within one, as
// `setting` is; NULL if there is none. Adding to the book may move them.
const zr_rates *zr_rate_book_link(const zr_rate_book *book, const zr_rate_setting *setting);
// Returns the seconds of an exchange in which `bytes` come to a rank, on the line between the
// nearest samples; a guess if link is NULL. Sets *unknown as zr_rates_seconds does.
double zr_link_seconds(const zr_rates *link, zr_activity what, double bytes, double *unknown);
// Finds the most bytes a second that came to a rank, and the seconds of the smallest exchange.
// Returns false if nothing is known.
bool zr_link_describe(const zr_rates *link, double *rate, double *latency);
bool zr_rate_book_knows_kernels(const zr_rate_book *book); // whether anything but links is known
bool zr_rate_book_knows_network(const zr_rate_book *book); // whether links between machines are
                                                           // known

#endif
