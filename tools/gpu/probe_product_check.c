// Some elements of a product, computed on the host in double from the pattern that its operands
// are.
#include "probe_product.h"

#include <math.h>
#include <string.h>

enum { SAMPLES = 64, SUM_SAMPLES = 4 };

// The pattern's length is a power of two.
static double element(const probe_session *session, int64_t at)
{
    return probe_widen(session->pattern[(size_t)at & (session->pattern_count - 1)]);
}

static double element_of_a(const probe_session *session, const probe_shape *s, int64_t row,
                           int64_t k)
{
    return element(session, s->turn_a ? k * s->m + row : row * s->k + k);
}

static double element_of_b(const probe_session *session, const probe_shape *s, int64_t k,
                           int64_t column)
{
    return element(session, s->turn_b ? column * s->k + k : k * s->n + column);
}

static double bias_of(const probe_session *session, const probe_shape *s, int64_t column)
{
    float value;
    if (!s->fp32)
        return element(session, column);
    memcpy(&value, session->pattern + ((size_t)column * 2 & (session->pattern_count - 1)),
           sizeof value);
    return value;
}

static double gelu_inner(double x) { return 0.7978845608028654 * (x + 0.044715 * x * x * x); }

static double gelu(double x) { return 0.5 * x * (1 + tanh(gelu_inner(x))); }

static double gelu_slope(double x)
{
    double t = tanh(gelu_inner(x));
    double inner_slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope;
}

static double expected(const probe_session *session, const probe_shape *s, int64_t row,
                       int64_t column)
{
    double sum = 0;
    for (int64_t k = 0; k < s->k; k++)
        sum += element_of_a(session, s, row, k) * element_of_b(session, s, k, column);
    switch (s->epilogue) {
    case PROBE_BIAS: return sum + bias_of(session, s, column);
    case PROBE_GELU_AUX_BIAS: return gelu(sum + bias_of(session, s, column));
    case PROBE_DGELU:
    case PROBE_DGELU_BGRAD: return sum * gelu_slope(element(session, row * s->n + column));
    default: return sum;
    }
}

static double expected_sum(const probe_session *session, const probe_shape *s, int64_t which)
{
    double sum = 0;
    if (s->epilogue == PROBE_DGELU_BGRAD)
        for (int64_t row = 0; row < s->m; row++)
            sum += expected(session, s, row, which);
    else
        for (int64_t k = 0; k < s->k; k++)
            sum += s->epilogue == PROBE_BGRADB ? element_of_a(session, s, which, k)
                                               : element_of_b(session, s, k, which);
    return sum;
}

static bool read_element(probe_session *session, const probe_shape *s, zr_cuda_address from,
                         int64_t at, double *out)
{
    float wide = NAN;
    uint16_t narrow = 0;
    const size_t bytes = s->fp32 ? sizeof wide : sizeof narrow;
    PROBE_TRY(session, cuMemcpyAsync, (zr_cuda_address)(s->fp32 ? (void *)&wide : &narrow),
              from + (zr_cuda_address)at * bytes, bytes, session->stream);
    PROBE_TRY(session, cuStreamSynchronize, session->stream);
    *out = s->fp32 ? wide : probe_widen(narrow);
    return true;
}

// The root of the squares of differences over that of what is right, under key.
static void judge(probe_session *session, const char *key, const double *differences,
                  const double *rights, int count, double most)
{
    double wrong = 0, right = 0;
    for (int i = 0; i < count; i++) {
        wrong += differences[i] * differences[i];
        right += rights[i] * rights[i];
    }
    const double error = sqrt(wrong / right);
    probe_answer_number(session->answer, key, error);
    if (!(error <= most))
        probe_answer_fail(session->answer, "the product is wrong: %s is %.2e, at most %.0e", key,
                          error, most);
}

static bool check_elements(probe_session *session, const probe_shape *s, zr_cuda_address d)
{
    double differences[SAMPLES], rights[SAMPLES], got;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t row = (int64_t)i * 7919 % s->m, column = (int64_t)i * 104729 % s->n;
        if (!read_element(session, s, d, row * s->n + column, &got))
            return false;
        rights[i] = expected(session, s, row, column);
        differences[i] = got - rights[i];
    }
    judge(session, "error", differences, rights, SAMPLES, s->fp32 ? 1e-3 : 1e-2);
    return true;
}

static bool check_sums(probe_session *session, const probe_shape *s, zr_cuda_address sums)
{
    double differences[SUM_SAMPLES], rights[SUM_SAMPLES], got;
    const int64_t count = s->epilogue == PROBE_BGRADB ? s->m : s->n;
    for (int i = 0; i < SUM_SAMPLES; i++) {
        const int64_t which = (int64_t)i * 7919 % count;
        if (!read_element(session, s, sums, which, &got))
            return false;
        rights[i] = expected_sum(session, s, which);
        differences[i] = got - rights[i];
    }
    judge(session, "sums_error", differences, rights, SUM_SAMPLES, 2e-2);
    return true;
}

bool probe_check_product(probe_session *session, const probe_shape *shape, const probe_matrices *at)
{
    return check_elements(session, shape, at->d) &&
           (shape->epilogue < PROBE_DGELU_BGRAD || check_sums(session, shape, at->sums));
}
