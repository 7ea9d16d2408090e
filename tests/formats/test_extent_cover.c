// Extents hold each element of their tensor once: drawn ones against a count of each element, and
// manifests that break the rules of rectangles, each by the name of what is wrong.
#include "../base/scratch_directory.h"

#include "base/random.h"
#include "formats/manifest.h"
#include "formats/rectangle.h"

enum { STRIDE = 12, ROWS = 10, ELEMENTS = STRIDE * ROWS, ROUNDS = 3000, MOST = 256 };

static uint32_t seed = 1;
static int64_t draw(int64_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (int64_t)(seed >> 8) % below;
}

static int by_first(const void *a, const void *b)
{
    const zr_extent *x = a, *y = b;
    return x->at.first < y->at.first ? -1 : x->at.first > y->at.first;
}

// Slices of drawn widths, in shards: the rest of a row, whole rows, the beginning of one.
static int draw_slices(zr_extent *out)
{
    int count = 0;
    for (int64_t column = 0, width; column < STRIDE; column += width) {
        width = 1 + draw(STRIDE - column);
        const zr_rectangle slice = {column, width, STRIDE, ROWS};
        for (int64_t done = 0, n; done < ROWS * width; done += n)
            n = zr_rectangle_take(&slice, done, 1 + draw(ROWS * width - done), &out[count++].at);
    }
    qsort(out, (size_t)count, sizeof *out, by_first);
    return count;
}

static zero_status cover(const zr_extent *extents, int count, zero_error *error)
{
    return zr_extents_check_cover("FILE", "TENSOR", extents, count, ELEMENTS, error);
}

// Checks that the message has an element that is held so often.
static void assert_named(const zr_extent *extents, int count, const zero_error *error)
{
    int times[ELEMENTS] = {0};
    for (int e = 0; e < count; e++)
        for (int64_t i = 0; i < zr_rectangle_elements(&extents[e].at); i++)
            times[extents[e].at.first + i / extents[e].at.width * extents[e].at.stride +
                  i % extents[e].at.width]++;
    bool none = strstr(error->message, "none holds");
    const char *element = strstr(error->message, "element ");
    while (element && strstr(element + 1, "element "))
        element = strstr(element + 1, "element ");
    assert_contains(error->message, "\"FILE\": TENSOR: ");
    int64_t named = strtoll(element + strlen("element "), NULL, 10);
    if (none ? times[named] != 0 : times[named] < 2)
        fail_msg("held %d times: %s", times[named], error->message);
}

static void each_element_once(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        static zr_extent extents[MOST];
        zero_error error = {0};
        int count = draw_slices(extents);
        if (cover(extents, count, &error) != ZERO_OK)
            fail_msg("%s", error.message);
        int lost = (int)draw(count);
        const zr_extent was = extents[lost];
        memmove(&extents[lost], &extents[lost + 1], (size_t)(count - lost - 1) * sizeof was);
        assert_int_equal(cover(extents, count - 1, &error), ZERO_ERR_DATA);
        assert_contains(error.message, "none holds");
        assert_named(extents, count - 1, &error);
        extents[count - 1] = was;
        extents[count] = extents[draw(count)];
        qsort(extents, (size_t)count + 1, sizeof was, by_first);
        assert_int_equal(cover(extents, count + 1, &error), ZERO_ERR_DATA);
        assert_contains(error.message, "two hold");
        assert_named(extents, count + 1, &error);
    }
}

// An extent that is moved leaves a hole and lies on another one: either is named.
static void moved_ones_are_found(void **state)
{
    for (int round = 0; round < ROUNDS; round++) {
        static zr_extent extents[MOST];
        zero_error error = {0};
        int count = draw_slices(extents), moved = (int)draw(count);
        zr_rectangle *at = &extents[moved].at;
        if (at->first == 0 || (at->first % STRIDE == 0 && at->rows > 1))
            continue;
        at->first--;
        qsort(extents, (size_t)count, sizeof *extents, by_first);
        assert_int_equal(cover(extents, count, &error), ZERO_ERR_DATA);
        assert_named(extents, count, &error);
    }
}

static zero_status read_extents(scratch *made, const char *format, const char *extents,
                                zr_manifest *out, zero_error *error)
{
    zr_buffer text = {0};
    zr_buffer_printf(&text,
                     "{\"format\":\"%s\",\n\"state\":{},\n\"files\":[\n{\"name\":\"weights."
                     "safetensors\",\"dtype\":\"f32\",\"bytes\":9999999,\"header\":[8,1],"
                     "\"tensors\":[\n{\"name\":\"w\",\"shape\":[4,6],\"begin\":8,\"extents\":[%s]}"
                     "]}]",
                     format, extents);
    uint64_t hash = zr_hash_bytes(text.data, text.length, 0);
    zr_buffer_printf(&text, ",\"hash\":\"%016llx\"}\n", (unsigned long long)hash);
    scratch_write(made, ZR_MANIFEST, text.data);
    zr_buffer_free(&text);
    return zr_manifest_read(made->directory, out, error);
}

#define ONE "libzero checkpoint 1"
#define TWO "libzero checkpoint 2"

static void what_is_no_format_is_refused(void **state)
{
    static const struct {
        const char *format, *extents, *says; // says NULL: it is read
    } cases[] = {
        {ONE, "[0,10,1],[10,14,1]", NULL},
        {TWO, "[0,10,1],[10,14,1]", NULL},
        {TWO, "[0,2,6,4,1],[2,4,6,4,1]", NULL},
        {TWO, "[0,2,6,4,1],[2,4,6,2,1],[14,4,1],[20,4,1]", NULL},
        {TWO, "[0,8,1],[8,4,6,2,1],[12,2,1],[18,6,1]", NULL},
        {ONE, "[0,24,1]]},{\"name\":\"v\",\"shape\":[24],\"begin\":9999903,\"extents\":[[0,24,1]",
         NULL},
        {ONE, "[0,24,1]]},{\"name\":\"v\",\"shape\":[24],\"begin\":9999904,\"extents\":[[0,24,1]",
         "a tensor inside of its file"},
        {ONE, "[0,24,1]],\"more\":[[0,1,1]", "the members that the format has"},
        {TWO, "[0,2,6,4,1],[3,3,6,4,1],[2,1,6,4,1]", "order of their first elements"},
        {"libzero checkpoint 3", "[0,24,1]", "\"libzero checkpoint 2\""},
        {ONE, "[0,2,6,4,1],[2,4,6,4,1]", "extents of three numbers"},
        {ONE, "[0,10,1],[12,12,1]", "follow each other"},
        {ONE, "[0,10,1]", "up to the last element"},
        {TWO, "[0,10,1],[9,15,1]", "follow each other"},
        {TWO, "[0,2,6,4],[2,4,6,4,1]", "three numbers or of five"},
        {TWO, "[0,2,6,1,1],[2,4,6,4,1]", "several rows"},
        {TWO, "[0,2,6,0,1],[2,4,6,4,1]", "several rows"},
        {TWO, "[0,0,6,4,1],[0,6,6,4,1]", "gaps"},
        {TWO, "[0,6,6,4,1]", "gaps"},
        {TWO, "[0,200000,300000,2,1]", "at most 1 MiB"},
        {TWO, "[0,2,6,4,1],[2,4,12,2,1]", "one stride"},
        {TWO, "[0,2,5,4,1]", "one stride"},
        {TWO, "[0,2,6,4,1],[4,3,6,3,1]", "inside of its columns"},
        {TWO, "[0,2,6,5,1]", "inside of the tensor"},
        {TWO, "[0,2,9223372036854775807,4,1]", "one stride"},
        {TWO, "[9223372036854775806,2,6,4,1]", "inside of the tensor"},
        {TWO, "[0,2,6,4,1],[9223372036854775807,4,1]", "inside of the tensor"},
        {TWO, "[0,2,6,4,1],[2,0,1],[2,4,6,4,1]", "inside of the tensor"},
        {TWO, "[2,4,6,4,1],[0,2,6,4,1]", "order of their first elements"},
        {TWO, "[0,2,6,4,1],[2,3,6,4,1]", "none holds element 5"},
        {TWO, "[0,2,6,4,1],[2,4,6,3,1]", "none holds element 20"},
        {TWO, "[0,2,6,3,1],[2,4,6,4,1],[18,1,1]", "none holds element 19"},
        {TWO, "[0,2,6,4,1],[1,5,6,4,1]", "two hold element 1"},
        {TWO, "[0,2,6,4,1],[2,4,6,4,1],[23,1,1]", "two hold element 23"},
        {TWO, "[0,2,6,4,1],[2,5,1],[8,4,6,3,1]", "two hold element 6"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_error error = {0};
        zr_manifest manifest;
        zero_status status =
            read_extents(*state, cases[i].format, cases[i].extents, &manifest, &error);
        zr_manifest_free(&manifest);
        if (status != (cases[i].says ? ZERO_ERR_DATA : ZERO_OK))
            fail_msg("%s %s: %s", cases[i].format, cases[i].extents, error.message);
        if (cases[i].says)
            assert_contains(error.message, cases[i].says);
    }
}

static void a_file_is_there_once(void **state)
{
    zr_manifest manifest;
    zero_error error;
    zr_buffer text = {0};
    assert_int_equal(read_extents(*state, ONE, "[0,24,1]", &manifest, &error), ZERO_OK);
    zr_manifest_file twice[] = {manifest.files[0], manifest.files[0]};
    zr_manifest_write(&(zr_manifest){manifest.state, 2, twice}, &text);
    scratch_write(*state, ZR_MANIFEST, text.data);
    zr_manifest_free(&manifest);
    zr_buffer_free(&text);
    assert_int_equal(zr_manifest_read(((scratch *)*state)->directory, &manifest, &error),
                     ZERO_ERR_DATA);
    assert_contains(error.message, "weights.safetensors: expected each file once");
}

// The first extent reaches further than those after it.
static void extents_before_an_element_are_passed_over(void **state)
{
    static const char extents[] = "[0,2,6,4,1],[2,4,1],[8,4,1],[14,4,1],[20,4,1]";
    zr_manifest manifest;
    zero_error error;
    assert_int_equal(read_extents(*state, TWO, extents, &manifest, &error), ZERO_OK);
    const zr_manifest_tensor *tensor = manifest.files->tensors;
    assert_int_equal(zr_manifest_extent_from(tensor, 0), 0);
    assert_int_equal(zr_manifest_extent_from(tensor, 18), 0);
    assert_int_equal(zr_manifest_extent_from(tensor, 19), 0);
    assert_int_equal(zr_manifest_extent_from(tensor, 20), 4);
    assert_int_equal(zr_manifest_extent_from(tensor, 24), 5);
    zr_manifest_free(&manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_once),
        cmocka_unit_test(moved_ones_are_found),
        cmocka_unit_test_setup_teardown(what_is_no_format_is_refused, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(a_file_is_there_once, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(extents_before_an_element_are_passed_over, scratch_open,
                                        scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
