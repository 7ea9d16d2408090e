// Checks that the merges of a tokenizer.json, which have an order, can do what SentencePiece does
// with scores: it merges the pair of neighbours whose piece has the highest score and, of equal
// scores, the one that comes first in the text.
#include "tokenizer/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

typedef struct checking {
    const char *name; // for messages
    const zr_token_list *list;
    zero_error *error;
} checking;

static const char *text_of(const checking *c, int32_t id)
{
    return c->list->text.data + c->list->tokens[id].at;
}

static int32_t character_bytes(const char *text, size_t length)
{
    int32_t unused;
    return zr_utf8_next(text, length, &unused);
}

// Finds whether the token is merged from two others. SentencePiece merges characters even if they
// are no pieces, a tokenizer.json cannot.
static zero_status check_halves(const checking *c, const zr_text_span_map *ids, int32_t id,
                                bool *merged)
{
    const char *text = text_of(c, id);
    uint32_t length = c->list->tokens[id].length;
    for (uint32_t cut = 1; cut < length; cut++) {
        if (((unsigned char)text[cut] & 0xc0) == 0x80) // inside a character
            continue;
        bool left = zr_text_span_map_find(ids, text, cut) >= 0,
             right = zr_text_span_map_find(ids, text + cut, length - cut) >= 0,
             first = (uint32_t)character_bytes(text, length) == cut,
             last = (uint32_t)character_bytes(text + cut, length - cut) == length - cut;
        *merged |= left && right;
        if ((left || first) && (right || last) && !(left && right))
            return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                           "%s: the piece %d, \"%.*s\", has a character that is no piece: not "
                           "built" ZR_SPM_OTHER_WAY,
                           c->name, (int)id, (int)ZR_MIN(length, 100u), text);
    }
    return ZERO_OK;
}

typedef struct scored { // a token that is merged from others
    float score;
    int32_t id;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score) - (x->score < y->score)
                                : (x->id > y->id) - (x->id < y->id);
}

// Runs of spaces, which Llama 2 and Mistral have as pieces of one score, the lowest.
enum { LONGEST_RUN = 32, LONGEST_TRIED = 8 * LONGEST_RUN };
typedef struct space_runs {
    int32_t ids[LONGEST_RUN + 1]; // by their lengths; -1: no such piece
} space_runs;

// Returns how many spaces the piece consists of; 0 if it has another character.
static uint32_t spaces_of(const checking *c, int32_t id)
{
    const char *text = text_of(c, id);
    uint32_t length = c->list->tokens[id].length;
    for (uint32_t at = 0; at < length; at += 3)
        if (length - at < 3 || memcmp(text + at, ZR_METASPACE, 3) != 0)
            return 0;
    return length / 3;
}

// Merges a run of single spaces until no pair is a piece: each time the first pair in the text, as
// SentencePiece does, or the first one of the piece with the lowest id, as the tokenizer.json says.
static int merge_spaces(const space_runs *runs, bool by_place, int *lengths, int count)
{
    for (int best = 0; best >= 0;) {
        int32_t best_id = INT32_MAX;
        best = -1;
        for (int i = 0; i + 1 < count && !(by_place && best >= 0); i++) {
            int sum = lengths[i] + lengths[i + 1];
            int32_t id = sum <= LONGEST_RUN ? runs->ids[sum] : -1;
            if (id >= 0 && id < best_id) {
                best = i;
                best_id = id;
            }
        }
        if (best < 0)
            continue;
        lengths[best] += lengths[best + 1];
        count--;
        memmove(lengths + best + 1, lengths + best + 2,
                (size_t)(count - best - 1) * sizeof *lengths);
    }
    return count;
}

static bool merge_alike(const space_runs *runs)
{
    for (int spaces = 1; spaces <= LONGEST_TRIED; spaces++) {
        int lengths[2][LONGEST_TRIED], counts[2];
        for (int by_place = 0; by_place < 2; by_place++) {
            for (int i = 0; i < spaces; i++)
                lengths[by_place][i] = 1;
            counts[by_place] = merge_spaces(runs, by_place, lengths[by_place], spaces);
        }
        if (counts[0] != counts[1] ||
            memcmp(lengths[0], lengths[1], (size_t)counts[0] * sizeof(int)) != 0)
            return false;
    }
    return true;
}

// Returns whether the first `tied` pieces, which have the lowest score, are runs of spaces that no
// other piece has a part of, and merge in the same way in the order of their ids. Then all other
// merges are made before, and leave runs of single spaces.
static bool are_runs_of_spaces(const checking *c, const scored *all, int32_t tied, int32_t count)
{
    space_runs runs;
    for (int i = 0; i <= LONGEST_RUN; i++)
        runs.ids[i] = -1;
    for (int32_t i = 0; i < tied; i++) {
        uint32_t spaces = spaces_of(c, all[i].id);
        if (!spaces || spaces > LONGEST_RUN)
            return false;
        runs.ids[spaces] = all[i].id;
    }
    for (int32_t i = tied; i < count; i++)
        if (zr_find_text(text_of(c, all[i].id), c->list->tokens[all[i].id].length,
                         ZR_METASPACE ZR_METASPACE, 6))
            return false;
    return merge_alike(&runs);
}

// Of pairs whose scores are equal, SentencePiece merges the one that comes first in the text.
static zero_status check_scores(const checking *c, scored *all, int32_t count)
{
    int32_t tied = 1;
    if (count)
        qsort(all, (size_t)count, sizeof *all, by_score);
    while (tied < count && all[tied].score == all[0].score)
        tied++;
    if (tied > 1 && !are_runs_of_spaces(c, all, tied, count))
        tied = 1;
    for (int32_t i = tied; i < count; i++)
        if (all[i].score == all[i - 1].score)
            return zr_fail(c->error, ZERO_ERR_UNSUPPORTED,
                           "%s: the pieces %d and %d have the score %g, so that their places in a "
                           "text decide which is made first: not built" ZR_SPM_OTHER_WAY,
                           c->name, (int)all[i - 1].id, (int)all[i].id, (double)all[i].score);
    return ZERO_OK;
}

static zero_status check_merges(const checking *c, zr_text_span_map *ids, scored *merges)
{
    int32_t count = 0;
    for (int32_t id = 0; id < c->list->count;
         id++) // zr_token_list_json refuses what is there twice
        zr_text_span_map_insert(ids, c->list->tokens[id], id);
    for (int32_t id = 0; id < c->list->count; id++) {
        bool merged = false;
        if (c->list->kinds[id] != ZR_TOKEN_NORMAL)
            continue;
        ZERO_TRY(check_halves(c, ids, id, &merged));
        if (merged)
            merges[count++] = (scored){c->list->scores[id], id};
    }
    return check_scores(c, merges, count);
}

zero_status zr_spm_check_merges(const char *name, const zr_token_list *list, zero_error *error)
{
    checking c = {.name = name, .list = list, .error = error};
    zr_text_span_map ids = {0};
    scored *merges = zr_alloc(((size_t)list->count + 1) * sizeof *merges, error);
    zero_status status = merges ? zr_text_span_map_create((const char *const *)&list->text.data,
                                                          list->count, &ids, error)
                                : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = check_merges(&c, &ids, merges);
    zr_text_span_map_free(&ids);
    zr_free(merges);
    return status;
}
