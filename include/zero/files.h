// The former common name of inspect.h, convert.h and weights.h, kept for programs that include it.
#ifndef ZERO_FILES_H
#define ZERO_FILES_H

#include <zero/convert.h>
#include <zero/engine.h>
#include <zero/inspect.h>
#include <zero/weights.h>

#endif
