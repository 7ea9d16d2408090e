// The pickle machine reads what torch.save writes, and nothing else. Whatever a pickle asks for,
// nothing is executed, and memory is bounded.
#include "../base/scratch_directory.h"
#include "base/alloc.h"
#include "formats/pickle.h"

#include <math.h>

#define BYTES(text) text, sizeof(text) - 1

static zero_status read_pickle(const char *bytes, size_t length, zr_pickle *out, zero_error *error)
{
    char *exact = malloc(length ? length : 1); // so that a sanitizer sees a byte too many
    memcpy(exact, bytes, length);
    *error = (zero_error){0};
    zero_status status = zr_pickle_read(exact, length, "test.pt", out, error);
    free(exact);
    return status;
}

static void refused(const char *bytes, size_t length, const char *words)
{
    zr_pickle pickle;
    zero_error error;
    assert_int_equal(read_pickle(bytes, length, &pickle, &error), ZERO_ERR_DATA);
    assert_contains(error.message, "test.pt");
    assert_contains(error.message, words);
    assert_null(pickle.root);
}

#define STORAGE                                                                                    \
    "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"                                         \
    "7X\x03\0\0\0cpuK\x0ctQ"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"

// Protocol 4 has frames, short texts, and a memo that counts by itself.
static void test_later_protocols(void **state)
{
    char text[] = "\x80\x04\x95\x12\0\0\0\0\0\0\0}\x94(\x8c\x01"
                  "a\x94K\x01\x8c\x01"
                  "bh\x01u.";
    for (char protocol = 2; protocol <= 5; protocol++) {
        zr_pickle pickle;
        zero_error error;
        int64_t integer;
        text[1] = protocol;
        assert_int_equal(read_pickle(BYTES(text), &pickle, &error), ZERO_OK);
        assert_true(zr_pickle_integer(zr_pickle_get(pickle.root, "a"), &integer) && integer == 1);
        assert_string_equal(zr_pickle_text(zr_pickle_get(pickle.root, "b")), "a");
        zr_pickle_free(&pickle);
    }
}

static void test_values(void **state)
{
    zr_pickle pickle;
    zero_error error;
    int64_t integer;
    double real;
    // {"a": [1, -2, 70000, 2**40, -1 of one byte], "b": (True, None, 0.5), "c": "text"}, and "a" a
    // second time through the memo
    static const char text[] =
        "\x80\x02}q\0(X\x01\0\0\0a]q\x01("
        "K\x01J\xfe\xff\xff\xffJp\x11\x01\0\x8a\x06\0\0\0\0\0\x01\x8a\x01\xff"
        "eX\x01\0\0\0b\x88NG\x3f\xe0\0\0\0\0\0\0\x87"
        "X\x01\0\0\0cX\x04\0\0\0textX\x01\0\0\0dh\x01u.";
    assert_int_equal(read_pickle(BYTES(text), &pickle, &error), ZERO_OK);
    const zr_pickle_value *list = zr_pickle_get(pickle.root, "a"),
                          *tuple = zr_pickle_get(pickle.root, "b");
    static const int64_t numbers[] = {1, -2, 70000, (int64_t)1 << 40, -1};
    for (size_t i = 0; i < 5; i++) {
        assert_true(zr_pickle_integer(zr_pickle_at(list, i), &integer));
        assert_int_equal(integer, numbers[i]);
    }
    assert_null(zr_pickle_at(list, 5));
    assert_true(zr_pickle_is(tuple, ZR_PICKLE_TUPLE) && tuple->items.count == 3 &&
                zr_pickle_is(zr_pickle_at(tuple, 1), ZR_PICKLE_NONE));
    assert_true(zr_pickle_number(zr_pickle_at(tuple, 2), &real) && real == 0.5);
    assert_false(zr_pickle_integer(zr_pickle_at(tuple, 2), &integer));
    assert_string_equal(zr_pickle_text(zr_pickle_get(pickle.root, "c")), "text");
    assert_ptr_equal(zr_pickle_get(pickle.root, "d"), list);
    assert_null(zr_pickle_get(pickle.root, "e"));
    zr_pickle_free(&pickle);
    for (size_t cut = 0; cut < sizeof text - 1; cut++)
        assert_int_equal(read_pickle(text, cut, &pickle, &error), ZERO_ERR_DATA);
    refused("\x80\x02N.N", 5, "more after its end");
}

static void test_tensors(void **state)
{
    zr_pickle pickle;
    zero_error error;
    // storage 7 of 12 floats: a (2, 3) from element 4 on, as a parameter
    assert_int_equal(read_pickle(BYTES("\x80\x02"
                                       "ctorch._utils\n_rebuild_parameter\n(" REBUILD "(" STORAGE
                                       "K\x04K\x02K\x03\x86K\x03K\x01\x86\x89"
                                       "ccollections\nOrderedDict\n)RtR\x88}tR."),
                                 &pickle, &error),
                     ZERO_OK);
    const zr_pickle_value *root = pickle.root;
    assert_true(zr_pickle_is(root, ZR_PICKLE_TENSOR) && root->tensor.contiguous &&
                root->tensor.elements == 6 && root->tensor.offset == 4 && root->tensor.dims == 2);
    assert_true(root->tensor.storage->elements == 12 &&
                !strcmp(root->tensor.storage->dtype, "F32") &&
                !strcmp(root->tensor.storage->key, "7"));
    zr_pickle_free(&pickle);
    // transposed
    assert_int_equal(
        read_pickle(BYTES("\x80\x02" REBUILD "(" STORAGE "K\0K\x03K\x02\x86K\x01K\x03\x86tR."),
                    &pickle, &error),
        ZERO_OK);
    assert_false(pickle.root->tensor.contiguous);
    zr_pickle_free(&pickle);
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE "K\x07K\x02K\x03\x86K\x03K\x01\x86tR."),
            "outside of its storage");
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE "K\x0bK\x02\x85K\x01\x85tR."),
            "outside of its storage");
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE "J\xff\xff\xff\xffK\x01\x85K\x01\x85tR."),
            "without a storage");
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE "K\0J\xff\xff\xff\xff\x85K\x01\x85tR."),
            "shape that is none");
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE "K\0K\x02\x85J\xff\xff\xff\xff\x85tR."),
            "shape that is none");
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE "K\0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85"
                  "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85tR."),
            "too large");
    refused(BYTES("\x80\x02" REBUILD "(" STORAGE
                  "K\0(K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01t("
                  "K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01K\x01ttR."),
            "at most 8 dimensions");
    refused(BYTES("\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x04\0\0\0../"
                  "7X\x03\0\0\0cpuK\x0ctQ."),
            "not a storage");
    refused(BYTES("\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
                  "7X\x03\0\0\0cpuJ\xff\xff\xff\xfftQ."),
            "not a storage");
}

static void test_nothing_is_executed(void **state)
{
    refused(BYTES("\x80\x02"
                  "cos\nsystem\nX\x04\0\0\0true\x85R."),
            "\"os.system\"");
    refused(BYTES("\x80\x02"
                  "cposix\nsystem\n)R."),
            "\"posix.system\"");
    refused(BYTES("\x80\x02"
                  "c__builtin__\neval\nX\x01\0\0\0"
                  "1\x85R."),
            "\"__builtin__.eval\"");
    refused(BYTES("\x80\x02"
                  "ctorch\nload\n)R."),
            "\"torch.load\"");
    refused(BYTES("\x80\x02"
                  "ctorch.storage\n_load_from_bytes\n)R."),
            "_load_from_bytes");
    refused(BYTES("\x80\x02"
                  "cargparse\nNamespace\n)\x81."),
            "\"argparse.Namespace\"");
    refused(BYTES("\x80\x02ios\nsystem\n."), "0x69");                // INST
    refused(BYTES("\x80\x02(cos\nsystem\no."), "\"os.system\"");     // OBJ
    refused(BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "0x93"); // STACK_GLOBAL of protocol 4
    refused(BYTES("\x80\x01N."), "protocol 2 to 5");
    refused(BYTES("\x80\x06N."), "protocol 2 to 5");
    refused(BYTES("\x80\x04\x95\0\0\0"), "cut short"); // FRAME
    refused(BYTES("N."), "does not begin");
    refused(BYTES("\x80\x02"
                  "ctorch\nfloat32\n)R."),
            "cannot be called");
    refused(BYTES("\x80\x02K\x01)R."), "cannot be called");
    refused(BYTES("\x80\x02K\x01}b."), "attributes");
}

static void test_objects_are_inert(void **state)
{
    zr_pickle pickle;
    zero_error error;
    int64_t integer;
    assert_int_equal(
        read_pickle(
            BYTES(
                "\x80\x02("
                "cdeepspeed.runtime.fp16.loss_scaler\nLossScaler\n)\x81}X\x09\0\0\0cur_scaleK\x08sb"
                "cdeepspeed.runtime.zero.config\nZeroStageEnum\nK\x02\x85Rt."),
            &pickle, &error),
        ZERO_OK);
    assert_true(
        zr_pickle_integer(zr_pickle_get(zr_pickle_at(pickle.root, 0), "cur_scale"), &integer) &&
        integer == 8);
    assert_true(zr_pickle_integer(zr_pickle_at(pickle.root, 1), &integer) && integer == 2);
    zr_pickle_free(&pickle);
    // An object whose argument is an object says no number.
    assert_int_equal(read_pickle(BYTES("\x80\x02"
                                       "cdeepspeed.runtime.zero.config\nZeroStageEnum\ncdeepspeed."
                                       "runtime.zero.config\nZeroStageEnum\nK\x02\x85R\x85R."),
                                 &pickle, &error),
                     ZERO_OK);
    assert_false(zr_pickle_integer(pickle.root, &integer));
    zr_pickle_free(&pickle);
}

static void test_damaged_stacks(void **state)
{
    refused(BYTES("\x80\x02."), "other than one value");
    refused(BYTES("\x80\x02NN."), "other than one value");
    refused(BYTES("\x80\x02(."), "other than one value");
    refused(BYTES("\x80\x02t."), "no mark");
    refused(BYTES("\x80\x02"
                  "a."),
            "too little");
    refused(BYTES("\x80\x02N\x86."), "too little");
    refused(BYTES("\x80\x02N(\x85."), "too little"); // nothing above the mark
    refused(BYTES("\x80\x02](NNu."), "neither a list nor a dict");
    refused(BYTES("\x80\x02}(Nu."), "neither a list nor a dict");
    refused(BYTES("\x80\x02h\0."), "its memo has not");
    refused(BYTES("\x80\x02Nr\xff\xff\xff\xff."), "hole");
    refused(BYTES("\x80\x02Nq\x01."), "hole");
    refused(BYTES("\x80\x02X\xff\xff\xff\xff"
                  "abc"),
            "cut short");
    refused(BYTES("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\1."), "64 bits");
    refused(BYTES("\x80\x02"
                  "cos\n"),
            "cut short");
    refused(BYTES(""), "cut short");
}

static void repeat(zr_buffer *out, const char *text, size_t length, int times)
{
    for (int i = 0; i < times; i++)
        zr_buffer_append(out, text, length);
}

// What nests, or grows by each byte, ends in a refusal, not in a deep stack or in all of the
// memory.
static void test_bombs(void **state)
{
    zr_pickle pickle;
    zero_error error;
    zr_buffer text = {0};
    zr_buffer_append(&text, "\x80\x02", 2);
    repeat(&text, "(", 1, 100000);
    refused(text.data, text.length, "nested too deeply");
    text.length = 2;
    repeat(&text, "]", 1, 1 << 21);
    refused(text.data, text.length, "stack is too high");
    text.length = 2;
    repeat(&text, "]", 1, 100000);
    repeat(&text, "a", 1, 99999);
    zr_buffer_append(&text, ".", 1);
    // nothing recurses
    assert_int_equal(read_pickle(text.data, text.length, &pickle, &error), ZERO_OK);
    zr_pickle_free(&pickle);
    // x = [x, x]: it holds itself.
    assert_int_equal(read_pickle(BYTES("\x80\x02]q\0(h\0h\0e."), &pickle, &error), ZERO_OK);
    assert_ptr_equal(zr_pickle_at(pickle.root, 1), pickle.root);
    zr_pickle_free(&pickle);
    // ((((x, x), ...): 2^200 leaves by reference, 200 tuples in memory.
    text.length = 2;
    zr_buffer_append(&text, "Nq\0", 3);
    for (int i = 1; i < 200; i++)
        zr_buffer_append(&text, (char[]){'h', (char)(i - 1), '\x86', 'q', (char)i}, 5);
    zr_buffer_append(&text, ".", 1);
    assert_int_equal(read_pickle(text.data, text.length, &pickle, &error), ZERO_OK);
    zr_pickle_free(&pickle);
    zr_buffer_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_later_protocols),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_nothing_is_executed),
        cmocka_unit_test(test_objects_are_inert),
        cmocka_unit_test(test_damaged_stacks),
        cmocka_unit_test(test_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
