// What a configuration trains a model for (libzero.task, --task): to continue texts, or to give
// each text a label (base/labels.h).
#ifndef ZR_SETUP_MODEL_TASK_H
#define ZR_SETUP_MODEL_TASK_H

#include "config/config.h"
#include "model/architecture.h"

#define ZR_TASK_KEY "libzero.task"

// Reads "classify"; NULL is no task. `name` says where the text is from. Others: ZERO_ERR_CONFIG.
zero_status zr_model_task_parse(const char *text, const char *name, bool *classifies,
                                zero_error *error);
zero_status zr_model_task_read(const zr_config *config, bool *classifies, zero_error *error);
// Gives a model whose data are not known as many labels as transformers gives a new classifier, if
// the configuration asks for a task and it has none. Sets what follows from labels, also from its
// own. *changed: a model that was built from it before has to be built again.
zero_status zr_model_task_apply(const zr_config *config, zr_lm_config *model, bool *changed,
                                zero_error *error);
// Sets what follows from a model's labels: its examples do not see each other, and the last token
// of a text is found by a token that stands for none.
void zr_model_task_finish(zr_lm_config *model);
// Returns ZERO_ERR_CONFIG if the configuration asks for labels, and the model, already built, has
// none.
zero_status zr_model_task_check(const zr_config *config, const zero_model *model,
                                zero_error *error);
// Returns ZERO_ERR_CONFIG if texts with labels would see each other; attention: "auto", "causal",
// "document" or NULL.
zero_status zr_model_task_check_attention(const char *attention, zero_error *error);
// Returns ZERO_ERR_UNSUPPORTED for a model of labels, where texts are continued. what: "zero
// generate continues texts".
zero_status zr_model_task_refuse_labels(const zr_lm_config *model, const char *name,
                                        const char *what, zero_error *error);

#endif
