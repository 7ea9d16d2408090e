// The name that inspect.h, convert.h and weights.h once had together.
#ifndef ZERO_FILES_H
#define ZERO_FILES_H

#include <zero/convert.h>
#include <zero/engine.h>
#include <zero/inspect.h>
#include <zero/weights.h>

#endif
