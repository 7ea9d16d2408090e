// libzero: the Zero Redundancy Optimizer. Includes every public header.
#ifndef ZERO_ZERO_H
#define ZERO_ZERO_H

#include <zero/checkpoint.h>
#include <zero/comm.h>
#include <zero/comparison.h>
#include <zero/data.h>
#include <zero/engine.h>
#include <zero/files.h>
#include <zero/gpt2.h>
#include <zero/llama.h>
#include <zero/model.h>
#include <zero/simulation.h>
#include <zero/status.h>
#include <zero/tokenize.h>
#include <zero/tools.h>
#include <zero/tune.h>
#include <zero/verify.h>

#endif
