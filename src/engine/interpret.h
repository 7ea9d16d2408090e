// How the engine runs a program (contract 8): instruction after instruction, each by the function
// of its code (execute.h), without those whose zr_when does not hold.
#ifndef ZR_ENGINE_INTERPRET_H
#define ZR_ENGINE_INTERPRET_H

#include "engine/engine_inner.h"

// A pass from its beginning. holds: bit w: zr_when w does, in this pass.
void zr_program_begin(zero_engine *engine, zr_pass_kind kind, uint32_t holds);
// From where it is up to instruction `end`.
zero_status zr_program_run_until(zero_engine *engine, int end, zero_error *error);
zero_status zr_program_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds,
                                zero_error *error);
// Inside of a call, up to the mark of a piece of the unit. ZERO_ERR_USAGE: another one is next.
zero_status zr_program_run_to_mark(zero_engine *engine, zr_mark mark, int piece, const char *call);
// The address of a place; not of ZR_SPACE_SHARDS and _STORED. In create.c.
char *zr_place_at(const zero_engine *engine, zr_place place);

#endif
