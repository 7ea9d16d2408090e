// What the reference, the model as the run begins, gives to each answer of the data. It is computed
// once, before the first step, and kept in a file, which later runs and --resume find again:
//
//   FIRST_DATA_FILE.FINGERPRINT.reference.safetensors
//     "fingerprint"             (16) U8: of the model, the tokens, the examples and the windows
//     "training", "held_out"    (answers) F32, stream after stream
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "checkpoint/run_directory.h"
#include "comm/agreement.h"
#include "engine/engine_api.h"
#include "formats/safetensors.h"
#include "formats/weight_files.h"
#include "infer/window_loss.h"
#include "setup/model_preference.h"
#include "train/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SETS = 2, FINGERPRINT = 16, SECONDS_BETWEEN = 10 };
static const char *const names[SETS] = {"training", "held_out"};

typedef struct reference {
    zr_train *train;
    zr_dataset *sets[SETS];
    char fingerprint[FINGERPRINT + 1];
    char *path;
    zr_durable file; // rank 0, while it is computed
    double began, said;
    int64_t done, all; // windows of the sets before, and of all
} reference;

static int64_t count_answers(const zr_dataset *set)
{
    int64_t count = 0;
    for (int s = 0; s < set->stream_count; s++)
        count += set->streams[s].references ? set->streams[s].example_count : 0;
    return count;
}

// Identifies what the numbers depend on; it is the same on every rank.
static zero_status make_fingerprint(reference *r, zero_error *error)
{
    zr_train *train = r->train;
    const zero_train_options *options = train->asked.options;
    uint64_t facts[] = {zr_hash_text(train->subject.data_hash), 0, (uint64_t)train->resolved.seq,
                        (uint64_t)zr_engine_plan(train->run.engine)->settings.precision.activations,
                        (uint64_t)train->subject.model_config.base};
    if (options->new_spec)
        facts[1] = zr_hash_text(options->new_spec) ^ (uint64_t)train->resolved.seed;
    else
        ZERO_TRY(zr_train_hash_model(train, &facts[1], error));
    snprintf(r->fingerprint, sizeof r->fingerprint, "%016llx",
             (unsigned long long)zr_hash_bytes(facts, sizeof facts, 0));
    return ZERO_OK;
}

static zero_status make_path(reference *r, zero_error *error)
{
    const char *named = zr_model_reference_file(zr_engine_config(r->train->run.engine));
    r->path = named ? zr_strdup(named, error)
                    : zr_sprintf(error, "%s.%s.reference.safetensors",
                                 zr_corpus_name(r->train->subject.corpus), r->fingerprint);
    return r->path ? ZERO_OK : ZERO_ERR_MEMORY;
}

// ---- the file -----------------------------------------------------------------------------------

static zero_status refuse_file(const reference *r, const char *why, zero_error *error)
{
    return zr_fail(
        error, ZERO_ERR_DATA,
        "\"%s\" %s: without it the reference is computed anew; --reference names another "
        "file",
        r->path, why);
}

static zero_status read_set(const reference *r, const zr_st_set *file, int set, zero_error *error)
{
    const zr_st_tensor *tensor = zr_st_find(file, names[set]);
    int64_t at = 0, count = count_answers(r->sets[set]);
    if (!tensor || tensor->dims != 1 || tensor->shape[0] != count || strcmp(tensor->dtype, "F32"))
        return refuse_file(r, "has not a number for each answer", error);
    for (int s = 0; s < r->sets[set]->stream_count; s++) {
        zr_stream *stream = &r->sets[set]->streams[s];
        int64_t own = stream->references ? stream->example_count : 0;
        if (own)
            ZERO_TRY(zr_st_read(file, tensor, at, own, stream->references, error));
        at += own;
    }
    return ZERO_OK;
}

static zero_status check_fingerprint(const reference *r, const zr_st_set *file, zero_error *error)
{
    const zr_st_tensor *tensor = zr_st_find(file, "fingerprint");
    char found[FINGERPRINT + 1] = "", why[160];
    if (!tensor || tensor->dims != 1 || tensor->shape[0] != FINGERPRINT ||
        strcmp(tensor->dtype, "U8"))
        return refuse_file(r, "is no file of a reference", error);
    ZERO_TRY(
        zr_file_pread(file->fds[tensor->file], found, FINGERPRINT, tensor->begin, r->path, error));
    snprintf(why, sizeof why,
             "is of another model, other data or other windows (its fingerprint is %.16s, that of "
             "this run %s)",
             found, r->fingerprint);
    return memcmp(found, r->fingerprint, FINGERPRINT) ? refuse_file(r, why, error) : ZERO_OK;
}

// A truncated file is refused by its header, which says where its tensors end.
static zero_status read_file(const reference *r, zero_error *error)
{
    zr_st_set file;
    ZERO_TRY(zr_st_open(r->path, &file, error));
    zero_status status = check_fingerprint(r, &file, error);
    for (int i = 0; i < SETS && status == ZERO_OK; i++)
        status = read_set(r, &file, i, error);
    zr_st_close(&file);
    return status;
}

static zero_status open_file(reference *r, zero_error *error)
{
    zero_status status = zr_durable_open(r->path, &r->file, error);
    if (status != ZERO_OK && error) {
        char why[ZERO_MESSAGE_BYTES];
        snprintf(why, sizeof why, "%s", error->message);
        return zr_fail(error, status,
                       "the reference's numbers cannot be kept next to the data: %.3000s; "
                       "--reference names another file",
                       why);
    }
    return status;
}

static zero_status write_sets(const reference *r, const zr_st_layout *layout, zero_error *error)
{
    int fd = r->file.fd;
    ZERO_TRY(zr_file_pwrite(fd, layout->header.data, layout->header.length, 0, r->path, error));
    ZERO_TRY(zr_file_pwrite(fd, r->fingerprint, FINGERPRINT, layout->begin[0], r->path, error));
    for (int i = 0; i < SETS; i++) {
        int64_t at = layout->begin[i + 1];
        for (int s = 0; s < r->sets[i]->stream_count; s++) {
            const zr_stream *stream = &r->sets[i]->streams[s];
            size_t bytes =
                stream->references ? (size_t)stream->example_count * sizeof *stream->references : 0;
            if (bytes)
                ZERO_TRY(zr_file_pwrite(fd, stream->references, bytes, at, r->path, error));
            at += (int64_t)bytes;
        }
    }
    return ZERO_OK;
}

static zero_status write_file(reference *r, zero_error *error)
{
    const int64_t fingerprint = FINGERPRINT,
                  counts[SETS] = {count_answers(r->sets[0]), count_answers(r->sets[1])};
    const zr_st_entry entries[] = {
        {.name = "fingerprint", .dims = 1, .shape = &fingerprint, .dtype = ZERO_U8},
        {.name = names[0], .dims = 1, .shape = &counts[0]},
        {.name = names[1], .dims = 1, .shape = &counts[1]}};
    zr_st_layout layout;
    ZERO_TRY(zr_st_layout_create(entries, ZR_COUNT(entries), "", &layout, error));
    zero_status status = write_sets(r, &layout, error);
    zr_st_layout_free(&layout);
    return status == ZERO_OK ? zr_durable_commit(&r->file, error) : status;
}

// ---- computing ----------------------------------------------------------------------------------

// Says how far this is, from time to time; returns whether this rank was asked to end.
static bool say_progress(void *user, int64_t done)
{
    reference *r = user;
    const volatile int *stop = r->train->asked.options->stop;
    double now = zr_clock_seconds(), taken = now - r->began;
    char left[ZR_LENGTH_TEXT];
    zr_comm_progress(r->train->comm, 0);
    if (now - r->said < SECONDS_BETWEEN)
        return stop && *stop;
    r->said = now;
    done += r->done;
    zr_length_text(taken / (double)done * (double)(r->all - done), time(NULL), false, left);
    zr_log(&r->train->logger, ZERO_LOG_INFO, "reference %lld of %lld windows; still %s",
           (long long)done, (long long)r->all, left);
    return stop && *stop;
}

static zero_status compute_set(reference *r, zr_dataset *set, zero_error *error)
{
    const zr_windows_watch watch = {say_progress, r};
    int64_t batch = zr_engine_config(r->train->run.engine)->micro_batch;
    zero_status status = zr_windows_reference(r->train->run.engine, set, batch, &watch, error);
    return status == ZERO_ERR_STOPPED
               ? zr_fail(
                     error, status,
                     "ended as asked, before the first step of this start: the reference is not "
                     "computed to its end, and not kept")
               : status;
}

static zero_status compute(reference *r, zero_error *error)
{
    r->began = r->said = zr_clock_seconds();
    for (int i = 0; i < SETS; i++)
        r->all += zr_dataset_eval_windows(r->sets[i]);
    zr_log(&r->train->logger, ZERO_LOG_INFO,
           "reference the model as it is now gives its probabilities to %lld answers, which are "
           "kept in \"%s\"",
           (long long)(count_answers(r->sets[0]) + count_answers(r->sets[1])), r->path);
    for (int i = 0; i < SETS; i++) {
        if (count_answers(r->sets[i]))
            ZERO_TRY(compute_set(r, r->sets[i], error));
        r->done += zr_dataset_eval_windows(r->sets[i]);
    }
    return ZERO_OK;
}

// Gives every rank what rank 0 has read.
static zero_status share_numbers(const reference *r, zero_error *error)
{
    for (int i = 0; i < SETS; i++)
        for (int s = 0; s < r->sets[i]->stream_count; s++) {
            const zr_stream *stream = &r->sets[i]->streams[s];
            int64_t bytes = stream->example_count * (int64_t)sizeof *stream->references;
            if (stream->references && bytes)
                ZERO_TRY(zr_comm_broadcast(r->train->comm, stream->references, bytes, 0, error));
        }
    return ZERO_OK;
}

// A replay keeps nothing.
static zero_status make_reference(reference *r, zero_error *error)
{
    zr_train *train = r->train;
    bool first = train->comm->rank == 0, keeps = first && !train->asked.replay_to;
    int64_t found = first && zr_path_exists(r->path);
    zero_status status = !first  ? ZERO_OK
                         : found ? read_file(r, error)
                         : keeps ? open_file(r, error)
                                 : ZERO_OK;
    ZERO_TRY(zr_comm_agree(train->comm, status, error));
    ZERO_TRY(zr_comm_agree_on_largest(train->comm, &found, error));
    if (found) {
        zr_log(&train->logger, ZERO_LOG_INFO, "reference from \"%s\"", r->path);
        return share_numbers(r, error);
    }
    ZERO_TRY(compute(r, error));
    return zr_comm_agree(train->comm, keeps ? write_file(r, error) : ZERO_OK, error);
}

zero_status zr_train_make_reference(zr_train *train, zero_error *error)
{
    reference r = {
        .train = train, .sets = {&train->subject.data, &train->subject.val}, .file.fd = -1};
    if (!zr_preference_has_reference(&train->asked.preference))
        return ZERO_OK;
    if (train->asked.options->dry_run && !train->asked.replay_to) {
        zr_log(
            &train->logger, ZERO_LOG_INFO,
            "reference not computed in a dry run: the loss of its step is not that of a training");
        return ZERO_OK;
    }
    zero_status status = make_fingerprint(&r, error);
    if (status == ZERO_OK)
        status = make_path(&r, error);
    if (status == ZERO_OK)
        status = make_reference(&r, error);
    if (r.file.fd >= 0)
        zr_durable_discard(&r.file);
    zr_free(r.path);
    return status;
}
