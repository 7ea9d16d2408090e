// Ids that are too many for memory, and how the ranks of a machine share them.
//
//   spill   [ ids of a part | where its records begin ][ the next part ]... [ facts of all parts ]
//
// A rank that reads for itself keeps ids in memory and begins a spill once they are too many. Where
// ranks read together, the leader of a machine says in advance whether its files are that large. If
// they are not, every rank reads for itself. If they are, the leader alone makes the tokens of text
// and records, and the other ranks open its spill; one that cannot (a container of its own) reads
// for itself, with the same result.
#include "data/corpus_internal.h"

#include "base/alloc.h"

#include <string.h>

zero_status zr_corpus_spill(zr_corpus *corpus, zero_error *error)
{
    char *what = zr_sprintf(error, "tokens of \"%s\"", zr_corpus_name(corpus));
    zero_status status = what ? zr_spill_create(what, &corpus->spill, error) : ZERO_ERR_MEMORY;
    zr_free(what);
    return status;
}

void zr_part_record_begins(const zr_corpus *corpus, const zr_part *part, int64_t first,
                           int64_t count, int64_t *out)
{
    const size_t width = sizeof *out;
    if (part->facts.records_spilled_at)
        zr_spill_read(corpus->spill, part->facts.records_spilled_at + first * (int64_t)width, out,
                      (size_t)count * width);
    else
        memcpy(out, part->records_at.data + (size_t)first * width, (size_t)count * width);
}

// Returns whether the ids of text and records may be more than memory is to hold, as if each byte
// were a token.
static bool is_large(const zr_corpus *corpus, const zr_reading *reading)
{
    int64_t bytes = 0;
    for (int i = 0; i < corpus->part_count; i++)
        if (corpus->parts[i].kind != ZR_DATA_TOKENS)
            bytes += corpus->parts[i].bytes;
    return bytes > zr_kept_bytes(reading) / (int64_t)sizeof(int32_t);
}

// Reads the parts that are token files, or those that are not.
static zero_status read_kind(zr_corpus *corpus, const zr_reading *reading, bool tokens, bool holds,
                             zero_error *error)
{
    for (int i = 0; i < corpus->part_count; i++) {
        zr_part *part = &corpus->parts[i];
        if (part->facts.count || (part->kind == ZR_DATA_TOKENS) != tokens)
            continue;
        ZERO_TRY(zr_part_open(corpus, part, error));
        ZERO_TRY(zr_part_read(corpus, part, reading, holds, error));
        zr_file_unmap(&part->records); // its tokens have been read
    }
    return ZERO_OK;
}

static zero_status read_texts(zr_corpus *corpus, const zr_reading *reading, bool holds,
                              zero_error *error)
{
    ZERO_TRY(read_kind(corpus, reading, false, holds, error));
    return corpus->spill ? zr_spill_finish(corpus->spill, error) : ZERO_OK;
}

// ---- together -----------------------------------------------------------------------------------

// The words that a leader tells: first LARGE alone, then the others.
enum { LARGE = 0, PROCESS = 0, FD, DEVICE, INODE, FACTS_AT, PARTS };

// Makes the tokens of the machine, and writes what the other ranks need to know of them.
static zero_status lead(zr_corpus *corpus, const zr_reading *reading, bool holds,
                        int64_t words[ZR_SHARED_WORDS], zero_error *error)
{
    zr_reading all = *reading;
    all.threads = ZR_MAX(reading->threads, 1) * ZR_MAX(reading->sharing.ranks, 1);
    ZERO_TRY(zr_corpus_spill(corpus, error));
    ZERO_TRY(read_kind(corpus, &all, false, holds, error));
    words[FACTS_AT] = zr_spill_bytes(corpus->spill);
    words[PARTS] = corpus->part_count;
    for (int i = 0; i < corpus->part_count; i++)
        ZERO_TRY(zr_spill_append(corpus->spill, &corpus->parts[i].facts,
                                 sizeof corpus->parts[i].facts, error));
    ZERO_TRY(zr_spill_finish(corpus->spill, error));
    const zr_spill_place place = zr_spill_place_of(corpus->spill);
    words[PROCESS] = place.process;
    words[FD] = place.fd;
    words[DEVICE] = place.device;
    words[INODE] = place.inode;
    return ZERO_OK;
}

// Opens the leader's spill. Where that is impossible, this rank reads for itself.
static zero_status follow(zr_corpus *corpus, const zr_reading *reading, bool holds,
                          const int64_t words[ZR_SHARED_WORDS], zero_error *error)
{
    const zr_spill_place place = {
        .process = words[PROCESS], .fd = words[FD], .device = words[DEVICE], .inode = words[INODE]};
    if (words[PARTS] == corpus->part_count)
        ZERO_TRY(zr_spill_open_at(&place, zr_corpus_name(corpus), &corpus->spill, error));
    if (!corpus->spill)
        return read_texts(corpus, reading, holds, error);
    for (int i = 0; i < corpus->part_count; i++) {
        zr_part *part = &corpus->parts[i];
        if (part->kind != ZR_DATA_TOKENS)
            zr_spill_read(corpus->spill, words[FACTS_AT] + i * (int64_t)sizeof part->facts,
                          &part->facts, sizeof part->facts);
        zr_file_unmap(&part->records);
    }
    return zr_spill_check(corpus->spill, error);
}

static zero_status read_together(zr_corpus *corpus, const zr_reading *reading, bool holds,
                                 zero_error *error)
{
    const zr_sharing *sharing = &reading->sharing;
    int64_t words[ZR_SHARED_WORDS] = {[LARGE] = is_large(corpus, reading)};
    ZERO_TRY(sharing->tell(sharing->user, ZERO_OK, words, error));
    bool large = words[LARGE] != 0;
    memset(words, 0, sizeof words);
    zero_status status = read_kind(corpus, reading, true, holds, error);
    if (status == ZERO_OK && !large)
        status = read_texts(corpus, reading, holds, error);
    else if (status == ZERO_OK && sharing->leads)
        status = lead(corpus, reading, holds, words, error);
    ZERO_TRY(sharing->tell(sharing->user, status, words, error));
    return large && !sharing->leads ? follow(corpus, reading, holds, words, error) : ZERO_OK;
}

zero_status zr_corpus_read_parts(zr_corpus *corpus, const zr_reading *reading, bool holds,
                                 zero_error *error)
{
    if (reading->sharing.tell)
        return read_together(corpus, reading, holds, error);
    ZERO_TRY(read_kind(corpus, reading, true, holds, error));
    return read_texts(corpus, reading, holds, error);
}
