// What an instruction says besides its code: zr_instruction.what.
#ifndef ZR_PLAN_INSTRUCTION_OPERANDS_H
#define ZR_PLAN_INSTRUCTION_OPERANDS_H

// What a CALL calls. ZR_CALL_AGAIN: forward runs again for what it did not keep.
// INPUT and WEIGHT: the two parts of a backward that is made in two.
typedef enum zr_call {
    ZR_CALL_FORWARD,
    ZR_CALL_AGAIN,
    ZR_CALL_BACKWARD,
    ZR_CALL_BOTH,
    ZR_CALL_INPUT,
    ZR_CALL_WEIGHT,
} zr_call;

// What an UPDATE computes: means of buffers, the optimizer's groups, or parameters from master.
typedef enum zr_update_part { ZR_PART_MEAN, ZR_PART_GROUPS, ZR_PART_COPY } zr_update_part;

// Among which ranks SCALARS sums; in asynchronous schedules among those of a pipeline stage, and
// then by way of a slot of a link.
typedef enum zr_scalars_part {
    ZR_SCALARS_OF_ALL,
    ZR_SCALARS_OF_PIPELINE_STAGE,
    ZR_SCALARS_GIVE, // the sums go to the slot
    ZR_SCALARS_ADD,  // what comes is added to them
    ZR_SCALARS_TAKE, // they become what comes
} zr_scalars_part;

// What a TIE does with its flat parameter's own shard; what comes is in the slot, or is flat
// parameter `stream`'s.
typedef enum zr_tied_weight_part {
    ZR_TIED_WEIGHT_GIVE_SUM,        // the accumulated gradient goes to the slot
    ZR_TIED_WEIGHT_ADD_SUM,         // what comes is added to it
    ZR_TIED_WEIGHT_GIVE_PARAMETERS, // parameters go to the slot
    ZR_TIED_WEIGHT_TAKE_PARAMETERS, // and become what comes
} zr_tied_weight_part;

#endif
