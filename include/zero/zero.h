// libzero: the Zero Redundancy Optimizer. Includes every public header.
#ifndef ZERO_ZERO_H
#define ZERO_ZERO_H

#include <zero/checkpoint.h>
#include <zero/comm.h>
#include <zero/commands.h>
#include <zero/configuration.h>
#include <zero/engine.h>
#include <zero/eval.h>
#include <zero/generate.h>
#include <zero/gpt2.h>
#include <zero/graph.h>
#include <zero/grid.h>
#include <zero/llama.h>
#include <zero/lora.h>
#include <zero/memory.h>
#include <zero/model.h>
#include <zero/plan.h>
#include <zero/preference.h>
#include <zero/rows.h>
#include <zero/run.h>
#include <zero/status.h>
#include <zero/tensor.h>
#include <zero/tokenizer.h>
#include <zero/traffic.h>
#include <zero/train.h>
#include <zero/unit_exchange.h>
#include <zero/weights.h>

#endif
