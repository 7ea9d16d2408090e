// Whether a model whose config.json says that its head is the table of tokens has another head.
#ifndef ZR_COMMANDS_CONVERT_HEAD_H
#define ZR_COMMANDS_CONVERT_HEAD_H

#include "formats/source.h"
#include "model/architecture.h"

// False if it has no head of its own, and for files that cannot be read, which fail elsewhere.
bool zr_convert_head_differs(zr_source *source, const zr_lm_config *config);

#endif
