// CRC32C: published values (RFC 3720, appendix B.4), and the two implementations compared with each
// other.
#include "scratch_directory.h"

#include "base/file.h"
#include "base/random.h"

#include <stdlib.h>

typedef uint32_t (*crc_function)(uint32_t crc, const void *data, size_t length);
static const crc_function functions[] = {zr_crc32c, zr_crc32c_table};

static void published_values(void **state)
{
    unsigned char zeros[32] = {0}, ones[32], rising[32], falling[32];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        rising[i] = (unsigned char)i;
        falling[i] = (unsigned char)(31 - i);
    }
    for (int f = 0; f < ZR_COUNT(functions); f++) {
        assert_int_equal(functions[f](0, "", 0), 0);
        assert_int_equal(functions[f](0, "123456789", 9), 0xe3069283);
        assert_int_equal(functions[f](0, zeros, 32), 0x8a9136aa);
        assert_int_equal(functions[f](0, ones, 32), 0x62a8ab43);
        assert_int_equal(functions[f](0, rising, 32), 0x46dd794e);
        assert_int_equal(functions[f](0, falling, 32), 0x113fdb5c);
    }
}

static void any_cut_and_alignment_agree(void **state)
{
    enum { N = 200 };
    unsigned char data[N];
    for (int i = 0; i < N; i++)
        data[i] = (unsigned char)zr_philox4x32(1, 0, (uint64_t)i).v[0];
    for (size_t start = 0; start < 16; start++) {
        for (size_t end = start; end <= N; end++) {
            uint32_t expected = zr_crc32c_table(0, data + start, end - start);
            size_t middle = start + (end - start) / 3;
            uint32_t first = zr_crc32c(0, data + start, middle - start);
            assert_int_equal(zr_crc32c(first, data + middle, end - middle), expected);
        }
    }
}

static void long_data_agrees(void **state)
{
    enum { N = 40000 };
    unsigned char *data = malloc(N);
    for (int i = 0; i < N; i++)
        data[i] = (unsigned char)zr_philox4x32(2, 0, (uint64_t)i).v[0];
    for (size_t length = 6000; length < N; length += 1237) {
        uint32_t expected = zr_crc32c_table(7, data + length % 5, length - 5);
        assert_int_equal(zr_crc32c(7, data + length % 5, length - 5), expected);
    }
    free(data);
}

static void every_flipped_bit_is_seen(void **state)
{
    unsigned char data[64] = {1, 2, 3};
    uint32_t expected = zr_crc32c(0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_not_equal(zr_crc32c(0, data, sizeof data), expected);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(any_cut_and_alignment_agree),
        cmocka_unit_test(long_data_agrees),
        cmocka_unit_test(every_flipped_bit_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
