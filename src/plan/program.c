#include "plan/program.h"

#include "base/alloc.h"

const char *zr_code_name(zr_code code)
{
    static const char *const names[ZR_CODE_COUNT] = {
        "GATHER", "REDUCE", "SCALARS", "FETCH", "STORE",   "AWAIT", "RELEASE", "PUBLISH",
        "BIND",   "UNBIND", "OPEN",    "ROUND", "SQUARES", "CALL",  "UPDATE",
    };
    return names[code];
}

const char *zr_when_name(zr_when when)
{
    static const char *const names[ZR_WHEN_COUNT] = {
        "always",  "first",  "later",   "last",   "stale",  "fresh",
        "changed", "finite", "at once", "behind", "beside", "rewritten",
    };
    return names[when];
}

const char *zr_space_name(zr_space space)
{
    static const char *const names[ZR_SPACE_COUNT] = {
        "-",           "parameters",
        "shards",      "gathered",
        "gradients",   "wholes",
        "open sums",   "staged parameters",
        "staged sums", "activation checkpoints",
        "stored",
    };
    return names[space];
}

const char *zr_slot_name(zr_slot_kind kind)
{
    static const char *const names[ZR_SLOT_KIND_COUNT] = {
        "-",       "sum",       "gather", "readers", "published", "released",
        "fetched", "travelled", "parked", "kept",    "group",
    };
    return names[kind];
}

const char *zr_call_name(zr_call call)
{
    static const char *const names[] = {"forward", "forward again", "backward", "forward_backward"};
    return names[call];
}

const char *zr_update_part_name(zr_update_part part)
{
    static const char *const names[] = {"mean", "groups", "copy"};
    return names[part];
}

const char *zr_pass_name(zr_pass_kind kind)
{
    static const char *const names[ZR_PASS_COUNT] = {
        "micro-batch", "evaluation", "boundary", "update", "publish",
    };
    return names[kind];
}

void zr_program_destroy(zr_program *program)
{
    for (int kind = 0; kind < ZR_PASS_COUNT; kind++)
        zr_free(program->passes[kind].at);
    *program = (zr_program){0};
}
