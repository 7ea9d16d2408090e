// Which products cuBLASLt computes, with which epilogues, types and sums, how fast, and whether its
// first choice of algorithm is its best. A line for each of 27 shapes of models of 124M to 8B.
#include "probe_product.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const probe_shape shapes[] = {
    {"square", 8192, 8192, 8192, .turn_b = true},
    {"124m qkv", 65536, 2304, 768, .epilogue = PROBE_BIAS},
    {"124m proj", 65536, 768, 768, .epilogue = PROBE_BIAS},
    {"124m fc gelu", 65536, 3072, 768, .epilogue = PROBE_GELU_AUX_BIAS},
    {"124m fc", 65536, 3072, 768, .epilogue = PROBE_BIAS},
    {"124m out", 65536, 768, 3072, .epilogue = PROBE_BIAS},
    {"124m out fp32 bias add", 65536, 768, 3072, .fp32 = true, .add = true, .epilogue = PROBE_BIAS},
    {"124m out fp32 add", 65536, 768, 3072, .fp32 = true, .add = true},
    {"124m d fc dgelu", 65536, 3072, 768, .turn_b = true, .epilogue = PROBE_DGELU},
    {"124m d fc dgelu bgrad", 65536, 3072, 768, .turn_b = true, .epilogue = PROBE_DGELU_BGRAD},
    {"124m dW fc", 768, 3072, 65536, .turn_a = true, .fp32 = true},
    {"124m dW fc add", 768, 3072, 65536, .turn_a = true, .fp32 = true, .add = true},
    {"124m dW fc bgradb", 768, 3072, 65536, .turn_a = true, .fp32 = true, .epilogue = PROBE_BGRADB},
    {"124m dW fc bgrada", 768, 3072, 65536, .turn_a = true, .fp32 = true, .epilogue = PROBE_BGRADA},
    {"124m dW proj", 768, 768, 65536, .turn_a = true, .fp32 = true},
    {"124m logits", 8192, 50304, 768, .turn_b = true},
    {"124m dW wte", 50304, 768, 8192, .turn_a = true, .fp32 = true, .add = true},
    {"1b q", 16384, 2048, 2048, .turn_b = true},
    {"1b kv", 16384, 512, 2048, .turn_b = true},
    {"1b gate", 16384, 8192, 2048, .turn_b = true},
    {"1b down", 16384, 2048, 8192, .turn_b = true},
    {"1b dW down", 2048, 8192, 16384, .turn_a = true, .fp32 = true},
    {"1b logits", 4096, 128256, 2048, .turn_b = true},
    {"8b q", 8192, 4096, 4096, .turn_b = true},
    {"8b gate", 8192, 14336, 4096, .turn_b = true},
    {"8b down", 8192, 4096, 14336, .turn_b = true},
    {"8b dW down", 4096, 14336, 8192, .turn_a = true, .fp32 = true},
};

static const unsigned epilogues[PROBE_EPILOGUES] = {
    [PROBE_PLAIN] = ZR_CUBLASLT_EPILOGUE_DEFAULT,
    [PROBE_BIAS] = ZR_CUBLASLT_EPILOGUE_BIAS,
    [PROBE_GELU_AUX_BIAS] = ZR_CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
    [PROBE_DGELU] = ZR_CUBLASLT_EPILOGUE_DGELU,
    [PROBE_DGELU_BGRAD] = ZR_CUBLASLT_EPILOGUE_DGELU_BGRAD,
    [PROBE_BGRADB] = ZR_CUBLASLT_EPILOGUE_BGRADB,
    [PROBE_BGRADA] = ZR_CUBLASLT_EPILOGUE_BGRADA,
};

enum { CHOICES = 8 };

// Of one product, in cuBLASLt's terms: its matrix A is our B.
typedef struct product {
    const probe_shape *shape;
    const probe_matrices *at;
    zr_blas_handle handle;
    zr_blas_product description;
    zr_blas_layout a, b, d;
    zr_blas_wishes wishes;
    zr_blas_choice choices[CHOICES];
    int found;
    const zr_blas_algorithm *algorithm; // of those found
} product;

static bool check_blas(probe_session *session, const char *call, zr_blas_status status)
{
    if (status)
        probe_answer_fail_call(session->answer, call, (int)status,
                               session->blas.cublasLtGetStatusString(status));
    return !status;
}

#define TRY_BLAS(session, name, ...)                                                               \
    do {                                                                                           \
        if (!check_blas(session, #name, (session)->blas.name(__VA_ARGS__)))                        \
            return false;                                                                          \
    } while (0)

static bool set(probe_session *session, product *p, unsigned attribute, const void *value,
                size_t bytes)
{
    TRY_BLAS(session, cublasLtMatmulDescSetAttribute, p->description, attribute, value, bytes);
    return true;
}

static bool set_epilogue(probe_session *session, product *p)
{
    const probe_epilogue kind = p->shape->epilogue;
    const zr_cuda_address bias = kind >= PROBE_DGELU_BGRAD ? p->at->sums : p->at->bias;
    const zr_cuda_address aux = kind == PROBE_GELU_AUX_BIAS ? p->at->kept : p->at->aux;
    const int64_t stride = p->shape->n;
    if (!set(session, p, ZR_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogues[kind], sizeof *epilogues))
        return false;
    if (kind != PROBE_PLAIN && kind != PROBE_DGELU &&
        !set(session, p, ZR_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias))
        return false;
    if (kind < PROBE_GELU_AUX_BIAS || kind > PROBE_DGELU_BGRAD)
        return true;
    return set(session, p, ZR_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux, sizeof aux) &&
           set(session, p, ZR_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &stride, sizeof stride);
}

static bool describe(probe_session *session, product *p)
{
    const probe_shape *s = p->shape;
    const unsigned turn[] = {ZR_CUBLAS_OP_N, ZR_CUBLAS_OP_T};
    TRY_BLAS(session, cublasLtMatmulDescCreate, &p->description, ZR_CUBLAS_COMPUTE_32F,
             ZR_CUDA_R_32F);
    if (!set(session, p, ZR_CUBLASLT_MATMUL_DESC_TRANSA, &turn[s->turn_b], sizeof *turn) ||
        !set(session, p, ZR_CUBLASLT_MATMUL_DESC_TRANSB, &turn[s->turn_a], sizeof *turn) ||
        !set_epilogue(session, p))
        return false;
    const int64_t a_rows = s->turn_b ? s->k : s->n, b_rows = s->turn_a ? s->m : s->k;
    TRY_BLAS(session, cublasLtMatrixLayoutCreate, &p->a, ZR_CUDA_R_16BF, (uint64_t)a_rows,
             (uint64_t)(s->turn_b ? s->n : s->k), a_rows);
    TRY_BLAS(session, cublasLtMatrixLayoutCreate, &p->b, ZR_CUDA_R_16BF, (uint64_t)b_rows,
             (uint64_t)(s->turn_a ? s->k : s->m), b_rows);
    TRY_BLAS(session, cublasLtMatrixLayoutCreate, &p->d, s->fp32 ? ZR_CUDA_R_32F : ZR_CUDA_R_16BF,
             (uint64_t)s->n, (uint64_t)s->m, s->n);
    return true;
}

// Partial sums may be added up in fp32 alone, without atomics, so that the bits repeat.
static bool choose(probe_session *session, product *p)
{
    const uint32_t sums = ZR_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    TRY_BLAS(session, cublasLtMatmulPreferenceCreate, &p->wishes);
    TRY_BLAS(session, cublasLtMatmulPreferenceSetAttribute, p->wishes,
             ZR_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p->at->work_bytes,
             sizeof p->at->work_bytes);
    TRY_BLAS(session, cublasLtMatmulPreferenceSetAttribute, p->wishes,
             ZR_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof sums);
    TRY_BLAS(session, cublasLtMatmulAlgoGetHeuristic, p->handle, p->description, p->a, p->b, p->d,
             p->d, p->wishes, CHOICES, p->choices, &p->found);
    if (p->found == 0)
        probe_answer_fail(session->answer, "cublasLtMatmulAlgoGetHeuristic found no algorithm");
    return p->found > 0;
}

static zr_blas_status multiply(probe_session *session, const product *p)
{
    const float one = 1, beta = p->shape->add;
    const probe_matrices *at = p->at;
    return session->blas.cublasLtMatmul(p->handle, p->description, &one, (const void *)at->b, p->a,
                                        (const void *)at->a, p->b, &beta, (const void *)at->d, p->d,
                                        (void *)at->d, p->d, p->algorithm, (void *)at->work,
                                        at->work_bytes, session->stream);
}

static bool multiply_once(probe_session *session, void *of)
{
    return check_blas(session, "cublasLtMatmul", multiply(session, of));
}

// The first algorithm that runs, upon zeros.
static bool check_first(probe_session *session, product *p)
{
    zr_blas_status status = ZR_CUBLAS_STATUS_NOT_SUPPORTED;
    PROBE_TRY(session, cuMemsetD8Async, p->at->d, 0, p->at->d_bytes, session->stream);
    for (int i = 0; i < p->found && status; i++) {
        p->algorithm = &p->choices[i].algorithm;
        status = multiply(session, p);
    }
    return check_blas(session, "cublasLtMatmul", status) &&
           probe_check_product(session, p->shape, p->at);
}

static bool time_choices(probe_session *session, product *p)
{
    double first = NAN, best = NAN, seconds;
    int which = -1;
    for (int i = 0; i < p->found; i++) {
        p->algorithm = &p->choices[i].algorithm;
        if (multiply(session, p))
            continue; // not every choice runs
        if (!probe_time(session, 5, multiply_once, p, &seconds))
            return false;
        if (which < 0)
            first = seconds;
        if (which < 0 || seconds < best) {
            best = seconds;
            which = i;
        }
    }
    const double work = 2e-12 * (double)p->shape->m * (double)p->shape->n * (double)p->shape->k;
    probe_answer_integer(session->answer, "found", p->found);
    probe_answer_integer(session->answer, "best", which);
    probe_answer_number(session->answer, "TFs", work / best);
    probe_answer_number(session->answer, "first_TFs", work / first);
    probe_answer_integer(session->answer, "workspace_bytes",
                         which < 0 ? 0 : (long long)p->choices[which].workspace);
    return true;
}

static void destroy(probe_session *session, product *p)
{
    if (p->wishes)
        session->blas.cublasLtMatmulPreferenceDestroy(p->wishes);
    if (p->a)
        session->blas.cublasLtMatrixLayoutDestroy(p->a);
    if (p->b)
        session->blas.cublasLtMatrixLayoutDestroy(p->b);
    if (p->d)
        session->blas.cublasLtMatrixLayoutDestroy(p->d);
    if (p->description)
        session->blas.cublasLtMatmulDescDestroy(p->description);
}

// Prints the line of one shape, and keeps the session's own answer as it is.
static bool try_shape(probe_session *session, const probe_shape *shape, const probe_matrices *at,
                      zr_blas_handle handle)
{
    static probe_answer answer;
    probe_answer *outer = session->answer;
    product p = {.shape = shape, .at = at, .handle = handle};
    probe_answer_begin(&answer, "product");
    session->answer = &answer;
    probe_answer_text(&answer, "shape", shape->name);
    probe_answer_integer(&answer, "m", shape->m);
    probe_answer_integer(&answer, "n", shape->n);
    probe_answer_integer(&answer, "k", shape->k);
    if (describe(session, &p) && choose(session, &p) && check_first(session, &p))
        time_choices(session, &p);
    destroy(session, &p);
    session->answer = outer;
    probe_answer_print(&answer);
    return !answer.failed;
}

static int64_t shrink(int64_t size) { return (size / 128 + 15) / 16 * 16; }

static probe_shape shape_of(const probe_session *session, size_t which)
{
    probe_shape shape = shapes[which];
    if (session->options->small) {
        shape.m = shrink(shape.m);
        shape.n = shrink(shape.n);
        shape.k = shrink(shape.k);
    }
    return shape;
}

static size_t most(size_t a, int64_t elements, size_t width)
{
    size_t bytes = (size_t)elements * width;
    return a > bytes ? a : bytes;
}

// What each matrix takes for the largest of the shapes.
typedef struct matrix_bytes {
    size_t a, b, d, aux, bias;
} matrix_bytes;

static matrix_bytes measure(const probe_session *session)
{
    matrix_bytes bytes = {0};
    for (size_t i = 0; i < PROBE_LENGTH(shapes); i++) {
        const probe_shape s = shape_of(session, i);
        bytes.a = most(bytes.a, s.m * s.k, 2);
        bytes.b = most(bytes.b, s.k * s.n, 2);
        bytes.d = most(bytes.d, s.m * s.n, s.fp32 ? 4 : 2);
        bytes.bias = most(most(bytes.bias, s.n, 4), s.m, 4);
        if (s.epilogue >= PROBE_GELU_AUX_BIAS && s.epilogue <= PROBE_DGELU_BGRAD)
            bytes.aux = most(bytes.aux, s.m * s.n, 2);
    }
    return bytes;
}

static bool hold_matrices(probe_session *session, probe_matrices *out)
{
    const matrix_bytes bytes = measure(session);
    size_t unused = 0, all = 0;
    out->d_bytes = bytes.d;
    out->work_bytes = probe_size(session, (size_t)32 << 20, (size_t)64 << 10);
    const size_t wanted =
        bytes.a + bytes.b + bytes.d + 2 * (bytes.aux + bytes.bias) + out->work_bytes;
    PROBE_TRY(session, cuMemGetInfo_v2, &unused, &all);
    if (wanted > unused) {
        probe_answer_fail(session->answer, "products take %zu bytes of the device, %zu are free",
                          wanted, unused);
        return false;
    }
    return probe_hold_device(session, bytes.a, &out->a) &&
           probe_hold_device(session, bytes.b, &out->b) &&
           probe_hold_device(session, bytes.d, &out->d) &&
           probe_hold_device(session, bytes.aux, &out->aux) &&
           probe_hold_device(session, bytes.aux, &out->kept) &&
           probe_hold_device(session, bytes.bias, &out->bias) &&
           probe_hold_device(session, bytes.bias, &out->sums) &&
           probe_hold_device(session, out->work_bytes, &out->work) &&
           probe_fill(session, out->a, bytes.a) && probe_fill(session, out->b, bytes.b) &&
           probe_fill(session, out->aux, bytes.aux) && probe_fill(session, out->bias, bytes.bias);
}

static bool try_shapes(probe_session *session, zr_blas_handle handle)
{
    probe_matrices at;
    int right = 0;
    if (!hold_matrices(session, &at))
        return false;
    for (size_t i = 0; i < PROBE_LENGTH(shapes); i++) {
        const probe_shape shape = shape_of(session, i);
        right += try_shape(session, &shape, &at, handle);
    }
    probe_answer_integer(session->answer, "shapes", PROBE_LENGTH(shapes));
    probe_answer_integer(session->answer, "computed", right);
    return true;
}

static void release_handle(probe_session *session, const probe_held *held)
{
    check_blas(session, "cublasLtDestroy", session->blas.cublasLtDestroy(held->pointer));
}

bool probe_products(probe_session *session)
{
    char path[4096];
    zr_blas_handle handle;
    if (!probe_load_blas(session, path, sizeof path))
        return false;
    probe_answer_text(session->answer, "library", path);
    probe_answer_integer(session->answer, "version", (long long)session->blas.cublasLtGetVersion());
    TRY_BLAS(session, cublasLtCreate, &handle);
    return probe_hold(session, (probe_held){.release = release_handle, .pointer = handle}) &&
           try_shapes(session, handle);
}
