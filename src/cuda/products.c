// Products by cuBLASLt, which has matrices by columns: its A is our B, its B our A, and its D, of n
// rows and m columns, lies in memory as ours does.
//
// What a shape is multiplied by (a plan) is decided once a card and shape, by cuBLASLt's heuristic
// for operands at multiples of 64 bytes, and kept until the card is closed, so that all queues and
// all ranks of a process multiply alike. An epilogue that cuBLASLt does not compute for the shape
// is a kernel's: a bias is written into D before the product is added to it, and the slope of gelu
// multiplies D afterwards.
#include "cuda/launch.h"

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/random.h"

#include <pthread.h>

enum {
    WORK_BYTES = 32 << 20, // that cuBLASLt may use, at the end of the scratch
    WORK_ALIGN = 256,
    OPERAND_ALIGN = 64,
    CHOICES = 4,
    BUCKETS = 256
};

typedef struct key {
    int64_t m, n, k, a_step, d_step, rest; // rest: types, transpositions, epilogue, whether it adds
} key;

typedef struct plan {
    struct plan *next; // of the same bucket
    key key;
    zr_blas_product description;
    zr_blas_layout a, b, d;
    zr_blas_choice choices[CHOICES];
    int choice, found;
    bool settled; // the choice has multiplied once
    bool fused;   // cuBLASLt computes the epilogue, whose operand is told to `description`
} plan;

typedef struct zr_cuda_products {
    pthread_mutex_t lock; // of all plans; held also while one is used
    plan *buckets[BUCKETS];
} zr_cuda_products;

static zero_status fail_blas(const zr_cuda_card *card, const char *call, zr_blas_status status,
                             zero_error *error)
{
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "cuda:%d: %s failed: %s (%u)", card->number, call,
                   card->blas->cublasLtGetStatusString(status), status);
}

#define TRY_BLAS(card, error, name, ...)                                                           \
    do {                                                                                           \
        zr_blas_status status_ = (card)->blas->name(__VA_ARGS__);                                  \
        if (status_)                                                                               \
            return fail_blas(card, #name, status_, error);                                         \
    } while (0)

// ---- plans ----

static key key_of(const zr_product *s)
{
    return (key){s->m,
                 s->n,
                 s->k,
                 ZR_A_STEP(s),
                 ZR_D_STEP(s),
                 (int64_t)s->dtype | (int64_t)s->out << 8 | (int64_t)s->epilogue << 16 |
                     (int64_t)s->trans_a << 24 | (int64_t)s->trans_b << 25 | (int64_t)s->add << 26};
}

static unsigned blas_type(zero_dtype dtype)
{
    return dtype == ZERO_F32 ? ZR_CUDA_R_32F : dtype == ZERO_BF16 ? ZR_CUDA_R_16BF : ZR_CUDA_R_16F;
}

// Whether cuBLASLt is asked for the epilogue: its operand has the type of D, and a matrix's stride
// is a multiple of 8 elements.
static bool may_fuse(const zr_product *s)
{
    return s->epilogue && s->dtype == s->out && (s->epilogue == ZR_EPILOGUE_BIAS || s->n % 8 == 0);
}

static zero_status set(const zr_cuda_card *card, plan *p, unsigned attribute, const void *value,
                       size_t bytes, zero_error *error)
{
    TRY_BLAS(card, error, cublasLtMatmulDescSetAttribute, p->description, attribute, value, bytes);
    return ZERO_OK;
}

static zero_status set_operand(const zr_cuda_card *card, plan *p, const zr_product *s,
                               zr_cuda_address at, zero_error *error)
{
    return set(card, p,
               s->epilogue == ZR_EPILOGUE_BIAS ? ZR_CUBLASLT_MATMUL_DESC_BIAS_POINTER
                                               : ZR_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
               &at, sizeof at, error);
}

static zero_status set_epilogue(const zr_cuda_card *card, plan *p, const zr_product *s,
                                zero_error *error)
{
    const bool biased = s->epilogue == ZR_EPILOGUE_BIAS;
    const uint32_t epilogue = biased ? ZR_CUBLASLT_EPILOGUE_BIAS : ZR_CUBLASLT_EPILOGUE_DGELU;
    const zr_cuda_address somewhere = (1 << 20) + OPERAND_ALIGN; // that has no more alignment
    ZERO_TRY(set(card, p, ZR_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, error));
    if (!biased)
        ZERO_TRY(set(card, p, ZR_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &s->n, sizeof s->n, error));
    return set_operand(card, p, s, somewhere, error);
}

static zero_status describe(const zr_cuda_card *card, plan *p, const zr_product *s,
                            zero_error *error)
{
    const uint32_t turn[] = {ZR_CUBLAS_OP_N, ZR_CUBLAS_OP_T};
    const int64_t a_rows = s->trans_b ? s->k : s->n, a_columns = s->trans_b ? s->n : s->k;
    const unsigned type = blas_type(s->dtype);
    TRY_BLAS(card, error, cublasLtMatmulDescCreate, &p->description, ZR_CUBLAS_COMPUTE_32F,
             ZR_CUDA_R_32F);
    ZERO_TRY(set(card, p, ZR_CUBLASLT_MATMUL_DESC_TRANSA, &turn[s->trans_b], sizeof *turn, error));
    ZERO_TRY(set(card, p, ZR_CUBLASLT_MATMUL_DESC_TRANSB, &turn[s->trans_a], sizeof *turn, error));
    TRY_BLAS(card, error, cublasLtMatrixLayoutCreate, &p->a, type, (uint64_t)a_rows,
             (uint64_t)a_columns, a_rows);
    TRY_BLAS(card, error, cublasLtMatrixLayoutCreate, &p->b, type, (uint64_t)ZR_A_WIDTH(s),
             (uint64_t)ZR_A_ROWS(s), ZR_A_STEP(s));
    TRY_BLAS(card, error, cublasLtMatrixLayoutCreate, &p->d, blas_type(s->out), (uint64_t)s->n,
             (uint64_t)s->m, ZR_D_STEP(s));
    return p->fused ? set_epilogue(card, p, s, error) : ZERO_OK;
}

static zero_status wish(const zr_cuda_card *card, zr_blas_wishes wishes, unsigned attribute,
                        const void *value, size_t bytes, zero_error *error)
{
    TRY_BLAS(card, error, cublasLtMatmulPreferenceSetAttribute, wishes, attribute, value, bytes);
    return ZERO_OK;
}

// Partial sums may be added up in fp32 alone, and without atomics, so that bits repeat.
static zero_status ask(const zr_cuda_card *card, plan *p, zr_blas_wishes wishes, zero_error *error)
{
    static const unsigned alignments[] = {ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                          ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                          ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                          ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = WORK_BYTES;
    const uint32_t sums = ZR_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = OPERAND_ALIGN;
    ZERO_TRY(
        wish(card, wishes, ZR_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most, error));
    ZERO_TRY(wish(card, wishes, ZR_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums,
                  error));
    for (int i = 0; i < ZR_COUNT(alignments); i++)
        ZERO_TRY(wish(card, wishes, alignments[i], &alignment, sizeof alignment, error));
    TRY_BLAS(card, error, cublasLtMatmulAlgoGetHeuristic, card->blas_handle, p->description, p->a,
             p->b, p->d, p->d, wishes, CHOICES, p->choices, &p->found);
    while (p->choice < p->found && p->choices[p->choice].state)
        p->choice++;
    if (p->choice < p->found)
        return ZERO_OK;
    return zr_fail(error, ZERO_ERR_UNSUPPORTED, "cuda:%d: cuBLASLt has no algorithm for it",
                   card->number);
}

static zero_status choose(const zr_cuda_card *card, plan *p, zero_error *error)
{
    zr_blas_wishes wishes;
    TRY_BLAS(card, error, cublasLtMatmulPreferenceCreate, &wishes);
    zero_status status = ask(card, p, wishes, error);
    card->blas->cublasLtMatmulPreferenceDestroy(wishes);
    return status;
}

static void free_plan(const zr_cuda_card *card, plan *p)
{
    const zr_blas_layout layouts[] = {p->a, p->b, p->d};
    for (int i = 0; i < ZR_COUNT(layouts); i++)
        if (layouts[i])
            card->blas->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (p->description)
        card->blas->cublasLtMatmulDescDestroy(p->description);
    zr_free(p);
}

static zero_status make_plan(const zr_cuda_card *card, const zr_product *s, bool fused, plan **out,
                             zero_error *error)
{
    plan *p = zr_alloc(sizeof *p, error);
    if (!p)
        return ZERO_ERR_MEMORY;
    p->key = key_of(s);
    p->fused = fused;
    zero_status status = describe(card, p, s, error);
    if (status == ZERO_OK)
        status = choose(card, p, error);
    if (status == ZERO_OK)
        *out = p;
    else
        free_plan(card, p);
    return status;
}

// Returns the plan of a shape, which is made if there is none yet. Under the lock.
static zero_status find_plan(zr_cuda_card *card, const zr_product *s, plan **out, zero_error *error)
{
    const key wanted = key_of(s);
    plan **bucket = &card->products->buckets[zr_hash_bytes(&wanted, sizeof wanted, 0) % BUCKETS];
    for (plan *p = *bucket; p; p = p->next)
        if (memcmp(&p->key, &wanted, sizeof wanted) == 0) {
            *out = p;
            return ZERO_OK;
        }
    if (!may_fuse(s) || make_plan(card, s, true, out, NULL) != ZERO_OK)
        ZERO_TRY(make_plan(card, s, false, out, error));
    (*out)->next = *bucket;
    *bucket = *out;
    return ZERO_OK;
}

zero_status zr_cuda_products_begin(zr_cuda_card *card, zero_error *error)
{
    card->products = zr_alloc(sizeof *card->products, error);
    if (!card->products)
        return ZERO_ERR_MEMORY;
    pthread_mutex_init(&card->products->lock, NULL);
    return ZERO_OK;
}

void zr_cuda_products_end(zr_cuda_card *card)
{
    if (!card->products)
        return;
    for (int i = 0; i < BUCKETS; i++)
        for (plan *p = card->products->buckets[i], *next; p; p = next) {
            next = p->next;
            free_plan(card, p);
        }
    pthread_mutex_destroy(&card->products->lock);
    zr_free(card->products);
    card->products = NULL;
}

// ---- multiplying ----

typedef struct operands {
    const zr_product *product;
    const void *a, *b, *operand;
    void *d;
} operands;

static size_t gelu_bytes(const zr_product *s)
{
    size_t bytes = (size_t)(s->m * s->k) * zero_dtype_bytes(s->dtype);
    return s->gelu_a ? ZR_ROUND_UP(bytes, (size_t)WORK_ALIGN) : 0;
}

size_t zr_cuda_product_scratch(const zr_product *s)
{
    if (s->m < 1 || s->n < 1 || s->k < 1)
        return 0;
    return gelu_bytes(s) + WORK_BYTES + WORK_ALIGN;
}

static zr_blas_status call(zr_queue *queue, const plan *p, const operands *of, bool adds)
{
    const float one = 1, beta = adds ? 1 : 0;
    const zr_cuda_queue *self = zr_cuda_queue_of(queue);
    const uintptr_t end = (uintptr_t)queue->scratch + queue->scratch_bytes;
    void *work = (void *)((end - WORK_BYTES) / WORK_ALIGN * WORK_ALIGN);
    return self->card->blas->cublasLtMatmul(
        self->card->blas_handle, p->description, &one, of->b, p->a, of->a, p->b, &beta, of->d, p->d,
        of->d, p->d, &p->choices[p->choice].algorithm, work, WORK_BYTES, self->stream);
}

// A choice that cuBLASLt then refuses gives way to the next, until one has multiplied. Under the
// lock.
static zr_blas_status call_first(zr_queue *queue, plan *p, const operands *of, bool adds)
{
    zr_blas_status status;
    while ((status = call(queue, p, of, adds)) && p->choice + 1 < p->found)
        p->choice++;
    p->settled = !status;
    return status;
}

static zero_status multiply_locked(zr_queue *queue, plan *p, const operands *of, bool adds,
                                   zero_error *error)
{
    const zr_cuda_card *card = zr_cuda_queue_of(queue)->card;
    if (p->fused)
        ZERO_TRY(set_operand(card, p, of->product, (uintptr_t)of->operand, error));
    zr_blas_status status = p->settled ? call(queue, p, of, adds) : call_first(queue, p, of, adds);
    return status ? fail_blas(card, "cublasLtMatmul", status, error) : ZERO_OK;
}

// Makes a plan one without the epilogue, which is then a kernel's. Under the lock.
static zero_status unfuse(const zr_cuda_card *card, const zr_product *s, plan *p, zero_error *error)
{
    plan *plain = NULL;
    ZERO_TRY(make_plan(card, s, false, &plain, error));
    plan old = *p;
    *p = *plain;
    p->next = old.next;
    *plain = old;
    free_plan(card, plain);
    return ZERO_OK;
}

static int64_t eights(zr_queue *queue, int64_t n)
{
    return zr_cuda_blocks(queue, (n + 7) / 8, 256);
}

static void fill_bias(zr_queue *queue, const operands *of)
{
    const zr_product *s = of->product;
    const int64_t n = s->m * s->n;
    ZR_LAUNCH(queue, product_bias, 256, eights(queue, n), 1, .bias = of->operand, .d = of->d,
              .n = n, .columns = s->n, .bias_type = s->dtype, .d_type = s->out);
}

// With the epilogue, but for a slope that is a kernel's. Under the lock.
static zero_status multiply_by(zr_queue *queue, plan *p, const operands *of, zero_error *error)
{
    const zr_product *s = of->product;
    const bool bias_first = s->epilogue == ZR_EPILOGUE_BIAS && !p->fused;
    if (bias_first)
        fill_bias(queue, of);
    return multiply_locked(queue, p, of, s->add || bias_first, error);
}

static zero_status multiply(zr_queue *queue, const operands *of, zero_error *error)
{
    zr_cuda_card *card = zr_cuda_queue_of(queue)->card;
    const zr_product *s = of->product;
    const int64_t n = s->m * s->n;
    plan *p = NULL;
    pthread_mutex_lock(&card->products->lock);
    zero_status status = find_plan(card, s, &p, error);
    if (status == ZERO_OK)
        status = multiply_by(queue, p, of, error);
    // What the heuristic offered with the epilogue, and then refused to multiply.
    if (status != ZERO_OK && p && p->fused && !p->settled) {
        status = unfuse(card, s, p, error);
        if (status == ZERO_OK)
            status = multiply_by(queue, p, of, error);
    }
    const bool sloped = p && !p->fused && s->epilogue == ZR_EPILOGUE_GELU_BACKWARD;
    pthread_mutex_unlock(&card->products->lock);
    if (status == ZERO_OK && sloped)
        ZR_LAUNCH(queue, product_slope, 256, eights(queue, n), 1, .pre = of->operand, .d = of->d,
                  .n = n, .pre_type = s->dtype, .d_type = s->out);
    return status;
}

// The sum of no products is 0.
static void multiply_nothing(zr_queue *queue, const operands *of)
{
    const zr_product *s = of->product;
    if (s->m < 1 || s->n < 1 || s->add)
        return;
    if (s->epilogue == ZR_EPILOGUE_BIAS) {
        fill_bias(queue, of);
        return;
    }
    const int64_t bytes = (int64_t)zero_dtype_bytes(s->out), rows = ZR_IS_DENSE(s) ? 1 : s->m;
    for (int64_t row = 0; row < rows; row++)
        zr_cuda_fill_bytes(queue, (char *)of->d + row * ZR_D_STEP(s) * bytes, 0,
                           s->m / rows * s->n * bytes);
}

static zero_status run(zr_queue *queue, operands *of, zero_error *error)
{
    const zr_product *s = of->product;
    const size_t needed = zr_cuda_product_scratch(s);
    ZERO_TRY(zr_product_check(s, error));
    if (queue->scratch_bytes < needed)
        return zr_fail(error, ZERO_ERR_INTERNAL, "needs %zu bytes of scratch, the queue has %zu",
                       needed, queue->scratch_bytes);
    ZERO_TRY(zr_cuda_card_enter(zr_cuda_queue_of(queue)->card, error));
    if (!needed) {
        multiply_nothing(queue, of);
        return ZERO_OK;
    }
    if (s->gelu_a) {
        zr_cuda_gelu_forward(queue, &(zr_elements){s->dtype, s->m * s->k}, of->a, queue->scratch);
        of->a = queue->scratch;
    }
    return multiply(queue, of, error);
}

ZR_KERNEL(zr_cuda_product, product, product)
{
    zero_error cause = {0}, error = {0};
    if (queue->failure->status != ZERO_OK)
        return;
    operands of = {.product = shape, .a = a, .b = b, .operand = operand, .d = d};
    zero_status status = run(queue, &of, &cause);
    if (status == ZERO_OK)
        return;
    zr_fail(&error, status, "product m %lld, n %lld, k %lld: %s", (long long)shape->m,
            (long long)shape->n, (long long)shape->k, cause.message);
    zr_queue_fail(queue, status, &error);
}
