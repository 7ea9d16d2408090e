#include "commands/convert_config.h"

#include "base/alloc.h"
#include "checkpoint/run_directory.h"
#include "formats/source_gguf.h"
#include "formats/source_torch.h"

static zero_status read_found_config(const zr_source *source, const char *purpose,
                                     zr_lm_config *out, zero_error *error)
{
    char *found;
    ZERO_TRY(zr_find_model_files(source->path, &found, error));
    zero_status status = found ? zr_lm_config_read_in(found, out, error)
                               : zr_fail(error, ZERO_ERR_DATA,
                                         "no " ZR_MODEL_CONFIG " is there to go with the weights "
                                         "of \"%s\", and %s needs one: --model DIR names a model "
                                         "directory that has it",
                                         source->path, purpose);
    zr_free(found);
    return status;
}

static zero_status read_config(const zr_source *source, const char *model_dir, const char *purpose,
                               zr_lm_config *out, zero_error *error)
{
    const json_t *own = json_object_get(source->state, "model_config");
    if (model_dir && !zr_source_is_nanogpt(source))
        return zr_lm_config_read_in(model_dir, out, error);
    if (source->kind == ZR_SOURCE_GGUF) {
        *out = *zr_source_gguf_config(source);
        return ZERO_OK;
    }
    return own ? zr_lm_config_unpack(own, source->path, out, error)
               : read_found_config(source, purpose, out, error);
}

zero_status zr_convert_config(const zr_source *source, const char *model_dir, const char *purpose,
                              zr_lm_config *out, zero_error *error)
{
    ZERO_TRY(read_config(source, model_dir, purpose, out, error));
    if (!out->base)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED,
                   "the weights of \"%s\" are in %s, which zero train, eval and generate read: %s "
                   "needs the plain weights of which they were made",
                   source->path, zr_weight_format_name(out->base), purpose);
}
