// GGUF files: blocks have the bytes of gguf-py's quantisers, what is written is read, and a file
// that contradicts itself is refused wherever it does.
#include "st_files.h"

#include "base/random.h"
#include "formats/gguf.h"
#include "formats/gguf_tensors.h"

#include <math.h>

enum { BLOCKS = 5, VALUES = BLOCKS * ZR_GGUF_BLOCK };

// Any numbers, numbers in the middle between two steps, zeros, and numbers whose scale is 0 in
// fp16.
static void fill(float values[static VALUES])
{
    uint32_t state = 1;
    for (int i = 0; i < VALUES; i++) {
        int at = i % ZR_GGUF_BLOCK;
        state = state * 1664525 + 1013904223;
        values[i] = i < 64    ? (float)((int32_t)((state >> 8) % 20001) - 10000) / 1000
                    : i < 96  ? at ? (float)(at - 16) + 0.5F : -127
                    : i < 128 ? 0
                              : (float)(1e-9 * (at + 1));
    }
}

static void to_hex(const unsigned char *bytes, int64_t count, char *out)
{
    for (int64_t i = 0; i < count; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
}

// gguf.quants.quantize of gguf-py 0.19 for the same numbers.
static void blocks_are_those_of_gguf_py(void **state)
{
    static const struct {
        const char *type, *bytes;
    } golden_blocks[] = {
        {"q8_0",
         "b72cd5447fc1e47d690b5bb28fc9fb82ab449bac16519d32a8fb6abd77a812653337032dcb4373367e92"
         "823edd577bc611af5e5d2dcfd9994523013a7db65581a3a31101003c81f1f2f3f4f5f6f7f8f9fafbfcfd"
         "feff0102030405060708090a0b0c0d0e0f10000000000000000000000000000000000000000000000000"
         "00000000000000000000000004080c1014181c2024282c3034383c4043474b4f53575b5f63676b6f7377"
         "7b7f"},
        {"q4_0",
         "adbcebd4703cea50e18712cd1feb782f5d54f93cb55c6f2bcfa180ccf63ddf0429239e8ef04b80878787"
         "878787879898989898989898008088888888888888888888888888888888008048483737373726262626"
         "151515150404"},
    };
    float values[VALUES];
    unsigned char bytes[VALUES * 4];
    char hex[VALUES * 8 + 1];
    fill(values);
    for (int i = 0; i < ZR_COUNT(golden_blocks); i++) {
        const zr_gguf_type *type = zr_gguf_type_find(golden_blocks[i].type);
        assert_true(zr_gguf_encode(type, values, VALUES, bytes));
        to_hex(bytes, zr_gguf_bytes(type, VALUES), hex);
        assert_string_equal(hex, golden_blocks[i].bytes);
    }
}

// No element is further away than half a step; of q4_0, whose steps end at 7, than one.
static void blocks_are_near(void **state)
{
    float values[VALUES], back[VALUES];
    unsigned char bytes[VALUES * 4];
    const zr_gguf_type *type;
    fill(values);
    for (int t = 0; (type = zr_gguf_type_at(t)); t++) {
        double steps = !strcmp(type->name, "f32") ? 1e9 : !strcmp(type->name, "q4_0") ? 8 : 127;
        assert_ptr_equal(zr_gguf_type_of(type->code), type);
        assert_true(zr_gguf_encode(type, values, VALUES, bytes));
        zr_gguf_decode(type, bytes, VALUES, back);
        for (int i = 0; i < VALUES; i++)
            assert_true(fabs((double)(back[i] - values[i])) <= 127.0 / steps * 1.01);
    }
}

static void blocks_hold_no_infinities(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN, 1e30F};
    unsigned char bytes[64];
    for (int i = 0; i < ZR_COUNT(bad); i++)
        for (int at = 0; at < ZR_GGUF_BLOCK; at += 31) {
            float values[ZR_GGUF_BLOCK] = {1, -2};
            values[at] = bad[i];
            assert_false(zr_gguf_encode(zr_gguf_type_find("q8_0"), values, ZR_GGUF_BLOCK, bytes));
            assert_false(zr_gguf_encode(zr_gguf_type_find("q4_0"), values, ZR_GGUF_BLOCK, bytes));
        }
    float tiny[ZR_GGUF_BLOCK] = {1e-44F, -1e-45F}; // 1 over such a scale is infinite
    assert_true(zr_gguf_encode(zr_gguf_type_find("q8_0"), tiny, ZR_GGUF_BLOCK, bytes));
    assert_true(zr_gguf_encode(zr_gguf_type_find("q4_0"), tiny, ZR_GGUF_BLOCK, bytes));
}

// A file with a key of each kind that we write, and two tensors.
static void make(zr_buffer *out)
{
    zr_gguf_writer w = {.data = 0};
    const float values[] = {1, 2, 3, 4, 5, 6};
    unsigned char blocks[2 * 34] = {0};
    static const char zeros[ZR_GGUF_ALIGNMENT];
    zr_gguf_put_text(&w, "a.text", "llama");
    zr_gguf_put_u32(&w, "a.count", 7);
    zr_gguf_put_f32(&w, "a.rate", 0.5);
    zr_gguf_put_flag(&w, "a.flag", true);
    zr_gguf_put_array(&w, "a.words", ZR_GGUF_TEXT, 2);
    zr_gguf_put_item(&w, "one", 3);
    zr_gguf_put_item(&w, "", 0);
    zr_gguf_put_array(&w, "a.numbers", ZR_GGUF_I32, 2);
    zr_buffer_append(&w.keys, (int32_t[]){-1, 5}, 8);
    assert_int_equal(
        zr_gguf_put_tensor(&w, "plain", zr_gguf_type_find("f32"), 2, (int64_t[]){2, 3}), 0);
    assert_int_equal(
        zr_gguf_put_tensor(&w, "blocks", zr_gguf_type_find("q8_0"), 2, (int64_t[]){1, 64}), 32);
    assert_int_equal(w.data, 32 + 96);
    assert_int_equal(zr_gguf_head(&w, out, NULL), ZERO_OK);
    assert_int_equal(out->length % ZR_GGUF_ALIGNMENT, 0);
    zr_buffer_append(out, values, sizeof values);
    zr_buffer_append(out, zeros, 32 - sizeof values);
    zr_buffer_append(out, blocks, sizeof blocks);
    zr_buffer_append(out, zeros, 96 - sizeof blocks);
    zr_gguf_writer_free(&w);
}

static void what_is_written_is_read(void **state)
{
    scratch *made = *state;
    zr_buffer file = {0};
    zr_gguf gguf;
    zero_error error = {0};
    int64_t count = 0, absent = 3;
    double rate = 0;
    bool flag = false;
    zr_gguf_text text = {NULL, 0};
    const zr_gguf_key *words, *numbers;
    make(&file);
    st_write_bytes(made, "a.gguf", file.data, file.length);
    if (zr_gguf_open(scratch_path(made, "a.gguf"), &gguf, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(zr_gguf_get_integer(&gguf, "a.count", 100, &count, NULL), ZERO_OK);
    assert_int_equal(zr_gguf_get_integer(&gguf, "absent", 100, &absent, NULL), ZERO_OK);
    assert_int_equal(count, 7);
    assert_int_equal(absent, 3);
    assert_int_equal(zr_gguf_get_integer(&gguf, "a.count", 6, &count, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "a.count"));
    assert_int_equal(zr_gguf_get_integer(&gguf, "a.text", 100, &count, NULL), ZERO_ERR_DATA);
    assert_int_equal(zr_gguf_get_real(&gguf, "a.rate", &rate, NULL), ZERO_OK);
    assert_int_equal(zr_gguf_get_flag(&gguf, "a.flag", &flag, NULL), ZERO_OK);
    assert_true(rate == 0.5 && flag);
    assert_int_equal(zr_gguf_get_text(&gguf, "a.text", &text, NULL), ZERO_OK);
    assert_int_equal(text.length, 5);
    assert_memory_equal(text.at, "llama", 5);
    assert_int_equal(zr_gguf_get_array(&gguf, "a.words", ZR_GGUF_TEXT, &words, NULL), ZERO_OK);
    assert_int_equal(zr_gguf_get_array(&gguf, "a.words", ZR_GGUF_I32, &numbers, NULL),
                     ZERO_ERR_DATA);
    size_t at = words->at;
    assert_int_equal(words->count, 2);
    assert_int_equal(zr_gguf_next_text(&gguf, &at).length, 3);
    assert_int_equal(zr_gguf_next_text(&gguf, &at).length, 0);
    const zr_gguf_item *plain = zr_gguf_find_tensor(&gguf, "plain");
    assert_true(plain->dims == 2 && plain->sizes[0] == 2 && plain->sizes[1] == 3);
    assert_memory_equal(plain->data + 4, &(float){2}, 4);
    assert_null(zr_gguf_find_tensor(&gguf, "plai"));
    assert_null(zr_gguf_find_key(&gguf, "a.texts"));
    zr_gguf_close(&gguf);
    zr_buffer_free(&file);
}

static zero_status open_bytes(scratch *made, const void *bytes, size_t length, zero_error *error)
{
    zr_gguf gguf;
    st_write_bytes(made, "b.gguf", bytes, length);
    zero_status status = zr_gguf_open(scratch_path(made, "b.gguf"), &gguf, error);
    zr_gguf_close(&gguf);
    return status;
}

// Wherever the file ends, and whatever one of its bytes becomes, it is read or refused by name.
static void damage_is_refused(void **state)
{
    scratch *made = *state;
    zr_buffer file = {0};
    make(&file);
    size_t needed = file.length - 28; // without the zeros behind the last tensor
    for (size_t length = 0; length < file.length; length++) {
        zero_error error = {0};
        zero_status status = open_bytes(made, file.data, length, &error);
        assert_true(length >= needed ? status == ZERO_OK : status == ZERO_ERR_DATA);
        assert_true(status == ZERO_OK || strstr(error.message, "b.gguf"));
    }
    for (size_t i = 0; i < file.length - 128; i++) {
        zero_error error = {0};
        char kept = file.data[i];
        file.data[i] = (char)(kept ^ 0x81);
        zero_status status = open_bytes(made, file.data, file.length, &error);
        assert_true(status == ZERO_OK || status == ZERO_ERR_DATA || status == ZERO_ERR_UNSUPPORTED);
        assert_true(status == ZERO_OK || strstr(error.message, "b.gguf"));
        file.data[i] = kept;
    }
    zr_buffer_free(&file);
}

typedef struct wrong {
    const char *what; // part of the message
    void (*put)(zr_gguf_writer *w);
} wrong;

static void put_twice(zr_gguf_writer *w)
{
    zr_gguf_put_u32(w, "a", 1);
    zr_gguf_put_u32(w, "a", 2);
}

static void put_alignment(zr_gguf_writer *w) { zr_gguf_put_u32(w, "general.alignment", 24); }

static void put_unaligned(zr_gguf_writer *w)
{
    w->data = 8;
    zr_gguf_put_tensor(w, "t", zr_gguf_type_find("f32"), 1, (int64_t[]){1});
}

static void put_tensors_twice(zr_gguf_writer *w)
{
    zr_gguf_put_tensor(w, "t", zr_gguf_type_find("f32"), 1, (int64_t[]){1});
    zr_gguf_put_tensor(w, "t", zr_gguf_type_find("f32"), 1, (int64_t[]){1});
}

static void put_halves_of_blocks(zr_gguf_writer *w)
{
    zr_gguf_put_tensor(w, "t", zr_gguf_type_find("q8_0"), 2, (int64_t[]){2, 16});
}

static void put_too_far(zr_gguf_writer *w)
{
    zr_gguf_put_tensor(w, "t", zr_gguf_type_find("f32"), 1, (int64_t[]){1 << 20});
}

static void put_other_type(zr_gguf_writer *w)
{
    static const zr_gguf_type q4_k = {"q4_k", 12, 15, 256, 144};
    zr_gguf_put_tensor(w, "t", &q4_k, 1, (int64_t[]){256});
}

static void put_nested(zr_gguf_writer *w) { zr_gguf_put_array(w, "n", ZR_GGUF_ARRAY, 1); }

static void contradictions_are_refused(void **state)
{
    static const wrong all[] = {
        {"the key \"a\" is there twice", put_twice},
        {"general.alignment", put_alignment},
        {"begins at no multiple", put_unaligned},
        {"the tensor \"t\" is there twice", put_tensors_twice},
        {"no whole number of blocks", put_halves_of_blocks},
        {"beyond the end", put_too_far},
        {"type 12", put_other_type},
        {"list of lists", put_nested},
    };
    scratch *made = *state;
    for (int i = 0; i < ZR_COUNT(all); i++) {
        zr_gguf_writer w = {.data = 0};
        zr_buffer file = {0};
        zero_error error = {0};
        static const char zeros[256];
        all[i].put(&w);
        assert_int_equal(zr_gguf_head(&w, &file, NULL), ZERO_OK);
        zr_buffer_append(&file, zeros, sizeof zeros);
        assert_int_not_equal(open_bytes(made, file.data, file.length, &error), ZERO_OK);
        if (!strstr(error.message, all[i].what))
            fail_msg("\"%s\" is not in: %s", all[i].what, error.message);
        zr_buffer_free(&file);
        zr_gguf_writer_free(&w);
    }
}

// Each row goes to a place of its own and comes back; heads are those of the pictures.
static void rows_go_and_come_back(void **state)
{
    const zr_gguf_tensor orders[] = {
        {.order = ZR_GGUF_AS_IS, .rows = 12, .heads = 2, .head_dim = 6},
        {.order = ZR_GGUF_NEIGHBOURS, .rows = 12, .heads = 2, .head_dim = 6},
        {.order = ZR_GGUF_THREE_PARTS, .rows = 36, .heads = 2, .head_dim = 6},
    };
    static const int64_t neighbours[] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    for (int i = 0; i < ZR_COUNT(orders); i++)
        for (int64_t row = 0; row < orders[i].rows; row++)
            assert_int_equal(zr_gguf_row_of_file(&orders[i], zr_gguf_row_of_model(&orders[i], row)),
                             row);
    for (int64_t row = 0; row < ZR_COUNT(neighbours); row++)
        assert_int_equal(zr_gguf_row_of_model(&orders[1], row), neighbours[row]);
    for (int64_t row = 0; row < 36; row++) // row / 12: of queries, keys, values
        assert_int_equal(zr_gguf_row_of_model(&orders[2], row),
                         row % 12 / 6 * 18 + row / 12 * 6 + row % 6);
}

// Each architecture has a name in GGUF for each of its types and for each tensor of a block, and no
// name twice.
static void every_tensor_has_a_name(void **state)
{
    for (int a = 0; a < ZR_LM_KINDS; a++) {
        const zr_architecture *of = zr_architecture_at(a);
        for (int t = 0; of->gguf && of->types[t].name; t++)
            assert_non_null(of->gguf[t].name);
        // llama.cpp computes all but a GPT-2 whose gelu is by the error function
        assert_true(of->gguf || a == ZR_LM_GPT2_ERF);
        for (int t = 0; t < of->tensors.count; t++) {
            assert_non_null(of->gguf_names[t]);
            for (int other = 0; other < t; other++)
                assert_string_not_equal(of->gguf_names[t], of->gguf_names[other]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_those_of_gguf_py),
        cmocka_unit_test(blocks_are_near),
        cmocka_unit_test(blocks_hold_no_infinities),
        cmocka_unit_test_setup_teardown(what_is_written_is_read, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(damage_is_refused, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(contradictions_are_refused, scratch_in_ram, scratch_close),
        cmocka_unit_test(rows_go_and_come_back),
        cmocka_unit_test(every_tensor_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
