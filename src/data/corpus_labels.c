// Texts with labels as tokens: the label stands where the token after the text would, so that it is
// the target of the text's last token.
//
//   the film was dull | poor          ~the ~film ~was ~dull  2         ~ no target
//
// What a text has more than a window's tokens is left out at its end, as transformers does.
#include "data/corpus_internal.h"

static zero_status refuse_label(const zr_text_record *record, const zr_labels *labels,
                                zero_error *error)
{
    char known[ZERO_MESSAGE_BYTES / 2];
    zr_labels_list(labels, known, sizeof known);
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: the label \"%s\" is none of the model's, which are %s", record->name,
                   record->label.text, known);
}

static zero_status refuse_window(int64_t seq, int around, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_USAGE,
                   "windows of %lld tokens (--seq) have no room for a text, before and after which "
                   "the tokenizer puts %d: it needs %d or more",
                   (long long)seq, around, around + 1);
}

static zero_status take_masked(zr_ids *ids, const int32_t *more, int64_t count,
                               const zr_text_record *record, zero_error *error)
{
    if (!zr_ids_reserve(ids, count))
        return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its tokens", record->name);
    for (int64_t i = 0; i < count; i++)
        ids->at[ids->count++] = ~more[i];
    return ZERO_OK;
}

zero_status zr_labelled_encode(zr_encoding *encoding, const zr_text_record *record,
                               const zr_labels *labels, int64_t seq, bool *shortened,
                               zero_error *error)
{
    const int32_t *before, *after,
        label = zr_labels_find(labels, record->label.text, record->label.whole_number),
        target = ~label; // which take_masked turns round
    int before_count, after_count;
    zr_ids *ids = &encoding->ids;
    if (label < 0)
        return refuse_label(record, labels, error);
    // As transformers' tokenizer does, with what it puts before and after texts.
    zr_tokenizer_template(encoding->tokenizer, &before, &before_count, &after, &after_count);
    if (seq <= before_count + after_count)
        return refuse_window(seq, before_count + after_count, error);
    ZERO_TRY(take_masked(ids, before, before_count, record, error));
    const int64_t first = ids->count, most = seq - before_count - after_count;
    ZERO_TRY(zr_encoding_add(encoding, &record->document, record->name, error));
    *shortened = ids->count - first > most;
    ids->count = ZR_MIN(ids->count, first + most);
    ZERO_TRY(take_masked(ids, after, after_count, record, error));
    return take_masked(ids, &target, 1, record, error);
}

static zero_status collect_label(void *user, zr_text_record *record, int64_t number,
                                 zero_error *error)
{
    zr_labels *labels = user;
    return zr_labels_find(labels, record->label.text, false) >= 0
               ? ZERO_OK
               : zr_labels_add(labels, record->label.text, record->name, error);
}

zero_status zr_corpus_labels(zr_corpus *corpus, zr_labels *out, zero_error *error)
{
    size_t before = 0, total = (size_t)zr_corpus_bytes(corpus);
    for (int i = 0; i < corpus->part_count; i++) {
        zr_part *part = &corpus->parts[i];
        ZERO_TRY(zr_part_open(corpus, part, error));
        ZERO_TRY(zr_part_each_record(corpus, part, before, total, collect_label, out, error));
        before += (size_t)part->bytes;
    }
    if (!out->count)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": no record has a text, so that there are no labels to learn",
                       zr_corpus_name(corpus));
    if (out->count < 2)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\": all records have the label \"%s\": at least two labels can be told "
                       "apart",
                       zr_corpus_name(corpus), zr_labels_name(out, 0));
    return zr_labels_sort(out, error);
}
