// NULL, where a function of the public interface needs a pointer, gives ZERO_ERR_USAGE that names
// function and argument, or what <zero/status.h> says of functions that return no status. Every
// function that a header declares has its lines here.
#include "null_cases.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_nothing(void *user, const char *text) { (void)user, (void)text; }
static int emit_nothing(void *user, const char *text, size_t length)
{
    return (void)user, (void)text, (int)length * 0;
}

static void of_checkpoints(const tiny *t)
{
    zero_checkpoint *saving = (zero_checkpoint *)&said;
    FUNCTION(zero_save_checkpoint);
    REFUSES("engine", zero_save_checkpoint(NULL, "x", e));
    REFUSES("directory", zero_save_checkpoint(t->engine, NULL, e));
    FUNCTION(zero_load_checkpoint);
    REFUSES("engine", zero_load_checkpoint(NULL, "x", e));
    REFUSES("directory", zero_load_checkpoint(t->engine, NULL, e));
    FUNCTION(zero_begin_checkpoint);
    REFUSES("engine", zero_begin_checkpoint(NULL, "x", &saving, e));
    assert_null(saving);
    REFUSES("directory", zero_begin_checkpoint(t->engine, NULL, &saving, e));
    REFUSES("out", zero_begin_checkpoint(t->engine, "x", NULL, e));
    FUNCTION(zero_end_checkpoint);
    assert_int_equal(zero_end_checkpoint(NULL, &said), ZERO_OK);
    assert_int_equal(zero_end_checkpoint(NULL, NULL), ZERO_OK);
}

static void of_communicators(const tiny *t)
{
    FUNCTION(zero_comm_self);
    REFUSES("out", zero_comm_self(NULL, e));
    FUNCTION(zero_comm_threads);
    REFUSES("comms", zero_comm_threads(2, NULL, NULL, e));
    FUNCTION(zero_comm_open);
    REFUSES("out", zero_comm_open(NULL, NULL, e));
    FUNCTION(zero_comm_rank);
    assert_int_equal(zero_comm_rank(NULL), 0);
    FUNCTION(zero_comm_size);
    assert_int_equal(zero_comm_size(NULL), 0);
    FUNCTION(zero_comm_name);
    assert_null(zero_comm_name(NULL));
    FUNCTION(zero_comm_barrier);
    REFUSES("comm", zero_comm_barrier(NULL, e));
    FUNCTION(zero_comm_abort);
    zero_comm_abort(NULL, "nobody hears it");
    FUNCTION(zero_comm_destroy);
    zero_comm_destroy(NULL);
}

static void of_units(const tiny *t)
{
    int add = 5;
    FUNCTION(zero_parameter);
    assert_null(zero_parameter(NULL, 0, 0));
    FUNCTION(zero_flat_param_begin);
    assert_int_equal(zero_flat_param_begin(NULL, 0), ZERO_ERR_USAGE);
    FUNCTION(zero_piece_begin);
    assert_int_equal(zero_piece_begin(NULL, 0), ZERO_ERR_USAGE);
    FUNCTION(zero_piece_end);
    assert_int_equal(zero_piece_end(NULL, 0), ZERO_ERR_USAGE);
    FUNCTION(zero_flat_param_end);
    assert_int_equal(zero_flat_param_end(NULL, 0), ZERO_ERR_USAGE);
    FUNCTION(zero_gradient);
    assert_null(zero_gradient(NULL, 0, 0, &add));
    assert_int_equal(add, 5);
    FUNCTION(zero_loss_factor);
    assert_true(zero_loss_factor(NULL, 3) == 0);
    FUNCTION(zero_random);
    assert_true(zero_random(NULL, 1, 2) == 0);
    FUNCTION(zero_tensor_sum);
    assert_int_equal(zero_tensor_sum(NULL, NULL, 3), ZERO_ERR_USAGE);
}

static void of_steps(const tiny *t)
{
    double loss;
    zero_step_info info;
    zero_tensors batch = {.count = 0};
    FUNCTION(zero_initialize);
    zero_engine *engine = t->engine;
    REFUSES("options", zero_initialize(NULL, &engine, e));
    assert_null(engine);
    REFUSES("out", zero_initialize(&(zero_options){.struct_size = sizeof(zero_options)}, NULL, e));
    REFUSES("model",
            zero_initialize(&(zero_options){.struct_size = sizeof(zero_options), .comm = t->comm},
                            &engine, e));
    REFUSES("comm",
            zero_initialize(&(zero_options){.struct_size = sizeof(zero_options), .model = t->model},
                            &engine, e));
    FUNCTION(zero_forward);
    REFUSES("engine", zero_forward(NULL, &batch, &loss, e));
    REFUSES("batch", zero_forward(t->engine, NULL, &loss, e));
    REFUSES("loss", zero_forward(t->engine, &batch, NULL, e));
    FUNCTION(zero_backward);
    REFUSES("engine", zero_backward(NULL, e));
    FUNCTION(zero_step);
    REFUSES("engine", zero_step(NULL, &info, e));
    REFUSES("zero_step", zero_step(t->engine, NULL, e));
    FUNCTION(zero_train_batch);
    REFUSES("engine", zero_train_batch(NULL, &batch, 1, &info, e));
    REFUSES("batches", zero_train_batch(t->engine, NULL, 1, &info, e));
    REFUSES("info", zero_train_batch(t->engine, &batch, 1, NULL, e));
    REFUSES("micro-batches", zero_train_batch(t->engine, &batch, 3, &info, e));
    FUNCTION(zero_train_window);
    REFUSES("engine", zero_train_window(NULL, &batch, 1, &info, e));
    REFUSES("batches", zero_train_window(t->engine, NULL, 1, &info, e));
    REFUSES("info", zero_train_window(t->engine, &batch, 1, NULL, e));
    REFUSES("2 steps; expected 1 to 1", zero_train_window(t->engine, &batch, 2, &info, e));
    FUNCTION(zero_finish_update);
    REFUSES("engine", zero_finish_update(NULL, e));
    FUNCTION(zero_evaluate);
    REFUSES("engine", zero_evaluate(NULL, &batch, &loss, e));
    REFUSES("batch", zero_evaluate(t->engine, NULL, &loss, e));
    FUNCTION(zero_destroy);
    zero_destroy(NULL);
}

static void of_reports(const tiny *t)
{
    int64_t step = 7, micro_batch = 7;
    zero_memory memory = {.held = {{7}}};
    zero_traffic traffic = {.calls = {7}}, twice = {.calls = {9}};
    zero_io io = {.to_host = 7};
    FUNCTION(zero_position);
    zero_position(NULL, &step, &micro_batch);
    assert_true(step == 0 && micro_batch == 0);
    zero_position(t->engine, NULL, NULL);
    FUNCTION(zero_grid_of);
    int rank = 7, size = 7;
    zero_grid_of(NULL, ZERO_AXIS_data, &rank, &size);
    assert_true(rank == 0 && size == 0);
    zero_grid_of(t->engine, ZERO_AXIS_tensor, NULL, NULL);
    FUNCTION(zero_accumulation);
    assert_true(zero_accumulation(NULL) == 0);
    FUNCTION(zero_window);
    assert_true(zero_window(NULL) == 1 && zero_window(t->engine) == 1);
    FUNCTION(zero_parameter_count);
    assert_true(zero_parameter_count(NULL) == 0);
    FUNCTION(zero_memory_report);
    zero_memory_report(NULL, &memory);
    assert_true(memory.held[0][0] == 0);
    zero_memory_report(t->engine, NULL);
    FUNCTION(zero_traffic_between);
    assert_true(zero_traffic_between(&traffic, &twice).calls[0] == 2 &&
                zero_traffic_between(NULL, &twice).calls[0] == 9);
    assert_true(zero_traffic_between(&traffic, NULL).calls[0] == -7);
    FUNCTION(zero_traffic_report);
    zero_traffic_report(NULL, &traffic);
    assert_true(traffic.calls[0] == 0);
    zero_traffic_report(t->engine, NULL);
    FUNCTION(zero_io_between);
    assert_true(zero_io_between(NULL, &io).to_host == 7 &&
                zero_io_between(&io, NULL).to_host == -7);
    FUNCTION(zero_io_report);
    zero_io_report(NULL, &io);
    assert_true(io.to_host == 0);
    zero_io_report(t->engine, NULL);
}

static void of_tensors(const tiny *t)
{
    float values[16];
    FUNCTION(zero_read_parameter);
    REFUSES("engine", zero_read_parameter(NULL, "ln_f.weight", values, 16, e));
    REFUSES("name", zero_read_parameter(t->engine, NULL, values, 16, e));
    REFUSES("buffer", zero_read_parameter(t->engine, "ln_f.weight", NULL, 16, e));
    FUNCTION(zero_read_gradient);
    REFUSES("engine", zero_read_gradient(NULL, "ln_f.weight", values, 16, e));
    REFUSES("buffer", zero_read_gradient(t->engine, "ln_f.weight", NULL, 16, e));
    FUNCTION(zero_write_parameter);
    REFUSES("engine", zero_write_parameter(NULL, "ln_f.weight", values, 16, e));
    REFUSES("buffer", zero_write_parameter(t->engine, "ln_f.weight", NULL, 16, e));
    FUNCTION(zero_save_weights);
    REFUSES("engine", zero_save_weights(NULL, "x", e));
    REFUSES("path", zero_save_weights(t->engine, NULL, e));
    FUNCTION(zero_save_average);
    REFUSES("engine", zero_save_average(NULL, "x", e));
    REFUSES("path", zero_save_average(t->engine, NULL, e));
    FUNCTION(zero_load_weights);
    REFUSES("engine", zero_load_weights(NULL, "x", e));
    REFUSES("directory", zero_load_weights(t->engine, NULL, e));
    FUNCTION(zero_load_weights_with);
    REFUSES("engine", zero_load_weights_with(NULL, "x", NULL, e));
    REFUSES("directory", zero_load_weights_with(t->engine, NULL, NULL, e));
}

static void of_graphs(const tiny *t)
{
    static const int32_t none[1];
    const zero_graph_options options = {.struct_size = sizeof options, .to = none};
    const zero_tensor x = {.dtype = ZERO_F32, .dims = 2};
    zero_graph *graph = NULL, *out;
    int64_t count = 5;
    FUNCTION(zero_graph_create);
    REFUSES("options", zero_graph_create(NULL, &out, e));
    REFUSES("out", zero_graph_create(&options, NULL, e));
    assert_int_equal(zero_graph_create(&options, &graph, &said), ZERO_OK);
    FUNCTION(zero_graph_sample);
    REFUSES("graph", zero_graph_sample(NULL, none, 0, 1, 1, 1, &out, e));
    REFUSES("nodes", zero_graph_sample(graph, NULL, 0, 1, 1, 1, &out, e));
    REFUSES("out", zero_graph_sample(graph, none, 0, 1, 1, 1, NULL, e));
    FUNCTION(zero_graph_nodes);
    assert_null(zero_graph_nodes(NULL, &count));
    assert_int_equal(count, 0);
    FUNCTION(zero_graph_sum);
    assert_int_equal(zero_graph_sum(NULL, graph, &x, &x), ZERO_ERR_USAGE);
    REFUSES("graph", zero_graph_sum(&(zero_context){.error = e}, NULL, &x, &x));
    REFUSES("x", zero_graph_sum(&(zero_context){.error = e}, graph, NULL, &x));
    REFUSES("out", zero_graph_sum(&(zero_context){.error = e}, graph, &x, NULL));
    FUNCTION(zero_graph_sum_backward);
    assert_int_equal(zero_graph_sum_backward(NULL, graph, &x, &x), ZERO_ERR_USAGE);
    REFUSES("graph", zero_graph_sum_backward(&(zero_context){.error = e}, NULL, &x, &x));
    REFUSES("d_out", zero_graph_sum_backward(&(zero_context){.error = e}, graph, NULL, &x));
    REFUSES("d_x", zero_graph_sum_backward(&(zero_context){.error = e}, graph, &x, NULL));
    FUNCTION(zero_graph_destroy);
    zero_graph_destroy(NULL);
    zero_graph_destroy(graph);
}

static void of_models(const tiny *t)
{
    zero_gpt2_config gpt2;
    zero_llama_config llama;
    const zero_rows_config rows = {.struct_size = sizeof rows};
    zero_model *model;
    FUNCTION(zero_gpt2_defaults);
    zero_gpt2_defaults(NULL);
    FUNCTION(zero_llama_defaults);
    zero_llama_defaults(NULL);
    zero_gpt2_defaults(&gpt2);
    zero_llama_defaults(&llama);
    FUNCTION(zero_gpt2_create);
    REFUSES("config", zero_gpt2_create(NULL, &model, e));
    REFUSES("out", zero_gpt2_create(&gpt2, NULL, e));
    FUNCTION(zero_llama_create);
    REFUSES("config", zero_llama_create(NULL, &model, e));
    REFUSES("out", zero_llama_create(&llama, NULL, e));
    FUNCTION(zero_rows_create);
    REFUSES("config", zero_rows_create(NULL, &model, e));
    REFUSES("out", zero_rows_create(&rows, NULL, e));
    FUNCTION(zero_lora_create);
    REFUSES("model", zero_lora_create(NULL, "r=1", &model, e));
    REFUSES("adapters", zero_lora_create(t->model, NULL, &model, e));
    REFUSES("out", zero_lora_create(t->model, "r=1", NULL, e));
    FUNCTION(zero_lora_create_on);
    REFUSES("model", zero_lora_create_on(NULL, "nf4", "r=1", &model, e));
    REFUSES("adapters", zero_lora_create_on(t->model, "nf4", NULL, &model, e));
    REFUSES("out", zero_lora_create_on(t->model, "nf4", "r=1", NULL, e));
    FUNCTION(zero_lora_destroy);
    zero_lora_destroy(NULL);
    FUNCTION(zero_preference_create);
    REFUSES("model", zero_preference_create(NULL, "dpo", &model, e));
    REFUSES("preference", zero_preference_create(t->model, NULL, &model, e));
    REFUSES("out", zero_preference_create(t->model, "dpo", NULL, e));
    FUNCTION(zero_preference_destroy);
    zero_preference_destroy(NULL);
    FUNCTION(zero_rows_destroy);
    zero_rows_destroy(NULL);
    FUNCTION(zero_gpt2_destroy);
    zero_gpt2_destroy(NULL);
    FUNCTION(zero_llama_destroy);
    zero_llama_destroy(NULL);
}

#define SIZED(type)                                                                                \
    &(type) { .struct_size = sizeof(type) }
#define ZEROED(type)                                                                               \
    &(type) { 0 }

static void of_jobs(const tiny *t)
{
    zero_eval_result evaluated;
    int number;
    FUNCTION(zero_train);
    REFUSES("comm", zero_train(NULL, SIZED(zero_train_options), e));
    REFUSES("options", zero_train(t->comm, NULL, e));
    REFUSES("new_spec", zero_train(t->comm, SIZED(zero_train_options), e));
    FUNCTION(zero_eval);
    REFUSES("comm", zero_eval(NULL, SIZED(zero_eval_options), &evaluated, e));
    REFUSES("options", zero_eval(t->comm, NULL, &evaluated, e));
    REFUSES("out", zero_eval(t->comm, SIZED(zero_eval_options), NULL, e));
    FUNCTION(zero_run);
    REFUSES("options", zero_run(NULL, &number, e));
    REFUSES("exit_code", zero_run(SIZED(zero_run_options), NULL, e));
    REFUSES("argv", zero_run(SIZED(zero_run_options), &number, e));
    FUNCTION(zero_launched_ranks);
    REFUSES("ranks", zero_launched_ranks(NULL, e));
    FUNCTION(zero_generate);
    REFUSES("options", zero_generate(NULL, e));
    FUNCTION(zero_data_show);
    REFUSES("options", zero_data_show(NULL, e));
    REFUSES("data", zero_data_show(&(zero_data_options){.emit = emit_nothing}, e));
    FUNCTION(zero_evaluation_report);
    REFUSES("result", zero_evaluation_report(NULL, NULL, 0, write_nothing, NULL, e));
    REFUSES("write",
            zero_evaluation_report(&(zero_eval_result){.tokens = 1}, NULL, 0, NULL, NULL, e));
    FUNCTION(zero_labelled_text_report);
    REFUSES("text", zero_labelled_text_report(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_labelled_text_report(&(zero_labelled_text){.number = 1}, NULL, NULL, e));
}

static void of_files(const tiny *t)
{
    zero_prompts prompts;
    zero_tokenize_result tokens;
    zero_tokenizer_train_result learnt;
    FUNCTION(zero_prompts_read);
    REFUSES("path", zero_prompts_read(NULL, NULL, &prompts, e));
    REFUSES("out", zero_prompts_read("x", NULL, NULL, e));
    FUNCTION(zero_prompts_free);
    zero_prompts_free(NULL);
    FUNCTION(zero_tokenize);
    REFUSES("options", zero_tokenize(NULL, &tokens, e));
    REFUSES("out", zero_tokenize(ZEROED(zero_tokenize_options), NULL, e));
    FUNCTION(zero_tokenizer_train);
    REFUSES("options", zero_tokenizer_train(NULL, &learnt, e));
    REFUSES("out", zero_tokenizer_train(SIZED(zero_tokenizer_train_options), NULL, e));
    FUNCTION(zero_convert);
    REFUSES("options", zero_convert(NULL, e));
    REFUSES("from", zero_convert(ZEROED(zero_convert_options), e));
}

static void of_answers(const tiny *t)
{
    zero_diff_result difference;
    zero_verify_result verified;
    int ranks;
    FUNCTION(zero_inspect);
    REFUSES("options", zero_inspect(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_inspect(ZEROED(zero_inspect_options), NULL, NULL, e));
    FUNCTION(zero_plan);
    REFUSES("options", zero_plan(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_plan(SIZED(zero_plan_options), NULL, NULL, e));
    FUNCTION(zero_compare);
    REFUSES("options", zero_compare(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_compare(ZEROED(zero_compare_options), NULL, NULL, e));
    FUNCTION(zero_bench);
    REFUSES("comm", zero_bench(NULL, ZEROED(zero_bench_options), write_nothing, NULL, e));
    REFUSES("options", zero_bench(t->comm, NULL, write_nothing, NULL, e));
    REFUSES("write", zero_bench(t->comm, ZEROED(zero_bench_options), NULL, NULL, e));
    FUNCTION(zero_tune);
    REFUSES("options", zero_tune(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_tune(ZEROED(zero_tune_options), NULL, NULL, e));
    FUNCTION(zero_simulate);
    REFUSES("options", zero_simulate(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_simulate(ZEROED(zero_simulate_options), NULL, NULL, e));
    FUNCTION(zero_doctor);
    REFUSES("options", zero_doctor(NULL, write_nothing, NULL, e));
    REFUSES("write", zero_doctor(ZEROED(zero_doctor_options), NULL, NULL, e));
    FUNCTION(zero_describe_configuration);
    REFUSES("write", zero_describe_configuration(NULL, NULL, e));
    FUNCTION(zero_bytes_read);
    assert_true(zero_bytes_read(NULL) == -1);
    FUNCTION(zero_diff);
    REFUSES("options", zero_diff(NULL, write_nothing, NULL, &difference, e));
    REFUSES("write", zero_diff(ZEROED(zero_diff_options), NULL, NULL, &difference, e));
    REFUSES("out", zero_diff(ZEROED(zero_diff_options), write_nothing, NULL, NULL, e));
    FUNCTION(zero_verify);
    REFUSES("comm",
            zero_verify(NULL, ZEROED(zero_verify_options), write_nothing, NULL, &verified, e));
    REFUSES("options", zero_verify(t->comm, NULL, write_nothing, NULL, &verified, e));
    REFUSES("write", zero_verify(t->comm, ZEROED(zero_verify_options), NULL, NULL, &verified, e));
    REFUSES("out", zero_verify(t->comm, ZEROED(zero_verify_options), write_nothing, NULL, NULL, e));
    FUNCTION(zero_verify_ranks);
    REFUSES("run", zero_verify_ranks(NULL, &ranks, e));
    REFUSES("ranks", zero_verify_ranks("x", NULL, e));
}

// Those that take no pointer.
static void of_values(const tiny *t)
{
    FUNCTION(zero_dtype_bytes);
    FUNCTION(zero_status_name);
    FUNCTION(zero_status_text);
    FUNCTION(zero_status_exit_code);
    FUNCTION(zero_version);
    FUNCTION(zero_restart_count);
    FUNCTION(zero_run_job);
    FUNCTION(zero_supervised);
}

static tiny call_every_function(void)
{
    static void (*const groups[])(const tiny *t) = {
        of_checkpoints, of_communicators, of_units, of_steps, of_reports, of_tensors,
        of_models,      of_graphs,        of_jobs,  of_files, of_answers, of_values};
    tiny t = tiny_create();
    covered_count = 0;
    for (int g = 0; g < ZR_COUNT(groups); g++)
        groups[g](&t);
    return t;
}

static void every_function_without_what_it_needs(void **state)
{
    tiny t = call_every_function();
    double loss;
    int32_t ids[TINY_BATCH * TINY_SEQ] = {0};
    zero_tensors batch = {.count = 2};
    for (int i = 0; i < 2; i++)
        batch.at[i] = (zero_tensor){
            .data = ids, .dtype = ZERO_I32, .dims = 2, .shape = {TINY_BATCH, TINY_SEQ}};
    // nothing has failed for good
    assert_int_equal(zero_evaluate(t.engine, &batch, &loss, &said), ZERO_OK);
    tiny_destroy(&t);
}

static bool is_covered(const char *name, size_t length)
{
    for (int i = 0; i < covered_count; i++)
        if (strlen(covered[i]) == length && !memcmp(covered[i], name, length))
            return true;
    return false;
}

// The functions of a header that no line here is of; how many it has.
static int look_into(const char *path)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *open = strchr(line, '(');
        if (strncmp(line, "ZERO_API ", 9) || !open)
            continue;
        char *name = open;
        while (isalnum((unsigned char)name[-1]) || name[-1] == '_')
            name--;
        if (!is_covered(name, (size_t)(open - name)))
            fail_msg(
                "%s declares %.*s, of which nothing here says what it does without its pointers",
                path, (int)(open - name), name);
        count++;
    }
    fclose(file);
    return count;
}

static void no_function_is_missing(void **state)
{
    DIR *directory = opendir(PUBLIC_HEADERS);
    int count = 0;
    assert_non_null(directory);
    tiny t = call_every_function();
    tiny_destroy(&t);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", PUBLIC_HEADERS, entry->d_name);
        count += strstr(entry->d_name, ".h") ? look_into(path) : 0;
    }
    closedir(directory);
    assert_int_equal(count, covered_count); // and none twice
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_without_what_it_needs),
                                       cmocka_unit_test(no_function_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
