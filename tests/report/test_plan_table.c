// The rows of `zero plan`: what tensor ranks exchange and what of ZeRO-R holds have lines of their
// own, and members in JSON.
#include "report/plan_report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static const zr_plan_row rows[] = {
    {.stage = 1,
     .ranks = 4,
     .tensor = 2,
     .exchanged = 3000000,
     .exchanges = {.calls = {[ZERO_EXCHANGE_FOR_sums] = {[ZERO_EXCHANGE_SCATTER] = 18},
                             [ZERO_EXCHANGE_FOR_loss] = {[ZERO_EXCHANGE_GATHER] = 2}},
                   .bytes = {[ZERO_EXCHANGE_FOR_sums] = {[ZERO_EXCHANGE_SCATTER] = 2900000},
                             [ZERO_EXCHANGE_FOR_loss] = {[ZERO_EXCHANGE_GATHER] = 100000}}},
     .windows = 7000000,
     .micro_batch = 4,
     .largest = -1},
    {.stage = 2, .ranks = 4, .tensor = 2, .exchanged = 3000000, .micro_batch = 4, .largest = -1},
    {.stage = 2, .ranks = 4, .tensor = 2, .exchanged = 6000000, .micro_batch = 8, .largest = -1},
    {.stage = 3, .ranks = 4, .tensor = 2, .exchanged = 3000000, .micro_batch = 4, .largest = -1},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (; (text = strstr(text, words)); text++)
        count++;
    return count;
}

static void a_table_says_what_tensor_ranks_exchange(void **state)
{
    zr_buffer text = {0};
    zr_plan_table(rows, 2, 0, &text);
    assert_int_equal(count_of(text.data, "2 tensor ranks: each fetches"), 1);
    assert_non_null(strstr(text.data, "fetches 3.00 MB a step from the others (micro-batch 4)\n"
                                      "  in a micro-batch   "));
    assert_non_null(
        strstr(text.data,
               "  sums of slices                        reduce-scatter          18     2.90 MB\n"
               "  parts of the loss                     all-gather               2      100 kB\n"
               "  together                                                      20     3.00 MB\n"));
    assert_int_equal(count_of(text.data, "  gathers of rows "), 0);
    zr_buffer_free(&text);
}

// Where micro-batches differ, bytes are ranges, and one table is that of the largest.
static void a_table_says_it_once(void **state)
{
    zr_plan_row all[ROWS];
    zr_buffer text = {0};
    memcpy(all, rows, sizeof all);
    for (int i = 0; i < ROWS; i++) {
        all[i].windows = 1000000 * all[i].micro_batch;
        all[i].keeps = ZR_KEEP_SHARE;
        all[i].joins = 11;
        all[i].joined = 500000 * all[i].micro_batch;
    }
    all[2].exchanges.calls[ZERO_EXCHANGE_FOR_sums][ZERO_EXCHANGE_SUM] = 77;
    zr_plan_table(all, ROWS, 0, &text);
    assert_int_equal(count_of(text.data, "2 tensor ranks: each fetches"), 1);
    assert_non_null(strstr(text.data, "fetches 3.00 MB to 6.00 MB a step from the others "
                                      "(micro-batches 4 to 8)\n  in a micro-batch of 8   "));
    assert_int_equal(count_of(text.data, "in a micro-batch"), 1);
    assert_non_null(strstr(text.data, " all-reduce              77 "));
    assert_int_equal(count_of(text.data, "  P_a  "), 1);
    assert_non_null(strstr(text.data, "fetches 2.00 MB to 4.00 MB a step in 11 gathers of the rest "
                                      "(micro-batches 4 to 8)\n"));
    assert_int_equal(count_of(text.data, "  C_B  "), 1);
    assert_non_null(strstr(text.data, "the same 4.00 MB to 8.00 MB, as large as the largest one "
                                      "needs (micro-batches 4 to 8)\n"));
    zr_buffer_free(&text);
}

// Dividing the checkpoints of few segments saves no memory: P_a's line says so.
static void a_table_says_what_dividing_is_worth(void **state)
{
    const struct {
        zr_checkpoint_layout keeps;
        int64_t kept, otherwise;
        const char *says; // NULL: nothing of it
    } cases[] = {
        {ZR_KEEP_SHARE, 2000000, 3000000, NULL},
        {ZR_KEEP_WHOLE, 3000000, 2000000, NULL},
        {ZR_KEEP_SHARE, 3000000, 3000000,
         "; with so few segments that saves nothing: checkpoints take 3.00 MB divided, 3.00 MB "
         "whole\n"},
        {ZR_KEEP_SHARE, 3000000, 2000000,
         "; with so few segments that costs memory: checkpoints take 3.00 MB divided, 2.00 MB "
         "whole\n"},
        {ZR_KEEP_WHOLE, 2000000, 2000000,
         "; with so few segments dividing would save nothing: checkpoints take 2.00 MB divided, "
         "2.00 MB whole\n"},
        {ZR_KEEP_WHOLE, 2000000, 3000000,
         "; with so few segments dividing would cost memory: checkpoints take 3.00 MB divided, "
         "2.00 MB whole\n"},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_plan_row row = rows[0];
        zr_buffer text = {0};
        row.keeps = cases[i].keeps;
        row.kept = cases[i].kept;
        row.kept_otherwise = cases[i].otherwise;
        zr_plan_table(&row, 1, 0, &text);
        if (cases[i].says)
            assert_non_null(strstr(text.data, cases[i].says));
        else
            assert_null(strstr(text.data, "segments"));
        zr_buffer_free(&text);
    }
}

// Of two rows that say the same, one does.
static void a_table_says_what_of_zero_r_holds(void **state)
{
    static const char *const said[] = {
        [ZR_KEEP_NONE] = "  P_a  there are no activation checkpoints to divide",
        [ZR_KEEP_WHOLE] = "  P_a  each keeps whole activation checkpoints",
        [ZR_KEEP_SHARE] = "  P_a  each keeps 1/2 of an activation checkpoint, and fetches 1.00 MB",
        [ZR_KEEP_ROWS] = "  P_a  an activation checkpoint is each rank's own rows already"};
    for (int kept = 0; kept < ZR_COUNT(said); kept++) {
        zr_plan_row two[] = {rows[0], rows[1]};
        zr_buffer text = {0};
        for (int i = 0; i < 2; i++) {
            two[i].windows = rows[0].windows;
            two[i].keeps = (zr_checkpoint_layout)kept;
            two[i].joins = kept == ZR_KEEP_SHARE ? 11 : 0;
            two[i].joined = kept == ZR_KEEP_SHARE ? 1000000 : 0;
        }
        zr_plan_table(two, 2, 0, &text);
        assert_int_equal(count_of(text.data, "ZeRO-R on 2 tensor ranks:\n"), 1);
        assert_int_equal(count_of(text.data, "  P_a  "), 1);
        assert_int_equal(count_of(text.data, said[kept]), 1);
        assert_non_null(strstr(text.data, "  C_B  by design: exchanges of all layers go through "
                                          "the same 7.00 MB"));
        assert_non_null(strstr(text.data, "  M_D  by design: "));
        zr_buffer_free(&text);
    }
}

static void alone_nothing_is_said(void **state)
{
    const zr_plan_row alone = {.stage = 1, .ranks = 4, .tensor = 1, .largest = -1};
    zr_buffer table = {0}, json = {0};
    zr_plan_table(&alone, 1, 0, &table);
    zr_plan_json(&alone, 1, "m", "fp32", 1, NULL, NULL, &json);
    assert_null(strstr(table.data, "tensor"));
    assert_null(strstr(table.data, "ZeRO-R"));
    assert_null(strstr(json.data, "tensor"));
    assert_null(strstr(json.data, "zero_r"));
    zr_buffer_free(&table);
    zr_buffer_free(&json);
}

static void json_has_the_bytes(void **state)
{
    zr_buffer json = {0};
    zr_plan_json(rows, 1, "m", "fp32", 1, NULL, NULL, &json);
    assert_non_null(strstr(json.data, "\"tensor\":2,\"exchanged\":3000000,\"exchanges\":["
                                      "{\"for\":\"sums\",\"as\":\"reduce_scatter\",\"calls\":18,"
                                      "\"bytes\":2900000},"
                                      "{\"for\":\"loss\",\"as\":\"all_gather\",\"calls\":2,"
                                      "\"bytes\":100000}],"));
    assert_non_null(strstr(json.data, ",\"zero_r\":{\"checkpoints_kept\":\"none\",\"gathers\":0,"
                                      "\"gathered\":0,\"windows\":7000000},\"bytes\""));
    zr_buffer_free(&json);
}

static const zero_unit_ops block = {.kind = "block"}, table = {.kind = "table"};
static zero_unit units[] = {
    {.name = "wte", .ops = &table}, {.name = "h.0", .ops = &block}, {.name = "h.1", .ops = &block}};
static const zero_model model = {.units = units, .unit_count = 3};

// A row of two pipeline stages on four ranks.
static zr_plan_pipeline *make_pipeline(void)
{
    static const int first_unit[] = {0, 2, 3};
    static const double share[] = {0.6, 0.4};
    static zr_pipeline_part part = {.pipeline = {.kind = ZR_PIPELINE_GPIPE,
                                                 .stages = 2,
                                                 .chunks = 1,
                                                 .micro_batches = 4,
                                                 .steps = 1},
                                    .first_unit = first_unit,
                                    .share = share};
    zr_plan_pipeline *p = zr_alloc(sizeof *p + 2 * sizeof *p->at, NULL);
    assert_non_null(p);
    *p = (zr_plan_pipeline){.part = &part, .model = &model, .bubble = 0.25};
    p->at[0] = (zr_report_pipeline_stage){
        .parameters = 3000000,
        .bytes = {[ZERO_MEM_parameters] = 7000000},
        .tiers = {[ZERO_TIER_device] = 6000000, [ZERO_TIER_host] = 1000000},
        .sets = {4},
        .slots = 1,
        .messages = {[ZERO_AXIS_data] = {8, 2000000}, [ZERO_AXIS_pipeline] = {4, 40000}}};
    p->at[1] = (zr_report_pipeline_stage){.parameters = 1000000,
                                          .bytes = {[ZERO_MEM_parameters] = 9000000},
                                          .tiers = {[ZERO_TIER_device] = 9000000},
                                          .sets = {4},
                                          .slots = 4,
                                          .messages = {[ZERO_AXIS_pipeline] = {4, 40000}}};
    return p;
}

static void a_pipeline_has_a_line_a_stage(void **state)
{
    zr_buffer text = {0};
    zr_plan_row row = {.stage = 1, .ranks = 4, .micro_batch = 2, .pipeline = make_pipeline()};
    zr_plan_pipeline_stages_text(&row, 0, &text);
    assert_non_null(strstr(text.data, "\npipeline gpipe, 2 pipeline stages, 4 micro-batches in "
                                      "flight: bubble 25%, largest pipeline stage 1.20 x the mean\n"
                                      "at ZeRO stage 1 on 4 ranks, micro-batch 2"));
    assert_non_null(strstr(text.data,
                           "             0          0 to 1    60%     3.000 M        7.00 "
                           "MB     7.00 MB        4      1        2.00 MB        40.0 kB  "
                           "wte, h.0\n"));
    assert_non_null(strstr(text.data,
                           "             1          2 to 3    40%     1.000 M        9.00 "
                           "MB     9.00 MB        4      4            0 B        40.0 kB  "
                           "h.1\n"));
    assert_non_null(strstr(text.data, "most of all: a rank of pipeline stage 1, 9.00 MB."));
    assert_int_equal(count_of(text.data, "tensor ranks"), 0);
    zr_buffer_free(&text);
    zr_free(row.pipeline);
}

static void json_has_every_pipeline_stage(void **state)
{
    zr_buffer text = {0};
    zr_plan_row row = {.stage = 1, .ranks = 4, .micro_batch = 2, .largest = -1};
    zr_plan_json(&row, 1, "gpt2", "fp32", 100, NULL, NULL, &text);
    assert_int_equal(count_of(text.data, "pipeline"), 0);
    zr_buffer_free(&text);
    row.pipeline = make_pipeline();
    zr_plan_json(&row, 1, "gpt2", "fp32", 100, NULL, NULL, &text);
    assert_non_null(strstr(text.data, ",\"pipeline\":{\"schedule\":\"gpipe\",\"chunks\":1,"
                                      "\"micro_batches\":4,\"bubble\":0.2500,"
                                      "\"imbalance\":1.2000,\"stages\":[\n {\"units\":\"wte, "
                                      "h.0\",\"first_rank\":0,\"ranks\":2,\"share\":0.6000,"
                                      "\"parameters\":3000000,\"bytes\":{\"parameters\":7000000"));
    assert_non_null(strstr(text.data, "\"first_rank\":2,"));
    assert_non_null(strstr(text.data, "\"sets\":[4],\"slots\":1,\"messages\":{\"tensor\":{"
                                      "\"calls\":0,\"bytes\":0},\"data\":{\"calls\":8,\"bytes\":"
                                      "2000000},\"pipeline\":{\"calls\":4,\"bytes\":40000}}}"));
    zr_buffer_free(&text);
    zr_free(row.pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_has_a_line_a_stage),
        cmocka_unit_test(json_has_every_pipeline_stage),
        cmocka_unit_test(a_table_says_what_tensor_ranks_exchange),
        cmocka_unit_test(a_table_says_it_once),
        cmocka_unit_test(a_table_says_what_dividing_is_worth),
        cmocka_unit_test(a_table_says_what_of_zero_r_holds),
        cmocka_unit_test(alone_nothing_is_said),
        cmocka_unit_test(json_has_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
