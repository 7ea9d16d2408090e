// Loads a tokenizer from the files of a directory: tokenizer.json, or GPT-2's vocab.json and
// merges.txt (gpt2_files.c), or SentencePiece's tokenizer.model (sentencepiece.c), and next to them
// tokenizer_config.json and special_tokens_map.json, which name the token that ends a text. The
// files that were read are kept, so that an exported model has the same files.
#include "base/file.h"
#include "base/random.h"
#include "tokenizer/sentencepiece.h"
#include "tokenizer/spm_normalize.h"
#include "tokenizer/unigram.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GPT2_CLASS "GPT2Tokenizer" // or with "Fast" at its end
#define SENTENCEPIECE "tokenizer.model"
#define FILE_LIMIT ((size_t)1 << 28) // bytes; the largest published files have 3e7

typedef struct source {    // the files of a tokenizer
    const char *directory; // NULL for a single file
    const char *path;      // as given
    zr_tokenizer_file files[ZR_COUNT(((zr_tokenizer *)0)->files)];
    int count;
    bool two_files; // vocab.json and merges.txt determine ids
} source;

// Returns the name by which a single file is kept.
static const char *name_of_single_file(const char *path)
{
    size_t length = strlen(path), width = strlen(".model");
    bool is_model = length > width && !strcmp(path + length - width, ".model");
    return is_model ? SENTENCEPIECE : "tokenizer.json";
}

static char *path_of_source_file(const source *from, const char *name, zero_error *error)
{
    if (from->directory)
        return zr_sprintf(error, "%s/%s", from->directory, name);
    const char *slash = strrchr(from->path, '/');
    if (strcmp(name, name_of_single_file(from->path)) == 0)
        return zr_strdup(from->path, error);
    return zr_sprintf(error, "%.*s%s", slash ? (int)(slash - from->path + 1) : 0, from->path, name);
}

// Reads the file and keeps it; *out is NULL if there is no such file.
static zero_status read_and_keep_file(source *from, const char *name, const zr_tokenizer_file **out,
                                      zero_error *error)
{
    char *path = path_of_source_file(from, name, error);
    zr_tokenizer_file *file = &from->files[from->count];
    zero_status status = path ? ZERO_OK : ZERO_ERR_MEMORY;
    *out = NULL;
    if (path && zr_path_exists(path)) {
        *file = (zr_tokenizer_file){.name = name};
        status = zr_file_read(path, FILE_LIMIT, &file->data, &file->length, error);
        if (status == ZERO_OK) {
            from->count++;
            *out = file;
        }
    }
    zr_free(path);
    return status;
}

static zero_status parse_kept_json(const source *from, const zr_tokenizer_file *file, json_t **out,
                                   zero_error *error)
{
    char *path = path_of_source_file(from, file->name, error);
    zero_status status =
        path ? zr_json_parse(file->data, file->length, path, out, error) : ZERO_ERR_MEMORY;
    zr_free(path);
    return status;
}

json_t **zr_token_settings_slot(zr_token_settings *settings, const char *file)
{
    return !strcmp(file, "tokenizer_config.json")     ? &settings->config
           : !strcmp(file, "special_tokens_map.json") ? &settings->special
           : !strcmp(file, "added_tokens.json")       ? &settings->added
                                                      : NULL;
}

void zr_token_settings_free(zr_token_settings *settings)
{
    json_decref(settings->config);
    json_decref(settings->special);
    json_decref(settings->added);
}

const json_t *zr_token_setting(const zr_token_settings *settings, const char *key)
{
    const json_t *older = json_object_get(settings->config, "added_tokens_decoder")
                              ? NULL
                              : json_object_get(settings->special, key);
    return older ? older : json_object_get(settings->config, key);
}

const char *zr_token_content(const json_t *named)
{
    return json_string_value(json_is_object(named) ? json_object_get(named, "content") : named);
}

// Finds the token that ends a text: the one that the settings name, or else one with a usual name.
static zero_status find_end_token(const char *path, zr_tokenizer *tokenizer,
                                  const zr_token_settings *settings, zero_error *error)
{
    static const char *const usual[] = {"<|endoftext|>", "</s>", "<|end_of_text|>"};
    const json_t *named = zr_token_setting(settings, "eos_token");
    const char *end = zr_token_content(named);
    tokenizer->end = -1;
    if (end && *end && !zr_tokenizer_find(tokenizer, end, &tokenizer->end))
        return zr_fail(
            error, ZERO_ERR_DATA, "%s: the eos_token \"%.100s\" of %s is no token of it", path, end,
            named == json_object_get(settings->config, "eos_token") ? "tokenizer_config.json"
                                                                    : "special_tokens_map.json");
    for (int i = 0; i < ZR_COUNT(usual) && !named && tokenizer->end < 0; i++)
        zr_tokenizer_find(tokenizer, usual[i], &tokenizer->end);
    return ZERO_OK;
}

bool zr_token_class_is_llama(const zr_token_settings *settings)
{
    const char *class = json_string_value(json_object_get(settings->config, "tokenizer_class"));
    return class && (!strcmp(class, "LlamaTokenizer") || !strcmp(class, "LlamaTokenizerFast"));
}

// Applies the settings in the files next to the tokenizer. If they name no special tokens, GPT-2's
// only special token also begins a text.
static zero_status apply_settings(const char *path, zr_tokenizer *tokenizer,
                                  const zr_token_settings *settings, bool two_files,
                                  zero_error *error)
{
    const json_t *named = zr_token_setting(settings, "bos_token");
    const char *begin = zr_token_content(named);
    zr_bpe *bpe = tokenizer->bpe;
    ZERO_TRY(find_end_token(path, tokenizer, settings, error));
    if (!named && zr_token_class_is_llama(settings))
        begin = "<s>";
    if (!begin && !named && !zr_token_setting(settings, "eos_token")) {
        zr_tokenizer_find(tokenizer, ZR_GPT2_END, &tokenizer->begin);
        begin = two_files ? ZR_GPT2_END : NULL; // its class is known
    }
    if (begin)
        zr_tokenizer_find(tokenizer, begin, &tokenizer->begin);
    if (!json_is_true(json_object_get(settings->config, "add_bos_token")) || bpe->prefix_count ||
        !begin || tokenizer->begin < 0)
        return ZERO_OK;
    if (!bpe->prefix)
        bpe->prefix = zr_alloc(sizeof *bpe->prefix, error);
    if (!bpe->prefix)
        return ZERO_ERR_MEMORY;
    bpe->prefix[bpe->prefix_count++] = tokenizer->begin;
    return ZERO_OK;
}

static zero_status new_bpe(zr_bpe_loader *loader, const char *path, zero_error *error)
{
    *loader =
        (zr_bpe_loader){.path = path, .tokenizer = zr_alloc(sizeof *loader->tokenizer, error)};
    if (!loader->tokenizer)
        return ZERO_ERR_MEMORY;
    loader->tokenizer->ops = &zr_bpe_ops;
    loader->tokenizer->begin = loader->tokenizer->end = -1;
    loader->bpe = loader->tokenizer->bpe = zr_alloc(sizeof *loader->bpe, error);
    return loader->bpe ? ZERO_OK : ZERO_ERR_MEMORY;
}

static zero_status load_json(zr_bpe_loader *loader, const json_t *root, zero_error *error)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *added = json_object_get(root, "added_tokens");
    if (!strcmp(zr_json_type(model), "Unigram")) {
        ZERO_TRY(zr_unigram_load(loader, model, added, error));
    } else {
        ZERO_TRY(zr_bpe_load_vocabulary(loader, json_object_get(model, "vocab"), added, error));
        ZERO_TRY(zr_bpe_load_model(loader, model, error));
        ZERO_TRY(zr_bpe_load_merges(loader, json_object_get(model, "merges"), error));
    }
    ZERO_TRY(zr_spm_rules_load(loader, model, error));
    ZERO_TRY(zr_bpe_load_pipeline(loader, root, error));
    return zr_bpe_finish(loader, error);
}

static zero_status check_files_model(const char *path, const json_t *root, zero_error *error)
{
    const json_t *model = json_object_get(root, "model");
    const char *type = zr_json_type(model);
    if (!strcmp(type, "Unigram") && json_is_array(json_object_get(model, "vocab")))
        return ZERO_OK;
    if (!json_is_object(model) ||
        (!json_is_object(json_object_get(model, "vocab")) && !strcmp(type, "BPE")))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: no \"model\" with an object \"vocab\", as a tokenizer.json has", path);
    if (!strcmp(type, "Unigram"))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: no list \"vocab\" in the model, as a Unigram tokenizer.json has", path);
    if (strcmp(type, "BPE") && strcmp(type, "?")) // the oldest files have no type
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: %.100s tokenizer: not built; BPE and Unigram are", path, type);
    if (!json_is_object(json_object_get(model, "vocab")))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: no \"model\" with an object \"vocab\", as a tokenizer.json has", path);
    return ZERO_OK;
}

static zero_status load_from_json(const char *path, const json_t *root,
                                  const zr_token_settings *settings, zr_tokenizer **out,
                                  zero_error *error)
{
    ZERO_TRY(check_files_model(path, root, error));
    *out = NULL;
    if (strcmp(zr_json_type(json_object_get(root, "model")), "Unigram") != 0)
        ZERO_TRY(zr_plain_load(path, root, out, error));
    if (*out)
        return ZERO_OK;
    zr_bpe_loader loader;
    zero_status status = new_bpe(&loader, path, error);
    if (status == ZERO_OK)
        status = load_json(&loader, root, error);
    if (status == ZERO_OK)
        status = apply_settings(path, loader.tokenizer, settings, false, error);
    *out = loader.tokenizer;
    return status;
}

static zero_status load_from_two_files(source *from, const zr_tokenizer_file *vocab_file,
                                       const zr_tokenizer_file *merges,
                                       const zr_token_settings *settings, zr_tokenizer **out,
                                       zero_error *error)
{
    const char *class = json_string_value(json_object_get(settings->config, "tokenizer_class"));
    json_t *vocab = NULL;
    zr_bpe_loader loader;
    if (class && strncmp(class, GPT2_CLASS, sizeof GPT2_CLASS - 1) != 0)
        return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                       "%s: vocab.json and merges.txt of the class %.100s: not built; a "
                       "tokenizer.json says how its text is cut",
                       from->path, class);
    ZERO_TRY(parse_kept_json(from, vocab_file, &vocab, error));
    zero_status status = new_bpe(&loader, from->path, error);
    if (status == ZERO_OK)
        status = zr_gpt2_load(&loader, settings, vocab, merges->data, merges->length, error);
    if (status == ZERO_OK)
        status = apply_settings(from->path, loader.tokenizer, settings, true, error);
    json_decref(vocab);
    *out = loader.tokenizer;
    return status;
}

// Fails with the name of the tokenizer that a directory without these files has.
static zero_status fail_absent(const source *from, zero_error *error)
{
    static const struct {
        const char *file, *kind;
    } others[] = {
        {.file = "merges.txt", .kind = "merges without a vocab.json"},
        {.file = "vocab.json", .kind = "a vocabulary without a merges.txt"},
        {.file = "vocab.txt", .kind = "a WordPiece tokenizer: not built"},
    };
    for (int i = 0; i < ZR_COUNT(others); i++) {
        char *path = path_of_source_file(from, others[i].file, error);
        if (!path)
            return ZERO_ERR_MEMORY;
        bool there = zr_path_exists(path);
        zero_status status =
            there ? zr_fail(error, ZERO_ERR_UNSUPPORTED, "%s: %s", path, others[i].kind) : ZERO_OK;
        zr_free(path);
        ZERO_TRY(status);
    }
    return zr_fail(error, ZERO_ERR_IO, "no tokenizer.json in \"%s\"", from->path);
}

static zero_status load_tokenizer_json(source *from, const zr_tokenizer_file *file,
                                       const zr_token_settings *settings, zr_tokenizer **out,
                                       zero_error *error)
{
    json_t *root = NULL;
    char *path = path_of_source_file(from, file->name, error);
    zero_status status = path ? parse_kept_json(from, file, &root, error) : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = load_from_json(path, root, settings, out, error);
    json_decref(root);
    zr_free(path);
    return status;
}

// Keeps a file that was made, in place of one of the same name.
static void keep_made_file(source *from, const char *name, zr_buffer *text)
{
    int at = 0;
    while (at < from->count && strcmp(from->files[at].name, name) != 0)
        at++;
    from->count = ZR_MAX(from->count, at + 1);
    zr_free(from->files[at].data);
    from->files[at] = (zr_tokenizer_file){.name = name, .data = text->data, .length = text->length};
    *text = (zr_buffer){0};
}

// Takes the configuration that belongs to a tokenizer.json which was made. The file is written anew
// only if there is none, or its list of added tokens is not complete.
static zero_status take_config(source *from, const char *path, json_t *made,
                               zr_token_settings *settings, zero_error *error)
{
    static const char list[] = "added_tokens_decoder";
    const json_t *whole = json_object_get(made, list);
    bool same = json_is_object(settings->config) &&
                (!whole || json_equal(whole, json_object_get(settings->config, list)));
    if (!same) {
        zr_buffer text = {0};
        char *dumped = json_dumps(made, JSON_INDENT(2));
        zr_buffer_printf(&text, "%s\n", dumped ? dumped : "");
        bool failed = !dumped || text.failed;
        free(dumped);
        if (failed) {
            zr_buffer_free(&text);
            return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its settings", path);
        }
        keep_made_file(from, "tokenizer_config.json", &text);
    }
    json_decref(settings->config);
    settings->config = json_incref(made);
    return ZERO_OK;
}

// Makes a tokenizer.json from SentencePiece's file and loads it.
static zero_status load_sentencepiece(source *from, const zr_tokenizer_file *file,
                                      zr_token_settings *settings, zr_tokenizer **out,
                                      zero_error *error)
{
    zr_buffer json = {0};
    json_t *root = NULL, *config = NULL;
    char *path = path_of_source_file(from, file->name, error);
    zero_status status =
        path ? zr_spm_json(path, file->data, file->length, settings, &json, &config, error)
             : ZERO_ERR_MEMORY;
    if (status == ZERO_OK)
        status = zr_json_parse(json.data, json.length, path, &root, error);
    if (status == ZERO_OK)
        status = take_config(from, path, config, settings, error);
    if (status == ZERO_OK) {
        keep_made_file(from, "tokenizer.json", &json);
        status = load_from_json(path, root, settings, out, error);
    }
    json_decref(root);
    json_decref(config);
    zr_buffer_free(&json);
    zr_free(path);
    return status;
}

static zero_status parse_settings(const source *from, zr_token_settings *out, zero_error *error)
{
    for (int i = 0; i < from->count; i++) {
        json_t **slot = zr_token_settings_slot(out, from->files[i].name);
        if (slot)
            ZERO_TRY(parse_kept_json(from, &from->files[i], slot, error));
    }
    return ZERO_OK;
}

// Finds whether zr_bpe_save has made tokenizer.json from the two files next to it. Then these are
// read instead, so that the tokenizer is the same as before, with the same fingerprint.
static zero_status compare_with_two_files(const source *from, const zr_tokenizer_file *json,
                                          const zr_tokenizer_file *of_vocab,
                                          const zr_tokenizer_file *merges,
                                          const zr_token_settings *settings, bool *same,
                                          zero_error *error)
{
    const char *class = json_string_value(json_object_get(settings->config, "tokenizer_class"));
    json_t *vocab = NULL;
    zr_buffer text = {0};
    *same = false;
    if (!of_vocab || !merges || !zr_gpt2_json_is(json->data, json->length) || !class ||
        strncmp(class, GPT2_CLASS, sizeof GPT2_CLASS - 1))
        return ZERO_OK;
    zero_status status = parse_kept_json(from, of_vocab, &vocab, error);
    if (status == ZERO_OK)
        status =
            zr_gpt2_json(from->path, settings, vocab, merges->data, merges->length, &text, error);
    *same = status == ZERO_OK && text.length == json->length &&
            !memcmp(text.data, json->data, text.length);
    json_decref(vocab);
    zr_buffer_free(&text);
    // If the two files are not those that it was made from, tokenizer.json counts alone.
    return status == ZERO_ERR_MEMORY ? status : ZERO_OK;
}

typedef struct tokenizer_files { // those that determine ids; NULL: not there
    const zr_tokenizer_file *json, *vocab, *merges, *model;
} tokenizer_files;

static zero_status read_tokenizer_files(source *from, tokenizer_files *out, zero_error *error)
{
    bool all = from->directory != NULL;
    bool of_model = !all && !strcmp(name_of_single_file(from->path), SENTENCEPIECE);
    *out = (tokenizer_files){0};
    if (!of_model)
        ZERO_TRY(read_and_keep_file(from, "tokenizer.json", &out->json, error));
    if (all) {
        ZERO_TRY(read_and_keep_file(from, "vocab.json", &out->vocab, error));
        ZERO_TRY(read_and_keep_file(from, "merges.txt", &out->merges, error));
    }
    if (out->json || (out->vocab && out->merges))
        return ZERO_OK;
    if (all || of_model)
        ZERO_TRY(read_and_keep_file(from, SENTENCEPIECE, &out->model, error));
    if (out->model)
        return ZERO_OK;
    return all ? fail_absent(from, error)
               : zr_fail(error, ZERO_ERR_IO, "there is no tokenizer at \"%s\"", from->path);
}

static zero_status load_as(source *from, const tokenizer_files *files, zr_token_settings *settings,
                           zr_tokenizer **out, zero_error *error)
{
    if (files->model)
        return load_sentencepiece(from, files->model, settings, out, error);
    from->two_files = !files->json;
    if (files->json)
        ZERO_TRY(compare_with_two_files(from, files->json, files->vocab, files->merges, settings,
                                        &from->two_files, error));
    return from->two_files
               ? load_from_two_files(from, files->vocab, files->merges, settings, out, error)
               : load_tokenizer_json(from, files->json, settings, out, error);
}

static zero_status load_from_kept_files(source *from, zr_tokenizer **out, zero_error *error)
{
    // The last one is kept but not read.
    static const char *const setting_files[] = {"tokenizer_config.json", "special_tokens_map.json",
                                                "added_tokens.json", "chat_template.jinja"};
    const zr_tokenizer_file *kept;
    tokenizer_files files;
    zr_token_settings settings = {0};
    ZERO_TRY(read_tokenizer_files(from, &files, error));
    for (int i = 0; i < ZR_COUNT(setting_files); i++)
        ZERO_TRY(read_and_keep_file(from, setting_files[i], &kept, error));
    zero_status status = parse_settings(from, &settings, error);
    if (status == ZERO_OK)
        status = load_as(from, &files, &settings, out, error);
    zr_token_settings_free(&settings);
    return status;
}

static bool determines_ids(const source *from, const char *name)
{
    return from->two_files ? !strcmp(name, "vocab.json") || !strcmp(name, "merges.txt")
                           : !strcmp(name, "tokenizer.json");
}

// Moves the files to the tokenizer.
static void move_files_to_tokenizer(source *from, zr_tokenizer *tokenizer)
{
    if (!tokenizer->bpe)
        return;
    // The fingerprint so far covers the settings that are in none of these files.
    uint64_t hash = zr_hash_text("BPE") ^ tokenizer->fingerprint;
    for (int i = 0; i < from->count; i++)
        if (determines_ids(from, from->files[i].name))
            hash = zr_hash_bytes(from->files[i].data, from->files[i].length, hash);
    tokenizer->fingerprint = hash;
    memcpy(tokenizer->files, from->files, sizeof tokenizer->files);
    tokenizer->file_count = from->count;
    from->count = 0;
}

bool zr_tokenizer_is_at(const char *directory)
{
    return zr_path_has(directory, "tokenizer.json") || zr_path_has(directory, SENTENCEPIECE) ||
           (zr_path_has(directory, "vocab.json") && zr_path_has(directory, "merges.txt"));
}

zero_status zr_tokenizer_load(const char *path, zr_tokenizer **out, zero_error *error)
{
    struct stat info;
    source from = {.path = path,
                   .directory = stat(path, &info) == 0 && !S_ISDIR(info.st_mode) ? NULL : path};
    zr_tokenizer *made = NULL;
    zero_status status = load_from_kept_files(&from, &made, error);
    if (status == ZERO_OK)
        move_files_to_tokenizer(&from, made);
    else
        zr_tokenizer_destroy(made);
    for (int i = 0; i < from.count; i++)
        zr_free(from.files[i].data);
    *out = status == ZERO_OK ? made : NULL;
    return status;
}
