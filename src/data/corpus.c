// Opens a corpus: arguments, files, parts, streams. corpus_read.c turns it into tokens.
#include "base/alloc.h"
#include "data/corpus_internal.h"
#include "data/text.h"
#include "data/unpack.h"

#include <math.h>
#include <string.h>

enum { CHECKED_AT_ONCE = 16 << 20 }; // bytes of text between two signs of life

static zero_status add_part(zr_corpus *corpus, zr_data_kind kind, int stream, const char *name,
                            zr_part **out, zero_error *error)
{
    zr_part *parts = zr_list_grow(corpus->parts, corpus->part_count, &corpus->part_capacity,
                                  sizeof *parts, error);
    if (!parts)
        return ZERO_ERR_MEMORY;
    corpus->parts = parts;
    *out = &corpus->parts[corpus->part_count++];
    **out = (zr_part){.kind = kind, .stream = stream, .name = name};
    return ZERO_OK;
}

typedef struct file { // one file of one argument
    const char *path;
    const zr_data_source *source;
    zr_data_kind kind;
    int stream;
} file;

// Returns how many files from files[0] on are read as one: consecutive text files of one stream.
static int count_joined_texts(const file *files, int count)
{
    int together = 1;
    while (together < count && files[together].kind == ZR_DATA_TEXT &&
           files[together].stream == files->stream)
        together++;
    return together;
}

// Checks that the whole file is text, before anything is tokenised.
static zero_status check_text(const zr_corpus *corpus, const char *path, const zr_mapped_file *text,
                              zero_error *error)
{
    ZERO_TRY(zr_text_check_name(path, error));
    ZERO_TRY(zr_text_check_kind(path, "text", text->data, text->length, error));
    for (size_t at = 0; at < text->length;) {
        size_t from = at;
        ZERO_TRY(zr_text_check_bytes(path, text->data, text->length, CHECKED_AT_ONCE, &at, error));
        zr_file_release(text, from, at);
        zr_corpus_beat(corpus, path, at, text->length);
    }
    return ZERO_OK;
}

// Looks into a text file. If its argument begins with "text:", its bytes are not checked.
static zero_status open_text(const zr_corpus *corpus, zr_part *part, int i, zero_error *error)
{
    zr_mapped_file text;
    ZERO_TRY(zr_text_map(part->paths[i], &corpus->options.watch, &text, error));
    zero_status status =
        part->as_is[i] ? ZERO_OK : check_text(corpus, part->paths[i], &text, error);
    part->bytes += (int64_t)text.length;
    part->ends[i] = (size_t)part->bytes;
    zr_file_unmap(&text);
    return status;
}

static zero_status open_records(const zr_corpus *corpus, zr_part *part, zero_error *error)
{
    ZERO_TRY(zr_text_map_as(part->name, "JSON", &corpus->options.watch, &part->records, error));
    zr_records records;
    part->bytes = (int64_t)part->records.length;
    // A Parquet file has a footer, which says whether it can be read at all.
    ZERO_TRY(
        zr_records_open(part->name, part->records.data, part->records.length, &records, error));
    bool parquet = records.rows != NULL;
    zr_records_close(&records);
    if (parquet)
        return ZERO_OK;
    return zr_text_check_kind(part->name, "JSON", part->records.data, part->records.length, error);
}

zero_status zr_part_open(const zr_corpus *corpus, zr_part *part, zero_error *error)
{
    if (!part->unopened)
        return ZERO_OK;
    part->unopened = false;
    part->bytes = 0;
    if (part->kind == ZR_DATA_JSONL)
        return open_records(corpus, part, error);
    for (int i = 0; i < part->files; i++)
        ZERO_TRY(open_text(corpus, part, i, error));
    return ZERO_OK;
}

// Names the files of a part that has text, and opens them unless another rank does.
static zero_status add_files(const zr_corpus *corpus, zr_part *part, const file *files, int count,
                             zero_error *error)
{
    part->paths = zr_alloc((size_t)count * sizeof *part->paths, error);
    part->ends = part->paths ? zr_alloc((size_t)count * sizeof *part->ends, error) : NULL;
    part->as_is = part->ends ? zr_alloc((size_t)count * sizeof *part->as_is, error) : NULL;
    if (!part->as_is)
        return ZERO_ERR_MEMORY;
    bool packed = false;
    part->unopened = true;
    part->files = count;
    for (int i = 0; i < count; i++) {
        part->paths[i] = files[i].path;
        part->as_is[i] = files[i].source->named;
        packed = packed || zr_is_packed(files[i].path);
    }
    return packed && corpus->options.follows ? ZERO_OK : zr_part_open(corpus, part, error);
}

static zero_status open_tokens(zr_part *part, const file *file, zero_error *error)
{
    if (zr_token_path_ends(file->path, ".gz") || zr_token_path_ends(file->path, ".zst"))
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" is compressed by its name, and token files are mapped as they are: "
                       "unpack it first",
                       file->path);
    ZERO_TRY(zr_token_file_open(file->path, file->source->format, &part->tokens, error));
    if (!part->tokens.count)
        return zr_fail(error, ZERO_ERR_DATA, "\"%s\" holds no token", file->path);
    part->bytes = (int64_t)part->tokens.ids.length;
    return ZERO_OK;
}

// Opens the part that begins with files[0]; *used is how many files are in it.
static zero_status open_part(zr_corpus *corpus, const file *files, int count, int *used,
                             zero_error *error)
{
    zr_part *part;
    ZERO_TRY(add_part(corpus, files->kind, files->stream, files->path, &part, error));
    if ((corpus->options.preferences || corpus->options.classifies) && files->kind != ZR_DATA_JSONL)
        return zr_fail(error, ZERO_ERR_DATA,
                       "\"%s\" is %s, and %s are records, of JSON or Parquet (jsonl:PATH "
                       "is read as those under any name)",
                       files->path, files->kind == ZR_DATA_TEXT ? "text" : "a file of tokens",
                       corpus->options.classifies ? "texts with labels" : "preferences");
    *used = files->kind == ZR_DATA_TEXT ? count_joined_texts(files, count) : 1;
    return files->kind == ZR_DATA_TOKENS ? open_tokens(part, files, error)
                                         : add_files(corpus, part, files, *used, error);
}

static zero_status open_parts(zr_corpus *corpus, zero_error *error)
{
    int count = 0, at = 0;
    for (int i = 0; i < corpus->source_count; i++)
        count += corpus->sources[i].path_count;
    file *files = zr_alloc((size_t)count * sizeof *files, error);
    if (!files)
        return ZERO_ERR_MEMORY;
    for (int i = 0; i < corpus->source_count; i++) {
        const zr_data_source *source = &corpus->sources[i];
        for (int p = 0; p < source->path_count; p++)
            files[at++] = (file){.path = source->paths[p],
                                 .source = source,
                                 .kind = zr_data_source_kind_of(source, source->paths[p]),
                                 .stream = corpus->stream_count > 1 ? i : 0};
    }
    zero_status status = ZERO_OK;
    for (int i = 0, used = 0; i < count && status == ZERO_OK; i += used)
        status = open_part(corpus, files + i, count - i, &used, error);
    zr_free(files);
    return status;
}

static zero_status check_weights(zr_corpus *corpus, zero_error *error)
{
    const zr_data_source *with = NULL, *without = NULL;
    double sum = 0;
    for (int i = 0; i < corpus->source_count; i++) {
        *(corpus->sources[i].weight > 0 ? &with : &without) = &corpus->sources[i];
        sum += corpus->sources[i].weight;
    }
    if (!isfinite(sum))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "the weights of the data, up to that of \"%s\", are so large that their sum "
                       "is not finite: only their ratios count",
                       with->written);
    if (with && without)
        return zr_fail(
            error, ZERO_ERR_USAGE,
            "\"%s\" has a weight and \"%s\" has none: either all data have one or none has",
            with->written, without->written);
    corpus->stream_count = with ? corpus->source_count : 1;
    return ZERO_OK;
}

static zero_status parse_map(const zr_corpus_options *options, zr_record_map *out,
                             zero_error *error)
{
    ZERO_TRY(zr_record_map_parse(options->field, out, error));
    if (options->classifies && !zr_record_map_labels(out))
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--map %s: --task classify reads text=FIELD and label=FIELD alone",
                       options->field);
    if (!out->preferring || options->preferences || options->classifies)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_USAGE,
                   "--map %s: it names answers to compare, or labels, which only --preference and "
                   "--task classify read",
                   options->field);
}

static zero_status open_all(zr_corpus *corpus, zero_error *error)
{
    const zr_corpus_options *options = &corpus->options;
    if (options->count < 1)
        return zr_fail(error, ZERO_ERR_USAGE, "no data file given");
    corpus->sources = zr_alloc((size_t)options->count * sizeof *corpus->sources, error);
    if (!corpus->sources)
        return ZERO_ERR_MEMORY;
    for (; corpus->source_count < options->count; corpus->source_count++)
        ZERO_TRY(zr_data_source_parse(options->arguments[corpus->source_count],
                                      &corpus->sources[corpus->source_count], error));
    ZERO_TRY(check_weights(corpus, error));
    if (options->field)
        ZERO_TRY(parse_map(options, &corpus->map, error));
    return open_parts(corpus, error);
}

zero_status zr_corpus_open(const zr_corpus_options *options, zr_corpus **out, zero_error *error)
{
    zr_corpus *corpus = zr_alloc(sizeof *corpus, error);
    *out = NULL;
    if (!corpus)
        return ZERO_ERR_MEMORY;
    corpus->options = *options;
    zero_status status = open_all(corpus, error);
    if (status == ZERO_OK)
        *out = corpus;
    else
        zr_corpus_close(corpus);
    return status;
}

void zr_corpus_close(zr_corpus *corpus)
{
    if (!corpus)
        return;
    for (int i = 0; i < corpus->part_count; i++) {
        zr_file_unmap(&corpus->parts[i].records);
        zr_token_file_close(&corpus->parts[i].tokens);
        zr_free(corpus->parts[i].paths);
        zr_free(corpus->parts[i].ends);
        zr_free(corpus->parts[i].as_is);
        zr_free(corpus->parts[i].ids);
        zr_buffer_free(&corpus->parts[i].records_at);
    }
    zr_spill_destroy(corpus->spill);
    for (int i = 0; i < corpus->source_count; i++)
        zr_data_source_free(&corpus->sources[i]);
    zr_record_map_free(&corpus->map);
    zr_free(corpus->parts);
    zr_free(corpus->sources);
    zr_free(corpus);
}

int64_t zr_corpus_bytes(const zr_corpus *corpus)
{
    int64_t bytes = 0;
    for (int i = 0; i < corpus->part_count; i++)
        bytes += corpus->parts[i].bytes;
    return bytes;
}

bool zr_corpus_has_text(const zr_corpus *corpus)
{
    for (int i = 0; i < corpus->part_count; i++)
        if (corpus->parts[i].kind != ZR_DATA_TOKENS)
            return true;
    return false;
}

const char *zr_corpus_name(const zr_corpus *corpus) { return corpus->sources[0].paths[0]; }

int64_t zr_corpus_empty(const zr_corpus *corpus)
{
    int64_t empty = 0;
    for (int i = 0; i < corpus->part_count; i++)
        empty += corpus->parts[i].facts.empty;
    return empty;
}

int64_t zr_corpus_plain(const zr_corpus *corpus)
{
    int64_t plain = 0;
    for (int i = 0; i < corpus->part_count; i++)
        plain += corpus->parts[i].facts.plain;
    return plain;
}

int64_t zr_corpus_shortened(const zr_corpus *corpus)
{
    int64_t shortened = 0;
    for (int i = 0; i < corpus->part_count; i++)
        shortened += corpus->parts[i].facts.shortened;
    return shortened;
}

void zr_corpus_beat(const zr_corpus *corpus, const char *name, size_t done, size_t total)
{
    zr_watch_beat(&corpus->options.watch, name, done, total);
}
