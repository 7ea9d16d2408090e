#include "measure/speed.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "compute/attention_ops.h"
#include "compute/element_ops.h"
#include "layers/layers.h"
#include "measure/bandwidth.h"
#include "measure/disk.h"
#include "measure/memory_rate.h"
#include "measure/products.h"
#include "memory/arena.h"

enum { ELEMS = 4 << 20, QUICK_BYTES = 64 << 20, LEAST_CALLS = 3, ATTENTION_HEADS = 2 };
#define SECONDS 0.1
// How often norms, activation functions, losses and residual sums read and write each saved byte
// (`zero bench step`: 4 for GPT-2).
#define PASSES_OVER_SAVED 4.0

typedef struct probe {
    const zr_speed_question *question;
    int sharers; // ranks of the machine for each rank that measures
    zr_queue *queue;
    zr_arena arena;
    zr_range_states states; // (ELEMS)
    zr_attention attention;
    void *qkv, *out, *dout, *dqkv, *scratch;
    float *lse;
    uint32_t sum; // uses the checksums, so that they are not optimised away
} probe;

typedef void (*work)(probe *p);

// Returns the mean time of a call over about SECONDS, after one call that is not counted.
static double time_of(probe *p, work call)
{
    int calls = 0;
    call(p);
    double begin = zr_clock_seconds(), end = begin;
    for (; calls < LEAST_CALLS || end - begin < SECONDS; calls++, end = zr_clock_seconds())
        call(p);
    return (end - begin) / calls;
}

static void copy(probe *p)
{
    p->queue->backend->elements->copy(p->queue, ELEMS * sizeof(float), p->states.state0,
                                      p->states.state1);
}

static void update(probe *p) { zr_memory_update(&p->states, ELEMS, p->queue->threads); }

static void checksum(probe *p)
{
    p->sum = zr_crc32c(p->sum, p->states.master, ELEMS * sizeof(float));
}

static void attend(probe *p)
{
    const zr_attention_ops *ops = p->queue->backend->attention;
    ops->forward(p->queue, &p->attention, p->qkv, p->out, p->lse, p->scratch);
    ops->backward(p->queue, &p->attention, p->qkv, p->out, p->lse, p->dout, p->dqkv, NULL,
                  p->scratch);
}

// Measures memory. If fewer ranks measure than will share the machine, each measures with the
// threads of the absent ones too.
static zero_status measure_memory(probe *p, zr_speed *out, zero_error *error)
{
    int threads = p->queue->threads;
    zr_ledger ledger = {0};
    size_t wide = ELEMS * sizeof(float), narrow = ELEMS * sizeof(uint16_t);
    ZERO_TRY(zr_arena_create(&ledger, ZERO_TIER_host, ZERO_MEM_workspace, 3 * wide + 2 * narrow,
                             &p->arena, error));
    p->states = (zr_range_states){.master = zr_arena_take(&p->arena, wide),
                                  .state0 = zr_arena_take(&p->arena, wide),
                                  .state1 = zr_arena_take(&p->arena, wide),
                                  .gradient = zr_arena_take(&p->arena, narrow),
                                  .parameters = zr_arena_take(&p->arena, narrow)};
    zero_status status = zr_comm_barrier(p->question->comm, error);
    p->queue->threads = threads * p->sharers;
    out->copy = 2.0 * ELEMS * sizeof(float) / time_of(p, copy) / p->sharers;
    out->update = (double)ZR_MEMORY_UPDATE_BYTES * ELEMS / time_of(p, update) / p->sharers;
    p->queue->threads = threads;
    out->checksum = (double)ELEMS * sizeof(float) / time_of(p, checksum);
    zr_arena_destroy(&p->arena);
    return status;
}

// Describes a few heads of one sequence of one of our own models.
static zr_attention few_heads(const zr_plan *plan, const zr_lm_shape *shape)
{
    int64_t sharing = shape->heads / shape->kv_heads;
    int64_t kv_heads = ZR_MAX(1, ZR_MIN(shape->kv_heads, ATTENTION_HEADS / sharing));
    return (zr_attention){
        .dtype = plan->settings.precision.activations,
        .batch = 1,
        .seq = plan->shape.seq,
        .heads = kv_heads * sharing,
        .kv_heads = kv_heads,
        .head_dim = shape->head_dim,
        .scale = 1,
    };
}

// Measures the seconds that the heads in p->attention take.
static zero_status time_attention(probe *p, double *seconds, zero_error *error)
{
    const zr_attention *a = &p->attention;
    size_t element = zero_dtype_bytes(a->dtype);
    size_t row = (size_t)(a->seq * a->heads * a->head_dim) * element;
    size_t packed = (size_t)(a->seq * zr_attention_row(a)) * element;
    size_t lse = (size_t)(a->heads * a->seq) * sizeof(float);
    size_t scratch = p->queue->backend->attention->scratch(p->queue, a);
    size_t all = 2 * packed + 2 * row + lse + scratch + 8 * ZR_ALIGN;
    zr_ledger ledger = {0};
    ZERO_TRY(zr_arena_create(&ledger, ZERO_TIER_host, ZERO_MEM_workspace, all, &p->arena, error));
    p->qkv = zr_arena_take(&p->arena, packed);
    p->dqkv = zr_arena_take(&p->arena, packed);
    p->out = zr_arena_take(&p->arena, row);
    p->dout = zr_arena_take(&p->arena, row);
    p->lse = zr_arena_take(&p->arena, lse);
    p->scratch = zr_arena_take(&p->arena, scratch);
    *seconds = time_of(p, attend);
    zr_arena_destroy(&p->arena);
    return ZERO_OK;
}

// Measures the attention of one micro-batch of one of our own models, of which this rank has its
// share of the heads.
static zero_status measure_attention(probe *p, double *seconds, zero_error *error)
{
    const zr_plan *plan = p->question->plan;
    const zr_lm_config *ours = zr_lm_config_of(plan->model);
    *seconds = 0;
    if (!ours)
        return ZERO_OK;
    const zr_lm_shape shape = zr_lm_shape_of(ours);
    double few;
    p->attention = few_heads(plan, &shape);
    ZERO_TRY(time_attention(p, &few, error));
    int64_t heads = shape.heads / plan->tensor_ranks;
    *seconds =
        few * (double)(heads * plan->shape.batch * shape.layers) / (double)p->attention.heads;
    return ZERO_OK;
}

static zero_status measure_kernels(probe *p, zr_speed *out, zero_error *error)
{
    const zr_plan *plan = p->question->plan;
    const zr_meter meter = {.comm = p->question->comm, .threads = p->queue->threads};
    zr_products_time products;
    double attention, saved = 0;
    ZERO_TRY(measure_memory(p, out, error));
    ZERO_TRY(measure_attention(p, &attention, error));
    ZERO_TRY(zr_products_measure(&meter, plan, true, &products, error));
    for (int u = 0; u < plan->unit_count; u++)
        saved += (double)plan->units[u].sizes.saved_bytes;
    out->micro_batch = products.median + attention + PASSES_OVER_SAVED * saved / out->copy;
    return ZERO_OK;
}

static zero_status find_disk(const probe *p, zr_speed *out, zero_error *error)
{
    const zr_speed_question *question = p->question;
    zr_bandwidth known;
    zr_disk disk;
    zr_bandwidth_read(question->directory, question->logger, &known);
    if (known.read <= 0 || known.write <= 0 || known.mix <= 0) {
        const zr_disk_options options = {.directory = question->directory,
                                         .bytes = QUICK_BYTES / (question->sharers / p->sharers),
                                         .block = 1 << 20,
                                         .depth = 8,
                                         .seconds = SECONDS,
                                         .rounds = 3};
        ZERO_TRY(zr_disk_measure(&options, &disk, error));
        zr_log(question->logger, ZERO_LOG_INFO,
               "disk     \"%s\" was measured in a second; \"zero bench io --path %s\" takes "
               "longer, and is remembered",
               question->directory, question->directory);
        out->read = disk.read.median / p->sharers, out->write = disk.write.median / p->sharers,
        out->mix = disk.mix.median / p->sharers;
        return ZERO_OK;
    }
    out->read = known.read / question->sharers, out->write = known.write / question->sharers,
    out->mix = known.mix / question->sharers;
    return ZERO_OK;
}

zero_status zr_speed_measure(const zr_speed_question *question, zr_speed *out, zero_error *error)
{
    probe p = {.question = question,
               .sharers = question->sharers / ZR_MIN(question->comm->size, question->sharers)};
    *out = (zr_speed){0};
    ZERO_TRY(zr_queue_open(question->backend ? question->backend : "cpu", NULL,
                           question->plan->shape.threads, &p.queue, error));
    zero_status status = measure_kernels(&p, out, error);
    if (status == ZERO_OK && question->directory)
        status = find_disk(&p, out, error);
    zr_queue_close(p.queue);
    return status;
}
