// Texts with labels in windows: the label is the target of a text's last token, and of no other.
#include "corpus_files.h"

enum { SEQ = 6 };

typedef struct rows {
    int32_t tokens[SEQ], targets[SEQ], positions[SEQ];
} rows;

static zr_corpus *open_corpus(const char *text, const char *field, zero_status wanted,
                              zero_error *error)
{
    static const char *const argument = "labels.jsonl";
    zr_corpus *corpus = NULL;
    put_text(argument, text);
    const zr_corpus_options options = {
        .arguments = &argument, .count = 1, .field = field, .chat = &chat, .classifies = true};
    zero_status status = zr_corpus_open(&options, &corpus, error);
    if (status != wanted)
        fail_msg("%s: %s", text, error->message);
    return corpus;
}

static const char two[] = "{\"text\": \"ab\", \"label\": \"y\"}\n"
                          "{\"text\": \"c\", \"label\": \"x\"}\n";

static void labels_are_collected_in_order(void **state)
{
    zero_error error = {0};
    zr_labels labels = {.count = 0};
    zr_corpus *corpus = open_corpus(two, NULL, ZERO_OK, &error);
    assert_int_equal(zr_corpus_labels(corpus, &labels, &error), ZERO_OK);
    assert_int_equal(labels.count, 2);
    assert_string_equal(zr_labels_name(&labels, 0), "x");
    zr_corpus_close(corpus);
}

static void one_label_is_refused(void **state)
{
    zero_error error = {0};
    zr_labels labels = {.count = 0};
    zr_corpus *corpus = open_corpus("{\"text\": \"ab\", \"label\": \"y\"}", NULL, ZERO_OK, &error);
    assert_int_equal(zr_corpus_labels(corpus, &labels, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "have the label \"y\""));
    zr_corpus_close(corpus);
}

static void data_without_texts_have_no_labels(void **state)
{
    zero_error error = {0};
    zr_labels labels = {.count = 0};
    zr_corpus *corpus = open_corpus("{\"text\": \"\", \"label\": \"y\"}", NULL, ZERO_OK, &error);
    assert_int_equal(zr_corpus_labels(corpus, &labels, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "labels.jsonl"));
    assert_non_null(strstr(error.message, "no record has a text"));
    zr_corpus_close(corpus);
}

// A model whose labels are whole numbers has no other numbers for them.
static void numbers_that_are_no_labels_are_refused(void **state)
{
    static const char *const names[] = {"1", "3", "10"};
    zero_error error = {0};
    zr_labels labels = {.count = 0};
    zr_dataset data = {0};
    for (int i = 0; i < ZR_COUNT(names); i++)
        assert_int_equal(zr_labels_add(&labels, names[i], "f", NULL), ZERO_OK);
    zr_corpus *corpus = open_corpus("{\"text\": \"a\", \"label\": 3}\n"
                                    "{\"text\": \"b\", \"label\": 2}\n",
                                    NULL, ZERO_OK, &error);
    const zr_reading reading = {
        .tokenizer = words, .vocabulary = 256, .seq = SEQ, .labels = &labels};
    assert_int_equal(zr_corpus_read(corpus, &reading, &data, NULL, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "labels.jsonl:2: the label \"2\" is none of the model's, "
                                          "which are \"1\", \"3\" and \"10\""));
    zr_dataset_free(&data);
    zr_corpus_close(corpus);
}

// Reads a corpus whose labels are x and y, and its first window.
static zero_status read_window(const char *text, const char *field, rows *out, int64_t *shortened,
                               zero_error *error)
{
    zr_labels labels = {.count = 0};
    zr_dataset data = {0};
    zr_labels_add(&labels, "x", "f", NULL);
    zr_labels_add(&labels, "y", "f", NULL);
    zr_corpus *corpus = open_corpus(text, field, ZERO_OK, error);
    const zr_reading reading = {
        .tokenizer = words, .vocabulary = 256, .seq = SEQ, .labels = &labels};
    zero_status status = zr_corpus_read(corpus, &reading, &data, NULL, error);
    if (status == ZERO_OK) {
        assert_true(data.documents);
        zr_dataset_eval_batch(
            &data, 0, 1,
            (zr_rows){.tokens = out->tokens, .targets = out->targets, .positions = out->positions});
    }
    *shortened = zr_corpus_shortened(corpus);
    zr_dataset_free(&data);
    zr_corpus_close(corpus);
    return status;
}

static void check(const char *text, const char *field, const char *tokens, const int32_t *targets,
                  int64_t shortened)
{
    rows found;
    int64_t count;
    zero_error error = {0};
    if (read_window(text, field, &found, &count, &error) != ZERO_OK)
        fail_msg("%s: %s", text, error.message);
    for (int i = 0; i < SEQ; i++) {
        assert_int_equal(found.tokens[i], i < (int)strlen(tokens) ? tokens[i] : 0);
        assert_int_equal(found.targets[i], targets[i]);
    }
    assert_int_equal(count, shortened);
}

enum { NO = ZR_MASKED };

static void the_last_token_has_the_label(void **state)
{
    check(two, NULL, "abc", (int32_t[]){NO, 1, 0, NO, NO, NO}, 0);
    check("{\"r\": \"ab\", \"s\": 1}\n{\"r\": \"c\", \"s\": 0.0}", "text=r,label=s", "abc",
          (int32_t[]){NO, 1, 0, NO, NO, NO}, 0);
    check("{\"r\": \"ab\", \"label\": \"x\"}", "r", "ab", (int32_t[]){NO, 0, NO, NO, NO, NO}, 0);
}

static void long_texts_lose_their_ends(void **state)
{
    check("{\"text\": \"abcdefgh\", \"label\": \"y\"}", NULL, "abcdef",
          (int32_t[]){NO, NO, NO, NO, NO, 1}, 1);
    check("{\"text\": \"abcdef\", \"label\": \"y\"}", NULL, "abcdef",
          (int32_t[]){NO, NO, NO, NO, NO, 1}, 0);
}

// Reads "aa" into windows of `seq` tokens, of which the tokenizer wants one before a text and one
// after it.
static zero_status read_framed(int64_t seq, int32_t *targets, zero_error *error)
{
    zr_tokenizer *framed;
    zr_labels labels = {.count = 0};
    zr_dataset data = {0};
    int32_t tokens[SEQ], positions[SEQ];
    zr_labels_number(&labels, 2, NULL);
    zr_corpus *corpus = open_corpus("{\"text\": \"aa\", \"label\": 1}", NULL, ZERO_OK, error);
    assert_int_equal(zr_tokenizer_load("framed", &framed, error), ZERO_OK);
    const zr_reading reading = {
        .tokenizer = framed, .vocabulary = 8, .seq = seq, .labels = &labels};
    zero_status status = zr_corpus_read(corpus, &reading, &data, NULL, error);
    if (status == ZERO_OK)
        zr_dataset_eval_batch(
            &data, 0, 1, (zr_rows){.tokens = tokens, .targets = targets, .positions = positions});
    zr_dataset_free(&data);
    zr_corpus_close(corpus);
    zr_tokenizer_destroy(framed);
    return status;
}

static void windows_without_room_for_a_text_are_refused(void **state)
{
    int32_t targets[SEQ];
    zero_error error = {0};
    assert_int_equal(zr_directory_create("framed", NULL), ZERO_OK);
    put_text("framed/tokenizer.json",
             "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {\"<s>\": 0, "
             "\"</s>\": 1, \"a\": 2}}, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
             "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
             "\"decoder\": {\"type\": \"ByteLevel\"}, \"post_processor\": {\"type\": "
             "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\", "
             "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}, "
             "{\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}], \"pair\": [], "
             "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [0], \"tokens\": "
             "[\"<s>\"]}, \"</s>\": {\"id\": \"</s>\", \"ids\": [1], \"tokens\": "
             "[\"</s>\"]}}}}");
    assert_int_equal(read_framed(3, targets, &error), ZERO_OK);
    assert_true(targets[0] < 0 && targets[1] < 0 && targets[2] == 1);
    for (int64_t seq = 1; seq < 3; seq++) {
        assert_int_equal(read_framed(seq, targets, &error), ZERO_ERR_USAGE);
        assert_non_null(strstr(error.message, "(--seq) have no room for a text"));
        assert_non_null(strstr(error.message, "needs 3 or more"));
    }
}

static void other_records_are_refused(void **state)
{
    static const struct {
        const char *record, *words;
    } cases[] = {
        {"{\"text\": \"a\", \"label\": \"z\"}", "labels.jsonl:1: the label \"z\" is none of"},
        {"{\"text\": \"a\", \"label\": 2}", "which are \"x\" and \"y\""},
        {"{\"text\": \"a\", \"label\": 0.5}", "its \"label\" is a number"},
        {"{\"text\": \"a\", \"label\": [1]}", "its \"label\" is"},
        {"{\"text\": \"a\"}", "its \"label\" is missing"},
        {"{\"text\": 5, \"label\": \"x\"}", "its \"text\" is"},
        {"{\"label\": \"x\"}", "its \"text\" is missing"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        rows found;
        int64_t count;
        zero_error error = {0};
        assert_int_equal(read_window(cases[i].record, NULL, &found, &count, &error), ZERO_ERR_DATA);
        if (!strstr(error.message, cases[i].words))
            fail_msg("%s: %s", cases[i].record, error.message);
    }
}

static void other_data_are_refused(void **state)
{
    static const char *const argument = "a.txt";
    zr_corpus *corpus;
    zero_error error = {0};
    zr_corpus_options options = {.arguments = &argument, .count = 1, .classifies = true};
    assert_int_equal(zr_corpus_open(&options, &corpus, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "is text, and texts with labels are records"));
    open_corpus(two, "prompt=text,completion=label", ZERO_ERR_USAGE, &error);
    assert_non_null(strstr(error.message, "text=FIELD and label=FIELD alone"));
    open_corpus(two, "text=text,chosen=a,rejected=b", ZERO_ERR_USAGE, &error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_collected_in_order),
        cmocka_unit_test(one_label_is_refused),
        cmocka_unit_test(data_without_texts_have_no_labels),
        cmocka_unit_test(numbers_that_are_no_labels_are_refused),
        cmocka_unit_test(the_last_token_has_the_label),
        cmocka_unit_test(long_texts_lose_their_ends),
        cmocka_unit_test(windows_without_room_for_a_text_are_refused),
        cmocka_unit_test(other_records_are_refused),
        cmocka_unit_test(other_data_are_refused),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
