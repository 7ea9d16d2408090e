// Stores that copy nothing before the copy is awaited, and updates beside the step that go no
// further than somebody waits for: the partners of lazy_comm.h. Stores of the host travel like
// those of NVMe do.
//
// A program of these is linked with lazy_args (meson.build), because an update beside has no table.
#ifndef TEST_ENGINE_LAZY_TIERS_H
#define TEST_ENGINE_LAZY_TIERS_H

#include <zero/engine.h>

// From here on the engine's transfers that AWAIT names, and its updates beside a step, are lazy.
void lazy_tiers_take(zero_engine *engine);

#endif
