// nanoGPT's ckpt.pt as a GPT-2 of Hugging Face. Every tensor that the model needs is looked up;
// what is left over is refused by name.
//
//   {"model": {"transformer.wte.weight": (V, C), ...}, perhaps after "_orig_mod.",
//    "model_args": {"n_layer", "n_head", "n_embd", "block_size", "bias", "vocab_size", "dropout"},
//    "optimizer", "iter_num", "best_val_loss", "config"}
#include "formats/source_torch.h"

#include "model/gpt2_model.h"
#include "model/lm_build.h"

#include <stdio.h>
#include <string.h>

#define PREFIX "transformer."
#define COMPILED "_orig_mod." // before the names of a model that torch.compile has seen
#define HEAD "lm_head.weight"
#define MASK ".attn.bias"

typedef struct reading {
    zr_torch_source *own;
    zr_lm_config config;
    const zr_pickle_value *tensors; // "model"
    zr_pickle_keys keys;            // of `tensors`
    const char *path, *before;      // before: what every name begins with, COMPILED or ""
    bool biased;
    zr_source_vector *weights;
    zero_error *error;
} reading;

bool zr_nanogpt_is(const zr_pickle_value *root)
{
    return zr_pickle_is(zr_pickle_get(root, "model"), ZR_PICKLE_DICT) &&
           zr_pickle_is(zr_pickle_get(root, "model_args"), ZR_PICKLE_DICT);
}

bool zr_source_is_nanogpt(const zr_source *source)
{
    return source->kind == ZR_SOURCE_TORCH && json_object_get(source->state, "model_config");
}

static zero_status read_size(const reading *r, const zr_pickle_value *args, const char *key,
                             int64_t *out)
{
    return zr_pickle_integer(zr_pickle_get(args, key), out)
               ? ZERO_OK
               : zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": \"model_args\" has no number \"%s\"",
                         r->path, key);
}

static zero_status read_arguments(reading *r, const zr_pickle_value *args)
{
    zero_gpt2_config *gpt2 = &r->config.gpt2;
    const zr_pickle_value *bias = zr_pickle_get(args, "bias");
    zero_error found = {0};
    double dropout = 0;
    zero_gpt2_defaults(gpt2);
    r->config.kind = ZR_LM_GPT2_ERF;
    ZERO_TRY(read_size(r, args, "vocab_size", &gpt2->vocab_size));
    ZERO_TRY(read_size(r, args, "block_size", &gpt2->n_positions));
    ZERO_TRY(read_size(r, args, "n_layer", &gpt2->n_layer));
    ZERO_TRY(read_size(r, args, "n_head", &gpt2->n_head));
    ZERO_TRY(read_size(r, args, "n_embd", &gpt2->n_embd));
    zr_pickle_number(zr_pickle_get(args, "dropout"), &dropout);
    gpt2->resid_pdrop = gpt2->embd_pdrop = gpt2->attn_pdrop = (float)dropout;
    r->biased = !zr_pickle_is(bias, ZR_PICKLE_BOOL) || bias->integer;
    if (zr_lm_check(&r->config, &found) != ZERO_OK)
        return zr_fail(r->error, ZERO_ERR_DATA, "\"model_args\" of \"%s\": %s", r->path,
                       found.message);
    return (size_t)gpt2->n_layer <= r->tensors->items.count
               ? ZERO_OK
               : zr_fail(r->error, ZERO_ERR_DATA, "\"%s\" has fewer tensors than layers", r->path);
}

static zero_status find_tensor(reading *r, const char *name, const zr_pickle_tensor **out)
{
    char *key = zr_sprintf(r->error, "%s%s", r->before, name);
    if (!key)
        return ZERO_ERR_MEMORY;
    const zr_pickle_value *found = zr_pickle_keys_find(&r->keys, key);
    zr_free(key);
    *out = zr_pickle_is(found, ZR_PICKLE_TENSOR) ? &found->tensor : NULL;
    if (found && !*out)
        return zr_fail(r->error, ZERO_ERR_DATA, "\"%s\": \"%s\" is no tensor", r->path, name);
    return ZERO_OK;
}

static bool has_shape(const zr_pickle_tensor *found, const zero_tensor_desc *desc, bool turned)
{
    bool same = found->dims == desc->dims;
    for (int d = 0; same && d < desc->dims; d++)
        same = found->shape[d] == desc->shape[turned ? desc->dims - 1 - d : d];
    return same;
}

static zero_status place_found(reading *r, const zr_pickle_tensor *found, const char *name,
                               const zero_tensor_desc *desc, bool turned)
{
    zr_torch_place *place = &r->own->places[r->weights->tensor_count];
    if (!has_shape(found, desc, turned))
        return zr_fail(
            r->error, ZERO_ERR_DATA,
            "\"%s\": the tensor \"%s\" has not the shape that follows from \"model_args\"", r->path,
            name);
    ZERO_TRY(zr_torch_place_find(&r->own->set, 0, found, name, place, r->error));
    if (turned) {
        place->rows = found->shape[0];
        place->columns = found->shape[1];
    }
    return ZERO_OK;
}

static bool is_bias(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && !strcmp(name + length - 5, ".bias");
}

static zero_status add_tensor(reading *r, const char *name, const zero_tensor_desc *desc,
                              bool turned)
{
    const zr_pickle_tensor *found;
    ZERO_TRY(find_tensor(r, name, &found));
    if (found)
        ZERO_TRY(place_found(r, found, name, desc, turned));
    else if (!r->biased && is_bias(name))
        r->own->places[r->weights->tensor_count] = (zr_torch_place){.file = -1};
    else
        return zr_fail(r->error, ZERO_ERR_DATA,
                       "\"%s\" has no tensor \"%s\", which its \"model_args\" need", r->path, name);
    return zr_source_set(&r->weights->tensors[r->weights->tensor_count++], name,
                         found ? found->storage->dtype : "F32", desc->dims, desc->shape, r->error);
}

static zero_status add_blocks(reading *r, const zr_lm_design *design)
{
    char name[ZR_LM_NAME_BYTES];
    for (int64_t layer = 0; layer < r->config.gpt2.n_layer; layer++)
        for (int t = 0; t < design->tensor_count; t++) {
            const zero_tensor_desc *desc = &design->block[t].desc;
            snprintf(name, sizeof name, PREFIX "h.%lld.%s", (long long)layer, desc->name);
            ZERO_TRY(add_tensor(r, name, desc, desc->dims == 2));
        }
    return ZERO_OK;
}

static zero_status add_tensors(reading *r)
{
    const zr_lm_design design = zr_lm_design_of_config(&r->config);
    ZERO_TRY(add_tensor(r, PREFIX "wte.weight", &design.embedding[ZR_LM_TABLE].desc, false));
    ZERO_TRY(add_tensor(r, PREFIX "wpe.weight", &design.embedding[ZR_LM_POSITIONS].desc, false));
    ZERO_TRY(add_tensor(r, PREFIX "ln_f.weight", &design.head[ZR_LM_GAIN].desc, false));
    ZERO_TRY(add_tensor(r, PREFIX "ln_f.bias", &design.head[ZR_LM_BIAS].desc, false));
    return add_blocks(r, &design);
}

static bool has_same_shape(const zr_pickle_tensor *a, const zr_pickle_tensor *b)
{
    return a->dims == b->dims && !memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape);
}

// The head is the table of tokens, and is left out; one of its own would be lost.
static zero_status check_head(reading *r)
{
    const zr_pickle_tensor *head, *table;
    ZERO_TRY(find_tensor(r, HEAD, &head));
    ZERO_TRY(find_tensor(r, PREFIX "wte.weight", &table));
    bool same = !head || (!strcmp(head->storage->key, table->storage->key) &&
                          head->offset == table->offset && has_same_shape(head, table));
    return same ? ZERO_OK
                : zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                          "\"%s\": \"" HEAD "\" is not the table of tokens, as it is in nanoGPT",
                          r->path);
}

static const char *name_of_weight(const void *user, int number)
{
    return ((const zr_source_vector *)user)->tensors[number].name;
}

// Masks of attention are no weights; nanoGPT saved them where torch had no fused attention.
static bool is_known(const reading *r, const zr_named *index, const char *key)
{
    size_t before = strlen(r->before), tail = strlen(MASK);
    const char *name = key + before;
    if (strncmp(key, r->before, before) != 0)
        return false;
    size_t length = strlen(name);
    return zr_name_index_find(index, r->weights->tensor_count, name) >= 0 || !strcmp(name, HEAD) ||
           (length > tail && !strcmp(name + length - tail, MASK));
}

static zero_status refuse_unknown(const reading *r, const zr_named *index)
{
    for (size_t i = 0; i + 1 < r->tensors->items.count; i += 2) {
        const char *key = zr_pickle_text(r->tensors->items.at[i]);
        if (!key || !is_known(r, index, key))
            return zr_fail(r->error, ZERO_ERR_UNSUPPORTED,
                           "\"model\" of \"%s\" has \"%s\", which nanoGPT's model has not", r->path,
                           key ? key : "a name that is no text");
    }
    return ZERO_OK;
}

static zero_status check_others(reading *r)
{
    zr_named *index;
    ZERO_TRY(check_head(r));
    ZERO_TRY(zr_name_index_create(name_of_weight, r->weights, r->weights->tensor_count, &index,
                                  r->error));
    zero_status status = refuse_unknown(r, index);
    zr_free(index);
    return status;
}

static zero_status list_model(reading *r, zr_source *out)
{
    size_t count = 4 + (size_t)r->config.gpt2.n_layer * ZR_BLOCK_TENSORS;
    ZERO_TRY(zr_source_add(out, "weights", (int)count, &r->weights, r->error));
    r->own->places = zr_alloc(count * sizeof *r->own->places, r->error);
    if (!r->own->places)
        return ZERO_ERR_MEMORY;
    ZERO_TRY(zr_pickle_keys_create(r->tensors, &r->keys, r->error));
    r->before = zr_pickle_keys_find(&r->keys, COMPILED PREFIX "wte.weight") ? COMPILED : "";
    ZERO_TRY(add_tensors(r));
    ZERO_TRY(check_others(r));
    json_t *config = zr_lm_config_pack(&r->config);
    out->state = config ? json_pack("{s:o}", "model_config", config) : NULL;
    return out->state ? ZERO_OK
                      : zr_fail(r->error, ZERO_ERR_MEMORY, "no memory for a model's configuration");
}

zero_status zr_nanogpt_list(zr_torch_source *own, zr_source *out, zero_error *error)
{
    const zr_pickle_value *root = own->set.files[0].pickle.root;
    reading r = {.own = own,
                 .tensors = zr_pickle_get(root, "model"),
                 .path = own->set.files[0].zip.path,
                 .error = error};
    ZERO_TRY(read_arguments(&r, zr_pickle_get(root, "model_args")));
    zero_status status = list_model(&r, out);
    zr_pickle_keys_free(&r.keys);
    return status;
}
