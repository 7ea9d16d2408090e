// Runs kernels of one file of src/cuda/kernels on the CPU, in all orders of threads, and compares
// them with plain loops. PLANTED_TEXT is the file's path: a copy, in which test_planted.sh has made
// a mistake. Exit status 0: all was right; 1: something was not. What goes past the end of an array
// ends the program.
#include "simt.h"

#include PLANTED_TEXT

#include <sys/mman.h>
#include <unistd.h>

namespace {

// An array that ends where memory ends.
template <class T> T *array_new(size_t count)
{
    const size_t page = sysconf(_SC_PAGESIZE), bytes = (count * sizeof(T) + page - 1) / page * page;
    char *map = (char *)mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map + bytes, page, PROT_NONE))
        abort();
    return (T *)(map + bytes) - count;
}

// Small whole numbers, whose sums have no rounding.
float number(int64_t i) { return (float)(i * i * 7 % 13) - 5; }

float *numbers_new(size_t count)
{
    float *out = array_new<float>(count);
    for (size_t i = 0; i < count; i++)
        out[i] = number((int64_t)i);
    return out;
}

template <class Body> bool runs(const char *what, dim3 grid, dim3 block, simt::order how, Body body)
{
    std::string why = simt::launch(grid, block, how, body);
    if (!why.empty())
        printf("%s: %s\n", what, why.c_str());
    return why.empty();
}

bool is_near(const char *what, double got, double want)
{
    if (fabs(got - want) <= 1e-5 * (1 + fabs(want)))
        return true;
    printf("%s: %g, not %g\n", what, got, want);
    return false;
}

#ifdef PLANTED_elements
constexpr int rows = 100, width = 77, vocab = 4;

bool check_tokens(simt::order how)
{
    int32_t *ids = array_new<int32_t>(rows);
    float *d = array_new<float>(rows * width), *out = array_new<float>(vocab * width);
    for (int i = 0; i < rows; i++)
        ids[i] = i % 7 == 3 ? -1 : i % 3;
    for (int i = 0; i < rows * width; i++) // sums that depend on the order
        d[i] = number(i) * (i % 5 ? 1 : 3e7f);
    zr_token_sums_args a = {ids, d, out, rows, width, ZR_TYPE_F32, 0};
    if (!runs("token_sums", dim3(rows, 3), 32, how, [&] { zr_token_sums(a); }))
        return false;
    for (int at = 0; at < vocab * width; at++) {
        float want = 0;
        for (int i = 0; i < rows; i++)
            want += ids[i] == at / width ? d[i * width + at % width] : 0;
        if (out[at] != want) {
            printf("token_sums: %.9g, not %.9g\n", out[at], want);
            return false;
        }
    }
    return true;
}

bool check(simt::order how) { return check_tokens(how); }
#endif

#ifdef PLANTED_rows
constexpr int rows = 3, width = 3003;

bool check_norm(simt::order how)
{
    float *x = numbers_new(rows * width), *gamma = numbers_new(width), *beta = numbers_new(width),
          *y = array_new<float>(rows * width);
    zr_norm_forward_args a = {};
    a.x = x, a.gamma = gamma, a.beta = beta, a.y = y, a.width = width, a.epsilon = 1e-5f;
    if (!runs("norm_forward", rows, 128, how, [&] { zr_norm_forward(a); }))
        return false;
    for (int i = 0; i < rows * width; i++) {
        const float *row = x + i / width * width;
        double mean = 0, squares = 0;
        for (int j = 0; j < width; j++)
            mean += row[j] / (double)width;
        for (int j = 0; j < width; j++)
            squares += (row[j] - mean) * (row[j] - mean) / width;
        const double normal = (x[i] - mean) / sqrt(squares + 1e-5);
        if (!is_near("norm_forward", y[i], normal * gamma[i % width] + beta[i % width]))
            return false;
    }
    return true;
}

bool check_loss(simt::order how)
{
    int32_t *target = array_new<int32_t>(rows);
    float *logits = numbers_new(rows * width), *before = numbers_new(rows * width),
          *row_loss = array_new<float>(rows);
    for (int i = 0; i < rows; i++)
        target[i] = 500 * i + 1;
    for (int i = 0; i < rows * width; i++) // the largest comes late
        logits[i] = before[i] += (float)(i % width / 1000);
    zr_loss_args a = {};
    a.target = target, a.logits = logits, a.row_loss = row_loss, a.vocab = a.step = width;
    a.factor = 2, a.gradient = 1;
    if (!runs("loss", rows, 128, how, [&] { zr_loss(a); }))
        return false;
    for (int i = 0; i < rows * width; i++) {
        const float *row = before + i / width * width;
        const int aim = target[i / width];
        double sum = 0;
        for (int j = 0; j < width; j++)
            sum += exp(row[j]);
        const double chance = exp(before[i]) / sum, hit = i % width == aim;
        if (!is_near("loss", row_loss[i / width], log(sum) - row[aim]) ||
            !is_near("gradient", logits[i], 2 * (chance - hit)))
            return false;
    }
    return true;
}

bool check_sum(simt::order how)
{
    constexpr int n = 3000;
    float *x = numbers_new(n);
    double *out = array_new<double>(1), want = 0;
    zr_sum_rows_args a = {x, out, n, 2};
    for (int i = 0; i < n; i++)
        want += x[i];
    return runs("sum_rows", 1, 256, how, [&] { zr_sum_rows(a); }) &&
           is_near("sum_rows", *out, want / 2);
}

bool check(simt::order how) { return check_norm(how) && check_loss(how) && check_sum(how); }
#endif

#ifdef PLANTED_columns
bool check(simt::order how)
{
    constexpr int rows = 70, width = 77, part_rows = 32, parts = 3;
    float *x = numbers_new(rows * width), *out = array_new<float>(width),
          *sums = array_new<float>(parts * width);
    zr_column_parts_args a = {x, sums, rows, width, part_rows, ZR_TYPE_F32, 0};
    zr_join_parts_args join = {sums, out, parts, width, width, 0, 0};
    if (!runs("column_parts", dim3(3, parts), 256, how, [&] { zr_column_parts(a); }) ||
        !runs("join_parts", 3, 256, how, [&] { zr_join_parts(join); }))
        return false;
    for (int j = 0; j < width; j++) {
        double want = 0;
        for (int i = 0; i < rows; i++)
            want += x[i * width + j];
        if (!is_near("column sum", out[j], want))
            return false;
    }
    return true;
}
#endif

} // namespace

int main()
{
    bool right = true;
    for (simt::order how : {simt::order::forward, simt::order::backward, simt::order::drawn})
        right = check(how) && right;
    return !right;
}
