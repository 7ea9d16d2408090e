// Files of torch.save (tests/oracle/torch_models.py) as sources: what they hold, in one file or in
// shards, and what is refused.
#define _GNU_SOURCE
#include "base/file.h"
#include "formats/source_torch.h"
#include "st_files.h"

#include <sys/stat.h>

typedef struct expected {
    const char *name, *dtype;
    int dims;
    int64_t shape[3];
    int64_t first; // number of the first element in a counted tensor
} expected;

// As torch_models.py writes them, by name.
static const expected types[] = {
    {"brain", "BF16", 1, {7}, 0},    {"double", "F64", 3, {2, 1, 3}, 0},
    {"empty", "F32", 2, {0, 3}, 0},  {"half", "F16", 2, {2, 5}, 0},
    {"head", "F32", 2, {4, 5}, 0},   {"long", "I64", 2, {2, 2}, 0},
    {"parameter", "F32", 1, {3}, 0}, {"rows", "F32", 2, {2, 5}, 5},
    {"scalar", "F32", 0, {0}, 0},    {"single", "F32", 2, {3, 4}, 0},
    {"tied", "F32", 2, {4, 5}, 0},
};

static void check_element(const expected *of, const void *bytes, int64_t number)
{
    int64_t integer;
    float real;
    if (zr_source_is_real(of->dtype)) {
        zr_source_widen(of->dtype, bytes, 1, &real);
        assert_true(real == (float)(of->first + number - 3) / 4);
        return;
    }
    memcpy(&integer, bytes, sizeof integer);
    assert_int_equal(integer, of->first + number - 3);
}

static void check_types(const char *path)
{
    zr_source source;
    zero_error error = {0};
    if (zr_source_open(path, &source, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_int_equal(source.kind, ZR_SOURCE_TORCH);
    assert_int_equal(source.vector_count, 1);
    assert_int_equal(source.vectors[0].tensor_count, ZR_COUNT(types));
    for (int t = 0; t < ZR_COUNT(types); t++) {
        const zr_source_tensor *tensor = &source.vectors[0].tensors[t];
        int64_t width = zr_st_dtype_find(types[t].dtype)->bits / 8;
        char element[8];
        assert_string_equal(tensor->name, types[t].name);
        assert_string_equal(tensor->dtype, types[t].dtype);
        assert_int_equal(tensor->dims, types[t].dims);
        for (int d = 0; d < types[t].dims; d++)
            assert_int_equal(tensor->shape[d], types[t].shape[d]);
        for (int64_t i = 0; i < tensor->bytes / width; i++) {
            assert_int_equal(zr_source_read(&source, 0, t, i * width, width, element, &error),
                             ZERO_OK);
            check_element(&types[t], element, i);
        }
    }
    zr_source_close(&source);
}

static void test_types(void **state)
{
    check_types(TORCH_DIR "/types.bin");
    check_types(TORCH_DIR "/shards");
}

static void assert_refused(const char *path, zero_status status, const char *words)
{
    zr_source source;
    zero_error error = {0};
    assert_int_equal(zr_source_open(path, &source, &error), status);
    if (!strstr(error.message, words))
        fail_msg("%s: \"%s\", not \"%s\"", path, error.message, words);
}

static void test_refusals(void **state)
{
    assert_refused(TORCH_DIR "/turned.bin", ZERO_ERR_UNSUPPORTED,
                   "the tensor \"weight\" do not lie one after another");
    assert_refused(TORCH_DIR "/nested.pt", ZERO_ERR_DATA, "\"epoch\" is no tensor");
    assert_refused(TORCH_DIR "/listed.pt", ZERO_ERR_DATA, "holds no dict of tensors");
    assert_refused(TORCH_DIR "/calls.bin", ZERO_ERR_DATA, "posix.system");
    assert_refused(TORCH_DIR "/legacy.bin", ZERO_ERR_DATA, "before 1.6");
}

// Reading gives the wanted bytes, and writes neither before nor after them.
static void check_piece(zr_source *source, int t, int64_t first, int64_t bytes, const char *wanted)
{
    enum { AROUND = 1024 };
    char read[3 * AROUND], expected[3 * AROUND];
    memset(read, 0x55, sizeof read);
    memset(expected, 0x55, sizeof expected);
    memcpy(expected + AROUND, wanted, (size_t)bytes);
    assert_int_equal(zr_source_read(source, 0, t, first, bytes, read + AROUND, NULL), ZERO_OK);
    assert_memory_equal(read, expected, sizeof read);
}

// nanoGPT's ckpt.pt as GPT-2: `name`.safetensors has what it becomes. Every element is read alone,
// and each tensor in pieces that end anywhere.
static void check_nanogpt(const char *name, int tensors)
{
    zr_source source, wanted;
    zero_error error = {0};
    char path[512], theirs[1024];
    snprintf(path, sizeof path, TORCH_DIR "/nanogpt/%s.pt", name);
    if (zr_source_open(path, &source, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    snprintf(path, sizeof path, TORCH_DIR "/nanogpt/%s.safetensors", name);
    assert_int_equal(zr_source_open(path, &wanted, &error), ZERO_OK);
    assert_int_equal(source.vectors[0].tensor_count, tensors);
    assert_int_equal(wanted.vectors[0].tensor_count, tensors);
    for (int t = 0; t < tensors; t++) {
        const zr_source_tensor *tensor = &source.vectors[0].tensors[t], *other = NULL;
        int at = 0;
        while (at < tensors && strcmp(wanted.vectors[0].tensors[at].name, tensor->name) != 0)
            at++;
        assert_true(at < tensors);
        other = &wanted.vectors[0].tensors[at];
        assert_true(tensor->dims == other->dims && tensor->bytes == other->bytes &&
                    !memcmp(tensor->shape, other->shape, sizeof tensor->shape));
        assert_true(tensor->bytes <= (int64_t)sizeof theirs);
        assert_int_equal(zr_source_read(&wanted, 0, at, 0, other->bytes, theirs, &error), ZERO_OK);
        for (int64_t piece = 4; piece <= tensor->bytes; piece += 4)
            for (int64_t done = 0; done < tensor->bytes; done += piece)
                check_piece(&source, t, done, ZR_MIN(piece, tensor->bytes - done), theirs + done);
    }
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(source.state, "model_config"), "activation_function")),
                        "gelu");
    zr_source_close(&wanted);
    zr_source_close(&source);
}

static void test_nanogpt(void **state)
{
    check_nanogpt("biased", 16);
    check_nanogpt("ckpt", 28);
}

static void copy_in(scratch *made, const char *from, const char *name, size_t most)
{
    char *data, path[512];
    size_t length;
    snprintf(path, sizeof path, TORCH_DIR "/%s", from);
    assert_int_equal(zr_file_read(path, 1 << 20, &data, &length, NULL), ZERO_OK);
    st_write_bytes(made, name, data, ZR_MIN(length, most));
    zr_free(data);
}

// A file that is cut anywhere is refused.
static void test_damage(void **state)
{
    scratch *made = *state;
    struct stat info;
    assert_int_equal(stat(TORCH_DIR "/types.bin", &info), 0);
    for (size_t length = 0; length < (size_t)info.st_size; length += 97) {
        copy_in(made, "types.bin", "cut.bin", length);
        assert_refused(scratch_path(made, "cut.bin"), ZERO_ERR_DATA, "cut.bin");
    }
}

static void write_index(scratch *made, const char *map)
{
    char text[512];
    snprintf(text, sizeof text, "{\"weight_map\": %s}", map);
    st_write_bytes(made, ZR_TORCH_INDEX, text, strlen(text));
}

// Opens nanoGPT's file with one text in its pickle replaced by another of the same length.
static void assert_changed_refused(scratch *made, const char *from, const char *to,
                                   zero_status status, const char *words)
{
    char *data, *at;
    size_t length;
    assert_int_equal(zr_file_read(TORCH_DIR "/nanogpt/ckpt.pt", 1 << 20, &data, &length, NULL),
                     ZERO_OK);
    assert_int_equal(strlen(from), strlen(to));
    at = memmem(data, length, from, strlen(from));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    st_write_bytes(made, "ckpt.pt", data, length);
    zr_free(data);
    assert_refused(scratch_path(made, "ckpt.pt"), status, words);
}

static void test_nanogpt_refusals(void **state)
{
    scratch *made = *state;
    assert_changed_refused(made, "h.1.mlp.c_fc.weight", "h.1.mlp.c_fx.weight", ZERO_ERR_DATA,
                           "has no tensor \"transformer.h.1.mlp.c_fc.weight\"");
    assert_changed_refused(made, "_orig_mod.lm_head", "_orig_mod.lm_heap", ZERO_ERR_UNSUPPORTED,
                           "\"_orig_mod.lm_heap.weight\", which nanoGPT's model has not");
    assert_changed_refused(made, "n_layer", "n_later", ZERO_ERR_DATA, "no number \"n_layer\"");
    assert_changed_refused(made, "n_embdq\xa6K\x04", "n_embdq\xa6K\x06", ZERO_ERR_DATA, "shape");
    assert_refused(TORCH_DIR "/nanogpt/untied.pt", ZERO_ERR_UNSUPPORTED,
                   "is not the table of tokens");
}

// Index and shards have to agree.
static void test_index(void **state)
{
    static const struct {
        const char *map, *words;
    } cases[] = {
        {"{\"weight\": \"../a.bin\"}", "not the name of a file next to it"},
        {"{\"weight\": 3}", "is no text"},
        {"[]", "has no \"weight_map\""},
        {"{\"single\": \"a.bin\", \"missing\": \"a.bin\"}", "the tensor \"missing\" should be in"},
        {"{\"single\": \"a.bin\"}", "does not name the tensor \"brain\""},
        {"{\"single\": \"a.bin\", \"brain\": \"b.bin\"}", "the tensor \"brain\" is in"},
    };
    scratch *made = *state;
    copy_in(made, "types.bin", "a.bin", 1 << 20);
    copy_in(made, "types.bin", "b.bin", 1 << 20);
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        write_index(made, cases[i].map);
        assert_refused(made->directory, ZERO_ERR_DATA, cases[i].words);
    }
}

// Every allocation fails in turn.
static void test_memory(void **state)
{
    static const char *const paths[] = {TORCH_DIR "/types.bin", TORCH_DIR "/shards",
                                        TORCH_DIR "/nanogpt/biased.pt"};
    for (int p = 0; p < ZR_COUNT(paths); p++) {
        zr_source source;
        zero_status status = ZERO_ERR_MEMORY;
        for (int64_t nth = 1; status != ZERO_OK; nth++) {
            zero_error error = {0};
            zr_alloc_fail_at(nth);
            status = zr_source_open(paths[p], &source, &error);
            zr_alloc_fail_at(0);
            assert_true(status == ZERO_OK || status == ZERO_ERR_MEMORY);
        }
        zr_source_close(&source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_nanogpt),
        cmocka_unit_test_setup_teardown(test_nanogpt_refusals, scratch_in_ram, scratch_close),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test_setup_teardown(test_damage, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(test_index, scratch_in_ram, scratch_close),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
