// The emulator of kernels: what barriers, shuffles, atomics and mma.sync compute, in three orders
// of threads; that a missing barrier and a wrong fragment are seen; that waits which never end are
// told.
#include "simt.h"

#include "../../tools/gpu/kernels.cu"

#include <csetjmp>
#include <cstdarg>
extern "C" {
#include <cmocka.h>
}

using simt::order;

namespace {

const order orders[] = {order::forward, order::backward, order::drawn};
constexpr unsigned threads = 96;
constexpr uint32_t all = ~0u;

void expect_message(const std::string &got, const char *part)
{
    if (got.find(part) == std::string::npos)
        fail_msg("\"%s\" does not say \"%s\"", got.c_str(), part);
}

template <class Body> void run(dim3 grid, dim3 block, order how, Body body)
{
    const std::string why = simt::launch(grid, block, how, body);
    assert_string_equal(why.c_str(), "");
}

// Each thread takes what its opposite has written, with a barrier between or without.
std::vector<int> exchange_opposites(order how, bool with_barrier)
{
    std::vector<int> out(threads);
    run(1, threads, how, [&] {
        __shared__ int words[threads];
        words[threadIdx.x] = 0;
        __syncthreads();
        words[threadIdx.x] = 100 + threadIdx.x;
        if (with_barrier)
            __syncthreads();
        out[threadIdx.x] = words[threads - 1 - threadIdx.x];
    });
    return out;
}

void test_barrier(void **)
{
    for (order how : orders) {
        const std::vector<int> out = exchange_opposites(how, true);
        for (unsigned i = 0; i < threads; i++)
            assert_int_equal(out[i], 100 + threads - 1 - i);
    }
}

void test_missing_barrier(void **)
{
    const std::vector<int> forward = exchange_opposites(order::forward, false);
    assert_true(forward != exchange_opposites(order::backward, false));
    assert_true(forward != exchange_opposites(order::drawn, false));
    assert_true(forward == exchange_opposites(order::forward, false));
}

void test_indices(void **)
{
    const dim3 grid(3, 2), block(4, 2, 2);
    for (order how : orders) {
        std::vector<int> seen(grid.count() * block.count());
        run(grid, block, how, [&] {
            unsigned in_grid = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
            unsigned in_block = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
            seen[in_grid * block.count() + in_block]++;
        });
        for (int times : seen)
            assert_int_equal(times, 1);
    }
}

void test_shuffles(void **)
{
    for (order how : orders) {
        std::vector<int> crossed(threads), down(threads), first(threads);
        std::vector<double> wide(threads);
        run(1, threads, how, [&] {
            const int mine = threadIdx.x;
            crossed[mine] = __shfl_xor_sync(all, mine, 5);
            down[mine] = __shfl_down_sync(all, mine, 3);
            __syncwarp();
            first[mine] = __shfl_sync(all, mine, 0);
            wide[mine] = __shfl_xor_sync(all, mine + 0.25, 1);
        });
        for (int i = 0; i < (int)threads; i++) {
            assert_int_equal(crossed[i], i / 32 * 32 + (i % 32 ^ 5));
            assert_int_equal(down[i], i % 32 < 29 ? i + 3 : i);
            assert_int_equal(first[i], i / 32 * 32);
            assert_true(wide[i] == (i ^ 1) + 0.25);
        }
    }
}

void test_atomics(void **)
{
    for (order how : orders) {
        unsigned long long sum = 0;
        std::vector<int> taken(5 * threads);
        run(5, threads, how, [&] { taken[atomicAdd(&sum, 1ull)]++; });
        assert_int_equal(sum, 5 * threads);
        for (int times : taken)
            assert_int_equal(times, 1);
    }
}

// Two matrices of bf16, and what their product must be.
struct matrices {
    uint16_t a[16][16], b[16][8];
    double product[16][8];
};

double widened(uint16_t bf16) { return simt::half_of(bf16, 0); }

matrices draw_matrices()
{
    matrices m = {};
    uint32_t state = 12345;
    const auto draw = [&] {
        state = state * 1664525u + 1013904223u;
        return (uint16_t)narrow((float)(int32_t)state * 0x1p-31f);
    };
    for (auto &row : m.a)
        for (uint16_t &element : row)
            element = draw();
    for (auto &row : m.b)
        for (uint16_t &element : row)
            element = draw();
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 16; k++)
                m.product[i][j] += widened(m.a[i][k]) * widened(m.b[k][j]);
    return m;
}

// The largest difference of mma.sync from the product. Fragments are taken element by element as
// the PTX manual has them: a_i is row g + 8 (i / 2 % 2), column 2 t + i % 2 + 8 (i / 4); b_i is row
// 2 t + i % 2 + 8 (i / 2), column g; d_i is row g + 8 (i / 2), column 2 t + i % 2. With swap, two
// words of a are taken for each other.
double worst_of_mma(const matrices &m, order how, bool swap)
{
    double worst = 0;
    run(1, 32, how, [&] {
        const int g = threadIdx.x / 4, t = threadIdx.x % 4;
        uint32_t a[4] = {}, b[2] = {};
        float d[4] = {1, 1, 1, 1};
        for (int i = 0; i < 8; i++)
            a[i / 2] |= (uint32_t)m.a[g + 8 * (i / 2 % 2)][2 * t + i % 2 + 8 * (i / 4)]
                        << 16 * (i % 2);
        for (int i = 0; i < 4; i++)
            b[i / 2] |= (uint32_t)m.b[2 * t + i % 2 + 8 * (i / 2)][g] << 16 * (i % 2);
        if (swap)
            std::swap(a[1], a[2]);
        mma_16816(d, a, b);
        for (int i = 0; i < 4; i++)
            worst = std::max(worst, fabs(d[i] - 1 - m.product[g + 8 * (i / 2)][2 * t + i % 2]));
    });
    return worst;
}

void test_mma(void **)
{
    const matrices m = draw_matrices();
    for (order how : orders) {
        assert_true(worst_of_mma(m, how, false) < 1e-5);
        assert_true(worst_of_mma(m, how, true) > 0.1);
    }
}

void test_attention_in_three_orders(void **)
{
    const int seq = 128, heads = 2;
    std::vector<uint16_t> qkv(seq * 3 * heads * PROBE_HEAD_WIDTH);
    std::vector<uint16_t> out[3];
    std::vector<float> sums[3];
    for (size_t i = 0; i < qkv.size(); i++)
        qkv[i] = narrow(sinf(i * 0.37f));
    for (int which = 0; which < 3; which++) {
        out[which].assign(seq * heads * PROBE_HEAD_WIDTH, 0xffff);
        sums[which].assign(seq * heads, NAN);
        probe_attention_args a = {
            qkv.data(), out[which].data(), sums[which].data(), seq, heads, 0.125f, 0};
        run(dim3(seq / PROBE_ROWS, heads), 128, orders[which], [=] { probe_attention(a); });
        assert_true(out[which] == out[0]);
        assert_true(sums[which] == sums[0]);
    }
    for (uint16_t element : out[0])
        assert_true(std::isfinite(widened(element)));
}

void test_barrier_that_some_miss(void **)
{
    for (order how : orders) {
        std::string why = simt::launch(2, 64, how, [] {
            if (threadIdx.x != 7)
                __syncthreads();
        });
        expect_message(why, "block (0,0) cannot go on");
        expect_message(why, "1 of its threads have ended");
        expect_message(why, "63 of its threads wait at the barrier of line");
    }
}

void test_two_barriers_at_once(void **)
{
    for (order how : orders) {
        std::string why = simt::launch(1, 64, how, [] {
            if (threadIdx.x < 32)
                __syncthreads();
            else
                __syncthreads();
        });
        expect_message(why, "threads are at different barriers");
    }
}

void test_collective_that_some_miss(void **)
{
    for (order how : orders) {
        std::string why = simt::launch(1, 64, how, [] {
            int value = 3;
            if (threadIdx.x != 5)
                value = __shfl_xor_sync(all, value, 1);
            else
                __syncthreads();
            (void)value;
        });
        expect_message(why, "31 of its threads wait at __shfl_xor_sync");
        expect_message(why, "1 of its threads wait at the barrier");
        why = simt::launch(1, 32, how, [] {
            int value = 3;
            if (threadIdx.x < 16)
                value = __shfl_xor_sync(all, value, 1);
            else
                value = __shfl_xor_sync(all, value, 2);
            (void)value;
        });
        expect_message(why, "lanes are at different collectives");
        why = simt::launch(1, 32, how, [] { __shfl_xor_sync(0xffffu, 1, 1); });
        expect_message(why, "the mask names other lanes");
    }
    run(1, 64, order::forward, [] { __syncthreads(); }); // and the next launch is none the worse
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_missing_barrier),
        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_shuffles),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_attention_in_three_orders),
        cmocka_unit_test(test_barrier_that_some_miss),
        cmocka_unit_test(test_two_barriers_at_once),
        cmocka_unit_test(test_collective_that_some_miss),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
