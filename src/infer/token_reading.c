#include "infer/token_reading.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "comm/agreement.h"
#include "setup/load.h"
#include "setup/machine_facts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECONDS_BETWEEN_LINES 3.0

// With more machines nothing is shared: the words of all must fit into one small all-reduce.
enum { MOST_MACHINES = ZR_COMM_SMALL_BYTES / (ZR_SHARED_WORDS * (int)sizeof(int64_t)) };

static void report_reading(void *user, const char *name, size_t done, size_t total)
{
    zr_reading_progress *progress = user;
    double now = zr_clock_seconds();
    if (!progress->name[0] || strncmp(progress->name, name, sizeof progress->name - 1)) {
        snprintf(progress->name, sizeof progress->name, "%s", name);
        progress->began_at = now;
        progress->had = done;
    }
    if (progress->comm)
        zr_comm_progress(progress->comm, 0);
    if (now - progress->said_at < SECONDS_BETWEEN_LINES)
        return;
    progress->said_at = now;
    char left[32] = "";
    if (done > progress->had && total > done)
        snprintf(left, sizeof left, ", about %.0f s left",
                 (now - progress->began_at) * (double)(total - done) /
                     (double)(done - progress->had));
    zr_log(progress->logger, ZERO_LOG_INFO, "reading  %s: %.0f%%%s", name,
           total ? 100 * (double)done / (double)total : 100, left);
}

zr_watch zr_reading_watch(zr_reading_progress *progress, zero_comm *comm, const zero_logger *logger)
{
    double now = zr_clock_seconds();
    *progress =
        (zr_reading_progress){.comm = comm, .logger = logger, .began_at = now, .said_at = now};
    return (zr_watch){.beat = report_reading, .user = progress};
}

zr_preferences zr_reading_preferences(const zr_preference *preference)
{
    return !preference->kind                       ? ZR_PREFERENCES_NONE
           : preference->kind == ZR_PREFERENCE_KTO ? ZR_PREFERENCES_LABELS
                                                   : ZR_PREFERENCES_PAIRS;
}

static void warn_of_pairs(const zr_dataset *data, int64_t cut, int64_t all, int64_t dropped,
                          const zero_logger *logger)
{
    if (cut)
        zr_log(logger, ZERO_LOG_WARNING,
               "%lld of %lld pairs are longer than a window of %lld tokens, and the ends of their "
               "answers are left out: a larger --seq has room for them",
               (long long)cut, (long long)(all / 2), (long long)data->seq);
    if (dropped)
        zr_log(logger, ZERO_LOG_WARNING,
               "%lld pair%s left out: a window of %lld tokens has no room for their prompts and a "
               "part of both answers, or an answer is empty",
               (long long)dropped, dropped == 1 ? " is" : "s are", (long long)data->seq);
}

void zr_reading_warn_cut(const zr_dataset *data, const zero_logger *logger)
{
    int64_t cut = 0, all = 0, dropped = 0;
    for (int i = 0; i < data->stream_count; i++) {
        cut += data->streams[i].packing.cut;
        all += data->streams[i].example_count;
        dropped += data->streams[i].dropped;
    }
    if (data->preferences)
        warn_of_pairs(data, cut, all, dropped, logger);
    else if (cut)
        zr_log(logger, ZERO_LOG_WARNING,
               "%lld of %lld examples are longer than a window of %lld tokens, and their ends are "
               "left out: a larger --seq has room for them",
               (long long)cut, (long long)all, (long long)data->seq);
}

void zr_reading_warn_shortened(const zr_corpus *corpus, const zr_dataset *data,
                               const zero_logger *logger)
{
    long long count = (long long)zr_corpus_shortened(corpus);
    if (count)
        zr_log(logger, ZERO_LOG_WARNING,
               "%lld text%s longer than a window of %lld tokens, and %s left out, as transformers "
               "does: a larger --seq has room for %s",
               count, count == 1 ? " is" : "s are", (long long)data->seq,
               count == 1 ? "its end is" : "their ends are", count == 1 ? "it" : "them");
}

static int machine_of(const zero_comm *comm, int rank)
{
    return comm->machines ? comm->machines[rank] : 0;
}

static int first_of_machine(const zero_comm *comm)
{
    int first = 0;
    while (machine_of(comm, first) != machine_of(comm, comm->rank))
        first++;
    return first;
}

static int count_machines(const zero_comm *comm)
{
    int machines = 1;
    for (int r = 0; r < comm->size; r++)
        machines = ZR_MAX(machines, machine_of(comm, r) + 1);
    return machines;
}

// Gives the words of each machine's first rank to the machine's ranks.
static zero_status tell_machine(void *user, zero_status mine, int64_t words[ZR_SHARED_WORDS],
                                zero_error *error)
{
    enum { WORDS = ZR_SHARED_WORDS };
    zero_comm *comm = user;
    int own = machine_of(comm, comm->rank), machines = count_machines(comm);
    int64_t all[MOST_MACHINES * WORDS];
    ZERO_TRY(zr_comm_agree(comm, mine, error));
    for (int i = 0; i < machines * WORDS; i++)
        all[i] = INT64_MIN;
    if (comm->rank == first_of_machine(comm))
        memcpy(all + own * WORDS, words, WORDS * sizeof *words);
    ZERO_TRY(
        zr_comm_all_reduce_small(comm, all, machines * (int64_t)WORDS, ZERO_I64, ZR_MAX, error));
    memcpy(words, all + own * WORDS, WORDS * sizeof *words);
    return ZERO_OK;
}

static bool shares(const zero_comm *comm)
{
    return comm->size > 1 && count_machines(comm) <= MOST_MACHINES;
}

bool zr_reading_follows(const zero_comm *comm)
{
    return shares(comm) && first_of_machine(comm) != comm->rank;
}

static zr_sharing share_with_machine(zero_comm *comm)
{
    if (!comm || !shares(comm))
        return (zr_sharing){0};
    return (zr_sharing){.tell = tell_machine,
                        .user = comm,
                        .leads = !zr_reading_follows(comm),
                        .ranks = zr_local_ranks(comm)};
}

zr_reading zr_token_reader_options(zero_comm *comm, int threads, const zr_tokenizer *tokenizer,
                                   int64_t vocabulary, int64_t seq)
{
    int size = comm ? comm->size : 1;
    return (zr_reading){.tokenizer = tokenizer,
                        .vocabulary = vocabulary,
                        .seq = seq,
                        .threads =
                            threads > 0 ? threads : ZR_MAX(zr_cpu_budget_get().allowed / size, 1),
                        .share = comm ? comm->rank : 0,
                        .shares = size,
                        .sharing = share_with_machine(comm)};
}

// Loading says what there is in place of a tokenizer that can be read.
static zero_status refuse_absent(const char *model_dir, zr_tokenizer **out, zero_error *error)
{
    zero_error why = {.status = ZERO_OK};
    zero_status status = zr_tokenizer_load(model_dir, out, &why);
    return status == ZERO_OK
               ? ZERO_OK
               : zr_fail(error, status, "%.3000s; --tokenizer says which one the data are for",
                         why.message);
}

zero_status zr_reading_tokenizer(const char *model_dir, const char *what, const zr_corpus *corpus,
                                 zr_tokenizer **out, zero_error *error)
{
    if (!what && model_dir && !zr_tokenizer_is_at(model_dir))
        return refuse_absent(model_dir, out, error);
    if (!what && model_dir)
        return zr_tokenizer_load(model_dir, out, error);
    if (what && !strcmp(what, "chars"))
        return zr_corpus_characters(corpus, out, error);
    return zr_tokenizer_open(what ? what : "bytes", NULL, 0, zr_corpus_name(corpus), out, error);
}

zero_status zr_reading_tokenizer_of(const char *model_dir, const char *what,
                                    const zr_corpus *corpus, int64_t vocabulary, zr_tokenizer **out,
                                    zero_error *error)
{
    *out = NULL;
    if (!what && !zr_corpus_has_text(corpus) && !zr_tokenizer_is_at(model_dir))
        return ZERO_OK;
    if (what && !strcmp(what, "chars"))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--tokenizer chars would number the characters of this text, not those that "
                       "the model was trained with: a tokenizer's directory is needed");
    ZERO_TRY(zr_reading_tokenizer(model_dir, what, corpus, out, error));
    return zr_load_check_tokens(what ? what : model_dir, *out, vocabulary, error);
}

void zr_reading_warn(const zr_tokenizer *tokenizer, const zero_logger *logger)
{
    if (zr_tokenizer_kind_of(tokenizer) == ZR_TOKENIZER_BPE && zr_tokenizer_end(tokenizer) < 0)
        zr_log(logger, ZERO_LOG_WARNING,
               "the tokenizer has no end token (eos_token of tokenizer_config.json): documents "
               "follow each other without a separator");
}

void zr_reading_warn_records(const zr_corpus *corpus, const zero_logger *logger)
{
    int64_t empty = zr_corpus_empty(corpus);
    if (empty)
        zr_log(logger, ZERO_LOG_WARNING, "%lld record%s without text %s passed over",
               (long long)empty, empty == 1 ? "" : "s", empty == 1 ? "was" : "were");
    int64_t plain = zr_corpus_plain(corpus);
    if (plain)
        zr_log(logger, ZERO_LOG_WARNING,
               "%lld record%s of a question and its answer %s written as text, because no chat "
               "template is known (docs/data.md says how; --chat FORMAT names one)",
               (long long)plain, plain == 1 ? "" : "s", plain == 1 ? "is" : "are");
}

void zr_reading_warn_chat(const zr_chat *chat, const zero_logger *logger)
{
    int64_t count = chat->counts ? chat->counts->rewritten : 0;
    if (count)
        zr_log(logger, ZERO_LOG_WARNING,
               "in %lld conversation%s the chat template writes earlier answers in another form "
               "once others follow, as templates that drop thoughts do: of these, only the answers "
               "that stay as they were given are trained on (often the last one)",
               (long long)count, count == 1 ? "" : "s");
}

zero_status zr_reading_chat(const char *model_dir, const char *tokenizer, const char *format,
                            const char *date, zr_chat *out, zero_error *error)
{
    struct stat info;
    bool own = tokenizer && stat(tokenizer, &info) == 0 && S_ISDIR(info.st_mode);
    return zr_chat_load(own ? tokenizer : tokenizer ? NULL : model_dir, format, date, out, error);
}

zero_status zr_reading_pack(const char *attention, zr_pack *out, zero_error *error)
{
    static const struct {
        const char *name;
        zr_pack pack;
    } known[] = {{"auto", ZR_PACK_MASKED}, {"causal", ZR_PACK_NONE}, {"document", ZR_PACK_ALL}};
    *out = ZR_PACK_MASKED;
    for (int i = 0; i < ZR_COUNT(known) && attention; i++)
        if (!strcmp(known[i].name, attention)) {
            *out = known[i].pack;
            return ZERO_OK;
        }
    return attention ? zr_fail(error, ZERO_ERR_USAGE,
                               "options.attention is \"%s\": auto, causal or document", attention)
                     : ZERO_OK;
}
