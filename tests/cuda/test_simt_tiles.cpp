// The words of mma.h on the CPU: products of both types against their definition, matrices as the
// PTX manual deals them out, copies that arrive at the wait and not before; what is misaligned.
#include "simt.h"

#include <csetjmp>
#include <cstdarg>
extern "C" {
#include <cmocka.h>
}

using simt::order;

namespace {

const order orders[] = {order::forward, order::backward, order::drawn};

template <class Body> void run(unsigned threads, order how, Body body)
{
    const std::string why = simt::launch(1, threads, how, body);
    assert_string_equal(why.c_str(), "");
}

void expect_refusal(const char *part, std::function<void()> body)
{
    const std::string why = simt::launch(1, 32, order::forward, body);
    if (why.find(part) == std::string::npos)
        fail_msg("\"%s\" does not say \"%s\"", why.c_str(), part);
}

// Small integers, which both types hold exactly, as do sums of their products.
int element(int row, int column) { return (row * 7 + column * 5) % 13 - 6; }
int other_element(int row, int column) { return (row * 3 + column * 11) % 9 - 4; }

uint32_t pack(bool f16, int low, int high)
{
    return f16 ? zr_pack_f16((float)low, (float)high) : zr_pack_bf16((float)low, (float)high);
}

void test_products(void **)
{
    for (order how : orders)
        for (bool f16 : {false, true})
            run(64, how, [=] {
                const int lane = threadIdx.x % 32, group = lane / 4, pair = lane % 4;
                uint32_t a[4], b[2];
                float d[4] = {1, 1, 1, 1};
                for (int i = 0; i < 4; i++) {
                    const int row = group + 8 * (i % 2), column = 2 * pair + 8 * (i / 2);
                    a[i] = pack(f16, element(row, column), element(row, column + 1));
                }
                for (int i = 0; i < 2; i++) {
                    const int row = 2 * pair + 8 * i;
                    b[i] = pack(f16, other_element(row, group), other_element(row + 1, group));
                }
                if (f16)
                    zr_mma_f16(d, a, b);
                else
                    zr_mma_bf16(d, a, b);
                for (int i = 0; i < 4; i++) {
                    int want = 1;
                    for (int k = 0; k < 16; k++)
                        want +=
                            element(group + 8 * (i / 2), k) * other_element(k, 2 * pair + i % 2);
                    assert_int_equal((int)d[i], want);
                }
            });
}

void test_matrices(void **)
{
    for (order how : orders)
        run(32, how, [] {
            __shared__ __align__(16) uint16_t matrices[4][8][8];
            const int lane = threadIdx.x;
            uint32_t words[4], transposed[4];
            for (int column = 0; column < 8; column++)
                matrices[lane / 8][lane % 8][column] = (uint16_t)(lane * 8 + column);
            __syncthreads();
            zr_load_matrices(words, &matrices[lane / 8][lane % 8]);
            zr_load_transposed(transposed, &matrices[lane / 8][lane % 8]);
            for (int m = 0; m < 4; m++) {
                const uint16_t(*of)[8] = matrices[m];
                assert_int_equal(words[m] & 0xffff, of[lane / 4][lane % 4 * 2]);
                assert_int_equal(words[m] >> 16, of[lane / 4][lane % 4 * 2 + 1]);
                assert_int_equal(transposed[m] & 0xffff, of[lane % 4 * 2][lane / 4]);
                assert_int_equal(transposed[m] >> 16, of[lane % 4 * 2 + 1][lane / 4]);
            }
        });
}

void test_copies(void **)
{
    const uint4 from[2] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
    for (order how : orders)
        run(32, how, [&] {
            __shared__ uint4 to[32][3];
            uint4 *mine = to[threadIdx.x];
            zr_copy_async(mine, &from[0], false);
            zr_copy_async(mine + 1, &from[0], true);
            zr_copy_commit();
            zr_copy_async(mine + 2, &from[1], false);
            zr_copy_commit();
            for (int i = 0; i < 3; i++)
                assert_int_equal(mine[i].x, 0xffffffff);
            zr_copy_wait(1);
            assert_int_equal(mine[0].w, 4);
            assert_int_equal(mine[1].x | mine[1].w, 0);
            assert_int_equal(mine[2].x, 0xffffffff);
            zr_copy_async(mine, &from[1], false); // of no group yet
            zr_copy_wait(0);
            assert_int_equal(mine[2].w, 8);
            assert_int_equal(mine[0].x, 0xffffffff);
        });
}

void test_misaligned(void **)
{
    static __align__(16) uint16_t bytes[64 * 8];
    const auto row = [](int shift) { return &bytes[threadIdx.x % 32 * 8 + shift]; };
    expect_refusal("ldmatrix is not aligned", [=] {
        uint32_t words[4];
        zr_load_matrices(words, row(1));
    });
    expect_refusal("cp.async is not aligned", [=] { zr_copy_async(row(0), row(4), false); });
}

// In a drawn order a warp may have gone far ahead of another.
void test_warps_rest(void **)
{
    for (order how : {order::forward, order::drawn}) {
        int steps[2] = {}, apart = 0;
        run(64, how, [&] {
            for (int step = 0; step < 200; step++) {
                __syncwarp();
                if (threadIdx.x % 32 == 0)
                    steps[threadIdx.x / 32] = step;
                apart = std::max(apart, abs(steps[0] - steps[1]));
            }
        });
        assert_true(how == order::drawn ? apart > 4 : apart <= 2);
    }
}

} // namespace

int main()
{
    const CMUnitTest tests[] = {
        cmocka_unit_test(test_products),   cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_copies),     cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_warps_rest),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
