// Parts of a model of one's own that do not make up the whole are refused before anything is
// trained, by all ranks, with one message that says what each rank has.
#include "split_mlp.h"

#include "comm/communicator.h"
#include "engine/create.h"
#include "layers/layers.h"
#include "model/pipeline_stage_cut.h"
#include "setup/initialize.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_RANKS = 8, INNER = 64, MANY = 5000 };

typedef struct mistake { // what a job's ranks make of their parts
    int tensor, data;
    // Changes the part that data rank `data`'s tensor rank `rank` holds; NULL: it is right.
    void (*make)(split_mlp *part, const split_mlp *whole, int rank, int data);
    const split_mlp *whole;
} mistake;

typedef struct job {
    const mistake *mistake;
    zero_comm *comm;
    zero_status status;
    zero_error error;
} job;

static void *run_rank(void *argument)
{
    job *job = argument;
    const mistake *m = job->mistake;
    int rank = zero_comm_rank(job->comm) % m->tensor, data = zero_comm_rank(job->comm) / m->tensor;
    split_mlp part;
    zero_engine *engine = NULL;
    split_part(&part, m->whole, rank, m->tensor);
    if (m->make)
        m->make(&part, m->whole, rank, data);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &part.model,
                                  .comm = job->comm,
                                  .shape = {.batch = SPLIT_BATCH, .seq = 1},
                                  .backend = "ref"};
    job->status = zr_initialize(&options, &(zr_trial){.parallel = {.tensor = m->tensor}}, &engine,
                                &job->error);
    assert_true((engine != NULL) == (job->status == ZERO_OK));
    zero_destroy(engine);
    return NULL;
}

static void run(const mistake *m, job jobs[MOST_RANKS])
{
    int world = m->tensor * m->data;
    zero_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    assert_int_equal(zero_comm_threads(world, NULL, comms, NULL), ZERO_OK);
    for (int r = 0; r < world; r++) {
        jobs[r] = (job){.mistake = m, .comm = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < world; r++)
        zero_comm_destroy(comms[r]);
}

static void expect_refused(mistake m, const char *words)
{
    job jobs[MOST_RANKS];
    split_mlp whole;
    split_whole(&whole, INNER);
    if (!m.whole)
        m.whole = &whole;
    run(&m, jobs);
    for (int r = 0; r < m.tensor * m.data; r++) {
        assert_int_equal(jobs[r].status, ZERO_ERR_USAGE);
        if (!strstr(jobs[r].error.message, words))
            fail_msg("rank %d: no \"%s\" in: %s", r, words, jobs[r].error.message);
        assert_string_equal(jobs[r].error.message, jobs[0].error.message);
    }
}

static void expect_taken(mistake m)
{
    job jobs[MOST_RANKS];
    run(&m, jobs);
    for (int r = 0; r < m.tensor * m.data; r++)
        if (jobs[r].status != ZERO_OK)
            fail_msg("rank %d: %s", r, jobs[r].error.message);
}

static void make_first_part(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    split_part(part, whole, 0, 2);
}

static void same_tiles_are_refused(void **state)
{
    for (int data = 1; data <= 2; data++)
        expect_refused(
            (mistake){2, data, make_first_part},
            "the parts of tensor ranks do not make up model split: of tensor \"fc\" "
            "rank 0 has 0 to 31 of 64 along dimension 0 (replicas 1), rank 1 has 0 to 31 "
            "of 64 along dimension 0 (replicas 1); number 0 counts by 2 of them");
}

static void make_short(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    if (rank == 1)
        part->tensors[3].shape[1]--;
}

static void missing_elements_are_refused(void **state)
{
    expect_refused(
        (mistake){2, 1, make_short},
        "of tensor \"proj\" rank 0 has 0 to 31 of 64 along dimension 1 (replicas 1), "
        "rank 1 has 32 to 62 of 64 along dimension 1 (replicas 1); number 63 counts by 0");
}

// As many elements as the whole has, of which two lie in two tiles and two in none.
static void make_overlap(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    if (rank == 1)
        part->tensors[2].tile.first -= 2;
}

static void overlaps_are_refused(void **state)
{
    expect_refused((mistake){4, 1, make_overlap},
                   "of tensor \"fc.bias\" rank 0 has 0 to 15 of 64 along dimension 0 (replicas 1), "
                   "rank 1 has 14 to 29 of 64 along dimension 0 (replicas 1), ");
    expect_refused((mistake){4, 1, make_overlap}, "; number 14 counts by 2 of them; ");
}

static void make_counted_by_each(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    part->flat_params[2].replicas = 1;
}

// The bias in the flat parameter of tiles.
static void make_mixed(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    part->flat_params[1].tensor_count = 4;
    part->units[1].flat_param_count = 1;
}

static void what_all_have_counts_once(void **state)
{
    static const char words[] =
        "of tensor \"proj.bias\" rank 0 has all (replicas 1), rank 1 has all "
        "(replicas 1); what all of them have needs zero_flat_param_desc.replicas 2";
    expect_refused((mistake){2, 1, make_counted_by_each}, words);
    expect_refused((mistake){2, 1, make_mixed}, words);
}

static void make_shared(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    part->flat_params[1].replicas = 2;
}

// Makes number `number` of `parts` parts, which `ranks` tensor ranks hold.
static void make_part_for(split_mlp *part, const split_mlp *whole, int number, int parts, int ranks)
{
    split_part(part, whole, number, parts);
    part->hyper.ranks = ranks;
    part->flat_params[1].replicas = ranks / parts;
}

// Kv replicas 0 and 1 differ as kv replicas 2 and 3 do, the other way round; the first of each have
// all.
static void make_crossed(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    static const int halves[] = {0, 1, 1, 0};
    make_part_for(part, whole, halves[rank], 2, 4);
}

// The second tensor rank of two does not know that it shares.
static void make_one_sided(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    make_part_for(part, whole, 0, 1, 2);
    part->flat_params[1].replicas = rank == 0 ? 2 : 1;
}

static void kv_replicas_have_the_same(void **state)
{
    static const char words[] = "; neighbours that share a flat parameter have the same";
    expect_refused((mistake){2, 1, make_shared}, words);
    expect_refused((mistake){4, 2, make_crossed}, words);
    expect_refused(
        (mistake){4, 1, make_crossed},
        "rank 0 has 0 to 31 of 64 along dimension 0 (replicas 2), rank 1 has 32 to 63 of "
        "64 along dimension 0 (replicas 2), rank 2 has 32");
    expect_refused((mistake){2, 1, make_one_sided}, "rank 0 has all (replicas 2), rank 1 has all "
                                                    "(replicas 1); neighbours");
}

// Tiles have their whole's names and equal sizes, so that parts differ by where they lie alone.
static void make_swapped(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    split_part(part, whole, (rank + data) % 2, 2);
    for (int t = 1; t <= 3; t++)
        part->tensors[t].name = split_names[t];
}

static void data_ranks_have_the_same_part(void **state)
{
    expect_refused((mistake){2, 2, make_swapped}, "comparing the plans of 2 ranks: they differ");
}

typedef struct many { // tensors that go into several messages
    char names[MANY][8];
    zero_tensor_desc tensors[MANY];
    zero_flat_param_desc flat_params[2];
} many;
static many all_of_many;

static void make_many(many *m, split_mlp *of)
{
    for (int t = 0; t < MANY; t++) {
        snprintf(m->names[t], sizeof m->names[t], "w%d", t);
        m->tensors[t] = (zero_tensor_desc){
            .name = m->names[t], .dims = 1, .shape = {1}, .tp_axis = -1, .tp_parts = 1};
    }
    m->flat_params[0] = (zero_flat_param_desc){ZERO_FROZEN, MANY - 100, m->tensors};
    m->flat_params[1] = (zero_flat_param_desc){ZERO_FROZEN, 100, m->tensors + MANY - 100};
    of->units[2].flat_param_count = 2;
    of->units[2].flat_params = m->flat_params;
}

static void take_many(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    part->units[2].flat_param_count = 2;
    part->units[2].flat_params = all_of_many.flat_params;
}

static void make_late_mistake(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    static const zero_flat_param_desc flat_params[] = {
        {ZERO_FROZEN, MANY - 100, all_of_many.tensors},
        {ZERO_FROZEN, 100, all_of_many.tensors + MANY - 100, .replicas = 1}};
    part->units[2].flat_param_count = 2;
    part->units[2].flat_params = flat_params;
}

static void any_number_of_tensors_is_compared(void **state)
{
    split_mlp whole;
    split_whole(&whole, INNER);
    make_many(&all_of_many, &whole);
    expect_taken((mistake){2, 1, take_many, &whole});
    expect_refused((mistake){2, 1, make_late_mistake, &whole},
                   "of tensor \"w4900\" rank 0 has all");
}

static void make_pairs(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    make_part_for(part, whole, rank / 2, 2, 4);
}

// Every rank has a tile of all elements.
static void make_full(split_mlp *part, const split_mlp *whole, int rank, int data)
{
    make_part_for(part, whole, 0, 1, 4);
}

static void parts_that_make_up_the_whole_are_taken(void **state)
{
    split_mlp whole, narrow;
    split_whole(&whole, INNER);
    split_whole(&narrow, 3);
    expect_taken((mistake){4, 2, NULL, &whole});
    expect_taken((mistake){4, 1, NULL, &narrow}); // the last part is empty
    expect_taken((mistake){4, 2, make_pairs, &whole});
    expect_taken((mistake){4, 1, make_full, &whole});
}

typedef struct cutting { // of a model among the ranks of a pipeline
    int stages, data, tensor;
    const zr_unit_range *units; // (stages)
    const zero_model *model;    // of every rank; NULL: a tensor rank's part of `whole`
    const split_mlp *whole;
    // Changes tensor rank `rank`'s part in pipeline stage `stage`; NULL: it is right.
    void (*make)(split_mlp *part, const split_mlp *whole, int stage, int rank);
} cutting;

typedef struct staged { // one rank of it
    const cutting *cutting;
    zero_comm *world;
    zero_status status;
    zero_error error;
} staged;

static zr_grid grid_of(const cutting *c, zero_comm *world)
{
    zr_grid grid = {.world = world, .mesh = {.world = world->size}};
    int rank = world->rank, sizes[ZERO_AXIS_COUNT] = {c->tensor, c->data, c->stages};
    for (int axis = 0; axis < ZERO_AXIS_COUNT; axis++) {
        grid.mesh.size[axis] = sizes[axis];
        grid.mesh.place[axis] = rank % sizes[axis];
        rank /= sizes[axis];
    }
    if (c->tensor > 1)
        assert_int_equal(zr_comm_split(world, zr_mesh_colour(&grid.mesh, ZERO_AXIS_tensor),
                                       grid.mesh.place[ZERO_AXIS_tensor], "tensor", &grid.tensor,
                                       NULL),
                         ZERO_OK);
    return grid;
}

static zr_plan *plan_of(const cutting *c, const zero_model *stage, int tensor_rank)
{
    const zr_settings settings = {.stage = 1,
                                  .precision = zr_precision_of(ZERO_F32, 1),
                                  .accumulation = 1,
                                  .state_vectors = 2,
                                  .reduce_bucket = 1 << 20,
                                  .prefetch_bucket = 1 << 20};
    const zr_machine machine = {.ranks = c->data,
                                .tensor_ranks = c->tensor,
                                .tensor_rank = tensor_rank,
                                .threads = 1,
                                .mapped = true};
    const zero_shape shape = {.batch = SPLIT_BATCH, .seq = 1, .threads = 1};
    zr_plan *plan = NULL;
    zero_error error = {0};
    if (zr_plan_create(stage, &shape, &settings, &machine, &plan, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return plan;
}

static void *check_stage(void *argument)
{
    staged *s = argument;
    const cutting *c = s->cutting;
    zr_grid grid = grid_of(c, s->world);
    int stage = grid.mesh.place[ZERO_AXIS_pipeline], rank = grid.mesh.place[ZERO_AXIS_tensor];
    const zero_model *model = c->model;
    zero_model *cut = NULL;
    split_mlp part;
    if (!model) {
        split_part(&part, c->whole, rank, c->tensor);
        if (c->make)
            c->make(&part, c->whole, stage, rank);
        model = &part.model;
    }
    assert_int_equal(zr_pipeline_stage_cut(model, &c->units[stage], 1, false, &cut, NULL), ZERO_OK);
    zr_plan *plan = plan_of(c, cut, rank);
    s->status = zr_parts_check(&grid, plan, &s->error);
    zr_plan_destroy(plan);
    zr_pipeline_stage_free(cut);
    zero_comm_destroy(grid.tensor);
    return NULL;
}

// words NULL: the parts make up the whole.
static void check_stages(cutting c, const char *words)
{
    int world = c.stages * c.data * c.tensor;
    staged ranks[MOST_RANKS];
    zero_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    assert_int_equal(zero_comm_threads(world, NULL, comms, NULL), ZERO_OK);
    for (int r = 0; r < world; r++) {
        ranks[r] = (staged){.cutting = &c, .world = comms[r]};
        assert_int_equal(pthread_create(&threads[r], NULL, check_stage, &ranks[r]), 0);
    }
    for (int r = 0; r < world; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < world; r++) {
        zero_comm_destroy(comms[r]);
        assert_int_equal(ranks[r].status, words ? ZERO_ERR_USAGE : ZERO_OK);
        if (words && !strstr(ranks[r].error.message, words))
            fail_msg("rank %d: no \"%s\" in: %s", r, words, ranks[r].error.message);
    }
}

static const zr_unit_range two_stages[] = {{0, 1}, {1, 3}}, with_gap[] = {{0, 1}, {2, 3}},
                           with_overlap[] = {{0, 2}, {1, 3}};

static void pipeline_stages_make_up_the_whole(void **state)
{
    split_mlp whole;
    split_whole(&whole, INNER);
    check_stages((cutting){2, 1, 2, two_stages, .whole = &whole}, NULL);
    check_stages((cutting){2, 2, 2, two_stages, .whole = &whole}, NULL);
    check_stages((cutting){2, 2, 1, two_stages, &whole.model}, NULL);
}

// A shared table counts by its owner, and not by the tied copy in the last pipeline stage.
static void tied_copies_do_not_count(void **state)
{
    static const zr_unit_range last_alone[] = {{0, 3}, {3, 4}};
    zr_lm_config config = {.kind = ZR_LM_GPT2};
    zero_model *model = NULL;
    zero_gpt2_defaults(&config.gpt2);
    config.gpt2.vocab_size = 50;
    config.gpt2.n_embd = 16;
    config.gpt2.n_head = 2;
    config.gpt2.n_layer = 2;
    assert_int_equal(zr_lm_create(&config, &model, NULL), ZERO_OK);
    check_stages((cutting){2, 2, 1, last_alone, model}, NULL);
    check_stages((cutting){2, 1, 1, (const zr_unit_range[]){{1, 3}, {3, 4}}, model},
                 "of tensor \"wte.weight\" rank 0 has nothing (replicas 0), rank 1 has nothing");
    zr_lm_free(model);
}

static void make_second_stage_short(split_mlp *part, const split_mlp *whole, int stage, int rank)
{
    if (stage == 1 && rank == 1)
        part->tensors[3].shape[1]--;
}

static void make_second_stage_differ(split_mlp *part, const split_mlp *whole, int stage, int rank)
{
    if (stage == 1)
        make_shared(part, whole, rank, 0);
}

// All elements count once, but kv replicas differ.
static void make_second_stage_crossed(split_mlp *part, const split_mlp *whole, int stage, int rank)
{
    if (stage == 1)
        make_crossed(part, whole, rank, 0);
}

static void wrong_pipeline_stages_are_refused(void **state)
{
    split_mlp whole;
    split_whole(&whole, INNER);
    check_stages(
        (cutting){2, 2, 1, with_gap, &whole.model},
        "the parts of pipeline stages and tensor ranks do not make up model split: of "
        "tensor \"fc\" rank 0 has nothing (replicas 0), rank 2 has nothing (replicas 0); ");
    check_stages((cutting){2, 1, 2, with_overlap, .whole = &whole},
                 "of tensor \"fc\" rank 0 has 0 to 31 of 64 along dimension 0 (replicas 1), rank 1 "
                 "has 32 to 63 of 64 along dimension 0 (replicas 1), rank 2 has 0 to 31 of 64");
    check_stages((cutting){2, 2, 2, two_stages, NULL, &whole, make_second_stage_short},
                 "rank 4 has 0 to 31 of 64 along dimension 1 (replicas 1), rank 5 has 32 to 62 of "
                 "64 along dimension 1 (replicas 1); number 63 counts by 0");
    check_stages((cutting){2, 1, 2, two_stages, NULL, &whole, make_second_stage_differ},
                 "do not make up model split: of tensor \"fc\" rank");
    check_stages(
        (cutting){2, 1, 4, two_stages, NULL, &whole, make_second_stage_crossed},
        "the parts of tensor ranks do not make up model split: of tensor \"fc\" rank 4 has "
        "0 to 31 of 64 along dimension 0 (replicas 2), rank 5 has 32 to 63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_tiles_are_refused),
        cmocka_unit_test(missing_elements_are_refused),
        cmocka_unit_test(overlaps_are_refused),
        cmocka_unit_test(what_all_have_counts_once),
        cmocka_unit_test(kv_replicas_have_the_same),
        cmocka_unit_test(data_ranks_have_the_same_part),
        cmocka_unit_test(any_number_of_tensors_is_compared),
        cmocka_unit_test(parts_that_make_up_the_whole_are_taken),
        cmocka_unit_test(pipeline_stages_make_up_the_whole),
        cmocka_unit_test(tied_copies_do_not_count),
        cmocka_unit_test(wrong_pipeline_stages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
