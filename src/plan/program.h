// The program of a step (contract 8): plan/ writes it, engine/ runs it, and neither decides anew
// what the other has decided.
//
// A pass is a list of instructions (instruction.h). Which pass comes next, and what of a pass holds
// (zr_when), follows from the number of the step and of the micro-batch, or from scalars that all
// ranks share, because ranks have to send the same messages in the same order.
//
//   micro-batch   forward of every unit | seam: zero_forward returns
//                 | backward of every unit, last first
//   evaluation    forward of every unit
//   boundary      after the last micro-batch: what the update reads is complete, and every rank
//                 knows its norm
//   update        nobody reads the old parameters any more; the optimizer's walks over the groups
//   publish       other ranks can read the new parameters; an update beside the next step begins
#ifndef ZR_PLAN_PROGRAM_H
#define ZR_PLAN_PROGRAM_H

#include "plan/instruction.h"

typedef struct zr_plan zr_plan;

typedef enum zr_pass_kind {
    ZR_PASS_MICRO_BATCH,
    ZR_PASS_EVALUATION,
    ZR_PASS_BOUNDARY,
    ZR_PASS_UPDATE,
    ZR_PASS_PUBLISH,
    ZR_PASS_COUNT
} zr_pass_kind;

typedef struct zr_pass {
    zr_instruction *at; // (count)
    int count, capacity;
    int seam; // micro-batch: index of the first instruction of backward
} zr_pass;

typedef struct zr_program {
    zr_pass passes[ZR_PASS_COUNT];
    int fetch_count; // number of slots of ZR_SLOT_FETCHED
} zr_program;

const char *zr_pass_name(zr_pass_kind kind);
void zr_program_destroy(zr_program *program);

#endif
