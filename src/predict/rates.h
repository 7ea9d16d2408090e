// How long operations take on a machine: what runs and measurements have seen, kept for the user in
// a file that can be read (~/.cache/libzero/rates-PROCESSOR.json), and the seconds of an operation
// that nobody has seen, between those that somebody has.
//
// A sample belongs to a setting: the path of the kernels, the storage type, the threads of a rank,
// and how many ranks of the machine work at once, because they share caches and memory. Exchanges
// by messages have settings of their own (rate_links.c).
#ifndef ZR_PREDICT_RATES_H
#define ZR_PREDICT_RATES_H

#include "base/alloc.h"
#include "base/errors.h"
#include "base/recorder.h"
#include "predict/rate_storage.h"
#include "predict/task_rates.h"
#include <zero/tensor.h>

enum { ZR_RATE_SAMPLES = 96, ZR_RATE_PATH = 24, ZR_MOST_RATE_SETTINGS = 24 };
enum { ZR_MOST_STORAGE_RATES = 64 };

typedef struct zr_rate_setting {
    char path[ZR_RATE_PATH]; // "avx512_bf16"
    zero_dtype dtype;
    int threads, together; // of a rank; ranks
    int machines; // that exchange (rate_links.c); 0: these are rates of what a rank computes
} zr_rate_setting;

typedef struct zr_rate_sample {
    // Of one operation, as recorded. A phase has neither: `bytes` is the number of operations in
    // it, and `seconds` what they leave unexplained. Nor has `wait`: `bytes` are the nanoseconds of
    // all else that a rank does in a step, and `seconds` what it waits for other ranks in it.
    int64_t bytes, flops;
    double seconds; // usual ones
    int64_t seen;   // operations
    double quiet;   // 1: nothing else ran; 0.5: others had every second turn (base/clock.h)
} zr_rate_sample;

typedef struct zr_rates { // of one setting
    zr_rate_setting setting;
    zr_rate_sample at[ZR_ACTIVITY_COUNT][ZR_RATE_SAMPLES];
    int count[ZR_ACTIVITY_COUNT];
    int64_t measured; // seconds since 1970, of the newest sample; 0: there are none
    // What a run has found itself: how quiet the machine was, for all of its samples; 0: as they
    // say.
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

// What predictions of this machine were off by: measured / predicted, learnt from runs.
typedef struct zr_correction {
    double factor; // geometric mean, of which later runs count more; zr_correction_factor
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
    zr_task_rates tasks; // besides steps
} zr_rate_book;

// Returns the seconds of one operation, and sets *unknown to how far it is from what was seen: 0:
// the same operation; 1: nothing was seen of its activity, and the seconds are a guess from others.
// rates NULL: nothing was seen at all.
double zr_rates_seconds(const zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops,
                        double *unknown);
// Returns the FLOP/s of large matrix products that a rank of a setting has at the least, as its
// kernels are known, not measured.
double zr_rates_assumed_flops(const zr_rate_setting *setting);
// Adds an operation's time; samples of the same size are averaged, later ones counting more, and
// where there is no room, the one most like another makes it. Times that are none are left out.
void zr_rates_add(zr_rates *rates, zr_activity what, int64_t bytes, int64_t flops, double seconds,
                  int64_t seen);
// The same of a sample that was seen while the machine was as quiet as it says: a clearly quieter
// one replaces what was known, a clearly less quiet one hardly counts.
void zr_rates_add_sample(zr_rates *rates, zr_activity what, const zr_rate_sample *sample);
// Returns the rates of a setting; if nothing is known of it, those of the nearest one of the same
// path and type, whose times have to be multiplied with zr_rates_factor; NULL: nothing fits.
const zr_rates *zr_rate_book_find(const zr_rate_book *book, const zr_rate_setting *setting,
                                  bool *exact);
// Returns what times of these rates are multiplied with for another setting: threads are in
// proportion.
double zr_rates_factor(const zr_rates *rates, const zr_rate_setting *setting);
// Returns the rates of a setting to add to, as measured now; they are made if there are none, in
// place of the oldest if there is no room. Rates that were returned before may move. NULL: no
// memory.
zr_rates *zr_rate_book_take(zr_rate_book *book, const zr_rate_setting *setting, zero_error *error);
// Notes what a run has measured of a part that was predicted, without its correction. A part of
// which either is nothing is not counted.
void zr_correction_learn(zr_correction *correction, double predicted, double measured);
// Returns what a prediction of the part is multiplied with: 1 where nothing is known, and closer to
// 1 than what was learnt after few runs.
double zr_correction_factor(const zr_correction *correction);
// Adds what one book has to another, as if its runs came later. ZERO_ERR_MEMORY: some is missing.
zero_status zr_rate_book_merge(zr_rate_book *into, const zr_rate_book *from, zero_error *error);
// Returns what a book tells of a machine's tasks before any of them was timed.
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

// Return the path of the user's file for this processor (zr_user_cache_file), read it, and change
// it: what `from` has, which is what a run has found itself, is merged into what the file has by
// now, under a lock, so that runs which end together lose nothing. A damaged file, or one of
// another processor, counts as empty; reading it says so in a warning, keeping does not. Reading
// never fails; a file that cannot be written is a warning, and keeping returns false.
zero_status zr_rate_book_file(char **file, zero_error *error);
void zr_rate_book_read(const zero_logger *logger, zr_rate_book *out);
bool zr_rate_book_keep(const zr_rate_book *from, const zero_logger *logger);
// Keeps the rates of the disk that holds `directory` (NULL: of the memory), whose names it fills
// in.
// *file tells where (zr_free); NULL if they could not be kept, in which case a warning says why.
void zr_storage_keep(const char *directory, const zr_storage_rates *measured,
                     const zero_logger *logger, char **file);
// The same for a file and machine of the caller's, for tests.
zero_status zr_rate_book_parse(const char *text, size_t length, const char *name,
                               const char *processor, zr_rate_book *out, zero_error *error);
void zr_rate_book_json(const zr_rate_book *book, const char *processor, zr_buffer *out);
void zr_rate_book_text(const zr_rate_book *book, zr_buffer *out); // for people: zero doctor

// How long exchanges by messages take: between machines, over their network, and among ranks of
// this machine that do not map each other's memory. They are rates like others, in settings of
// their own: so many machines, of so many ranks each that exchange at once and share its network.
// `bytes` of a sample are what comes to a rank over the network (on one machine: from the others),
// `seconds` all that the operation takes: sums, and what goes through memory.

// What fills them, for messages.
#define ZR_LINK_TEACHER "mpirun ... zero bench comm"

// Returns the setting of a link. machines 1: ranks of this machine. one_copy: of all-gathers into
// memory that the ranks of a machine share.
zr_rate_setting zr_link_setting(int machines, int together, bool one_copy);
// Returns the rates of a link, or those of the nearest one between machines if `setting` is;
// NULL: nothing is known. The book's rates stay where they are until something is added to it.
const zr_rates *zr_rate_book_link(const zr_rate_book *book, const zr_rate_setting *setting);
// Returns the seconds of an exchange in which so many bytes come to a rank: on the line between the
// samples next to it. Sets *unknown as zr_rates_seconds does. link NULL: a guess.
double zr_link_seconds(const zr_rates *link, zr_activity what, double bytes, double *unknown);
// Finds the most bytes a second that came to a rank, and the seconds of the smallest exchange;
// false: nothing is known.
bool zr_link_describe(const zr_rates *link, double *rate, double *latency);
bool zr_rate_book_knows_kernels(const zr_rate_book *book); // not links alone
bool zr_rate_book_knows_network(const zr_rate_book *book); // between machines

#endif
