// Optimizer updates: kernels of states.cu. What does not change from element to element is computed
// here, in double.
//
// An operation's arrays begin at any element of a shard, each at the same one; eight-bit states
// begin at a block. Kernels look at the addresses, and need no more alignment than elements have.
#include "cuda/launch.h"

#include "compute/state_blocks.h"

#include <string.h>

static_assert((int)ZR_STATE_ELEMENTS == ZR_STATE_BLOCK && (int)ZR_STATE_CODES == ZR_DYNAMIC_CODES,
              "the kernels' blocks and maps are the library's");

enum { THREADS = 256 };

static int64_t blocks_of(zr_queue *queue, int64_t n) // eight elements a thread
{
    return zr_cuda_blocks(queue, (n + 7) / 8, THREADS);
}

// The factors that most kinds have.
static zr_update_args update_args(const zr_update *u, const zr_update_values *v)
{
    return (zr_update_args){
        .n = u->n,
        .gradient_type = (int)u->gradient,
        .states_type = (int)u->states,
        .parameters_type = (int)u->parameters,
        .scale = v->gradient_scale,
        .keep0 = (float)v->beta1,
        .take0 = (float)(1 - v->beta1),
        .keep1 = (float)v->beta2,
        .take1 = (float)(1 - v->beta2),
        .keep_p = 1,
        .step = (float)v->lr,
        .epsilon = (float)u->epsilon,
        .weight_decay = (float)u->weight_decay,
        .first = v->first,
        .nesterov = u->nesterov,
    };
}

static void set_adam(zr_update_args *a, const zr_update *u, const zr_update_values *v)
{
    a->kind = ZR_UPDATES_ADAM;
    if (u->kind == ZR_UPDATE_ADAMW) {
        a->keep_p = (float)(1 - v->lr * u->weight_decay);
        a->weight_decay = 0;
    }
    a->step = (float)(v->lr / v->correction1);
    a->root = (float)(1 / sqrt(v->correction2));
}

static void set_sgd(zr_update_args *a, const zr_update *u, const zr_update_values *v)
{
    a->kind = ZR_UPDATES_SGD;
    a->keep0 = (float)u->momentum;
    a->take0 = (float)(1 - u->dampening);
    if (u->momentum == 0)
        a->state0 = NULL;
}

static void set_adagrad(zr_update_args *a, const zr_update *u, const zr_update_values *v)
{
    a->kind = ZR_UPDATES_ADAGRAD;
}

static void set_lion(zr_update_args *a, const zr_update *u, const zr_update_values *v)
{
    a->kind = ZR_UPDATES_LION;
    a->keep_p = (float)(1 - v->lr * u->weight_decay);
}

static void run_update(zr_queue *queue, const zr_update_args *a)
{
    zr_cuda_launch(queue, ZR_KERNEL_update, (const int64_t[3]){blocks_of(queue, a->n), 1, 1},
                   THREADS, a);
}

static void update_blocks(zr_queue *queue, const zr_update *u, const zr_update_values *v,
                          const zr_range_states *at)
{
    const zr_block_constants with = zr_block_constants_of(u, v);
    zr_update_blocks_args a = {.master = at->master,
                               .codes0 = at->state0,
                               .codes1 = at->state1,
                               .scales0 = at->scales0,
                               .scales1 = at->scales1,
                               .gradient = at->gradient,
                               .parameters = at->parameters,
                               .n = u->n,
                               .gradient_type = (int)u->gradient,
                               .parameters_type = (int)u->parameters,
                               .scale = with.scale,
                               .keep0 = with.keep0,
                               .take0 = with.take0,
                               .keep1 = with.keep1,
                               .take1 = with.take1,
                               .keep_p = with.keep_p,
                               .step = with.step,
                               .root = with.root,
                               .epsilon = with.epsilon,
                               .weight_decay = with.weight_decay};
    memcpy(a.signed_map, zr_signed_map, sizeof a.signed_map);
    memcpy(a.unsigned_map, zr_unsigned_map, sizeof a.unsigned_map);
    zr_cuda_launch(queue, ZR_KERNEL_update_blocks, (const int64_t[3]){blocks_of(queue, u->n), 1, 1},
                   THREADS, &a);
}

ZR_KERNEL(zr_cuda_update, update, update)
{
    static void (*const set[])(zr_update_args *, const zr_update *, const zr_update_values *) = {
        [ZR_UPDATE_ADAMW] = set_adam, [ZR_UPDATE_ADAM_L2] = set_adam,
        [ZR_UPDATE_SGD] = set_sgd,    [ZR_UPDATE_ADAGRAD] = set_adagrad,
        [ZR_UPDATE_LION] = set_lion,
    };
    static_assert(ZR_COUNT(set) == ZR_UPDATE_KINDS, "each kind has its factors");
    if (shape->states == ZERO_U8) {
        const zr_range_states at = {.master = master,
                                    .state0 = state0,
                                    .state1 = state1,
                                    .scales0 = scales0,
                                    .scales1 = scales1,
                                    .gradient = gradient,
                                    .parameters = parameters};
        update_blocks(queue, shape, values, &at);
        return;
    }
    zr_update_args a = update_args(shape, values);
    a.master = a.out = master;
    a.state0 = state0;
    a.state1 = state1;
    a.gradient = gradient;
    a.parameters = parameters;
    set[shape->kind](&a, shape, values);
    run_update(queue, &a);
}

ZR_KERNEL(zr_cuda_lamb_direction, lamb_direction, update)
{
    zr_update_args a = update_args(shape, values);
    a.kind = ZR_UPDATES_LAMB;
    a.master = master;
    a.out = direction;
    a.state0 = state0;
    a.state1 = state1;
    a.gradient = gradient;
    a.step = (float)(1 / values->correction1);
    a.root = (float)(1 / sqrt(values->correction2));
    run_update(queue, &a);
}

ZR_KERNEL(zr_cuda_subtract_scaled, subtract_scaled, update)
{
    ZR_LAUNCH(queue, subtract_scaled, THREADS, blocks_of(queue, shape->n), 1, .master = master,
              .direction = direction, .parameters = parameters, .n = shape->n, .step = *step,
              .parameters_type = (int)shape->parameters);
}

ZR_KERNEL(zr_cuda_average, average, update)
{
    if (values->first)
        zr_cuda_copy_bytes(queue, master, average, shape->n * (int64_t)sizeof *master);
    else
        ZR_LAUNCH(queue, average, THREADS, blocks_of(queue, shape->n), 1, .master = master,
                  .average = average, .n = shape->n, .take = (float)(1 - shape->average_decay));
}
