// A model and the same one in slices or in tiles: trained alike they save the same files, whatever
// the ranks and the tier, and each loads what the others have saved.
//
// The model has one unit, whose tensors get a gradient that is a function of the element alone.
#include "../base/scratch_directory.h"

#include "base/alloc.h"
#include "model/unit.h"
#include <zero/comm.h>
#include <zero/engine.h>
#include <zero/weights.h>

#include <pthread.h>

enum { ROWS = 40, COLUMNS = 300, FROZEN = 70, MOST_SLICES = 4, MOST_RANKS = 3 };

static zero_status sizes(const zero_unit *unit, const zero_shape *shape, const zero_tensors *in,
                         zero_unit_sizes *out)
{
    *out = (zero_unit_sizes){0};
    return ZERO_OK;
}

static zero_status forward(zero_context *context, const zero_tensors *in, const zero_tensors *out)
{
    *context->loss = 1;
    return ZERO_OK;
}

static zero_status backward(zero_context *context, const zero_tensors *in,
                            const zero_tensors *d_out, const zero_tensors *d_in)
{
    for (int p = 0; p < context->unit->flat_param_count; p++) {
        const zero_tensor_desc *tensor = context->unit->flat_params[p].tensors;
        int add;
        float *gradient = zero_gradient(context, p, 0, &add);
        for (int64_t i = 0, at; gradient && i < zr_tensor_desc_elements(tensor); i++) {
            zr_tile_stretch(tensor, i, 1, &at);
            gradient[i] = (float)(at % 97) / 64 - 0.5f;
        }
    }
    return ZERO_OK;
}

static const zero_unit_ops ops = {
    .kind = "only", .sizes = sizes, .forward = forward, .backward = backward};

#define SLICE(text, k, width)                                                                      \
    {                                                                                              \
        .name = text, .dims = 2, .shape = {ROWS, width}, .init = ZERO_INIT_NORMAL,                 \
        .init_value = 1, .tp_axis = -1, .tile = {                                                  \
            "w",                                                                                   \
            1,                                                                                     \
            (k) * (width),                                                                         \
            COLUMNS                                                                                \
        }                                                                                          \
    }
static const zero_tensor_desc w = {.name = "w",
                                   .dims = 2,
                                   .shape = {ROWS, COLUMNS},
                                   .init = ZERO_INIT_NORMAL,
                                   .init_value = 1,
                                   .tp_axis = 1},
                              frozen = {.name = "frozen",
                                        .dims = 1,
                                        .shape = {FROZEN},
                                        .init = ZERO_INIT_NORMAL,
                                        .init_value = 1,
                                        .tp_axis = -1},
                              half[] = {SLICE("w/0", 0, 150), SLICE("w/1", 1, 150)},
                              quarter[] = {SLICE("w/0", 0, 75), SLICE("w/1", 1, 75),
                                           SLICE("w/2", 2, 75), SLICE("w/3", 3, 75)};
#define TRAINED(tensor)                                                                            \
    {                                                                                              \
        .kind = ZERO_TRAINABLE, .tensor_count = 1, .tensors = (tensor)                             \
    }
#define FIRST                                                                                      \
    {                                                                                              \
        .kind = ZERO_FROZEN, .tensor_count = 1, .tensors = &frozen                                 \
    }
static const zero_flat_param_desc one_flat_param[] = {FIRST, TRAINED(&w)},
                                  halves[] = {FIRST, TRAINED(&half[0]), TRAINED(&half[1])},
                                  quarters[] = {FIRST, TRAINED(&quarter[0]), TRAINED(&quarter[1]),
                                                TRAINED(&quarter[2]), TRAINED(&quarter[3])};
#define UNIT(count, of)                                                                            \
    {                                                                                              \
        .name = "u", .ops = &ops, .flat_param_count = (count), .flat_params = (of)                 \
    }
static const zero_unit units[] = {UNIT(2, one_flat_param), UNIT(3, halves), UNIT(5, quarters)};
static const zero_model whole = {.name = "m", .unit_count = 1, .units = &units[0]};
static const struct {
    zero_model model;
    int format; // of its checkpoints
} models[] = {
    {{.name = "m", .unit_count = 1, .units = &units[0]}, 1},
    {{.name = "m", .unit_count = 1, .units = &units[1], .whole = &whole}, 2},
    {{.name = "m", .unit_count = 1, .units = &units[2], .whole = &whole}, 2},
    {{.name = "m", .unit_count = 1, .units = &units[2]}, 1}, // tiles of a model that is whole
};

typedef struct job { // what all ranks do together: load or a step, then save
    int model, ranks;
    const char *configuration, *directory, *load;
    bool weights_alone;
} job;

typedef struct rank {
    const job *all;
    zero_comm *comm;
} rank;

static void must(zero_status status, const zero_error *error)
{
    if (status == ZERO_OK)
        return;
    fprintf(stderr, "%s\n", error->message);
    abort();
}

static void one_step(zero_engine *engine)
{
    float x[4] = {0};
    zero_tensors batch = {1, {{x, ZERO_F32, 2, {2, 2}}}};
    zero_step_info info;
    zero_error error;
    double loss;
    must(zero_forward(engine, &batch, &loss, &error), &error);
    must(zero_backward(engine, &error), &error);
    must(zero_step(engine, &info, &error), &error);
}

static void work(const job *all, zero_engine *engine)
{
    zero_error error;
    if (all->load && all->weights_alone)
        must(zero_load_weights(engine, all->load, &error), &error);
    else if (all->load)
        must(zero_load_checkpoint(engine, all->load, &error), &error);
    else
        one_step(engine);
    if (all->weights_alone)
        must(zero_save_weights(engine, all->directory, &error), &error);
    else
        must(zero_save_checkpoint(engine, all->directory, &error), &error);
}

static void *run_rank(void *argument)
{
    const rank *r = argument;
    zero_engine *engine;
    zero_error error;
    zero_options options = {.struct_size = sizeof options,
                            .model = &models[r->all->model].model,
                            .comm = r->comm,
                            .config_text = r->all->configuration,
                            .shape = {.batch = 2, .seq = 1},
                            .threads = 1,
                            .backend = "ref"};
    must(zero_initialize(&options, &engine, &error), &error);
    work(r->all, engine);
    must(zero_comm_barrier(r->comm, &error), &error);
    zero_destroy(engine);
    return NULL;
}

static void run(const job *all)
{
    zero_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    rank each[MOST_RANKS];
    assert_int_equal(zero_comm_threads(all->ranks, NULL, comms, NULL), ZERO_OK);
    for (int r = 0; r < all->ranks; r++) {
        each[r] = (rank){all, comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &each[r]), 0);
    }
    for (int r = 0; r < all->ranks; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    for (int r = 0; r < all->ranks; r++)
        zero_comm_destroy(comms[r]);
}

static void assert_same_file(scratch *made, const char *a, const char *b, const char *name)
{
    char path[64], *data[2];
    size_t length[2];
    const char *const of[] = {a, b};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s%s", of[i], *name ? "/" : "", name);
        assert_int_equal(
            zr_file_read(scratch_path(made, path), 1 << 24, &data[i], &length[i], NULL), ZERO_OK);
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(data[0], data[1], length[0]);
    zr_free(data[0]);
    zr_free(data[1]);
}

static void assert_same_checkpoint(scratch *made, const char *a, const char *b, int format)
{
    char path[64], head[64], wanted[64];
    assert_same_file(made, a, b, "weights.safetensors");
    assert_same_file(made, a, b, "exp_avg.safetensors");
    assert_same_file(made, a, b, "exp_avg_sq.safetensors");
    snprintf(path, sizeof path, "%s/manifest.json", b);
    snprintf(wanted, sizeof wanted, "\"libzero checkpoint %d\"", format);
    zr_file_head(scratch_path(made, path), head, sizeof head);
    assert_contains(head, wanted);
}

static const char *const configurations[] = {
    "{\"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 0}}",
    "{\"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 3, "
    "\"sub_group_size\": 2048}}",
    // Portions begin and end in the middle of rows.
    "{\"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": {\"stage\": 3, "
    "\"sub_group_size\": 2048, \"offload_optimizer\": {\"device\": \"nvme\", \"nvme_path\": "
    "\"/tmp\"}, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/tmp\"}}}"};

// The samples of a step are as many as the ranks, so checkpoints go to the same number of ranks.
static void slices_and_wholes_save_alike(void **state)
{
    scratch *made = *state;
    char first[512], other[512], again[512];
    snprintf(first, sizeof first, "%s/first", made->directory);
    snprintf(other, sizeof other, "%s/other", made->directory);
    snprintf(again, sizeof again, "%s/again", made->directory);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks += 2)
        for (int c = 0; c < ZR_COUNT(configurations); c++) {
            job start = {.ranks = ranks, .configuration = configurations[0], .directory = first};
            run(&start);
            for (int m = 0; m < ZR_COUNT(models); m++) {
                job save = {.model = m,
                            .ranks = ranks,
                            .configuration = configurations[c],
                            .directory = other};
                run(&save);
                assert_same_checkpoint(made, "first", "other", models[m].format);
                for (int to = 0; to < ZR_COUNT(models); to++) {
                    job load = save;
                    load.model = to;
                    load.directory = again;
                    load.load = other;
                    run(&load);
                    assert_same_checkpoint(made, "first", "again", models[to].format);
                }
            }
        }
}

static void weights_alone(void **state)
{
    scratch *made = *state;
    char first[512], other[512];
    snprintf(first, sizeof first, "%s/model.safetensors", made->directory);
    snprintf(other, sizeof other, "%s/other", made->directory);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int m = 0; m < ZR_COUNT(models); m++) {
            job save = {.model = m,
                        .ranks = ranks,
                        .configuration = configurations[1],
                        .directory = m == 0 && ranks == 1 ? first : other,
                        .weights_alone = true};
            run(&save);
            assert_same_file(made, "model.safetensors",
                             save.directory == first ? "model.safetensors" : "other", "");
            save.directory = other;
            save.load = first;
            run(&save);
            assert_same_file(made, "model.safetensors", "other", "");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slices_and_wholes_save_alike, scratch_open, scratch_close),
        cmocka_unit_test_setup_teardown(weights_alone, scratch_open, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
