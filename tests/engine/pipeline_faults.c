#include "pipeline_faults.h"

#include "base/errors.h"
#include "harness.h"
#include "setup/initialize.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

enum { STEPS = 3, WINDOW = 2, UNITS = 8, SEQ = HARNESS_SEQ };

typedef struct faulty { // a unit that does what another one does, and may do worse
    const zero_unit *unit;
    const fault *fault;
    zero_comm *comm;
} faulty;

typedef struct faulty_model {
    zero_unit_ops ops;
    faulty faulty;
    zero_unit units[UNITS];
    zero_model model;
} faulty_model;

// The functions of a unit.
typedef enum part { NOT_A_UNIT, FORWARD, BACKWARD, WEIGHT, EVALUATION } part;

static const part part_of[FAULT_COUNT] = {
    [FAULT_FORWARD] = FORWARD,
    [FAULT_BACKWARD] = BACKWARD,
    [FAULT_WEIGHT] = WEIGHT,
    [FAULT_EVALUATION] = EVALUATION,
    [FAULT_SILENT] = FORWARD,
    [FAULT_ABORT] = FORWARD,
    [FAULT_KILL] = FORWARD,
    [FAULT_STOP] = BACKWARD,
    [FAULT_KILL_EVALUATING] = EVALUATION,
};

static bool is_due(const faulty *f, part part, const zero_context *context)
{
    const fault *fault = f->fault;
    int64_t g = (int64_t)fault->micro_batch * FAULT_DATA + fault->rank % FAULT_DATA;
    return part_of[fault->kind] == part && fault->rank == zero_comm_rank(f->comm) &&
           (part == EVALUATION ||
            (context->step == (uint64_t)fault->step && context->micro_batch == (uint64_t)g));
}

static zero_status go_wrong(const faulty *f, zero_context *context)
{
    switch (f->fault->kind) {
    case FAULT_SILENT: return ZERO_ERR_DATA;
    case FAULT_ABORT: zero_comm_abort(f->comm, "the program wants no more"); return ZERO_OK;
    case FAULT_KILL:
    case FAULT_KILL_EVALUATING: raise(SIGKILL); return ZERO_OK;
    case FAULT_STOP: raise(SIGSTOP); return ZERO_OK;
    default: return zr_fail(context->error, ZERO_ERR_DATA, "unit %s is broken", f->unit->name);
    }
}

// Functions of the unit find its twin by the place of the context's unit in its model.
static const faulty *faulty_of(const zero_context *context)
{
    const zero_unit *first = context->unit - context->unit_index;
    const faulty_model *m =
        (const faulty_model *)((const char *)first - offsetof(faulty_model, units));
    return &m->faulty;
}

static zero_status before(zero_context *context, part part)
{
    const faulty *f = faulty_of(context);
    return is_due(f, part, context) ? go_wrong(f, context) : ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    ZERO_TRY(before(context, context->training ? FORWARD : EVALUATION));
    return faulty_of(context)->unit->ops->forward(context, in, out);
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    ZERO_TRY(before(context, BACKWARD));
    return faulty_of(context)->unit->ops->backward(context, in, d_out, d_in);
}

static zero_status backward_input(zero_context *context, const zero_tensors *in,
                                  const zero_tensors *d_out, const zero_tensors *d_in)
{
    ZERO_TRY(before(context, BACKWARD));
    return faulty_of(context)->unit->ops->backward_input(context, in, d_out, d_in);
}

static zero_status backward_weight(zero_context *context, const zero_tensors *in)
{
    ZERO_TRY(before(context, WEIGHT));
    return faulty_of(context)->unit->ops->backward_weight(context, in);
}

static void build(faulty_model *m, const zero_model *model, zero_comm *comm, const fault *fault)
{
    m->model = *model;
    m->model.units = m->units;
    memcpy(m->units, model->units, sizeof m->units);
    for (int u = 0; u < UNITS; u++) {
        if (!fault->unit || strcmp(model->units[u].name, fault->unit) != 0)
            continue;
        m->faulty = (faulty){.unit = &model->units[u], .fault = fault, .comm = comm};
        m->ops = *model->units[u].ops;
        m->ops.forward = forward;
        m->ops.backward = backward;
        m->ops.backward_input = backward_input;
        m->ops.backward_weight = backward_weight;
        m->units[u].ops = &m->ops;
    }
}

typedef struct rows {
    int32_t tokens[SEQ], targets[SEQ];
} rows;

static bool is_mistaken(const fault *fault, fault_kind kind, zero_comm *comm, int64_t step)
{
    return fault->kind == kind && fault->rank == zero_comm_rank(comm) && fault->step == step;
}

static zero_tensors take_batch(int64_t step, int64_t number, bool other, rows *r)
{
    harness_batch(step, number, 1, r->tokens, r->targets);
    r->targets[SEQ - 1] ^= other;
    return harness_tensors(1, r->tokens, r->targets);
}

static zero_status evaluate(zero_comm *comm, zero_engine *engine, const fault *fault, int64_t step,
                            zero_error *error)
{
    rows r;
    double loss;
    const zero_tensors batch =
        take_batch(999, 0, is_mistaken(fault, FAULT_OTHER_EVALUATED, comm, step), &r);
    return zero_evaluate(engine, &batch, &loss, error);
}

// Makes a step or, of an asynchronous schedule, a window. What a rank mistakes there belongs to the
// first step.
static zero_status train_steps(zero_comm *comm, zero_engine *engine, const fault *fault,
                               int64_t steps, zero_error *error)
{
    rows r[WINDOW * FAULT_ACCUMULATION];
    zero_tensors batches[WINDOW * FAULT_ACCUMULATION];
    zero_step_info infos[WINDOW];
    int64_t step, number;
    zero_position(engine, &step, &number);
    bool other = is_mistaken(fault, FAULT_OTHER_SAMPLES, comm, step);
    bool none = is_mistaken(fault, FAULT_NO_BATCHES, comm, step);
    ZERO_TRY(evaluate(comm, engine, fault, step, error));
    for (int k = 0; k < steps * FAULT_ACCUMULATION; k++)
        batches[k] = take_batch(step + k / FAULT_ACCUMULATION,
                                number + (int64_t)(k % FAULT_ACCUMULATION) * FAULT_DATA,
                                other && k == fault->micro_batch, &r[k]);
    if (zero_window(engine) > 1)
        return zero_train_window(engine, none ? NULL : batches, steps, infos, error);
    return zero_train_batch(engine, none ? NULL : batches, FAULT_ACCUMULATION, infos, error);
}

static zero_status train(zero_comm *comm, const zero_model *model, const fault *fault,
                         zero_error *error)
{
    bool interleaved = strcmp(fault->schedule, "interleaved:2") == 0;
    zero_engine *engine = NULL;
    const zero_options options = {.struct_size = sizeof options,
                                  .model = model,
                                  .comm = comm,
                                  .config_text = "{\"gradient_accumulation_steps\": 6, "
                                                 "\"gradient_clipping\": 0, "
                                                 "\"zero_optimization\": {\"stage\": 2}, "
                                                 "\"libzero\": {\"pipeline\": "
                                                 "{\"flush_every\": 2}}}",
                                  .shape = {.batch = 1, .seq = SEQ},
                                  .backend = "ref"};
    const zr_trial trial = {.parallel = {.pipeline = FAULT_STAGES,
                                         .schedule = fault->schedule,
                                         .split = interleaved ? "0,2,3,4,5,6" : "0,3,5"}};
    zero_status status = zr_initialize(&options, &trial, &engine, error);
    for (int64_t s = 0, n; s < STEPS && status == ZERO_OK; s += n) {
        n = ZR_MIN(zero_window(engine), STEPS - s);
        status = train_steps(comm, engine, fault, n, error);
    }
    zero_destroy(engine);
    return status;
}

zero_status fault_run(zero_comm *comm, const fault *fault, zero_error *error)
{
    zero_llama_config config = harness_llama();
    zero_model *model;
    faulty_model m = {0};
    config.n_layer = UNITS - 2;
    config.tied = 0;
    ZERO_TRY(zero_llama_create(&config, &model, error));
    build(&m, model, comm, fault);
    zero_status status = train(comm, &m.model, fault, error);
    zero_llama_destroy(model);
    return status;
}
