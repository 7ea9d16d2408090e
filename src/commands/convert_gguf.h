// Models and adapters as GGUF files, for zero_convert.
#ifndef ZR_COMMANDS_CONVERT_GGUF_H
#define ZR_COMMANDS_CONVERT_GGUF_H

#include "formats/gguf.h"
#include "formats/source.h"
#include "model/architecture.h"
#include <zero/commands.h>

typedef struct zr_gguf_conversion {
    const zero_convert_options *options;
    zr_source *source;
    const char *from, *to; // as they were resolved
    const char *model_dir; // the options' model; NULL: `from` has the files
    const char *adapter;   // the directory of an adapter that the source has; NULL: none
    zr_source_progress progress;
    void *user;
} zr_gguf_conversion;

// Writes the weights of an open source, of any kind, with its model's configuration and tokenizer.
zero_status zr_convert_to_gguf(const zr_gguf_conversion *conversion, zero_error *error);

// Writes the adapter whose directory `from` is (checkpoint/adapter_directory.h); the conversion has
// no source.
zero_status zr_convert_adapter(const zr_gguf_conversion *conversion, zero_error *error);

// What both do. Checks that a file may be made at `to`: only a GGUF file is ever replaced, with
// --overwrite, and never one that is read.
zero_status zr_gguf_check_place(const zr_gguf_conversion *conversion, zero_error *error);
// Refuses a model of labels, which is at `name`.
zero_status zr_gguf_refuse_labels(const zr_lm_config *config, const char *name, zero_error *error);
// Finds the type by the options' name; `usual` if they have none.
zero_status zr_gguf_choose_type(const zero_convert_options *options, const char *usual,
                                const zr_gguf_type **out, zero_error *error);
// Returns the last name of a path, without slashes at its end (zr_free).
char *zr_path_title(const char *path, zero_error *error);

#endif
