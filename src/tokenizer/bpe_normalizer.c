// Loads the normalizer of a tokenizer.json, part by part. Of regular expressions, those are known
// that find runs of spaces.
#include "tokenizer/bpe_load.h"

#include "base/base64.h"

#include <string.h>

static const char *content_of(const json_t *part, const char *key)
{
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : "";
}

static zero_status load_nfc(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                            zero_error *error)
{
    return ZERO_OK;
}

static zero_status load_prepend(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                                zero_error *error)
{
    return zr_bpe_copy_text(content_of(part, "prepend"), &step->to, error);
}

static zero_status load_runs(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                             zero_error *error)
{
    static const struct {
        const char *expression, *of;
        int least;
        bool at_start, at_stop;
    } known[] = {
        {" {2,}", " ", 2, false, false}, {"\\A +", " ", 1, true, false},
        {" +\\z", " ", 1, false, true},  {ZR_METASPACE "+\\z", ZR_METASPACE, 1, false, true},
        {"\\z", " ", 0, false, true},
    };
    const char *expression =
        json_string_value(json_object_get(json_object_get(part, "pattern"), "Regex"));
    for (int i = 0; i < ZR_COUNT(known) && expression; i++) {
        if (strcmp(known[i].expression, expression) != 0)
            continue;
        step->kind = ZR_NORMAL_RUNS;
        step->least = known[i].least;
        step->at_start = known[i].at_start;
        step->at_stop = known[i].at_stop;
        ZERO_TRY(zr_bpe_copy_text(known[i].of, &step->from, error));
        return zr_bpe_copy_text(content_of(part, "content"), &step->to, error);
    }
    return zr_bpe_refuse_part(loader, "normalizer", part, error);
}

static zero_status load_replace(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                                zero_error *error)
{
    if (!zr_json_pattern(part))
        return load_runs(loader, part, step, error);
    ZERO_TRY(zr_bpe_copy_text(zr_json_pattern(part), &step->from, error));
    return zr_bpe_copy_text(content_of(part, "content"), &step->to, error);
}

static zero_status load_strip(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                              zero_error *error)
{
    const json_t *left = json_object_get(part, "strip_left"),
                 *right = json_object_get(part, "strip_right");
    if (!json_is_boolean(left) || !json_is_boolean(right))
        return zr_bpe_refuse_part(loader, "normalizer", part, error);
    step->at_start = json_is_true(left);
    step->at_stop = json_is_true(right);
    return ZERO_OK;
}

static zero_status load_charsmap(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                                 zero_error *error)
{
    const json_t *text = json_object_get(part, "precompiled_charsmap");
    zr_buffer bytes = {0};
    if (loader->bpe->charsmap.count)
        return zr_bpe_refuse_part(loader, "second normalizer", part, error);
    if (!json_is_string(text) ||
        !zr_base64_read(json_string_value(text), json_string_length(text), &bytes)) {
        zr_buffer_free(&bytes);
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: the normalizer's precompiled_charsmap is no base64 text", loader->path);
    }
    zero_status status = bytes.failed ? zr_fail(error, ZERO_ERR_MEMORY,
                                                "%s: no memory for its normalizer", loader->path)
                                      : zr_charsmap_create(loader->path, bytes.data, bytes.length,
                                                           &loader->bpe->charsmap, error);
    zr_buffer_free(&bytes);
    return status;
}

zero_status zr_bpe_load_normalizer(zr_bpe_loader *loader, const json_t *part, zero_error *error)
{
    static const struct {
        const char *type;
        zr_normal_kind kind;
        zero_status (*load)(zr_bpe_loader *loader, const json_t *part, zr_normal_step *step,
                            zero_error *error);
    } known[] = {
        {"NFC", ZR_NORMAL_NFC, load_nfc},
        {"Prepend", ZR_NORMAL_PREPEND, load_prepend},
        {"Replace", ZR_NORMAL_REPLACE, load_replace},
        {"Precompiled", ZR_NORMAL_CHARSMAP, load_charsmap},
        {"Strip", ZR_NORMAL_STRIP, load_strip},
    };
    zr_bpe *bpe = loader->bpe;
    const char *type = zr_json_type(part);
    if (bpe->normal_count == ZR_STEPS)
        return zr_bpe_refuse_part(loader, "normalizer after eight others,", part, error);
    zr_normal_step *step = &bpe->normal[bpe->normal_count++];
    for (int i = 0; i < ZR_COUNT(known); i++) {
        if (strcmp(known[i].type, type) != 0)
            continue;
        step->kind = known[i].kind;
        return known[i].load(loader, part, step, error);
    }
    return zr_bpe_refuse_part(loader, "normalizer", part, error);
}
