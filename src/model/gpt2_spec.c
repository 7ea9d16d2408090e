// GPT-2's presets, and the fields that a spec can set.
//   gpt2-medium        gpt2:layers=4,heads=4,width=128,context=64,vocab=V,dropout=p
#include "model/gpt2_model.h"
#include "model/lm_fields.h"

typedef struct preset {
    const char *name;
    int64_t layers, heads, width;
} preset;

static const preset presets[] = {
    {.name = "gpt2", .layers = 12, .heads = 12, .width = 768},
    {.name = "gpt2-medium", .layers = 24, .heads = 16, .width = 1024},
    {.name = "gpt2-large", .layers = 36, .heads = 20, .width = 1280},
    {.name = "gpt2-xl", .layers = 48, .heads = 25, .width = 1600},
};

const char *zr_gpt2_preset_name(int i) { return i < ZR_COUNT(presets) ? presets[i].name : NULL; }

zero_status zr_gpt2_parse(const char *spec, int preset, zr_lm_config *out, bool *vocab_given,
                          zero_error *error)
{
    zero_gpt2_config *config = &out->gpt2;
    enum { VOCAB, DROPOUT, LAYERS, HEADS, WIDTH, CONTEXT, FIELDS };
    zr_spec_field fields[FIELDS] = {
        [VOCAB] = {.name = "vocab", .count = &config->vocab_size},
        [DROPOUT] = {.name = "dropout", .fraction = &config->resid_pdrop},
        [LAYERS] = {.name = "layers", .count = &config->n_layer},
        [HEADS] = {.name = "heads", .count = &config->n_head},
        [WIDTH] = {.name = "width", .count = &config->n_embd},
        [CONTEXT] = {.name = "context", .count = &config->n_positions},
    };
    zero_gpt2_defaults(config);
    config->n_layer = presets[preset].layers;
    config->n_head = presets[preset].heads;
    config->n_embd = presets[preset].width;
    ZERO_TRY(zr_spec_parse(spec, fields, FIELDS, error));
    config->embd_pdrop = config->attn_pdrop = config->resid_pdrop;
    *vocab_given = fields[VOCAB].given;
    return ZERO_OK;
}
