#include "setup/model_task.h"

#include "base/json.h"
#include "layers/layers.h"

#include <string.h>

zero_status zr_model_task_parse(const char *text, const char *name, bool *classifies,
                                zero_error *error)
{
    *classifies = text != NULL;
    if (!text || !strcmp(text, "classify"))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_TASK_KEY " is \"%s\": there is \"classify\", and no other task has a "
                   "name",
                   name, text);
}

zero_status zr_model_task_read(const zr_config *config, bool *classifies, zero_error *error)
{
    const zr_setting *setting = zr_config_setting(config, ZR_TASK_KEY);
    return zr_model_task_parse(setting ? json_string_value(setting->value) : NULL,
                               setting && setting->flag ? setting->flag : config->name, classifies,
                               error);
}

void zr_model_task_finish(zr_lm_config *model)
{
    if (!model->labels.count)
        return;
    model->documents = true;
    if (!model->pad.count && model->eos.count)
        model->pad = (zr_token_ids){.given = true, .count = 1, .at = {model->eos.at[0]}};
}

zero_status zr_model_task_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                zero_error *error)
{
    bool classifies;
    ZERO_TRY(zr_model_task_read(config, &classifies, error));
    *changed = (classifies || model->labels.count) && !model->documents;
    if (classifies && !model->labels.count)
        ZERO_TRY(zr_labels_number(&model->labels, ZR_USUAL_LABELS, error));
    zr_model_task_finish(model);
    return ZERO_OK;
}

zero_status zr_model_task_check(const zr_config *config, const zero_model *model, zero_error *error)
{
    const zr_lm_config *ours = zr_lm_config_of(model);
    bool classifies;
    ZERO_TRY(zr_model_task_read(config, &classifies, error));
    if (!classifies || (ours && ours->labels.count))
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "%s: " ZR_TASK_KEY " asks for labels, and the model \"%s\" has none: zero train "
                   "takes them from the data",
                   config->name, model->name);
}

zero_status zr_model_task_check_attention(const char *attention, zero_error *error)
{
    if (!attention || strcmp(attention, "causal") != 0)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_CONFIG,
                   "libzero.attention is \"causal\" (--attention), and texts that get labels "
                   "(--task classify) must not see each other: auto or document");
}

zero_status zr_model_task_refuse_labels(const zr_lm_config *model, const char *name,
                                        const char *what, zero_error *error)
{
    char known[ZERO_MESSAGE_BYTES / 4];
    if (!model->labels.count)
        return ZERO_OK;
    zr_labels_list(&model->labels, known, sizeof known);
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "\"%s\" gives texts one of %d labels (%s), and %s: zero eval measures it", name,
                   model->labels.count, known, what);
}
