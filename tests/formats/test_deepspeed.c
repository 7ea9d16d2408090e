// DeepSpeed's own checkpoints (tests/oracle/deepspeed_checkpoints.py), of any stage and number of
// ranks, give the tensors that DeepSpeed says they hold. What is missing, truncated or damaged is
// refused.
#define _GNU_SOURCE
#include "base/file.h"
#include "checkpoint/states.h"
#include "formats/deepspeed.h"
#include "formats/source.h"
#include "st_files.h"

#include <sys/stat.h>

static const char *const cases[] = {"s1-groups-r2", "s2-schedule-r3", "s3-frozen-r3"};
#define CASES ZR_COUNT(cases)
#define FOLDER "global_step3"

// In fp32, read in blocks that end nowhere in particular.
static uint32_t checksum(zr_source *source, int v, int t)
{
    const zr_source_tensor *tensor = &source->vectors[v].tensors[t];
    int64_t size = tensor->bytes && !strcmp(tensor->dtype, "F32") ? 4 : 2;
    uint32_t crc = 0;
    for (int64_t done = 0, n; done < tensor->bytes; done += n) {
        char block[52];
        float wide[26];
        n = ZR_MIN(tensor->bytes - done, (int64_t)sizeof block / size * size);
        assert_int_equal(zr_source_read(source, v, t, done, n, block, NULL), ZERO_OK);
        zr_source_widen(tensor->dtype, block, n / size, wide);
        crc = zr_crc32c(crc, wide, (size_t)(n / size) * sizeof *wide);
    }
    return crc;
}

static int find_tensor(const zr_source *source, int v, const char *name)
{
    for (int t = 0; t < source->vectors[v].tensor_count; t++)
        if (!strcmp(source->vectors[v].tensors[t].name, name))
            return t;
    return -1;
}

// Every line of expected.txt of this case; how many.
static int compare(zr_source *source, const char *name)
{
    FILE *file = fopen(DEEPSPEED_DIR "/expected.txt", "r");
    char of[64], vector[64], tensor[128];
    unsigned crc;
    int count = 0;
    assert_non_null(file);
    while (fscanf(file, "%63s %63s %127s %x", of, vector, tensor, &crc) == 4) {
        if (strcmp(of, name))
            continue;
        int v = zr_source_find(source, vector);
        assert_true(v >= 0 && find_tensor(source, v, tensor) >= 0);
        if (checksum(source, v, find_tensor(source, v, tensor)) != crc)
            fail_msg("%s: %s of %s is another one", name, vector, tensor);
        count++;
    }
    fclose(file);
    return count;
}

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t length;
    assert_int_equal(zr_file_read(from, 1 << 20, &data, &length, NULL), ZERO_OK);
    FILE *file = fopen(to, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, length, file), length);
    fclose(file);
    zr_free(data);
}

static const char *const files_of[2][5] = {
    {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
     "zero_pp_rank_1_mp_rank_00_optim_states.pt"},
    {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
     "zero_pp_rank_1_mp_rank_00_optim_states.pt", "zero_pp_rank_2_mp_rank_00_optim_states.pt"},
};

static void path_of(scratch *made, const char *file, char out[512])
{
    snprintf(out, 512, "%s/" FOLDER "/%s", made->directory, file);
}

static void copy_case(scratch *made, int c)
{
    char from[512], to[512];
    snprintf(to, sizeof to, "%s/" FOLDER, made->directory);
    assert_int_equal(mkdir(to, 0777), 0);
    for (int f = 0; f < 5 && files_of[c][f]; f++) {
        snprintf(from, sizeof from, DEEPSPEED_DIR "/%s/" FOLDER "/%s", cases[c], files_of[c][f]);
        path_of(made, files_of[c][f], to);
        copy_file(from, to);
    }
    scratch_write(made, "latest", FOLDER "\n");
}

static void test_tensors(void **state)
{
    static const int lines[CASES] = {28, 84, 60}; // of expected.txt
    for (int c = 0; c < CASES; c++) {
        zr_source source;
        zero_error error = {0};
        char path[512];
        snprintf(path, sizeof path, DEEPSPEED_DIR "/%s", cases[c]);
        if (zr_source_open(path, &source, &error) != ZERO_OK)
            fail_msg("%s: %s", path, error.message);
        assert_int_equal(source.kind, ZR_SOURCE_DEEPSPEED);
        assert_int_equal(compare(&source, cases[c]), lines[c]);
        assert_int_equal(source.vectors[0].tensor_count, 28); // a tied one once
        // none of what is frozen
        assert_int_equal(source.vectors[1].tensor_count, c == 2 ? 16 : 28);
        assert_true(source.vector_count == 3 && find_tensor(&source, 0, "lm_head.weight") < 0);
        zr_source_close(&source);
    }
}

static const json_t *in_config(const json_t *state, const char *section, const char *key)
{
    return json_object_get(json_object_get(json_object_get(state, "config"), section), key);
}

static bool is_dynamic(const json_t *state)
{
    const json_t *fp16 = json_object_get(json_object_get(state, "config"), "fp16");
    return json_is_true(json_object_get(fp16, "enabled")) &&
           json_number_value(json_object_get(fp16, "loss_scale")) == 0;
}

static void test_state(void **state)
{
    zr_source source;
    json_int_t step, updates, batch, iteration;
    double scale;
    const char *optimizer;
    // the folder itself will do
    assert_int_equal(zr_source_open(DEEPSPEED_DIR "/s2-schedule-r3/" FOLDER, &source, NULL),
                     ZERO_OK);
    assert_int_equal(json_unpack(source.state, "{s:I, s:I, s:I, s:s, s:{s:F, s:I}}", "step", &step,
                                 "updates", &updates, "train_batch_size", &batch, "optimizer",
                                 &optimizer, "loss_scale", "scale", &scale, "iteration",
                                 &iteration),
                     0);
    assert_true(step == 3 && updates == 3 && batch == 6 && scale == 256 && iteration == 3);
    assert_string_equal(optimizer, "AdamW");
    assert_true(is_dynamic(source.state));
    assert_true(json_is_true(in_config(source.state, "libzero", "decay_all"))); // one group
    assert_true(json_number_value(json_object_get(in_config(source.state, "optimizer", "params"),
                                                  "weight_decay")) == 0.1);
    zr_source_close(&source);
    assert_int_equal(zr_source_open(DEEPSPEED_DIR "/s1-groups-r2", &source, NULL), ZERO_OK); // fp32
    assert_false(is_dynamic(source.state));
    // of two groups that of the vectors decays nothing
    assert_true(json_is_false(in_config(source.state, "libzero", "decay_all")));
    zr_source_close(&source);
    // whose groups are elsewhere
    assert_int_equal(zr_source_open(DEEPSPEED_DIR "/s3-frozen-r3", &source, NULL), ZERO_OK);
    assert_true(json_is_true(in_config(source.state, "libzero", "decay_all")));
    zr_source_close(&source);
}

static void test_as_checkpoint(void **state)
{
    scratch *made = *state;
    zr_source source, ours;
    zero_error error;
    zero_comm *comm;
    char path[512];
    snprintf(path, sizeof path, "%s/step", made->directory);
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    assert_int_equal(zr_source_open(DEEPSPEED_DIR "/s2-schedule-r3", &source, NULL), ZERO_OK);
    assert_int_equal(zr_checkpoint_import(comm, &source, path, source.state, NULL, NULL, &error),
                     ZERO_OK);
    assert_int_equal(zr_source_open(path, &ours, NULL), ZERO_OK);
    assert_true(ours.kind == ZR_SOURCE_CHECKPOINT && ours.vector_count == 3 &&
                json_equal(ours.state, source.state));
    for (int v = 0; v < 3; v++) {
        assert_string_equal(ours.vectors[v].name, source.vectors[v].name);
        for (int t = 0; t < 28; t++) {
            int found =
                find_tensor(&ours, v, source.vectors[v].tensors[t].name + strlen("transformer."));
            assert_true(found >= 0);
            assert_int_equal(checksum(&ours, v, found), checksum(&source, v, t));
        }
    }
    zr_source_close(&ours);
    zr_source_close(&source);
    zero_comm_destroy(comm);
}

static void refused(scratch *made, zero_status wanted, const char *words)
{
    zr_source source;
    zero_error error = {0};
    assert_int_equal(zr_deepspeed_open(made->directory, &source, &error), wanted);
    assert_contains(error.message, words);
}

static void test_missing_files(void **state)
{
    scratch *made = *state;
    char path[512], other[512];
    copy_case(made, 1);
    path_of(made, "zero_pp_rank_1_mp_rank_00_optim_states.pt", path);
    path_of(made, "hidden", other);
    assert_int_equal(rename(path, other), 0);
    refused(made, ZERO_ERR_DATA, "some are missing");
    // two of three ranks look like two
    path_of(made, "zero_pp_rank_2_mp_rank_00_optim_states.pt", path);
    assert_int_equal(rename(path, other), 0);
    refused(made, ZERO_ERR_DATA, "one of 3 ranks");
    path_of(made, "mp_rank_00_model_states.pt", path);
    assert_int_equal(rename(path, other), 0);
    refused(made, ZERO_ERR_DATA, "neither mp_rank_00_model_states.pt");
    path_of(made, "zero_pp_rank_0_mp_rank_01_optim_states.pt", path);
    assert_int_equal(rename(other, path), 0);
    refused(made, ZERO_ERR_UNSUPPORTED, "tensor parallelism");
    scratch_write(made, "latest", "./" FOLDER); // there, but no plain name
    refused(made, ZERO_ERR_DATA, "names no folder next to it");
}

static void test_files_of_another_run(void **state)
{
    scratch *made = *state;
    char path[512];
    copy_case(made, 1);
    path_of(made, "mp_rank_00_model_states.pt", path);
    // two groups of shapes
    copy_file(DEEPSPEED_DIR "/s1-groups-r2/" FOLDER "/mp_rank_00_model_states.pt", path);
    refused(made, ZERO_ERR_DATA, "shapes of 2 groups");
    // fewer tensors
    copy_file(DEEPSPEED_DIR "/s3-frozen-r3/" FOLDER "/zero_pp_rank_0_mp_rank_00_model_states.pt",
              path);
    refused(made, ZERO_ERR_DATA, "the ranks' files have 3");
    copy_file(DEEPSPEED_DIR "/s2-schedule-r3/" FOLDER "/zero_pp_rank_0_mp_rank_00_optim_states.pt",
              path);
    refused(made, ZERO_ERR_DATA, "no param_shapes");
}

// A shape of a smaller tensor: the rest of the vector would be another tensor's.
static void test_another_shape(void **state)
{
    scratch *made = *state;
    char path[512], *data, *shape;
    size_t length;
    copy_case(made, 1);
    path_of(made, "mp_rank_00_model_states.pt", path);
    assert_int_equal(zr_file_read(path, 1 << 20, &data, &length, NULL), ZERO_OK);
    char *shapes = memmem(data, length, "param_shapes", 12);
    assert_non_null(shapes);
    // (50, 8)
    assert_non_null(shape = memmem(shapes, length - (size_t)(shapes - data), "K2K\x08", 4));
    shape[1] = '1';
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, data, length, 0), length);
    close(fd);
    zr_free(data);
    refused(made, ZERO_ERR_DATA,
            "the tensors of group 0 have 2216 elements, the ranks' parts of weights 2224");
}

// Writes over what follows `after` in a copied file of the case: `bytes` of them, as many as were
// there.
static void edit(scratch *made, const char *file, const char *after, size_t length,
                 const void *bytes, size_t count)
{
    char name[128], *data, *found;
    size_t size;
    snprintf(name, sizeof name, FOLDER "/%s", file);
    assert_int_equal(zr_file_read(scratch_path(made, name), 1 << 20, &data, &size, NULL), ZERO_OK);
    assert_non_null(found = memmem(data, size, after, length));
    memcpy(found + length, bytes, count);
    st_write_bytes(made, name, data, size);
    zr_free(data);
}

#define BYTES(text) text, sizeof text - 1
#define SCALE BYTES("cur_scaleq\x07G")      // and a real of eight bytes, as the decays
#define ONLY_DECAY BYTES("weight_decayq>G") // of s2-schedule-r3
// of the two of s1-groups-r2: its end, and the second one's decay
#define FIRST_GROUP BYTES("]qPK\0a")
#define SECOND_DECAY BYTES("u}qQ(hCG")

// A loss scale that nobody could have trained with.
static void test_impossible_numbers(void **state)
{
    static const struct {
        const char *bytes, *words;
    } scales[] = {
        {"\0\0\0\0\0\0\0\0", "\"loss_scale.scale\" is 0"},
        {"\xbf\xf0\0\0\0\0\0\0", "\"loss_scale.scale\" is -1"},
        {"\x7e\x37\xe4\x3c\x88\0\x75\x9c", "\"loss_scale.scale\" is 1e300"},
        {"\x7f\xf8\0\0\0\0\0\0", "a loss scale of nan"},
    };
    scratch *made = *state;
    copy_case(made, 0);
    for (int i = 0; i < ZR_COUNT(scales); i++) {
        edit(made, files_of[0][1], SCALE, scales[i].bytes, 8);
        refused(made, ZERO_ERR_DATA, scales[i].words);
    }
}

static void assert_part(scratch *made, const char *part, const char *wanted)
{
    zr_source source;
    zero_error error = {0};
    json_t *parsed = json_loads(wanted, 0, NULL);
    assert_non_null(parsed);
    if (zr_deepspeed_open(made->directory, &source, &error) != ZERO_OK)
        fail_msg("%s: %s", wanted, error.message);
    char *found = json_dumps(json_object_get(source.state, part), 0);
    if (!json_equal(json_object_get(source.state, part), parsed))
        fail_msg("%s is %s, not %s", part, found, wanted);
    free(found);
    json_decref(parsed);
    zr_source_close(&source);
}

// Values of other runs at keys that are numbers here: each is described as it is, or left out.
static void test_other_numbers(void **state)
{
    static const struct {
        int c; // the case, of whose first rank's file this follows:
        const char *after;
        size_t length;
        const char *bytes;
        size_t count;
        const char *part, *wanted;
    } numbers[] = {
        {0, SCALE, BYTES("\x40\x60\0\0\0\0\0\0"), "config", // a static scale stays one
         "{\"fp16\": {\"enabled\": true, \"loss_scale\": 128.0}, \"libzero\": {\"decay_all\": "
         "false},"
         " \"optimizer\": {\"params\": {\"weight_decay\": 0.1}}}"},
        // one group, made of both, for two groups of shapes
        {0, FIRST_GROUP, BYTES("K\0qQN"), "config",
         "{\"fp16\": {\"enabled\": false, \"loss_scale\": 1.0}}"},
        // known, and not which tensors would have one
        {1, ONLY_DECAY, BYTES("\0\0\0\0\0\0\0\0"), "config",
         "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0.0}, \"optimizer\": {\"params\": "
         "{\"weight_decay\": 0.0}}}"},
        {1, ONLY_DECAY, BYTES("\x7f\xf0\0\0\0\0\0\0"), "config",
         "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0.0}}"},
        // -1 (delayed_shift 0); a letter less after
        {1, BYTES("cur_hysteresis"), BYTES("q\x0f\x8a\x01\xffX\x15\0\0\0"), "loss_scale",
         "{\"scale\": 256.0, \"iteration\": 3, \"last_overflow\": -1, \"hysteresis\": 0}"},
    };
    for (int i = 0; i < ZR_COUNT(numbers); i++) {
        void *own = NULL;
        scratch_open(&own);
        copy_case(own, numbers[i].c);
        edit(own, files_of[numbers[i].c][1], numbers[i].after, numbers[i].length, numbers[i].bytes,
             numbers[i].count);
        assert_part(own, numbers[i].part, numbers[i].wanted);
        scratch_close(&own);
    }
}

// Of two groups of matrices each has a decay of its own: no choice of tensors says that.
static void test_two_decays(void **state)
{
    static const char model[] = FOLDER "/mp_rank_00_model_states.pt";
    scratch *made = *state;
    char *data, *at, *end;
    size_t size;
    copy_case(made, 0);
    edit(made, files_of[0][1], SECOND_DECAY, "\x3f\xa9\x99\x99\x99\x99\x99\x9a", 8); // 0.05
    assert_int_equal(zr_file_read(scratch_path(made, model), 1 << 20, &data, &size, NULL), ZERO_OK);
    assert_non_null(at = memmem(data, size, "param_shapes", 12));
    assert_non_null(end = memmem(at, size - (size_t)(at - data), "frozen_param_shapes", 19));
    // (n) becomes (n, 1); its name, ten bytes before, ends two letters sooner
    for (; at < end; at++)
        if (at[0] == 'K' && !memcmp(at + 2, "\x85r", 2)) {
            char *name = memrchr(data, 'X', (size_t)(at - 10 - data));
            name[1] -= 2;
            memmove(at - 12, at - 10, 12);
            memcpy(at, "K\x01\x86", 3);
        }
    st_write_bytes(made, model, data, size);
    zr_free(data);
    assert_part(
        made, "config",
        "{\"fp16\": {\"enabled\": false, \"loss_scale\": 1.0}, \"libzero\": {\"decay_all\": null},"
        " \"optimizer\": {\"params\": {\"weight_decay\": 0.1}}}");
}

static void count_damage(void *user, const zero_error *what)
{
    assert_contains(what->message, "is damaged: record");
    ++*(int *)user;
}

// Whatever opens, and agrees with its checksums, has the same tensors.
static void test_damage(void **state)
{
    scratch *made = *state;
    int damaged = 0, refusals = 0;
    copy_case(made, 1);
    for (int f = 0; f < 2; f++) {
        char path[512], *data;
        size_t length;
        path_of(made, files_of[1][f], path);
        assert_int_equal(zr_file_read(path, 1 << 20, &data, &length, NULL), ZERO_OK);
        for (size_t at = (size_t)f; at < length; at += 41) {
            zr_source source;
            zero_error error = {0};
            int fd = open(path, O_WRONLY);
            char flipped = (char)(data[at] ^ 0x04);
            assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
            zero_status status = zr_deepspeed_open(made->directory, &source, &error);
            refusals += status != ZERO_OK;
            if (status == ZERO_OK) {
                int found = 0;
                assert_int_equal(source.ops->verify(&source, NULL, count_damage, &found, &error),
                                 ZERO_OK);
                damaged += found;
                if (!found)
                    assert_int_equal(compare(&source, cases[1]), 84);
                zr_source_close(&source);
            }
            assert_int_equal(pwrite(fd, &data[at], 1, (off_t)at), 1);
            close(fd);
        }
        zr_free(data);
    }
    assert_true(damaged > 100 && refusals > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_state),
        cmocka_unit_test_setup_teardown(test_as_checkpoint, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_missing_files, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_files_of_another_run, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_another_shape, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_impossible_numbers, scratch_open, scratch_close),
        cmocka_unit_test(test_other_numbers),
        cmocka_unit_test_setup_teardown(test_two_decays, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(test_damage, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
