#include "options.h"

#include "option_rows.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct output {
    cli_option_id id;
    unsigned commands;
    const char *what;    // is written there
    const char *endings; // that fit, the usual one first; NULL: it is a directory
    // Whether this row counts; NULL: always.
    bool (*counts)(const cli_arguments *arguments);
} output;

// As zero_convert decides it.
static bool makes_gguf(const cli_arguments *a)
{
    const char *ending = a->given[OPT_TO] ? strrchr(a->text[OPT_TO], '.') : NULL;
    return a->given[OPT_FORMAT] ? !strcmp(a->text[OPT_FORMAT], "gguf")
                                : ending && !strcmp(ending, ".gguf");
}

static bool makes_directory(const cli_arguments *a) { return !makes_gguf(a); }

static const output outputs[] = {
    {OPT_OUT, TRAIN, "a directory with a run", NULL},
    {OPT_OUT, TUNE, "a directory with what was found", NULL},
    {OPT_OUT, TOKENIZER, "a directory with a tokenizer", NULL},
    {OPT_OUT, TOKENIZE, "a token file", ".bin"},
    {OPT_OUT, COMPARE, "Markdown", ".md .markdown .txt"},
    {OPT_TO, CONVERT, "a directory", NULL, makes_directory},
    {OPT_TO, CONVERT, "a GGUF file", ".gguf", makes_gguf},
    {OPT_PROFILE, TRAIN, "a trace in JSON", ".json .jsonl .txt"},
    {OPT_DRAW, PLAN, "an SVG", ".svg"},
    {OPT_WRITE_MACHINE, DOCTOR, "JSON", ".json .txt"},
};

// Extensions that stand for a format.
static const char known[] =
    " .7z .arrow .bin .bz2 .ckpt .csv .doc .docx .eps .gguf .ggml .gif .gz .h5 .htm .html .jpeg "
    ".jpg .json .jsonl .log .markdown .md .mlmodel .msgpack .npy .npz .onnx .parquet .pb .pdf "
    ".pickle "
    ".pkl .png .proto .ps .pt .pth .safetensors .svg .tar .tex .tflite .tgz .toml .tsv .txt .webp "
    ".xls .xlsx .xml .xz .yaml .yml .zip .zst ";

// Returns the extension of the last name of the path, trailing slashes left aside; its length is 0
// where there is none.
static const char *find_extension(const char *path, size_t *length)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (size_t at = end; at > 1 && path[at - 1] != '/'; at--)
        if (path[at - 1] == '.' && path[at - 2] != '/' && path[at - 2] != '.') {
            *length = end - at + 1;
            return path + at - 1;
        }
    *length = 0;
    return path + end;
}

// Returns whether the list has the extension as a word, whatever its case.
static bool list_has_extension(const char *list, const char *extension, size_t length)
{
    for (const char *word = list + strspn(list, " "); *word; word += strspn(word, " ")) {
        size_t width = strcspn(word, " ");
        if (width == length && !strncasecmp(word, extension, length))
            return true;
        word += width;
    }
    return false;
}

static bool path_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

static zero_status check_output_name(const output *row, const char *path, zero_error *error)
{
    size_t length;
    const char *extension = find_extension(path, &length), *endings = row->endings;
    if (!length || !list_has_extension(known, extension, length) ||
        (endings ? list_has_extension(endings, extension, length) : path_exists(path)))
        return ZERO_OK;
    snprintf(
        error->message, sizeof error->message,
        "%s %.400s: what is written there is %s, not a %.*s file: name it %.*s%.*s, for example",
        cli_option_row(row->id)->name, path, row->what, (int)length, extension,
        (int)(extension - path), path, endings ? (int)strcspn(endings, " ") : 0,
        endings ? endings : "");
    return error->status = ZERO_ERR_USAGE;
}

zero_status cli_check_output_names(const cli_arguments *arguments, zero_error *error)
{
    unsigned command = 1u << (arguments->command - cli_commands);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const output *row = &outputs[i];
        if (!(row->commands & command) || !arguments->given[row->id] ||
            (row->counts && !row->counts(arguments)))
            continue;
        zero_status status = check_output_name(row, arguments->text[row->id], error);
        if (status != ZERO_OK)
            return status;
    }
    return ZERO_OK;
}
