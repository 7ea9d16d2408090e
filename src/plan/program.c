#include "plan/program.h"

#include "base/alloc.h"

const char *const zr_code_names[ZR_CODE_COUNT] = {
    [ZR_GATHER] = "GATHER", [ZR_REDUCE] = "REDUCE",   [ZR_SCALARS] = "SCALARS",
    [ZR_FETCH] = "FETCH",   [ZR_STORE] = "STORE",     [ZR_JOIN] = "JOIN",
    [ZR_AWAIT] = "AWAIT",   [ZR_RELEASE] = "RELEASE", [ZR_PUBLISH] = "PUBLISH",
    [ZR_BIND] = "BIND",     [ZR_UNBIND] = "UNBIND",   [ZR_OPEN] = "OPEN",
    [ZR_ROUND] = "ROUND",   [ZR_SQUARES] = "SQUARES", [ZR_CALL] = "CALL",
    [ZR_UPDATE] = "UPDATE", [ZR_RECEIVE] = "RECEIVE", [ZR_TAKE] = "TAKE",
    [ZR_SEND] = "SEND",     [ZR_GIVE] = "GIVE",       [ZR_TIED_WEIGHT] = "TIE",
};

const char *const zr_when_names[ZR_WHEN_COUNT] = {
    [ZR_ALWAYS] = "always",   [ZR_FIRST] = "first",       [ZR_LATER] = "later",
    [ZR_LAST] = "last",       [ZR_OUTDATED] = "stale",    [ZR_FRESH] = "fresh",
    [ZR_CHANGED] = "changed", [ZR_FINITE] = "finite",     [ZR_AT_ONCE] = "at once",
    [ZR_STALE] = "behind",    [ZR_OVERLAPPED] = "beside", [ZR_REWRITTEN] = "rewritten",
};

const char *const zr_buffer_names[ZR_BUFFER_COUNT] = {
    [ZR_BUFFER_NONE] = "-",
    [ZR_BUFFER_PARAMETERS] = "parameters",
    [ZR_BUFFER_FROZEN] = "frozen",
    [ZR_BUFFER_SHARDS] = "shards",
    [ZR_BUFFER_GATHERED] = "gathered",
    [ZR_BUFFER_GRADIENTS] = "gradients",
    [ZR_BUFFER_FULL_GRADS] = "wholes",
    [ZR_BUFFER_OPEN_SUMS] = "open sums",
    [ZR_BUFFER_STAGED_PARAMETERS] = "staged parameters",
    [ZR_BUFFER_STAGED_SUMS] = "staged sums",
    [ZR_BUFFER_ACTIVATION_CHECKPOINTS] = "activation checkpoints",
    [ZR_BUFFER_STORED] = "stored",
};

const char *const zr_slot_names[ZR_SLOT_KIND_COUNT] = {
    [ZR_NO_SLOT] = "-",
    [ZR_SLOT_SUM] = "sum",
    [ZR_SLOT_GATHER] = "gather",
    [ZR_SLOT_READERS] = "readers",
    [ZR_SLOT_PUBLISHED] = "published",
    [ZR_SLOT_RELEASED] = "released",
    [ZR_SLOT_FETCHED] = "fetched",
    [ZR_SLOT_TRAVELLED] = "travelled",
    [ZR_SLOT_PARKED] = "parked",
    [ZR_SLOT_KEPT] = "kept",
    [ZR_SLOT_GROUP] = "group",
    [ZR_SLOT_LINK] = "link",
};

const char *const zr_call_names[] = {
    [ZR_CALL_FORWARD] = "forward",
    [ZR_CALL_AGAIN] = "forward again",
    [ZR_CALL_BACKWARD] = "backward",
    [ZR_CALL_BOTH] = "forward_backward",
    [ZR_CALL_INPUT] = "backward of the input",
    [ZR_CALL_WEIGHT] = "backward of the weights",
};

const char *const zr_update_part_names[] = {
    [ZR_PART_MEAN] = "mean",
    [ZR_PART_GROUPS] = "groups",
    [ZR_PART_COPY] = "copy",
};

const char *const zr_scalars_part_names[] = {
    [ZR_SCALARS_OF_ALL] = "all", [ZR_SCALARS_OF_PIPELINE_STAGE] = "stage",
    [ZR_SCALARS_GIVE] = "give",  [ZR_SCALARS_ADD] = "add",
    [ZR_SCALARS_TAKE] = "take",
};

const char *const zr_tied_weight_part_names[] = {
    [ZR_TIED_WEIGHT_GIVE_SUM] = "give sum",
    [ZR_TIED_WEIGHT_ADD_SUM] = "add sum",
    [ZR_TIED_WEIGHT_GIVE_PARAMETERS] = "give parameters",
    [ZR_TIED_WEIGHT_TAKE_PARAMETERS] = "take parameters",
};

const char *zr_pass_name(zr_pass_kind kind)
{
    static const char *const names[ZR_PASS_COUNT] = {
        [ZR_PASS_MICRO_BATCH] = "micro-batch", [ZR_PASS_EVALUATION] = "evaluation",
        [ZR_PASS_BOUNDARY] = "boundary",       [ZR_PASS_TOTAL] = "total",
        [ZR_PASS_UPDATE] = "update",           [ZR_PASS_TIED_WEIGHTS] = "ties",
        [ZR_PASS_PUBLISH] = "publish",
    };
    static const char *const parts[ZR_CHUNK_PARTS] = {
        [ZR_CHUNK_FORWARD] = "forward",
        [ZR_CHUNK_BACKWARD] = "backward",
        [ZR_CHUNK_WEIGHT] = "weight",
        [ZR_CHUNK_EVALUATION] = "evaluation",
    };
    return kind < ZR_PASS_COUNT ? names[kind] : parts[(kind - ZR_PASS_COUNT) % ZR_CHUNK_PARTS];
}

zr_pass_kind zr_chunk_pass(zr_chunk_part part, int chunk)
{
    return (zr_pass_kind)(ZR_PASS_COUNT + chunk * ZR_CHUNK_PARTS + (int)part);
}

zr_pass_kind zr_action_pass(const zr_action *action)
{
    static const zr_chunk_part parts[] = {[ZR_ACT_FORWARD] = ZR_CHUNK_FORWARD,
                                          [ZR_ACT_BACKWARD] = ZR_CHUNK_BACKWARD,
                                          [ZR_ACT_WEIGHT] = ZR_CHUNK_WEIGHT};
    return zr_chunk_pass(parts[action->act], action->chunk);
}

bool zr_pass_is_of_micro_batch(int kind)
{
    int of_chunk = kind - ZR_PASS_COUNT;
    return kind == ZR_PASS_MICRO_BATCH ||
           (of_chunk >= 0 && of_chunk % ZR_CHUNK_PARTS != ZR_CHUNK_EVALUATION);
}

zero_status zr_pass_add(zr_pass *pass, const zr_instruction *next, zero_error *error)
{
    void *grown = zr_list_grow(pass->at, pass->count, &pass->capacity, sizeof *pass->at, error);
    if (!grown)
        return ZERO_ERR_MEMORY;
    pass->at = grown;
    pass->at[pass->count++] = *next;
    return ZERO_OK;
}

void zr_program_destroy(zr_program *program)
{
    for (int kind = 0; kind < ZR_PASSES; kind++)
        zr_free(program->passes[kind].at);
    *program = (zr_program){0};
}
