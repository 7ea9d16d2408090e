// A program made with the first version of the public headers (tests/first_headers), with which
// this file is compiled, works with the library as it is; and each struct that says its size may
// come from a newer program. The header of a new struct is added to that directory as it first was.
#include "../setup/tiny_engine.h"
#include <zero/graph.h>
#include <zero/rows.h>
#include <zero/zero.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// bytes that the newer program's struct has more than the first; today's has fewer
enum { NEW = 128 };

static void write_nothing(void *user, const char *text) { (void)user, (void)text; }

typedef struct call {
    const void *options;
    const tiny *t;
    zero_error *error;
} call;

static zero_status comm_options(const call *c)
{
    zero_comm *comm = NULL;
    zero_status status = zero_comm_open(c->options, &comm, c->error);
    zero_comm_destroy(comm);
    return status;
}

static zero_status threads_options(const call *c)
{
    zero_comm *comm = NULL;
    zero_status status = zero_comm_threads(1, c->options, &comm, c->error);
    zero_comm_destroy(comm);
    return status;
}

static zero_status initialize(const call *c)
{
    zero_engine *engine = NULL;
    return zero_initialize(c->options, &engine, c->error);
}

static zero_status gpt2(const call *c)
{
    zero_model *model = NULL;
    return zero_gpt2_create(c->options, &model, c->error);
}

static zero_status llama(const call *c)
{
    zero_model *model = NULL;
    return zero_llama_create(c->options, &model, c->error);
}

static zero_status rows_model(const call *c)
{
    zero_model *model = NULL;
    return zero_rows_create(c->options, &model, c->error);
}

static zero_status graph(const call *c)
{
    zero_graph *made = NULL;
    zero_status status = zero_graph_create(c->options, &made, c->error);
    zero_graph_destroy(made);
    return status;
}

static zero_status load(const call *c)
{
    return zero_load_weights_with(c->t->engine, "/nonexistent", c->options, c->error);
}

static zero_status plan(const call *c)
{
    return zero_plan(c->options, write_nothing, NULL, c->error);
}
static zero_status generate(const call *c) { return zero_generate(c->options, c->error); }
static zero_status train(const call *c) { return zero_train(c->t->comm, c->options, c->error); }

static zero_status eval(const call *c)
{
    zero_eval_result result;
    zero_comm *comm = NULL; // which it aborts
    assert_int_equal(zero_comm_self(&comm, NULL), ZERO_OK);
    zero_status status = zero_eval(comm, c->options, &result, c->error);
    zero_comm_destroy(comm);
    return status;
}

static zero_status run(const call *c)
{
    int code;
    return zero_run(c->options, &code, c->error);
}

static zero_status tokenizer_train(const call *c)
{
    zero_tokenizer_train_result result;
    return zero_tokenizer_train(c->options, &result, c->error);
}

typedef struct row {
    const char *type;
    size_t size;
    zero_status (*take)(const call *call);
} row;

#define ROW(type, take)                                                                            \
    {                                                                                              \
#type, sizeof(type), take                                                                  \
    }
static const row rows[] = {
    ROW(zero_comm_options, comm_options), ROW(zero_comm_options, threads_options),
    ROW(zero_options, initialize),        ROW(zero_gpt2_config, gpt2),
    ROW(zero_llama_config, llama),        ROW(zero_graph_options, graph),
    ROW(zero_load_options, load),         ROW(zero_plan_options, plan),
    ROW(zero_generate_options, generate), ROW(zero_train_options, train),
    ROW(zero_eval_options, eval),         ROW(zero_rows_config, rows_model),
    ROW(zero_run_options, run),           ROW(zero_tokenizer_train_options, tokenizer_train),
};
enum { ROWS = sizeof rows / sizeof rows[0] };

// Whether the library refuses a struct of that type for its size: one of `bytes` that says it has
// `said`, all zero but for the last byte.
static int is_refused(const row *r, const tiny *t, size_t bytes, size_t said, char last)
{
    zero_error error = {0};
    char *options = calloc(1, bytes);
    assert_non_null(options);
    memcpy(options, &said, sizeof said);
    options[bytes - 1] = last;
    zero_status status = r->take(&(call){.options = options, .t = t, .error = &error});
    free(options);
    if (!strstr(error.message, "struct_size"))
        return 0;
    assert_int_equal(status, ZERO_ERR_USAGE);
    return 1;
}

static void sizes_are_judged_alike(void **state)
{
    tiny t = tiny_create();
    for (int i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        size_t larger = r->size + NEW;
        if (is_refused(r, &t, r->size, r->size, 0) || is_refused(r, &t, larger, larger, 0))
            fail_msg("%s: the first version, or a newer one that uses nothing new, is refused",
                     r->type);
        if (!is_refused(r, &t, r->size, sizeof(size_t), 0) || !is_refused(r, &t, larger, larger, 1))
            fail_msg("%s: one that cannot be is taken", r->type);
    }
    tiny_destroy(&t);
}

// A step, as an old program makes it.
static void a_first_program_trains(void **state)
{
    tiny t = tiny_create();
    int32_t tokens[TINY_BATCH * TINY_SEQ] = {1, 2, 3}, targets[TINY_BATCH * TINY_SEQ] = {2, 3};
    zero_tensors batch = {2,
                          {{tokens, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}},
                           {targets, ZERO_I32, 2, {TINY_BATCH, TINY_SEQ}}}};
    zero_step_info info;
    zero_error error;
    double loss;
    assert_int_equal(zero_forward(t.engine, &batch, &loss, &error), ZERO_OK);
    assert_int_equal(zero_backward(t.engine, &error), ZERO_OK);
    assert_int_equal(zero_step(t.engine, &info, &error), ZERO_OK);
    assert_int_equal(info.step, 1);
    assert_true(info.updated && info.loss > 0 && info.loss == loss);
    tiny_destroy(&t);
}

static void defaults_write_what_the_first_version_has(void **state)
{
    struct {
        zero_gpt2_config config;
        char after[64];
    } gpt2;
    struct {
        zero_llama_config config;
        char after[64];
    } llama;
    memset(&gpt2, 0x55, sizeof gpt2);
    memset(&llama, 0x55, sizeof llama);
    zero_gpt2_defaults(&gpt2.config);
    zero_llama_defaults(&llama.config);
    assert_true(gpt2.config.struct_size <= sizeof gpt2.config);
    assert_true(llama.config.struct_size <= sizeof llama.config);
    for (int i = 0; i < 64; i++)
        assert_true(gpt2.after[i] == 0x55 && llama.after[i] == 0x55);
}

static int has_row(const char *type, size_t length)
{
    for (int i = 0; i < ROWS; i++)
        if (strlen(rows[i].type) == length && !memcmp(rows[i].type, type, length))
            return 1;
    return 0;
}

// The structs of a header whose first field is struct_size; how many it has.
static int look_into(const char *path)
{
    char line[1024], opened[1024] = "";
    int count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (strstr(line, "struct ") && strchr(line, '{'))
            snprintf(opened, sizeof opened, "%s", strstr(line, "struct ") + 7);
        if (!strstr(line, "    size_t struct_size;"))
            continue;
        size_t length = strcspn(opened, " {");
        if (!has_row(opened, length) && memcmp(opened, "zero_context", length)) // the library's own
            fail_msg("%s: nothing here tries sizes of %.*s", path, (int)length, opened);
        count++;
    }
    fclose(file);
    return count;
}

static void no_struct_is_missing(void **state)
{
    DIR *directory = opendir(PUBLIC_HEADERS);
    int count = 0;
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", PUBLIC_HEADERS, entry->d_name);
        count += strstr(entry->d_name, ".h") ? look_into(path) : 0;
    }
    closedir(directory);
    assert_true(count >= ROWS); // zero_comm_options has two rows, zero_context none
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_judged_alike),
        cmocka_unit_test(a_first_program_trains),
        cmocka_unit_test(defaults_write_what_the_first_version_has),
        cmocka_unit_test(no_struct_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
