// Reads the labels of a model that classifies texts from its config.json, as transformers has them.
#include "base/labels.h"
#include "model/model_json.h"

#include <stdio.h>
#include <string.h>

#define CLASSIFIER "ForSequenceClassification"
enum { KEY_BYTES = 24 };

static bool is_classifier(const zr_model_json *file)
{
    const char *name =
        json_string_value(json_array_get(zr_model_json_get(file, "architectures"), 0));
    size_t length = name ? strlen(name) : 0, ending = sizeof CLASSIFIER - 1;
    return length > ending && !strcmp(name + length - ending, CLASSIFIER);
}

zero_status zr_model_json_read_names(const json_t *names, const char *path, zr_labels *out,
                                     zero_error *error)
{
    char where[512];
    snprintf(where, sizeof where, "%.400s: the key id2label", path);
    *out = (zr_labels){.count = 0};
    if (!json_object_size(names))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s is no object with a name for each label, by its number", where);
    for (size_t i = 0; i < json_object_size(names); i++) {
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "%zu", i);
        const char *name = json_string_value(json_object_get(names, key));
        if (!name)
            return zr_fail(error, ZERO_ERR_DATA,
                           "%s has %zu labels, and \"%s\" is not the text of one", where,
                           json_object_size(names), key);
        ZERO_TRY(zr_labels_add(out, name, where, error));
    }
    return ZERO_OK;
}

// Names labels by their numbers; the file says at most how many there are.
static void number_labels(zr_model_json *file, zr_labels *out)
{
    const int64_t usual = ZR_USUAL_LABELS;
    int64_t count = zr_model_json_size(file, "num_labels", &usual);
    if (file->status == ZERO_OK && count < 1)
        file->status = zr_fail(file->error, ZERO_ERR_DATA,
                               "%s: \"num_labels\" is %lld: at least two labels can be told apart",
                               file->path, (long long)count);
    if (file->status == ZERO_OK)
        file->status =
            zr_labels_number(out, (int)ZR_MIN(count, (int64_t)ZR_MOST_LABELS + 1), file->error);
}

void zr_model_json_read_labels(zr_model_json *file, zr_labels *out)
{
    const json_t *names = zr_model_json_get(file, "id2label");
    *out = (zr_labels){.count = 0};
    if (file->status != ZERO_OK || !is_classifier(file))
        return;
    zr_model_json_require_text(file, "problem_type", "single_label_classification", NULL);
    if (file->status != ZERO_OK)
        return;
    if (names)
        file->status = zr_model_json_read_names(names, file->path, out, file->error);
    else
        number_labels(file, out);
    if (file->status == ZERO_OK && out->count < 2)
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: the model has one label, which is a regression: at least two "
                               "labels can be told apart",
                               file->path);
}

void zr_model_json_put_classifier(zr_json_writer *w, const char *class_name)
{
    static const char *const endings[] = {"ForCausalLM", "LMHeadModel"};
    char name[128];
    size_t length = strlen(class_name);
    for (int i = 0; i < ZR_COUNT(endings); i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && !strcmp(class_name + length - ending, endings[i])) {
            length -= ending;
            break;
        }
    }
    snprintf(name, sizeof name, "%.*s" CLASSIFIER, (int)length, class_name);
    zr_json_text(w, NULL, name);
}
