// The part of a model that a tensor rank computes, against formulas: elements and multiplications
// of a rank, the exchanges of a micro-batch and their bytes, what is saved; and communication that
// does not grow with the number of layers.
#include "setup/model_part.h"

#include "config/config_ranks.h"
#include "layers/layers.h"
#include "plan/exchanges.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static zero_model *model_of(const char *spec)
{
    zr_lm_config config;
    zero_model *model;
    bool given;
    assert_int_equal(zr_lm_parse_spec(spec, &config, &given, NULL), ZERO_OK);
    assert_int_equal(zr_lm_create(&config, &model, NULL), ZERO_OK);
    return model;
}

typedef struct question {
    int slices, tensor, data; // slices 0: as many as tensor ranks, without a promise
    bool rows, divided;       // divided: activation checkpoints
    int stage;
    int64_t batch, seq, checkpoints;
} question;

static zr_config *config_of(const question *q)
{
    char text[64];
    zr_config *config;
    const zr_config_facts facts = {.world = q->tensor, .parallel = {.tensor = q->tensor}};
    snprintf(text, sizeof text, "{\"libzero\": {\"exact_tensor\": %d}}", q->slices);
    assert_int_equal(zr_config_parse(q->slices ? text : NULL, q->slices ? strlen(text) : 0, "test",
                                     &config, NULL),
                     ZERO_OK);
    assert_int_equal(zr_config_find_ranks(config, &facts, NULL), ZERO_OK);
    config->sequence_parallel = q->rows;
    return config;
}

static zr_model_part part_of(const zero_model *model, const question *q, int rank)
{
    zr_model_part part;
    zr_config *config = config_of(q);
    assert_int_equal(zr_model_part_make(model, model->name, config, rank, &part, NULL), ZERO_OK);
    zr_config_destroy(config);
    return part;
}

static zr_plan *plan_of(const zr_model_part *part, const question *q, int rank)
{
    zr_plan *plan;
    zero_error error;
    const zr_settings settings = {.stage = q->stage,
                                  .precision = zr_precision_of(ZERO_F32, 1),
                                  .accumulation = 1,
                                  .state_vectors = 2,
                                  .reduce_bucket = 500000000,
                                  .prefetch_bucket = 50000000,
                                  .activation_checkpoints = q->checkpoints,
                                  .partition_activations = q->divided};
    const zr_machine machine = {.ranks = q->data ? q->data : 1,
                                .tensor_ranks = q->tensor,
                                .tensor_rank = rank,
                                .threads = 1,
                                .mapped = true};
    const zero_shape shape = {.batch = q->batch, .seq = q->seq, .threads = 1};
    if (zr_plan_create(part->model, &shape, &settings, &machine, &plan, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return plan;
}

static int64_t held_elements(const zero_model *model)
{
    int64_t elements = 0;
    for (int u = 0; u < model->unit_count; u++)
        for (int p = 0; p < model->units[u].flat_param_count; p++)
            for (int t = 0; t < model->units[u].flat_params[p].tensor_count; t++) {
                const zero_tensor_desc *tensor = &model->units[u].flat_params[p].tensors[t];
                int64_t count = 1;
                for (int d = 0; d < tensor->dims; d++)
                    count *= tensor->shape[d];
                elements += count;
            }
    return elements;
}

// GPT-2 124M on 2 tensor ranks, as Megatron-LM would hold it but for padding: 843,264 elements
// (norms, positions, biases of the last linears) are on both.
static void a_rank_holds_its_slices(void **state)
{
    static const int64_t expected[] = {62647296, 62635776};
    zero_model *model = model_of("gpt2");
    const question q = {.tensor = 2};
    int64_t all = 0;
    for (int r = 0; r < 2; r++) {
        zr_model_part part = part_of(model, &q, r);
        assert_int_equal(held_elements(part.model), expected[r]);
        all += held_elements(part.model);
        zr_model_part_free(&part);
    }
    assert_int_equal(all, held_elements(model) + 843264);
    zr_lm_free(model);
}

// Returns the multiplications of all products of a micro-batch.
static double products(const zr_plan *plan)
{
    double sum = 0;
    for (int u = 0; u < plan->unit_count; u++)
        for (int i = 0; i < plan->units[u].sizes.product_count; i++) {
            const zero_product_shape *p = &plan->units[u].sizes.products[i];
            sum += (double)p->m * (double)p->n * (double)p->k * p->calls;
        }
    return sum;
}

static double products_of(const zero_model *model, const question *q, int rank)
{
    zr_model_part part = part_of(model, q, rank);
    zr_plan *plan = plan_of(&part, q, rank);
    double sum = products(plan);
    zr_plan_destroy(plan);
    zr_model_part_free(&part);
    return sum;
}

// No rank multiplies another one's slice, but for keys and values that ranks share: each of those
// multiplies with the one head, and computes its weights' gradients.
static void a_rank_multiplies_its_slices(void **state)
{
    static const char *const specs[] = {"gpt2:layers=2,heads=8,width=64,context=16,vocab=256",
                                        "llama:layers=2,heads=8,kv_heads=8,width=64,inner=96,"
                                        "context=16,vocab=256"};
    for (int s = 0; s < ZR_COUNT(specs); s++) {
        zero_model *model = model_of(specs[s]);
        question q = {.tensor = 1, .batch = 2, .seq = 16};
        double whole = products_of(model, &q, 0);
        for (q.tensor = 2; q.tensor <= 8; q.tensor *= 2) {
            double all = 0;
            for (int r = 0; r < q.tensor; r++)
                all += products_of(model, &q, r);
            assert_true(all == whole);
        }
        q = (question){.tensor = 1, .slices = 8, .batch = 2, .seq = 16};
        assert_true(products_of(model, &q, 0) == whole);
        zr_lm_free(model);
    }
    zero_model *model =
        model_of("llama:layers=1,heads=8,kv_heads=2,width=64,inner=96,context=16,vocab=256");
    question q = {.tensor = 1, .batch = 2, .seq = 16};
    double whole = products_of(model, &q, 0), all = 0, keys = 32.0 * 64 * 8;
    q.tensor = 8;
    for (int r = 0; r < 8; r++)
        all += products_of(model, &q, r);
    // Six more ranks compute k and v, and their weights' gradients; none of them dx.
    assert_true(all == whole + 6 * 2 * 2 * keys);
    zr_lm_free(model);
}

static const zr_traffic_plan *tensor_traffic(const zr_plan *plan)
{
    return &plan->traffic[ZR_PASS_MICRO_BATCH].tensor;
}

enum { BLOCKS = 5, ROW = 128 };

// With rows of 128 floats, shares on up to 8 ranks have no padding, whatever their number of rows.
static void expect_formula(const zero_model *model, const question *q)
{
    zr_model_part part = part_of(model, q, 0);
    zr_plan *plan = plan_of(&part, q, 0);
    const zr_traffic_plan *t = tensor_traffic(plan);
    // Of six segments the last one's units are not computed again; the embedding is.
    int64_t again = q->checkpoints ? 2 * (BLOCKS - 1) + 1 : 0, sums = 4 * BLOCKS + 2 + again,
            rows = q->batch * q->seq, others = q->tensor - 1;
    assert_int_equal(t->calls[ZERO_COMM_all_reduce], sums);
    assert_int_equal(t->bytes[ZERO_COMM_all_reduce] * q->tensor,
                     sums * 2 * others * rows * ROW * 4);
    assert_int_equal(t->calls[ZERO_COMM_all_gather], 1);
    assert_int_equal(t->bytes[ZERO_COMM_all_gather], 16 * rows * others);
    assert_int_equal(t->calls[ZERO_COMM_reduce_scatter], 0);
    zr_plan_destroy(plan);
    zr_model_part_free(&part);
}

// 4 all-reduces a block, 6 where it is computed again, 2 for embedding and head, each of
// 2(P-1)/P x R x C x 4 bytes, also of one row and of rows that P does not divide; 16 bytes a row
// and foreign slice for the loss.
static void all_reduces_are_those_of_the_formula(void **state)
{
    static const int64_t shapes[][2] = {{1, 1}, {1, 15}, {2, 15}, {3, 15}, {2, 16}}; // batch, seq
    zero_model *model = model_of("gpt2:layers=5,heads=8,width=128,context=16,vocab=1000");
    for (int tensor = 2; tensor <= 8; tensor *= 2)
        for (int s = 0; s < ZR_COUNT(shapes); s++)
            for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
                const question q = {.tensor = tensor,
                                    .batch = shapes[s][0],
                                    .seq = shapes[s][1],
                                    .checkpoints = checkpoints ? BLOCKS + 1 : 0};
                expect_formula(model, &q);
            }
    zr_lm_free(model);
}

// With rows divided, each sum is a reduce-scatter, and a gather precedes each half in forward and
// two in backward; the gains and biases of norms are summed once a unit.
static void divided_rows_are_gathered_and_scattered(void **state)
{
    enum { LAYERS = 3, WIDTH = 64 };
    zero_model *model = model_of("gpt2:layers=3,heads=8,width=64,context=16,vocab=1000");
    question q = {.tensor = 4, .batch = 2, .seq = 16, .rows = true};
    zr_model_part part = part_of(model, &q, 0);
    zr_plan *plan = plan_of(&part, &q, 0);
    const zr_traffic_plan *t = tensor_traffic(plan);
    int64_t share = 8 * WIDTH * 4; // bytes of 8 of 32 rows
    assert_int_equal(t->calls[ZERO_COMM_reduce_scatter], 4 * LAYERS + 2);
    assert_int_equal(t->bytes[ZERO_COMM_reduce_scatter], (4 * LAYERS + 2) * 3 * share);
    // The head gathers its rows, the embedding their gradient; the loss is gathered, too.
    assert_int_equal(t->calls[ZERO_COMM_all_gather], 6 * LAYERS + 2 + 1);
    assert_int_equal(t->bytes[ZERO_COMM_all_gather], (6 * LAYERS + 2) * 3 * share + 16 * 32 * 3);
    // Two norms a block, one in the head; gain and bias each.
    assert_int_equal(t->calls[ZERO_COMM_all_reduce], LAYERS + 1);
    assert_int_equal(t->bytes[ZERO_COMM_all_reduce], 2 * 3 * (4 * LAYERS + 2) * (WIDTH / 4) * 4);
    zr_plan_destroy(plan);
    zr_model_part_free(&part);
    zr_lm_free(model);
}

// Where there are more ranks than heads of keys, the ranks that share one sum its gradients.
static void shared_keys_are_summed_among_their_replicas(void **state)
{
    zero_model *model =
        model_of("llama:layers=3,heads=8,kv_heads=2,width=64,inner=96,context=16,vocab=1000");
    question q = {.tensor = 8, .batch = 2, .seq = 16};
    zr_model_part part = part_of(model, &q, 5);
    zr_plan *plan = plan_of(&part, &q, 5);
    const zr_traffic_plan *t = &plan->traffic[ZR_PASS_MICRO_BATCH].replicas;
    assert_int_equal(t->calls[ZERO_COMM_all_reduce], 3);
    assert_int_equal(t->bytes[ZERO_COMM_all_reduce], 3 * 2 * 3 * (32 * 2 * 8 / 4) * 4);
    zr_plan_destroy(plan);
    zr_model_part_free(&part);
    zr_lm_free(model);
}

static int64_t saved(const zero_model *model, const question *q)
{
    zr_model_part part = part_of(model, q, 0);
    zr_plan *plan = plan_of(&part, q, 0);
    int64_t bytes = 0;
    for (int u = 0; u < plan->unit_count; u++)
        bytes += (int64_t)plan->units[u].sizes.saved_bytes;
    zr_plan_destroy(plan);
    zr_model_part_free(&part);
    return bytes;
}

// A row keeps 8 C wide values in slices (qkv, attended, fc) and the stream of C; and of the norms 4
// floats, of the heads one each.
static void what_is_saved_is_divided(void **state)
{
    zero_model *model = model_of("gpt2:layers=4,heads=8,width=128,context=64,vocab=256");
    question q = {.tensor = 1, .batch = 2, .seq = 64};
    int64_t rows = 128, whole = 4 * rows * (8 * 128 + 128 + 4 + 8) * 4;
    assert_int_equal(saved(model, &q), whole);
    q.tensor = 4;
    assert_int_equal(saved(model, &q), 4 * rows * (8 * 128 / 4 + 128 + 4 + 8 / 4) * 4);
    q.rows = true;
    assert_int_equal(saved(model, &q), whole / 4);
    zr_lm_free(model);
}

// ZeRO-R's P_a: of a checkpoint a rank keeps 1/P, and one that its segment is computed from is
// gathered once, (P-1)/P of its R x C fp32 values.
static void checkpoints_are_divided(void **state)
{
    enum { LAYERS = 5, WIDTH = 64, BATCH = 2, SEQ = 16 };
    zero_model *model = model_of("gpt2:layers=5,heads=8,width=64,context=16,vocab=1000");
    for (int tensor = 2; tensor <= 8; tensor *= 2) {
        question q = {.tensor = tensor, .batch = BATCH, .seq = SEQ, .checkpoints = LAYERS + 1};
        const int64_t whole = BATCH * SEQ * WIDTH * 4;
        zr_model_part part = part_of(model, &q, 0);
        zr_plan *kept = plan_of(&part, &q, 0);
        q.divided = true;
        zr_plan *divided = plan_of(&part, &q, 0);
        const zr_traffic_plan *before = tensor_traffic(kept), *t = tensor_traffic(divided);
        // Of six segments the first begins with the batch, and the last is not computed again.
        int gathers = LAYERS - 1;
        assert_int_equal(kept->bytes[ZERO_TIER_device][ZERO_MEM_checkpoints], LAYERS * whole);
        assert_int_equal(divided->bytes[ZERO_TIER_device][ZERO_MEM_checkpoints],
                         2 * whole + gathers * whole / tensor);
        assert_int_equal(t->messages - before->messages, gathers);
        assert_int_equal(t->calls[ZERO_COMM_all_gather] - before->calls[ZERO_COMM_all_gather],
                         gathers);
        assert_int_equal(t->bytes[ZERO_COMM_all_gather] - before->bytes[ZERO_COMM_all_gather],
                         gathers * (tensor - 1) * whole / tensor);
        // The window of sums is large enough for a checkpoint.
        assert_int_equal(divided->exchange_bytes, kept->exchange_bytes);
        zr_plan_destroy(kept);
        zr_plan_destroy(divided);
        zr_model_part_free(&part);
    }
    zr_lm_free(model);
}

// The paper's 100B model (arXiv 1910.02054, section 6.1): 125 layers 8192 wide, batch 32 x 1024,
// 16 tensor ranks. In the paper's 2 bytes a value, checkpoints are 67.1 GB. Boundaries are fp32
// here: 134.2 GB, of which a rank keeps 8.3 GB and two whole ones of 1.07 GB.
static void the_papers_checkpoints_fall_to_a_sixteenth(void **state)
{
    zero_model *model = model_of("gpt2:layers=125,heads=64,width=8192,context=1024,vocab=50257");
    question q = {.tensor = 16, .batch = 32, .seq = 1024, .checkpoints = INT32_MAX};
    const int64_t whole = (int64_t)32 * 1024 * 8192 * 4;
    zr_model_part part = part_of(model, &q, 3);
    zr_plan *plan = plan_of(&part, &q, 3);
    assert_int_equal(plan->bytes[ZERO_TIER_device][ZERO_MEM_checkpoints], 125 * whole);
    assert_int_equal(125 * whole, 2 * 67108864000);
    zr_plan_destroy(plan);
    q.divided = true;
    plan = plan_of(&part, &q, 3);
    assert_int_equal(plan->activation_checkpoint_bytes, 124 * whole / 16);
    assert_int_equal(plan->bytes[ZERO_TIER_device][ZERO_MEM_checkpoints],
                     124 * whole / 16 + 2 * whole);
    zr_plan_destroy(plan);
    zr_model_part_free(&part);
    zr_lm_free(model);
}

// Tensor ranks send alike messages in a pass, though their parts differ.
static void ranks_that_divide_agree_about_messages(void **state)
{
    zero_model *model = model_of("gpt2:layers=5,heads=8,width=64,context=16,vocab=1000");
    question q = {.tensor = 4, .batch = 1, .seq = 15, .checkpoints = 6, .divided = true};
    uint64_t hash = 0;
    for (int r = 0; r < 4; r++) {
        zr_model_part part = part_of(model, &q, r);
        zr_plan *plan = plan_of(&part, &q, r);
        hash = r ? hash : plan->job_hash;
        assert_true(plan->job_hash == hash);
        zr_plan_destroy(plan);
        zr_model_part_free(&part);
    }
    zr_lm_free(model);
}

// ZeRO-R's constant buffers: communication memory does not depend on the number of layers. how: 1:
// with rows divided, 2: with activation checkpoints divided.
static void communication_bytes_do_not_grow_with_layers(void **state)
{
    static const int layers[] = {12, 48, 96};
    for (int how = 0; how < 3; how++) {
        int64_t first = 0;
        for (int i = 0; i < ZR_COUNT(layers); i++) {
            char spec[80];
            snprintf(spec, sizeof spec, "gpt2:layers=%d,heads=8,width=64,context=32,vocab=512",
                     layers[i]);
            zero_model *model = model_of(spec);
            question q = {.tensor = 4,
                          .data = 2,
                          .stage = 2,
                          .rows = how == 1,
                          .divided = how == 2,
                          .batch = 2,
                          .seq = 32,
                          .checkpoints = how == 2 ? INT32_MAX : 0};
            zr_model_part part = part_of(model, &q, 1);
            zr_plan *plan = plan_of(&part, &q, 1);
            int64_t bytes = plan->bytes[ZERO_TIER_device][ZERO_MEM_communication];
            first = i ? first : bytes;
            assert_true(bytes > 0 && bytes == first);
            zr_plan_destroy(plan);
            zr_model_part_free(&part);
            zr_lm_free(model);
        }
    }
}

static zero_status nothing_sizes(const zero_unit *unit, const zero_shape *shape,
                                 const zero_tensors *in, zero_unit_sizes *out)
{
    return ZERO_OK;
}

static void a_model_without_a_split_is_named(void **state)
{
    static const zero_unit_ops ops = {.kind = "layer", .sizes = nothing_sizes};
    static const zero_unit unit = {.name = "layer", .ops = &ops};
    const zero_model own = {.name = "mlp", .unit_count = 1, .units = &unit};
    zero_error error;
    zr_model_part part;
    zr_config config = {.tensor = 2, .exact_tensor = 2};
    assert_int_equal(zr_model_part_make(&own, own.name, &config, 0, &part, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "model \"mlp\" has no split: 2 tensor ranks"));
    config = (zr_config){.tensor = 1, .exact_tensor = 4};
    assert_int_equal(zr_model_part_make(&own, own.name, &config, 0, &part, &error),
                     ZERO_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "cannot be computed as 4 slices"));
    config.exact_tensor = 1;
    assert_int_equal(zr_model_part_make(&own, own.name, &config, 0, &part, &error), ZERO_OK);
    assert_ptr_equal(part.model, &own);
    zr_model_part_free(&part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_holds_its_slices),
        cmocka_unit_test(a_rank_multiplies_its_slices),
        cmocka_unit_test(all_reduces_are_those_of_the_formula),
        cmocka_unit_test(divided_rows_are_gathered_and_scattered),
        cmocka_unit_test(shared_keys_are_summed_among_their_replicas),
        cmocka_unit_test(what_is_saved_is_divided),
        cmocka_unit_test(checkpoints_are_divided),
        cmocka_unit_test(the_papers_checkpoints_fall_to_a_sixteenth),
        cmocka_unit_test(ranks_that_divide_agree_about_messages),
        cmocka_unit_test(communication_bytes_do_not_grow_with_layers),
        cmocka_unit_test(a_model_without_a_split_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
