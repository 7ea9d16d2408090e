// Which layers of Mistral, Qwen2 and Qwen3 have a sliding window, as config.json says it; read as
// transformers reads it, and written again as it was read. Where nothing slides, what the keys
// would say is kept too, because they are the user's.
#include "model/llama_model.h"
#include "model/model_json.h"

#include <string.h>

static const char sliding[] = "sliding_attention", full[] = "full_attention";

typedef enum rule { NEVER, ALWAYS, OPTIONALLY } rule; // whether a window has an effect

static const rule rules[ZERO_LLAMA_VARIANT_COUNT] = {
    [ZERO_LLAMA_llama] = NEVER,
    [ZERO_LLAMA_mistral] = ALWAYS,
    [ZERO_LLAMA_qwen2] = OPTIONALLY,
    [ZERO_LLAMA_qwen3] = OPTIONALLY,
};

static bool has_key(const zr_model_json *file, const char *key)
{
    return json_object_get(file->at, key) != NULL;
}

// Returns the window: what transformers assumes if the key is absent; 0 for null.
static int64_t read_window(zr_model_json *file, bool used)
{
    static const char key[] = "sliding_window";
    static const int64_t none = 0, usual = 4096;
    int64_t window = zr_model_json_size(file, key, has_key(file, key) ? &none : &usual);
    if (file->status == ZERO_OK && used && window < 1 && zr_model_json_get(file, key))
        file->status = zr_fail(file->error, ZERO_ERR_DATA,
                               "%s: \"%s\" is %lld: a window has 1 position or more; null means "
                               "that there is none",
                               file->path, key, (long long)window);
    return window;
}

static int64_t read_full_layers(zr_model_json *file, bool used)
{
    static const char key[] = "max_window_layers";
    static const int64_t usual = 28;
    int64_t layers = zr_model_json_size(file, key, &usual);
    if (file->status == ZERO_OK && used && layers < 0)
        file->status = zr_fail(file->error, ZERO_ERR_DATA,
                               "%s: \"%s\" is %lld: the first layers, 0 or more, have full "
                               "attention",
                               file->path, key, (long long)layers);
    return layers;
}

// Says why a layer may not be of a known type; NULL if it may.
static const char *contradiction(rule of, const zr_lm_config *config, bool slides)
{
    if (of == NEVER)
        return slides ? "a model of type llama has full attention in every layer" : NULL;
    if (slides && of == OPTIONALLY && !config->sliding.used)
        return "\"use_sliding_window\" is not true";
    if (slides && !config->llama.sliding_window)
        return "\"sliding_window\" is null";
    if (!slides && of == ALWAYS && config->llama.sliding_window)
        return "a model of type mistral has its window in every layer; if it has none, "
               "\"sliding_window\" is null";
    return NULL;
}

static void read_type(zr_model_json *file, rule of, size_t layer, const json_t *type,
                      zr_lm_config *config)
{
    const char *word = json_is_string(type) ? json_string_value(type) : "?";
    bool slides = !strcmp(word, sliding), known = slides || !strcmp(word, full);
    const char *why = known ? contradiction(of, config, slides)
                            : "only \"full_attention\" and \"sliding_attention\" can be computed";
    if (why)
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"layer_types\" has \"%s\" for layer %zu: %s", file->path, word,
                               layer, why);
    else if (slides)
        config->sliding.slides[layer / 64] |= (uint64_t)1 << layer % 64;
}

static void read_types(zr_model_json *file, rule of, zr_lm_config *config)
{
    const json_t *types = zr_model_json_get(file, "layer_types"), *type;
    size_t layer, count = json_array_size(types);
    if (!types)
        return;
    if (!json_is_array(types) || (int64_t)count != config->llama.n_layer) {
        file->status = zr_fail(file->error, ZERO_ERR_DATA,
                               "%s: \"layer_types\" %s %zu types, \"num_hidden_layers\" is %lld: a "
                               "list with the type of each layer is expected",
                               file->path, json_is_array(types) ? "has" : "is not a list; it has",
                               count, (long long)config->llama.n_layer);
        return;
    }
    if (count > ZR_MOST_LAYER_TYPES) {
        file->status = zr_fail(file->error, ZERO_ERR_UNSUPPORTED,
                               "%s: \"layer_types\" has %zu types: at most %d can be read",
                               file->path, count, ZR_MOST_LAYER_TYPES);
        return;
    }
    config->sliding.types = of == NEVER ? 0 : (int)count;
    json_array_foreach(types, layer, type) if (file->status == ZERO_OK)
        read_type(file, of, layer, type, config);
}

void zr_sliding_read(zr_model_json *file, zr_lm_config *config)
{
    zr_sliding *to = &config->sliding;
    rule of = rules[config->llama.variant];
    if (of == OPTIONALLY) {
        to->used = zr_model_json_bool(file, "use_sliding_window", false);
        to->has_window = has_key(file, "sliding_window");
        to->has_full = has_key(file, "max_window_layers");
        to->full = read_full_layers(file, to->used);
    }
    if (of != NEVER)
        to->window = read_window(file, of == ALWAYS || to->used);
    config->llama.sliding_window = of == ALWAYS || to->used ? to->window : 0;
    read_types(file, of, config);
}

static void write_window(int64_t window, zr_json_writer *w)
{
    if (window)
        zr_json_integer(w, "sliding_window", window);
    else
        zr_json_null(w, "sliding_window");
}

void zr_sliding_write(const zr_lm_config *config, zr_json_writer *w)
{
    const zr_sliding *from = &config->sliding;
    rule of = rules[config->llama.variant];
    int64_t window = config->llama.sliding_window;
    if (of == NEVER)
        return;
    if (of == OPTIONALLY)
        zr_json_flag(w, "use_sliding_window", from->used || window);
    if (of == ALWAYS || window || from->has_window)
        write_window(window ? window : of == ALWAYS ? 0 : from->window, w);
    if (of == OPTIONALLY && (window || from->has_full))
        zr_json_integer(w, "max_window_layers", from->full);
    if (!from->types)
        return;
    zr_json_begin_array(w, "layer_types");
    for (int layer = 0; layer < config->llama.n_layer; layer++) {
        int type = layer % from->types;
        zr_json_text(w, NULL, from->slides[type / 64] >> type % 64 & 1 ? sliding : full);
    }
    zr_json_end(w);
}
