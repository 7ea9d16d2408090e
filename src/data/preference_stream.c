// Examples of preferences. Two stand next to each other in a window, and are cut together: where
// both do not fit, their answers lose their ends, as evenly as their lengths allow, because the
// shorter one would otherwise say more of itself than of what is preferred.
//
//   pairs    [ prompt | chosen answer ][ prompt | rejected answer ]
//   labels   [ prompt | answer ][ prompt | the answer of the record before ]
//
// With labels, answer j of a record meets answer j of the record before, the first record the last
// one; so both answers of a pair meet those of another prompt.
#include "base/alloc.h"
#include "data/corpus_internal.h"

#include <zero/preference.h>

enum { AT_ONCE = 256 };

// Returns how many tokens come before the first target.
static int64_t count_prompt(const zr_stream *stream, int64_t first, int64_t count)
{
    int32_t ids[AT_ONCE];
    for (int64_t at = 0, some; at < count; at += some) {
        some = ZR_MIN(count - at, (int64_t)AT_ONCE);
        zr_stream_read(stream, first + at, some, ids);
        for (int64_t i = 0; i < some; i++)
            if (ids[i] >= 0)
                return at + i;
    }
    return count;
}

static zero_status add_answer(const zr_answer_tokens *answer, const zr_stream *stream,
                              zr_answers *list, zero_error *error)
{
    zr_answer_tokens *at = zr_list_grow(list->at, list->count, &list->capacity, sizeof *at, error);
    if (!at)
        return ZERO_ERR_MEMORY;
    list->at = at;
    at += list->count++;
    *at = *answer;
    at->prompt = count_prompt(stream, at->first, at->count);
    return ZERO_OK;
}

zero_status zr_answers_add(const zr_corpus *corpus, const zr_answer_range *range,
                           const zr_stream *stream, zr_answers *list, zero_error *error)
{
    const zr_part_facts *facts = &range->part->facts;
    int64_t places[AT_ONCE + 1];
    for (int64_t i = 0, some; i < facts->records; i += some) {
        some = ZR_MIN(facts->records - i, (int64_t)AT_ONCE);
        bool last = i + some == facts->records;
        places[some] = zr_answer_place(facts->count, ZR_ANSWER_NONE);
        zr_part_record_begins(corpus, range->part, i, last ? some : some + 1, places);
        for (int64_t k = 0; k < some; k++) {
            int64_t begins = zr_answer_begins(places[k]), next = zr_answer_begins(places[k + 1]);
            const zr_answer_tokens answer = {.first = range->begin + begins - range->first,
                                             .count = next - begins,
                                             .answer = zr_answer_of(places[k])};
            if (begins >= range->first && next <= range->end)
                ZERO_TRY(add_answer(&answer, stream, list, error));
        }
    }
    return ZERO_OK;
}

typedef struct side {              // of two examples
    int64_t first, prompt, answer; // tokens; first: where a document of its own would begin
    zr_example_mark mark;
} side;

static int64_t rows_of_prompt(const side *of) { return ZR_MAX(of->prompt - 1, 0); }

// The first token of a document is the target of no row.
static int64_t rows_of_answer(const side *of) { return of->answer - (of->prompt == 0); }

// Cuts the ends of the answers; returns whether a part of both fits.
static bool cut_answers(side sides[2], int64_t seq, zr_stream *out)
{
    int64_t room = seq - rows_of_prompt(&sides[0]) - rows_of_prompt(&sides[1]);
    int64_t rows[2] = {rows_of_answer(&sides[0]), rows_of_answer(&sides[1])};
    if (room < 2 || rows[0] < 1 || rows[1] < 1)
        return false;
    if (rows[0] + rows[1] <= room)
        return true;
    int shorter = rows[1] < rows[0];
    int64_t less = ZR_MIN(rows[shorter], room / 2);
    sides[shorter].answer -= rows[shorter] - less;
    sides[!shorter].answer -= rows[!shorter] - (room - less);
    out->packing.cut++;
    return true;
}

static zero_status add_sides(side sides[2], int64_t seq, zr_stream *out, zero_error *error)
{
    if (!cut_answers(sides, seq, out)) {
        out->dropped++;
        return ZERO_OK;
    }
    for (int i = 0; i < 2; i++) {
        ZERO_TRY(
            zr_stream_add_example(out, sides[i].first, sides[i].prompt + sides[i].answer, error));
        out->marks[out->example_count - 1] = sides[i].mark;
    }
    return ZERO_OK;
}

static side side_of(const zr_answer_tokens *of, zero_role role)
{
    return (side){.first = of->first,
                  .prompt = of->prompt,
                  .answer = of->count - of->prompt,
                  .mark.role = role};
}

static zero_status add_pairs(const zr_answers *list, int64_t seq, zr_stream *out, zero_error *error)
{
    for (int i = 0; i + 1 < list->count; i += 2) {
        side sides[] = {side_of(&list->at[i], ZERO_ROLE_chosen),
                        side_of(&list->at[i + 1], ZERO_ROLE_rejected)};
        ZERO_TRY(add_sides(sides, seq, out, error));
    }
    return ZERO_OK;
}

// Returns the first answer of the record before the one that begins with answer `begin`.
static int record_before(const zr_answers *list, int begin)
{
    int before = (begin > 0 ? begin : list->count) - 1;
    return before - (list->at[before].answer == ZR_ANSWER_SECOND);
}

// Returns the side of the prompt of `of` with the answer of `other`.
static side mismatch(const zr_answer_tokens *of, const zr_answer_tokens *other)
{
    return (side){.first = other->first + other->prompt - of->prompt,
                  .prompt = of->prompt,
                  .answer = other->count - other->prompt,
                  .mark = {.role = ZERO_ROLE_mismatched, .shared = of->prompt}};
}

static zero_status add_labelled(const zr_answers *list, int64_t seq, zr_stream *out,
                                zero_error *error)
{
    for (int i = 0; i < list->count; i++) {
        bool second = list->at[i].answer == ZR_ANSWER_SECOND;
        int other = record_before(list, i - second);
        bool both =
            second && other + 1 < list->count && list->at[other + 1].answer == ZR_ANSWER_SECOND;
        side sides[] = {side_of(&list->at[i], list->at[i].answer == ZR_ANSWER_CHOSEN
                                                  ? ZERO_ROLE_chosen
                                                  : ZERO_ROLE_rejected),
                        mismatch(&list->at[i], &list->at[other + both])};
        ZERO_TRY(add_sides(sides, seq, out, error));
    }
    return ZERO_OK;
}

zero_status zr_answers_pair(const zr_answers *list, zr_preferences preferences, int64_t seq,
                            zr_stream *out, zero_error *error)
{
    bool labels = preferences == ZR_PREFERENCES_LABELS;
    size_t most = (size_t)list->count * (labels ? 2 : 1) + 1;
    out->marks = zr_alloc(most * sizeof *out->marks, error);
    out->references = out->marks ? zr_alloc(most * sizeof *out->references, error) : NULL;
    if (!out->references)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(labels ? add_labelled(list, seq, out, error) : add_pairs(list, seq, out, error));
    int64_t cut = out->packing.cut;
    ZERO_TRY(zr_stream_pack(out, seq, error));
    out->packing.cut = cut;
    return ZERO_OK;
}
