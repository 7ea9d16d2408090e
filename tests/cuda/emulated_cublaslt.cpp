// A libcublasLt.so over the emulated driver: products by plain loops, sums in fp32, in the order of
// k. It refuses what cuBLASLt's manual does not list: other types, strides shorter than a column,
// matrices that do not fit together, operands that are not aligned to 16 bytes, an epilogue without
// its pointers. EMULATED_FAIL knows its functions, too. EMULATED_EPILOGUES=none: the heuristic has
// nothing for products with an epilogue; late: it has, but they are then refused. Any thread calls
// it.
#include "../../src/cuda/cublaslt_api.h"
#include "simt.h"

#include "emulated.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

struct zr_blas_product_data {
    unsigned turn_a = ZR_CUBLAS_OP_N, turn_b = ZR_CUBLAS_OP_N;
    unsigned epilogue = ZR_CUBLASLT_EPILOGUE_DEFAULT;
    zr_cuda_address bias = 0, aux = 0;
    int64_t aux_stride = 0;
};

struct zr_blas_layout_data {
    unsigned type;
    int64_t rows, columns, stride;
};

struct zr_blas_wishes_data {
    size_t workspace = 0;
    uint32_t sums = 0;
    uint32_t alignments[4] = {256, 256, 256, 256}; // of A, B, C, D
};

#define EMULATED_BLAS(result, name, parameters) EMULATED_API result name parameters;
ZR_BLAS_FUNCTIONS(EMULATED_BLAS)
#undef EMULATED_BLAS

namespace {

constexpr uint64_t signature = 0x7a65726f;
constexpr zr_blas_status refused = ZR_CUBLAS_STATUS_INVALID_VALUE;

// A matrix, stored by columns, where its bytes really lie.
struct matrix {
    char *at;
    zr_blas_layout_data layout;
    bool turned;

    size_t place(int64_t row, int64_t column) const
    {
        return turned ? column + row * layout.stride : row + column * layout.stride;
    }
    float get(int64_t row, int64_t column) const
    {
        return read(at, layout.type, place(row, column));
    }
    void set(int64_t row, int64_t column, float value) const
    {
        write(at, layout.type, place(row, column), value);
    }

    static float read(const char *at, unsigned type, size_t place)
    {
        if (type == ZR_CUDA_R_32F)
            return ((const float *)at)[place];
        const uint16_t bits = ((const uint16_t *)at)[place];
        return type == ZR_CUDA_R_16F ? zr_half_to_float(bits)
                                     : __uint_as_float((uint32_t)bits << 16);
    }

    static void write(char *at, unsigned type, size_t place, float value)
    {
        const uint32_t bits = __float_as_uint(value);
        if (type == ZR_CUDA_R_32F)
            ((float *)at)[place] = value;
        else if (type == ZR_CUDA_R_16F)
            ((uint16_t *)at)[place] = zr_float_to_half(value);
        else
            ((uint16_t *)at)[place] =
                std::isnan(value) ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
};

struct work {
    matrix a, b, d;
    int64_t m, n, k; // d is (m, n)
    float alpha, beta;
    unsigned epilogue;
    char *bias;
    matrix aux;
};

bool is_one_of(unsigned epilogue, std::initializer_list<unsigned> some)
{
    for (unsigned other : some)
        if (epilogue == other)
            return true;
    return false;
}

bool reads_bias(unsigned epilogue)
{
    return is_one_of(epilogue, {ZR_CUBLASLT_EPILOGUE_BIAS, ZR_CUBLASLT_EPILOGUE_GELU_AUX_BIAS});
}

bool writes_sums(unsigned epilogue)
{
    return is_one_of(epilogue, {ZR_CUBLASLT_EPILOGUE_DGELU_BGRAD, ZR_CUBLASLT_EPILOGUE_BGRADA,
                                ZR_CUBLASLT_EPILOGUE_BGRADB});
}

bool has_aux(unsigned epilogue)
{
    return is_one_of(epilogue, {ZR_CUBLASLT_EPILOGUE_GELU_AUX_BIAS, ZR_CUBLASLT_EPILOGUE_DGELU,
                                ZR_CUBLASLT_EPILOGUE_DGELU_BGRAD});
}

float gelu_inner(float x) { return 0.79788456f * (x + 0.044715f * x * x * x); }

float gelu_slope(float x)
{
    float t = tanhf(gelu_inner(x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f * (1 + 3 * 0.044715f * x * x);
}

float apply_epilogue(const work &w, int64_t row, int64_t column, float value)
{
    if (reads_bias(w.epilogue))
        value += matrix::read(w.bias, w.d.layout.type, row);
    if (w.epilogue == ZR_CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        w.aux.set(row, column, value);
        return 0.5f * value * (1 + tanhf(gelu_inner(value)));
    }
    return has_aux(w.epilogue) ? value * gelu_slope(w.aux.get(row, column)) : value;
}

// The sums of D's rows, or over k of one of the operands.
void add_sums(const work &w)
{
    const bool of_b = w.epilogue == ZR_CUBLASLT_EPILOGUE_BGRADB;
    const bool of_d = w.epilogue == ZR_CUBLASLT_EPILOGUE_DGELU_BGRAD;
    for (int64_t i = 0; i < (of_b ? w.n : w.m); i++) {
        float sum = 0;
        for (int64_t k = 0; k < (of_d ? w.n : w.k); k++)
            sum += of_d ? w.d.get(i, k) : of_b ? w.b.get(k, i) : w.a.get(i, k);
        matrix::write(w.bias, w.d.layout.type, i, sum);
    }
}

// Sums are made of this many rows and columns at a time.
constexpr int64_t tile_rows = 8, tile_columns = 4;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// op(A) as (k, rows of D), or op(B) as (columns of D, k): dense, in fp32, padded by zeros.
std::vector<float> dense(const matrix &of, bool turned, int64_t lines, int64_t line)
{
    std::vector<float> out((size_t)(lines * line));
    const zr_blas_layout_data &layout = of.layout;
    for (int64_t column = 0; column < layout.columns; column++)
        for (int64_t row = 0; row < layout.rows; row++)
            out[turned ? row * line + column : column * line + row] =
                matrix::read(of.at, layout.type, row + column * layout.stride);
    return out;
}

// One tile of D: a(k, line) from its first row on, b(tile_columns, k).
void sum_tile(const float *a, int64_t line, const float *b, int64_t k,
              float sums[tile_columns][tile_rows])
{
    float sum[tile_columns][tile_rows] = {};
    for (int64_t i = 0; i < k; i++, a += line)
        for (int64_t column = 0; column < tile_columns; column++)
            for (int64_t row = 0; row < tile_rows; row++)
                sum[column][row] += a[row] * b[column * k + i];
    memcpy(sums, sum, sizeof sum);
}

void store_tile(const work &w, int64_t first_row, int64_t first_column,
                const float sums[tile_columns][tile_rows])
{
    const int64_t rows = std::min(tile_rows, w.m - first_row),
                  columns = std::min(tile_columns, w.n - first_column);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) {
            const int64_t row = first_row + i, column = first_column + j;
            float value = w.alpha * sums[j][i] + (w.beta ? w.beta * w.d.get(row, column) : 0);
            w.d.set(row, column, apply_epilogue(w, row, column, value));
        }
}

bool multiply(const work &w)
{
    const int64_t line = round_up(w.m, tile_rows), lines = round_up(w.n, tile_columns);
    const std::vector<float> a = dense(w.a, w.a.turned, w.k, line),
                             b = dense(w.b, w.b.turned, lines, w.k);
    float sums[tile_columns][tile_rows];
    for (int64_t column = 0; column < lines; column += tile_columns)
        for (int64_t row = 0; row < line; row += tile_rows) {
            sum_tile(a.data() + row, line, b.data() + column * w.k, w.k, sums);
            store_tile(w, row, column, sums);
        }
    if (writes_sums(w.epilogue))
        add_sums(w);
    return true;
}

size_t width_of(unsigned type) { return type == ZR_CUDA_R_32F ? 4 : 2; }

bool is_layout(const zr_blas_layout_data *layout)
{
    return layout && layout->rows > 0 && layout->columns > 0 && layout->stride >= layout->rows;
}

// The manual's table of types for sums in fp32: A and B alike, and D as they are or in fp32.
bool are_types(unsigned a, unsigned b, unsigned d)
{
    return a == b && (d == a || d == ZR_CUDA_R_32F);
}

bool is_type(unsigned type)
{
    return type == ZR_CUDA_R_32F || type == ZR_CUDA_R_16BF || type == ZR_CUDA_R_16F;
}

// That the epilogue has what it reads or writes.
bool is_complete(const zr_blas_product_data &of, int64_t rows)
{
    const bool has_vector = reads_bias(of.epilogue) || writes_sums(of.epilogue);
    if (has_vector && !of.bias)
        return false;
    return !has_aux(of.epilogue) || (of.aux_stride >= rows && of.aux_stride % 8 == 0);
}

// That types and sizes fit together; fills the sizes.
bool fit(const zr_blas_product_data &of, const zr_blas_layout_data *a, const zr_blas_layout_data *b,
         const zr_blas_layout_data *d, work &out)
{
    if (!is_layout(a) || !is_layout(b) || !is_layout(d) || !are_types(a->type, b->type, d->type))
        return false;
    out.a.turned = of.turn_a == ZR_CUBLAS_OP_T;
    out.b.turned = of.turn_b == ZR_CUBLAS_OP_T;
    out.m = out.a.turned ? a->columns : a->rows;
    out.k = out.a.turned ? a->rows : a->columns;
    out.n = out.b.turned ? b->rows : b->columns;
    out.epilogue = of.epilogue;
    return out.k == (out.b.turned ? b->columns : b->rows) && d->rows == out.m &&
           d->columns == out.n && is_complete(of, out.m);
}

bool place(const void *address, const zr_blas_layout_data &layout, matrix &out)
{
    const size_t elements = (layout.columns - 1) * layout.stride + layout.rows;
    out.layout = layout;
    out.at =
        (char *)emulated::reach((zr_cuda_address)address, elements * width_of(layout.type), false);
    return out.at && (uintptr_t)address % 16 == 0;
}

bool place_epilogue(const zr_blas_product_data &of, work &out)
{
    const int64_t count = of.epilogue == ZR_CUBLASLT_EPILOGUE_BGRADB ? out.n : out.m;
    if (of.bias)
        out.bias = (char *)emulated::reach(of.bias, count * width_of(out.d.layout.type), false);
    return (!of.bias || out.bias) &&
           (!has_aux(of.epilogue) ||
            place((const void *)of.aux, {out.d.layout.type, out.m, out.n, of.aux_stride}, out.aux));
}

// What a product was submitted with. Its memory is looked for then, and again when it runs.
struct submitted {
    zr_blas_product_data product;
    zr_blas_layout_data a_layout, b_layout, d_layout;
    const void *a, *b, *d;
};

bool prepare(const submitted &s, work &out)
{
    return fit(s.product, &s.a_layout, &s.b_layout, &s.d_layout, out) &&
           place(s.a, s.a_layout, out.a) && place(s.b, s.b_layout, out.b) &&
           place(s.d, s.d_layout, out.d) && place_epilogue(s.product, out);
}

bool run(const submitted &s, float alpha, float beta)
{
    work w = {};
    w.alpha = alpha;
    w.beta = beta;
    if (prepare(s, w))
        return multiply(w);
    emulated::lose("cublasLtMatmul");
    return true;
}

zr_blas_status begin(const char *name)
{
    return emulated::begin(name) ? ZR_CUBLAS_STATUS_NOT_SUPPORTED : ZR_CUBLAS_STATUS_SUCCESS;
}

bool epilogues_are(const char *what)
{
    const char *text = getenv("EMULATED_EPILOGUES");
    return text && !strcmp(text, what);
}

template <class T, class... Values> zr_blas_status make(const char *name, T **out, Values... values)
{
    if (zr_blas_status status = begin(name))
        return status;
    *out = new T{values...};
    return ZR_CUBLAS_STATUS_SUCCESS;
}

template <class T> bool take(T &out, const void *value, size_t bytes)
{
    if (!value || bytes != sizeof out)
        return false;
    memcpy(&out, value, sizeof out);
    return true;
}

} // namespace

size_t cublasLtGetVersion() { return 130100; }

const char *cublasLtGetStatusString(zr_blas_status status)
{
    return status == refused ? "an unsupported value or parameter was passed to the function"
                             : "the requested functionality is not supported";
}

zr_blas_status cublasLtCreate(zr_blas_handle *handle)
{
    if (zr_blas_status status = begin("cublasLtCreate"))
        return status;
    *handle = (zr_blas_handle) new char;
    return ZR_CUBLAS_STATUS_SUCCESS;
}

zr_blas_status cublasLtDestroy(zr_blas_handle handle)
{
    zr_blas_status status = begin("cublasLtDestroy");
    delete (char *)handle;
    return status;
}

zr_blas_status cublasLtMatmulDescCreate(zr_blas_product *out, unsigned compute, unsigned scale)
{
    if (compute != ZR_CUBLAS_COMPUTE_32F || scale != ZR_CUDA_R_32F)
        return refused;
    return make("cublasLtMatmulDescCreate", out);
}

zr_blas_status cublasLtMatmulDescDestroy(zr_blas_product of)
{
    delete of;
    return ZR_CUBLAS_STATUS_SUCCESS;
}

zr_blas_status cublasLtMatmulDescSetAttribute(zr_blas_product of, unsigned attribute,
                                              const void *value, size_t bytes)
{
    if (zr_blas_status status = begin("cublasLtMatmulDescSetAttribute"))
        return status;
    bool taken = false;
    switch (attribute) {
    case ZR_CUBLASLT_MATMUL_DESC_TRANSA: taken = take(of->turn_a, value, bytes); break;
    case ZR_CUBLASLT_MATMUL_DESC_TRANSB: taken = take(of->turn_b, value, bytes); break;
    case ZR_CUBLASLT_MATMUL_DESC_EPILOGUE: taken = take(of->epilogue, value, bytes); break;
    case ZR_CUBLASLT_MATMUL_DESC_BIAS_POINTER: taken = take(of->bias, value, bytes); break;
    case ZR_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: taken = take(of->aux, value, bytes); break;
    case ZR_CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: taken = take(of->aux_stride, value, bytes); break;
    }
    return taken ? (zr_blas_status)ZR_CUBLAS_STATUS_SUCCESS : refused;
}

zr_blas_status cublasLtMatrixLayoutCreate(zr_blas_layout *out, unsigned type, uint64_t rows,
                                          uint64_t columns, int64_t stride)
{
    if (!is_type(type))
        return refused;
    return make("cublasLtMatrixLayoutCreate", out, type, (int64_t)rows, (int64_t)columns, stride);
}

zr_blas_status cublasLtMatrixLayoutDestroy(zr_blas_layout of)
{
    delete of;
    return ZR_CUBLAS_STATUS_SUCCESS;
}

zr_blas_status cublasLtMatmulPreferenceCreate(zr_blas_wishes *out)
{
    return make("cublasLtMatmulPreferenceCreate", out);
}

zr_blas_status cublasLtMatmulPreferenceDestroy(zr_blas_wishes of)
{
    delete of;
    return ZR_CUBLAS_STATUS_SUCCESS;
}

zr_blas_status cublasLtMatmulPreferenceSetAttribute(zr_blas_wishes of, unsigned attribute,
                                                    const void *value, size_t bytes)
{
    if (zr_blas_status status = begin("cublasLtMatmulPreferenceSetAttribute"))
        return status;
    bool taken = false;
    switch (attribute) {
    case ZR_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        taken = take(of->workspace, value, bytes);
        break;
    case ZR_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: taken = take(of->sums, value, bytes); break;
    case ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        taken = take(of->alignments[attribute - ZR_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                     value, bytes);
        break;
    }
    return taken ? (zr_blas_status)ZR_CUBLAS_STATUS_SUCCESS : refused;
}

zr_blas_status cublasLtMatmulAlgoGetHeuristic(zr_blas_handle handle, zr_blas_product product,
                                              zr_blas_layout a, zr_blas_layout b, zr_blas_layout c,
                                              zr_blas_layout d, zr_blas_wishes wishes, int asked,
                                              zr_blas_choice choices[], int *found)
{
    work w = {};
    *found = 0;
    if (zr_blas_status status = begin("cublasLtMatmulAlgoGetHeuristic"))
        return status;
    if (!handle || !wishes || asked < 1 || c != d || !fit(*product, a, b, d, w))
        return refused;
    if (product->epilogue != ZR_CUBLASLT_EPILOGUE_DEFAULT && epilogues_are("none"))
        return ZR_CUBLAS_STATUS_NOT_SUPPORTED;
    for (*found = 0; *found < std::min(asked, 2); ++*found) {
        choices[*found] = {};
        choices[*found].algorithm.data[0] = signature + *found;
    }
    return ZR_CUBLAS_STATUS_SUCCESS;
}

zr_blas_status cublasLtMatmul(zr_blas_handle handle, zr_blas_product product, const void *alpha,
                              const void *a, zr_blas_layout a_layout, const void *b,
                              zr_blas_layout b_layout, const void *beta, const void *c,
                              zr_blas_layout c_layout, void *d, zr_blas_layout d_layout,
                              const zr_blas_algorithm *algorithm, void *workspace,
                              size_t workspace_bytes, zr_cuda_stream stream)
{
    work w = {};
    if (zr_blas_status status = begin("cublasLtMatmul"))
        return status;
    if (!handle || c != d || c_layout != d_layout || algorithm->data[0] - signature > 1 ||
        !product || !a_layout || !b_layout || !d_layout ||
        (workspace_bytes && !emulated::reach((zr_cuda_address)workspace, workspace_bytes, false)))
        return refused;
    if (product->epilogue != ZR_CUBLASLT_EPILOGUE_DEFAULT && epilogues_are("late"))
        return ZR_CUBLAS_STATUS_NOT_SUPPORTED;
    const submitted s = {*product, *a_layout, *b_layout, *d_layout, a, b, d};
    const float by = *(const float *)alpha, past = *(const float *)beta;
    if (!prepare(s, w))
        return refused;
    zr_cuda_result result = emulated::submit(stream, [=] { return run(s, by, past); });
    return result ? ZR_CUBLAS_STATUS_NOT_SUPPORTED : ZR_CUBLAS_STATUS_SUCCESS;
}
