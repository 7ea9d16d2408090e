// Stores that copy nothing before the copy is awaited, and updates beside the step that go no
// further than is waited for: the partners of lazy_comm.h. Stores on the host transfer in the same
// way as those on NVMe.
//
// A program that uses these is linked with lazy_args (meson.build), because an update beside the
// step has no table of functions.
#ifndef TEST_ENGINE_LAZY_TIERS_H
#define TEST_ENGINE_LAZY_TIERS_H

#include <zero/engine.h>

// Makes the engine's transfers that AWAIT names, and its updates beside a step, lazy from here on.
void lazy_tiers_take(zero_engine *engine);

#endif
