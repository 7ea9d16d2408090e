// A program trains a model that gives texts labels, by a key of the configuration, and hears what
// the model says of each text.
#include "train_ranks.h"

#include "base/file.h"
#include <zero/commands.h>
#include <zero/eval.h>

#include <math.h>
#include <string.h>

enum { TEXTS = 24 };

static char directory[64], text[96], data[96], out[96], model[112];

// A text of one letter again and again, which tells its label.
static char letter_of(int number) { return number % 2 ? 'b' : 'a'; }

static int set_up(void **state)
{
    if (make_text("/tmp", directory, text))
        return -1;
    snprintf(data, sizeof data, "%s/data.jsonl", directory);
    snprintf(out, sizeof out, "%s/run", directory);
    snprintf(model, sizeof model, "%s/model", out);
    FILE *file = fopen(data, "w");
    for (int i = 0; file && i < TEXTS; i++)
        fprintf(file, "{\"text\": \"%.*s\", \"label\": \"of %c\"}\n", 1 + i % 7,
                letter_of(i) == 'a' ? "aaaaaaa" : "bbbbbbb", letter_of(i));
    return file ? fclose(file) : -1;
}

static int tear_down(void **state) { return zr_directory_remove(directory, NULL) != ZERO_OK; }

static zero_train_options training_of(const char *const *files, const zero_override *task)
{
    return (zero_train_options){.struct_size = sizeof(zero_train_options),
                                .new_spec = TINY_MODEL,
                                .data = files,
                                .data_count = 1,
                                .val = "none",
                                .out_dir = out,
                                .overrides = task,
                                .override_count = 1,
                                .steps = 60,
                                .seed = 3,
                                .threads = 1,
                                .lr = 3e-2,
                                .overwrite = 1,
                                .no_final_checkpoint = 1};
}

typedef struct heard {
    int count, correct;
    double costs; // the sum of -log(probability) of texts that got their own label
    bool differs; // from the data
} heard;

static void hear(void *user, const zero_labelled_text *of)
{
    heard *h = user;
    const char own[] = {'o', 'f', ' ', letter_of(h->count), 0};
    bool right = !strcmp(of->label, of->predicted);
    h->differs = h->differs || of->number != h->count + 1 || strcmp(of->label, own) != 0 ||
                 !(of->probability >= 0.5 && of->probability <= 1);
    h->count++;
    h->correct += right;
    h->costs -= right ? log(of->probability) : 0;
}

static void a_key_trains_labels(void **state)
{
    const zero_override task = {"libzero.task", "classify", "test"};
    const zero_train_options train = training_of((const char *const[]){data}, &task);
    rank_job jobs[MOST_RANKS];
    heard h = {.count = 0};
    zero_preference_result labels;
    zero_eval_result result;
    zero_comm *comm;
    zero_error error = {0};
    train_ranks(2, &train, jobs);
    if (jobs[0].status != ZERO_OK)
        fail_msg("%s", jobs[0].error.message);
    const zero_eval_options eval = {.struct_size = sizeof eval,
                                    .model_dir = model,
                                    .data = train.data,
                                    .data_count = 1,
                                    .threads = 1,
                                    .task = "classify",
                                    .preferred = &labels,
                                    .labelled = hear,
                                    .labelled_user = &h};
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    if (zero_eval(comm, &eval, &result, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_false(h.differs);
    assert_true(h.count == TEXTS && h.correct == TEXTS); // one letter tells the label
    assert_true(labels.pairs == TEXTS && labels.accuracy == 1 && isnan(labels.margin));
    assert_int_equal(labels.labels, 1);
    assert_float_equal(h.costs / TEXTS, result.loss, 1e-5);
    zero_comm_destroy(comm);
}

static void another_task_is_refused(void **state)
{
    const zero_override task = {"libzero.task", "guess", "test"};
    const zero_train_options train = training_of((const char *const[]){data}, &task);
    rank_job jobs[MOST_RANKS];
    train_ranks(1, &train, jobs);
    assert_int_equal(jobs[0].status, ZERO_ERR_USAGE);
    assert_non_null(strstr(jobs[0].error.message, "libzero.task"));
    assert_non_null(strstr(jobs[0].error.message, "guess"));
}

static void keep_line(void *user, const char *line) { snprintf(user, 128, "%s", line); }

static void a_text_is_a_line(void **state)
{
    char line[128];
    const zero_labelled_text of = {7, "good", "say \"no\"", 0.75}, none = {8, "good", NULL, NAN};
    assert_int_equal(zero_labelled_text_report(&of, keep_line, line, NULL), ZERO_OK);
    assert_string_equal(line, "{\"text\":7,\"label\":\"good\",\"predicted\":\"say \\\"no\\\"\","
                              "\"probability\":0.75}\n");
    assert_int_equal(zero_labelled_text_report(&none, keep_line, line, NULL), ZERO_OK);
    assert_string_equal(line, "{\"text\":8,\"label\":\"good\",\"predicted\":null,"
                              "\"probability\":null}\n");
}

// A model that has diverged has an accuracy and no margin, and its pairs remain pairs.
static void pairs_without_a_margin_are_no_texts(void **state)
{
    char line[128];
    const zero_eval_result result = {.loss = NAN, .windows = 1, .tokens = 4};
    zero_preference_result preferred = {.pairs = 2, .accuracy = 0.5, .margin = NAN};
    assert_int_equal(zero_evaluation_report(&result, &preferred, 1, keep_line, line, NULL),
                     ZERO_OK);
    assert_non_null(strstr(line, "\"pairs\":2"));
    assert_null(strstr(line, "texts"));
    preferred.labels = 1;
    assert_int_equal(zero_evaluation_report(&result, &preferred, 1, keep_line, line, NULL),
                     ZERO_OK);
    assert_non_null(strstr(line, "\"texts\":2"));
    assert_null(strstr(line, "pairs"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_trains_labels),
        cmocka_unit_test(another_task_is_refused),
        cmocka_unit_test(a_text_is_a_line),
        cmocka_unit_test(pairs_without_a_margin_are_no_texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
