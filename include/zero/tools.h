// The former common name of the headers of whole jobs, kept for programs that include it (but for
// what is in commands.h now).
#ifndef ZERO_TOOLS_H
#define ZERO_TOOLS_H

#include <zero/configuration.h>
#include <zero/engine.h>
#include <zero/eval.h>
#include <zero/generate.h>
#include <zero/plan.h>
#include <zero/run.h>
#include <zero/train.h>

#endif
