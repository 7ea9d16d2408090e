// The token streams and the windows cut from them.
//
//   n tokens; windows of T+1 (T inputs and, shifted by one, T targets); neighbours share one token:
//
//     [ phase ][ window 0 | window 1 | ... | window W-1 ][ tail ]        phase + W*T + 1 <= n
//
//   W     = max(1, floor(n/T) - 1)           the same in every epoch; n >= T+1
//   phase < min(T, n - W*T)                  drawn anew for each epoch, so that the borders move
//
// Hence no window runs past the end, and an epoch takes every token as an input once, except for at
// most 2T-1 of them before and after the windows (n >= 2T). Sample s is window permute(s mod W) of
// epoch floor(s/W): a pure function of (seed, stream, s).
#include "base/alloc.h"
#include "base/random.h"
#include "data/dataset.h"

#include <assert.h>
#include <string.h>
#include <zero/preference.h>

zero_status zr_stream_add(zr_stream *stream, const zr_token_span *span, zero_error *error)
{
    if (!span->count)
        return ZERO_OK;
    zr_token_span *spans =
        zr_list_grow(stream->spans, stream->span_count, &stream->capacity, sizeof *spans, error);
    if (!spans)
        return ZERO_ERR_MEMORY;
    stream->spans = spans;
    stream->spans[stream->span_count] = *span;
    stream->spans[stream->span_count++].first = stream->count;
    stream->count += span->count;
    return ZERO_OK;
}

void zr_token_span_read(const zr_token_span *span, int64_t first, int64_t count, int32_t *out)
{
    if (span->tokens)
        memcpy(out, span->tokens + first, (size_t)count * sizeof *out);
    else if (span->spill)
        zr_spill_read(span->spill, (span->at + first) * (int64_t)sizeof *out, out,
                      (size_t)count * sizeof *out);
    else
        zr_token_file_read(span->file, span->at + first, count, out);
}

int64_t zr_token_span_find(const zr_token_span *span, int64_t first, int64_t end, bool target)
{
    int32_t ids[512]; // few, because what is looked for is often the first
    for (int64_t at = first, count; at < end; at += count) {
        count = ZR_MIN(end - at, (int64_t)ZR_COUNT(ids));
        zr_token_span_read(span, at, count, ids);
        for (int64_t i = 0; i < count; i++)
            if ((ids[i] >= 0) == target)
                return at + i;
    }
    return end;
}

// Finds the span that has token `at`.
static const zr_token_span *span_at(const zr_stream *stream, int64_t at)
{
    int low = 0, high = stream->span_count - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (stream->spans[middle].first <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return &stream->spans[low];
}

void zr_stream_read(const zr_stream *stream, int64_t first, int64_t count, int32_t *out)
{
    assert(first >= 0 && first + count <= stream->count);
    const zr_token_span *span = count ? span_at(stream, first) : NULL;
    for (int64_t done = 0, run; done < count; done += run, span++) {
        int64_t at = first + done - span->first;
        run = ZR_MIN(count - done, span->count - at);
        zr_token_span_read(span, at, run, out + done);
    }
}

void zr_stream_read_example(const zr_stream *stream, int64_t number, int64_t from, int64_t count,
                            int32_t *out)
{
    int64_t shared = stream->marks ? stream->marks[number].shared - from : 0;
    if (shared > 0) {
        shared = ZR_MIN(shared, count);
        zr_stream_read(stream, stream->examples[number - 1].first + from, shared, out);
        zr_stream_read_example(stream, number, from + shared, count - shared, out + shared);
    } else if (count > 0) {
        zr_stream_read(stream, stream->examples[number].first + from, count, out);
    }
}

zero_status zr_stream_add_example(zr_stream *stream, int64_t first, int64_t count,
                                  zero_error *error)
{
    zr_example *examples = zr_list_grow(stream->examples, stream->example_count,
                                        &stream->example_capacity, sizeof *examples, error);
    if (!examples)
        return ZERO_ERR_MEMORY;
    stream->examples = examples;
    stream->examples[stream->example_count++] = (zr_example){first, count};
    return ZERO_OK;
}

zero_status zr_stream_pack(zr_stream *stream, int64_t seq, zero_error *error)
{
    return zr_packing_make(stream->examples, stream->example_count, stream->marks ? 2 : 1, seq,
                           &stream->packing, error);
}

int64_t zr_stream_windows(const zr_stream *stream, int64_t seq)
{
    if (stream->examples)
        return stream->packing.windows;
    return ZR_MAX(stream->count / seq - 1, (int64_t)1);
}

int64_t zr_stream_eval_windows(const zr_stream *stream, int64_t seq)
{
    if (stream->examples)
        return stream->packing.windows;
    return stream->count ? (stream->count - 1) / seq : 0;
}

zero_status zr_dataset_check_files(const zr_dataset *dataset, zero_error *error)
{
    const zr_token_file *last = NULL;
    for (int s = 0; s < dataset->stream_count; s++)
        for (int i = 0; i < dataset->streams[s].span_count; i++) {
            const zr_token_span *span = &dataset->streams[s].spans[i];
            if (span->spill)
                ZERO_TRY(zr_spill_check(span->spill, error));
            if (span->tokens || span->spill || span->file == last)
                continue;
            last = span->file;
            ZERO_TRY(zr_token_file_check_length(last, error));
        }
    return ZERO_OK;
}

void zr_dataset_free(zr_dataset *dataset)
{
    for (int i = 0; i < dataset->stream_count; i++) {
        zr_free(dataset->streams[i].spans);
        zr_free(dataset->streams[i].examples);
        zr_free(dataset->streams[i].marks);
        zr_free(dataset->streams[i].references);
        zr_packing_free(&dataset->streams[i].packing);
    }
    zr_free(dataset->streams);
    zr_free(dataset->weights);
    *dataset = (zr_dataset){0};
}

static int64_t sample_start(const zr_dataset *dataset, int number, int64_t sample)
{
    // Keeps these random numbers apart from those of weights and dropout.
    static const char purpose[] = "order of samples";
    const zr_stream *stream = &dataset->streams[number];
    int64_t windows = zr_stream_windows(stream, dataset->seq);
    int64_t epoch = sample / windows;
    int64_t step = stream->examples ? 1 : dataset->seq,
            phases =
                stream->examples ? 1 : ZR_MIN(dataset->seq, stream->count - windows * dataset->seq);
    zr_philox random = zr_philox4x32(zr_hash_bytes(purpose, sizeof purpose - 1, dataset->seed),
                                     (uint64_t)epoch, (uint64_t)number);
    uint64_t order = (uint64_t)random.v[1] << 32 | random.v[0];
    int64_t phase = (int64_t)(((uint64_t)random.v[3] << 32 | random.v[2]) % (uint64_t)phases);
    return phase +
           (int64_t)zr_permute(order, (uint64_t)(sample % windows), (uint64_t)windows) * step;
}

int64_t zr_dataset_epoch(const zr_dataset *dataset)
{
    int64_t tokens = 0;
    for (int i = 0; i < dataset->stream_count; i++)
        tokens += dataset->streams[i].examples ? dataset->streams[i].packing.windows * dataset->seq
                                               : dataset->streams[i].count;
    return tokens;
}

// Returns whether a packed window has a target.
static bool has_target(const zr_stream *stream, int64_t window, int64_t seq)
{
    const zr_packing *packing = &stream->packing;
    for (int64_t i = packing->begins[window]; i < packing->begins[window + 1]; i++) {
        const zr_example *example = &stream->examples[packing->numbers[i]];
        int64_t rows = zr_example_rows(example, seq);
        for (int64_t done = 0, count; done < rows; done += count) {
            int32_t ids[256];
            count = ZR_MIN(rows - done, (int64_t)ZR_COUNT(ids));
            zr_stream_read(stream, example->first + 1 + done, count, ids);
            for (int64_t k = 0; k < count; k++)
                if (ids[k] >= 0)
                    return true;
        }
    }
    return false;
}

static int64_t bare_packed_windows(const zr_stream *stream, int64_t seq)
{
    int64_t bare = 0;
    if (stream->marks) // every answer has a row
        return 0;
    for (int64_t w = 0; w < stream->packing.windows; w++)
        bare += !has_target(stream, w, seq);
    return bare;
}

int64_t zr_stream_bare_windows(const zr_stream *stream, int64_t seq)
{
    if (stream->examples)
        return bare_packed_windows(stream, seq);
    int64_t windows = zr_stream_eval_windows(stream, seq), with = 0, next = 0; // first not counted
    for (int s = 0; s < stream->span_count; s++) {
        const zr_token_span *span = &stream->spans[s];
        for (;;) { // window w has the targets [w * seq + 1, (w + 1) * seq]
            int64_t at = zr_token_span_find(span, ZR_MAX(next * seq + 1 - span->first, 0),
                                            span->count, true);
            int64_t window = (span->first + at - 1) / seq;
            if (at >= span->count || window >= windows)
                break;
            with++;
            next = window + 1;
        }
    }
    return windows - with;
}

zr_token_window zr_dataset_train_window(const zr_dataset *dataset, int64_t sample)
{
    zr_token_window window = {.stream = 0, .first = sample};
    if (dataset->stream_count > 1)
        window.stream =
            zr_mixture_source(dataset->weights, dataset->stream_count, sample, &window.first);
    window.first = sample_start(dataset, window.stream, window.first);
    return window;
}

int64_t zr_dataset_eval_windows(const zr_dataset *dataset)
{
    int64_t windows = 0;
    for (int i = 0; i < dataset->stream_count; i++)
        windows += zr_stream_eval_windows(&dataset->streams[i], dataset->seq);
    return windows;
}

zr_token_window zr_dataset_eval_window(const zr_dataset *dataset, int64_t window)
{
    for (int i = 0; i < dataset->stream_count; i++) {
        const zr_stream *stream = &dataset->streams[i];
        int64_t windows = zr_stream_eval_windows(stream, dataset->seq);
        if (window < windows)
            return (zr_token_window){.stream = i,
                                     .first = stream->examples ? window : window * dataset->seq};
        window -= windows;
    }
    assert(!"a window behind the last one");
    return (zr_token_window){0};
}

// Takes the marks of what is no target out of rows, and numbers them.
static void finish_rows(int64_t rows, zr_rows out)
{
    for (int64_t i = 0; i < rows; i++) {
        out.tokens[i] = out.tokens[i] < 0 ? ~out.tokens[i] : out.tokens[i];
        out.targets[i] = out.targets[i] < 0 ? ZR_MASKED : out.targets[i];
        if (out.positions)
            out.positions[i] = (int32_t)i;
    }
}

// Copies rows [0, rows) from a stream: tokens from `first` on, and as targets those after them.
// out: the first of these rows.
static void copy_rows(const zr_stream *stream, int64_t first, int64_t rows, zr_rows out)
{
    int32_t *tokens = out.tokens, *targets = out.targets;
    if (rows == 0)
        return;
    zr_stream_read(stream, first, rows, tokens);
    memcpy(targets, tokens + 1, (size_t)(rows - 1) * sizeof *targets);
    zr_stream_read(stream, first + rows, 1, targets + rows - 1);
    finish_rows(rows, out);
}

zr_rows zr_rows_from(zr_rows rows, int64_t row)
{
    return (zr_rows){.tokens = rows.tokens + row,
                     .targets = rows.targets + row,
                     .positions = rows.positions ? rows.positions + row : NULL,
                     .roles = rows.roles ? rows.roles + row : NULL,
                     .reference = rows.reference ? rows.reference + row : NULL,
                     .losses = rows.losses ? rows.losses + row : NULL};
}

static void clear_rows(int64_t rows, zr_rows out)
{
    for (int64_t i = 0; i < rows; i++) {
        out.tokens[i] = 0;
        out.targets[i] = ZR_MASKED;
        if (out.positions)
            out.positions[i] = (int32_t)i;
        if (out.roles) {
            out.roles[i] = ZERO_ROLE_none;
            out.reference[i] = 0;
        }
    }
}

// Copies rows [0, rows) of an example.
static void copy_example(const zr_dataset *dataset, const zr_stream *stream, int64_t number,
                         int64_t rows, zr_rows out)
{
    bool roles = out.roles && stream->marks;
    int64_t role = stream->marks ? stream->marks[number].role : ZERO_ROLE_none;
    float reference = stream->references ? stream->references[number] : 0;
    bool asked = dataset->prompt_loss && role == ZERO_ROLE_chosen;
    if (rows == 0)
        return;
    zr_stream_read_example(stream, number, 0, rows, out.tokens);
    memcpy(out.targets, out.tokens + 1, (size_t)(rows - 1) * sizeof *out.targets);
    zr_stream_read_example(stream, number, rows, 1, out.targets + rows - 1);
    for (int64_t i = 0; roles && i < rows; i++) {
        bool prompt = out.targets[i] < 0;
        out.roles[i] = (int32_t)(!prompt ? role : asked ? ZERO_ROLE_prompt : ZERO_ROLE_none);
        out.reference[i] = reference;
        out.targets[i] = prompt && asked ? ~out.targets[i] : out.targets[i];
    }
    finish_rows(rows, out);
}

// Copies the T rows of a window.
static void copy_window(const zr_dataset *dataset, zr_token_window window, zr_rows out)
{
    const zr_stream *stream = &dataset->streams[window.stream];
    const zr_packing *packing = &stream->packing;
    int64_t done = 0;
    if (!stream->examples) {
        copy_rows(stream, window.first, dataset->seq, out);
        return;
    }
    for (int64_t i = packing->begins[window.first]; i < packing->begins[window.first + 1]; i++) {
        const zr_example *example = &stream->examples[packing->numbers[i]];
        int64_t rows = zr_example_rows(example, dataset->seq);
        copy_example(dataset, stream, packing->numbers[i], rows, zr_rows_from(out, done));
        done += rows;
    }
    clear_rows(dataset->seq - done, zr_rows_from(out, done));
}

int64_t zr_dataset_window_rows(const zr_dataset *dataset, zr_token_window window)
{
    const zr_stream *stream = &dataset->streams[window.stream];
    const zr_packing *packing = &stream->packing;
    int64_t rows = 0;
    if (!stream->examples)
        return dataset->seq;
    for (int64_t i = packing->begins[window.first]; i < packing->begins[window.first + 1]; i++)
        rows += zr_example_rows(&stream->examples[packing->numbers[i]], dataset->seq);
    return rows;
}

int64_t zr_dataset_examples(const zr_dataset *dataset)
{
    int64_t count = 0;
    for (int s = 0; s < dataset->stream_count; s++)
        count += dataset->streams[s].example_count;
    return count;
}

int64_t zr_dataset_example_of(const zr_dataset *dataset, int64_t eval_window, int64_t row)
{
    const zr_token_window window = zr_dataset_eval_window(dataset, eval_window);
    const zr_stream *stream = &dataset->streams[window.stream];
    const zr_packing *packing = &stream->packing;
    int64_t before = 0;
    for (int s = 0; s < window.stream; s++)
        before += dataset->streams[s].example_count;
    for (int64_t i = packing->begins[window.first]; i < packing->begins[window.first + 1]; i++) {
        row -= zr_example_rows(&stream->examples[packing->numbers[i]], dataset->seq);
        if (row < 0)
            return before + packing->numbers[i];
    }
    return -1;
}

void zr_dataset_train_batch(const zr_dataset *dataset, int64_t first_sample, int64_t batch,
                            zr_rows out)
{
    for (int64_t i = 0; i < batch; i++)
        copy_window(dataset, zr_dataset_train_window(dataset, first_sample + i),
                    zr_rows_from(out, i * dataset->seq));
}

void zr_dataset_eval_batch(const zr_dataset *dataset, int64_t first_window, int64_t batch,
                           zr_rows out)
{
    for (int64_t i = 0; i < batch; i++)
        copy_window(dataset, zr_dataset_eval_window(dataset, first_window + i),
                    zr_rows_from(out, i * dataset->seq));
}

enum { BLOCK = 1 << 20, AT_ONCE = 1 << 13 }; // in tokens

static uint64_t hash_block(const zr_stream *stream, int64_t block, uint64_t hash)
{
    int32_t ids[AT_ONCE];
    int64_t end = ZR_MIN((block + 1) * BLOCK, stream->count);
    for (int64_t at = block * BLOCK, count; at < end; at += count) {
        count = ZR_MIN(end - at, (int64_t)AT_ONCE);
        zr_stream_read(stream, at, count, ids);
        hash = zr_hash_bytes(ids, (size_t)count * sizeof *ids, hash);
    }
    return hash;
}

uint64_t zr_dataset_hash(const zr_dataset *dataset, int share, int shares, const zr_watch *watch)
{
    uint64_t sum = share == 0 ? (uint64_t)dataset->stream_count : 0;
    int64_t number = 0; // of the block, over all streams
    for (int s = 0; s < dataset->stream_count; s++) {
        const zr_stream *stream = &dataset->streams[s];
        uint64_t facts[3] = {(uint64_t)s, (uint64_t)stream->count};
        memcpy(&facts[2], &dataset->weights[s], sizeof facts[2]);
        sum += share == 0 ? zr_hash_bytes(facts, sizeof facts, 0) : 0;
        if (share == 0 && stream->examples)
            sum += zr_hash_bytes(stream->examples,
                                 (size_t)stream->example_count * sizeof *stream->examples, 2);
        if (share == 0 && stream->marks)
            sum += zr_hash_bytes(stream->marks,
                                 (size_t)stream->example_count * sizeof *stream->marks, 3);
        for (int64_t b = 0; b * BLOCK < stream->count; b++) {
            const uint64_t place[2] = {(uint64_t)s, (uint64_t)b};
            if (number++ % shares == share)
                sum += hash_block(stream, b, zr_hash_bytes(place, sizeof place, 1));
            zr_watch_beat(watch, stream->name, (size_t)ZR_MIN((b + 1) * BLOCK, stream->count),
                          (size_t)stream->count);
        }
    }
    return sum;
}

int64_t zr_count_targets(const int32_t *targets, int64_t count)
{
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++)
        counted += targets[i] >= 0;
    return counted;
}
