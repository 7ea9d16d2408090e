// Training on preferences: which of two answers is the better one (DPO, ORPO, SimPO), or whether an
// answer is wanted (KTO).
//
// A training from files needs none of this: the key "libzero.preference" of its configuration, an
// override in C (zero_train_options.overrides) and --preference of the program say the same text.
//
// A model made for a preference takes micro-batches of these tensors, each (B, T):
//
//   0  tokens     int32
//   1  targets    int32; negative: the row has none
//   2  positions  int32; of each row in its document: 0 where one begins
//   3  roles      int32; zero_role of each row
//   4  reference  fp32; on each row, the logarithm of the probability that the reference gives to
//                 the completion of the row's document (read by DPO and KTO)
//   5  losses     fp32, may be missing; the last unit writes the loss of each row here
//
// A completion is a document's rows of one role. A chosen completion comes right before the
// rejected one of its pair; under KTO they come in any order, each with a mismatched one or not.
#ifndef ZERO_PREFERENCE_H
#define ZERO_PREFERENCE_H

#include <zero/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zero_role {
    ZERO_ROLE_none,
    ZERO_ROLE_chosen,     // of the better completion; under KTO, of one that is wanted
    ZERO_ROLE_rejected,   // of the other one; under KTO, of one that is not wanted
    ZERO_ROLE_mismatched, // KTO: of another example's completion, which only the baseline counts
    ZERO_ROLE_prompt,     // ORPO: of the chosen completion's prompt, counted by the language loss
} zero_role;

// Makes a copy of a model of the library's own (zero_llama_create, zero_lora_create, ...) that is
// trained on a preference: "dpo[,beta=0.1][,smoothing=0]", "orpo[,beta=0.1][,prompt_loss=true]",
// "simpo[,beta=2][,gamma=1][,smoothing=0]", "kto[,beta=0.1][,desirable=1][,undesirable=1]". Returns
// ZERO_ERR_CONFIG for a text that is none of these, and ZERO_ERR_UNSUPPORTED for a model that a
// program has made itself. Free it with zero_preference_destroy.
ZERO_API zero_status zero_preference_create(const zero_model *model, const char *preference,
                                            zero_model **out, zero_error *error);
ZERO_API void zero_preference_destroy(zero_model *model);

#ifdef __cplusplus
}
#endif
#endif
