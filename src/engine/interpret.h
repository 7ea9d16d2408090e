// How the engine runs a program (contract 8): one instruction after another, each by the function
// for its code (execute.h). It skips those whose zr_when does not hold.
#ifndef ZR_ENGINE_INTERPRET_H
#define ZR_ENGINE_INTERPRET_H

#include "engine/engine_api.h"

// Begins a pass. Bit w of `holds` says that zr_when w holds in this pass.
void zr_program_begin(zero_engine *engine, zr_pass_kind kind, uint32_t holds);
// Runs from the current instruction up to instruction `end`, which it does not run.
zero_status zr_program_run_until(zero_engine *engine, int end, zero_error *error);
// Begins a pass and runs all of it.
zero_status zr_program_run_pass(zero_engine *engine, zr_pass_kind kind, uint32_t holds,
                                zero_error *error);
// Runs, inside of a call, up to the mark of one of the unit's flat parameters. ZERO_ERR_USAGE:
// another mark comes first.
zero_status zr_program_run_to_mark(zero_engine *engine, zr_mark mark, int flat_param,
                                   const char *call);
// Returns the address of a place that is not in ZR_BUFFER_SHARDS or ZR_BUFFER_STORED. In create.c.
char *zr_buffer_at(const zero_engine *engine, zr_buffer_ref place);

#endif
