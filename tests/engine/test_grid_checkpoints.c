// A training is saved on any grid of data ranks, tensor ranks and pipeline stages, and goes on on
// any other: the next step has the bits of the run that continued there, and what is exported is
// one file.
#include "../base/scratch_directory.h"
#include "../sanitizers.h"
#include "harness.h"

#include "base/alloc.h"
#include "formats/safetensors_write.h"
#include "formats/source.h"

#include <sys/stat.h>

enum { SAVED_AT = 2, MICRO_BATCHES = 8, MOST_RANKS = 8, MOST_GRIDS = 20, MOST_ELEMS = 20000 };

typedef struct grid {
    int data, tensor, stages;
    const char *schedule; // of several pipeline stages
} grid;

typedef struct outcome { // of the step after the checkpoint
    double loss, norm, evaluated;
    float parameters[MOST_ELEMS];
} outcome;

typedef struct matrix { // of one model
    harness_case model;
    int odd;           // a step has 8 * odd samples, so that odd data ranks can divide them
    bool only_inexact; // of the pairs, those of which a grid is not exact
    bool has_stages;   // its tables are two sums on every grid
    int one_in;        // of the pairs, one in so many is made; 0: all are
    scratch *made;
    int count;
    grid grids[MOST_GRIDS]; // the first is of one rank
    outcome after[MOST_GRIDS];
} matrix;

static bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

// Says whether grids have the same bits. A number of tensor ranks that is no power of two has bits
// of its own. So has such a number of data ranks, but the same ones at any number of tensor ranks.
// Pipeline stages change nothing.
static bool are_alike(grid a, grid b)
{
    return is_power_of_two(a.tensor) && is_power_of_two(b.tensor) &&
           (a.data == b.data || (is_power_of_two(a.data) && is_power_of_two(b.data)));
}

static bool is_exact(grid g) { return are_alike(g, (grid){1, 1, 1, NULL}); }

static void add_grids(matrix *m, int tensor)
{
    for (int data = 1; data * tensor <= MOST_RANKS; data++)
        if (MICRO_BATCHES * m->odd % data == 0)
            m->grids[m->count++] = (grid){.data = data, .tensor = tensor, .stages = 1};
}

static const char *precision_of(const matrix *m, grid g)
{
    static const char *const all[] = {
        NULL, "\"libzero\": {\"exact_world\": true}", "\"libzero\": {\"exact_pipeline\": true}",
        "\"libzero\": {\"exact_world\": true, \"exact_pipeline\": true}"};
    return all[is_power_of_two(g.data) + 2 * m->has_stages];
}

// Stages and layouts of rows differ from grid to grid, because they must not matter. All steps have
// the same samples; those of exact grids are in the same micro-batches.
static harness_case case_on(const matrix *m, grid g)
{
    harness_case c = m->model;
    c.ranks = g.data;
    c.tensor = g.tensor;
    c.stages = g.stages > 1 ? g.stages : 0;
    c.schedule = g.schedule;
    c.slices = is_power_of_two(g.tensor) ? MOST_RANKS : g.tensor;
    c.inexact = !is_power_of_two(g.tensor);
    c.stage = (g.data + g.tensor + g.stages - 1) % 4;
    c.by_rows = g.data % 2 == 0;
    c.accumulation = is_power_of_two(g.data) ? MICRO_BATCHES / g.data : 1;
    c.batch = MICRO_BATCHES * m->odd / (g.data * c.accumulation);
    c.precision = precision_of(m, g);
    c.steps = SAVED_AT + 1;
    return c;
}

static void name_of(const matrix *m, grid g, const char *what, char path[512])
{
    snprintf(path, 512, "%s/%s-%d-%d-%d-%d", m->made->directory, what, m->odd, g.data, g.tensor,
             g.stages);
}

// Goes on from the checkpoint of `from` (NULL: trains from the beginning), and saves if it is told
// to.
static void train(const matrix *m, const grid *from, grid g, bool saves, outcome *out)
{
    static harness_result result;
    char load[512], save[512];
    harness_case c = case_on(m, g);
    if (from) {
        name_of(m, *from, "step", load);
        c.load = load;
    }
    if (saves) {
        name_of(m, g, "step", save);
        c.save = save;
        c.save_at = SAVED_AT;
    }
    harness_run(&c, &result);
    harness_expect_held(&result);
    assert_in_range(result.elems, 1, MOST_ELEMS);
    memset(out, 0, sizeof *out);
    out->loss = result.loss[SAVED_AT];
    out->norm = result.norm[SAVED_AT];
    out->evaluated = result.evaluated;
    memcpy(out->parameters, result.parameters, (size_t)result.elems * sizeof(float));
}

static void export_from(const matrix *m, grid g, char **data, size_t *length)
{
    char checkpoint[512], directory[512], file[544];
    zr_source source;
    zero_error error = {0};
    name_of(m, g, "step", checkpoint);
    name_of(m, g, "model", directory);
    assert_int_equal(mkdir(directory, 0777), 0);
    assert_int_equal(zr_source_open(checkpoint, &source, &error), ZERO_OK);
    zr_export export = {.directory = directory, .dtype = ZERO_F32};
    assert_int_equal(zr_export_weights(&source, &export, &error), ZERO_OK);
    zr_source_close(&source);
    snprintf(file, sizeof file, "%s/model.safetensors", directory);
    assert_int_equal(zr_file_read(file, 1 << 24, data, length, &error), ZERO_OK);
}

static void exports_are_one_file(const matrix *m)
{
    char *first, *other;
    size_t first_length, length;
    export_from(m, m->grids[0], &first, &first_length);
    for (int i = 1; i < m->count; i++) {
        export_from(m, m->grids[i], &other, &length);
        assert_int_equal(length, first_length);
        assert_memory_equal(first, other, length);
        zr_free(other);
    }
    zr_free(first);
}

static void add_powers_of_two(matrix *m)
{
    for (int tensor = 1; tensor <= MOST_RANKS; tensor *= 2)
        add_grids(m, tensor);
}

// Exact grids train by themselves. The others have bits of their own, so they save what they have
// loaded from the first one.
static void train_and_save_on_all(matrix *m)
{
    for (int i = 0; i < m->count; i++) {
        bool alone = is_exact(m->grids[i]);
        train(m, alone ? NULL : &m->grids[0], m->grids[i], true, &m->after[i]);
        for (int j = 0; j < i; j++)
            if (are_alike(m->grids[i], m->grids[j]) &&
                memcmp(&m->after[i], &m->after[j], sizeof m->after[i]) != 0)
                fail_msg("%d x %d ranks, %d stages: other bits than on %d x %d, %d",
                         m->grids[i].data, m->grids[i].tensor, m->grids[i].stages, m->grids[j].data,
                         m->grids[j].tensor, m->grids[j].stages);
    }
    assert_true(m->after[0].norm > 0);
}

static void every_pair(matrix *m)
{
    static outcome rest;
    train_and_save_on_all(m);
    exports_are_one_file(m);
    for (int from = 0; from < m->count; from++)
        for (int to = 0; to < m->count; to++) {
            grid f = m->grids[from], t = m->grids[to];
            int number = from * m->count + to;
            if ((SANITIZED && number % 7) || (m->one_in && number % m->one_in))
                continue;
            if (m->only_inexact && is_exact(f) && is_exact(t))
                continue;
            train(m, &f, t, false, &rest);
            if (memcmp(&rest, &m->after[to], sizeof rest) != 0)
                fail_msg("saved on %d x %d ranks, %d stages, it goes on on %d x %d, %d to other "
                         "bits than the run that continued",
                         f.data, f.tensor, f.stages, t.data, t.tensor, t.stages);
        }
}

// Rectangles of three parts (c_attn), a vocabulary whose last slices are empty. Three tensor ranks
// cut other slices out of the same tensors.
static void gpt2(void **state)
{
    static matrix m;
    m = (matrix){.made = *state, .odd = 3, .one_in = 3};
    m.model = (harness_case){.layers = 1, .heads = 24, .width = 24, .dropout = 0.1f};
    add_powers_of_two(&m);
    add_grids(&m, 3);
    every_pair(&m);
}

// Their batches are multiples of 5 and 7, so they are pairs of their own.
static void gpt2_on_five_and_seven_data_ranks(void **state)
{
    static matrix m;
    for (int odd = 5; odd <= 7; odd += 2) {
        m = (matrix){.made = *state, .odd = odd, .only_inexact = true};
        m.model = (harness_case){.layers = 1, .heads = 8, .dropout = 0.1f};
        add_powers_of_two(&m);
        every_pair(&m);
    }
}

// Two heads of keys and values, each shared by up to four ranks.
static void llama(void **state)
{
    static matrix m;
    zero_llama_config config = harness_llama();
    config.n_layer = 1;
    config.n_head = 8;
    config.qkv_bias = config.output_bias = config.mlp_bias = 1;
    m = (matrix){.made = *state, .odd = 1, .one_in = 4, .model = {.llama = &config}};
    add_powers_of_two(&m);
    every_pair(&m);
}

// Stages of one unit, of several chunks, of slices; five stages divide nothing evenly.
static void on_pipelines(matrix *m)
{
    static const grid grids[] = {{1, 1, 1, NULL},
                                 {8, 1, 1, NULL},
                                 {1, 2, 1, NULL},
                                 {1, 1, 2, "1f1b"},
                                 {2, 1, 2, "interleaved:2"},
                                 {3, 1, 2, "zb-h1"},
                                 {1, 1, 3, "zb-h1"},
                                 {2, 1, 4, "gpipe"},
                                 {1, 1, 5, "1f1b"},
                                 {1, 1, 6, "gpipe"},
                                 {1, 2, 2, "zb-h1"},
                                 {2, 2, 2, "1f1b"},
                                 {1, 4, 2, "interleaved:2"},
                                 {1, 2, 4, "1f1b"}};
    m->has_stages = true;
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++)
        m->grids[m->count++] = grids[g];
    every_pair(m);
}

static void llama_on_pipelines(void **state)
{
    static matrix m;
    zero_llama_config config = harness_llama();
    config.n_layer = 4;
    config.n_head = 8;
    config.qkv_bias = config.output_bias = config.mlp_bias = 1;
    config.tied = 0;
    m = (matrix){.made = *state, .odd = 3, .model = {.llama = &config}};
    on_pipelines(&m);
}

// First and last stage have a table each, of which the first is saved.
static void gpt2_on_pipelines(void **state)
{
    static matrix m;
    m = (matrix){.made = *state, .odd = 3, .one_in = 4};
    m.model = (harness_case){.layers = 4, .heads = 8, .dropout = 0.1f, .optimizer = "LAMB"};
    on_pipelines(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gpt2, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(gpt2_on_five_and_seven_data_ranks, scratch_in_ram,
                                        scratch_close),
        cmocka_unit_test_setup_teardown(llama, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(llama_on_pipelines, scratch_in_ram, scratch_close),
        cmocka_unit_test_setup_teardown(gpt2_on_pipelines, scratch_in_ram, scratch_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
