// Tables of runs: cells that are free text, defaults that are told, rows that cannot be simulated,
// lines that are no rows, and the score.
#include "simulate/sim_catalogue.h"
#include "simulate/sim_row.h"
#include "simulate/sim_runs_table.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COLUMNS                                                                                    \
    "id,set,quality,system,model,params_B,layers,hidden,heads,vocab,seq,global_batch,"             \
    "micro_batch,gpus,gpu,gpus_per_node,link_between_nodes_Gbps_per_node,tp,pp,dp,zero_stage,"     \
    "precision,recompute,offload,iter_s\n"
#define GPT "GPT 7B,7,32,4096,32,51200,2048,"

static char path[64];

static zero_status read_text(const char *text, zr_sim_table *table, zero_error *error)
{
    snprintf(path, sizeof path, "runs-%ld.csv", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    zr_sim_catalogue catalogue;
    assert_int_equal(zr_sim_catalogue_open(&catalogue, NULL), ZERO_OK);
    zero_status status = zr_sim_table_read(&catalogue, path, NULL, table, error);
    zr_sim_catalogue_close(&catalogue);
    unlink(path);
    return status;
}

static zr_sim_table table_of(const char *text)
{
    zr_sim_table table;
    zero_error error = {0};
    if (read_text(text, &table, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return table;
}

static void refused(const char *text, const char *part)
{
    zr_sim_table table;
    zero_error error = {0};
    assert_int_equal(read_text(text, &table, &error), ZERO_ERR_DATA);
    zr_sim_table_free(&table);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void texts_begin_with_numbers(void **state)
{
    assert_true(zr_sim_text_number("150 (their config)") == 150);
    assert_true(zr_sim_text_number("  0 or 1 (not said)") == 0);
    assert_true(zr_sim_text_number("1020 (4.19M tokens)") == 1020);
    assert_true(zr_sim_text_number("8 x 4 x 64") == 2048);
    assert_true(zr_sim_text_number("2*3") == 6);
    assert_true(zr_sim_text_number("see config.yaml") == 0);
    assert_true(zr_sim_text_number("") == 0);
    assert_true(zr_sim_text_number("1e999") == 0);
}

static void cells_are_free_text(void **state)
{
    zr_sim_table table = table_of(
        COLUMNS "a,dev,A,Megatron-LM," GPT "512 (1M tokens),4,64,A100-80GB,8,1600,8 (in the node),"
                "2,4,1 (distributed optimizer),fp16,\"selective, by operator\",none,9.5\r\n"
                "b,dev,A,\"DeepSpeed ZeRO-3, alone\"," GPT "4 x 4 x 16,4,16,V100-32GB,16,800,,,,3,"
                "fp16,full (use_checkpoint true),cpu,\n");
    const zr_sim_run *a = &table.rows[0].run, *b = &table.rows[1].run;
    assert_int_equal(table.count, 2);
    assert_true(table.rows[0].simulated && table.rows[1].simulated);
    assert_int_equal(a->global_batch, 512);
    assert_int_equal(a->tensor, 8);
    assert_int_equal(a->data, 4);
    assert_int_equal(a->accumulation, 32);
    assert_int_equal(a->stage, 1);
    assert_int_equal(a->recompute, ZR_SIM_OPERATORS);
    assert_true(a->machine.links[ZR_SIM_RAIL].rate == 25e9);
    assert_true(table.rows[0].measured == 9.5 && table.rows[0].scored);
    assert_int_equal(b->global_batch, 256);
    assert_int_equal(b->recompute, ZR_SIM_FULL);
    assert_true(b->optimizer_on_host && b->parameters_on_host);
    assert_true(table.rows[1].measured == 0);
    assert_string_equal(table.rows[0].family, "Megatron-LM x A100-80GB");
    zr_sim_table_free(&table);
}

static void empty_cells_have_defaults_that_are_told(void **state)
{
    zr_sim_table table =
        table_of(COLUMNS "a,dev,A,,LLaMA 7B,6.7,,,,,,,,,A100-80GB,,,,,,,,,,\n"
                         "b,dev,A,DeepSpeed ZeRO-3,GPT 18B,18,,,,,,1024 tokens a GPU,1,384,"
                         "V100-32GB,16,400,1,1,384,3,fp16,,none,\n");
    const zr_sim_row *a = &table.rows[0], *b = &table.rows[1];
    assert_true(a->predicted > 0 && b->predicted > 0);
    static const char *const told[] = {"layers 32", "seq 2048", "gpus ", "micro_batch ",
                                       "zero_stage "};
    for (int i = 0; i < ZR_COUNT(told); i++)
        if (strstr(a->why, told[i]) == NULL)
            fail_msg("\"%s\" does not tell \"%s\"", a->why, told[i]);
    assert_int_equal(b->run.seq, 1024);
    assert_int_equal(b->run.global_batch, 384);
    // As many parameters as are said, whatever the shape.
    double apart = zr_sim_run_parameters(&b->run) / 18e9;
    assert_true(apart > 0.85 && apart < 1.2);
    zr_sim_table_free(&table);
}

static void rows_that_cannot_be_simulated_stay_with_the_reason(void **state)
{
    zr_sim_table table = table_of(
        COLUMNS "a,dev,A,Megatron," GPT "512,4,64,Z80,8,,8,2,4,1,fp16,full,none,9.5\n"
                "b,dev,A,Megatron," GPT "512,4,64,A100,8,,8,3,4,1,fp16,full,none,9.5\n"
                "\"c, last\",context,A,Megatron,,,,,,,,512,4,64,A100,8,,8,2,4,1,,full,none,9.5\n");
    assert_int_equal(table.count, 3);
    assert_non_null(strstr(table.rows[0].why, "Z80"));
    assert_non_null(strstr(table.rows[1].why, "tensor 8 x pipeline 3"));
    assert_non_null(strstr(table.rows[2].why, "params_B"));
    assert_false(table.rows[2].scored);
    char out[80];
    snprintf(out, sizeof out, "predicted-%ld.csv", (long)getpid());
    assert_int_equal(zr_sim_table_write(&table, out, NULL), ZERO_OK);
    FILE *file = fopen(out, "r");
    char text[2048] = "";
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    unlink(out);
    assert_int_equal(strncmp(text, "id,predicted_s,predicted_GB,why\na,,,", 36), 0);
    assert_non_null(strstr(text, "\n\"c, last\",,,"));
    zr_sim_table_free(&table);
}

static void bad_lines_are_named(void **state)
{
    refused("", "is empty");
    refused("id,system\na,b\n", "line 1: there is no column \"gpu\"");
    refused("id,gpu,iter_s\na,A100,1\n\nb,A100\n",
            "line 4: 2 cells, where the first line names 3 columns; the first that lacks one is "
            "\"iter_s\"");
    refused("id,gpu\na,\"two\nlines\"\nb,c,d\n", "line 4: 3 cells");
}

// Two rows of which one is predicted e^0.1 too short, the other e^0.3 too long.
static void score_is_of_families_and_all(void **state)
{
    zr_sim_table table =
        table_of(COLUMNS "a,dev,A,Megatron," GPT "512,4,64,A100,8,,8,2,4,1,fp16,full,none,1\n"
                         "b,dev,A,Megatron," GPT "512,4,64,A100,8,,8,2,4,1,fp16,full,none,1\n"
                         "c,context,A,Other," GPT "512,4,64,A100,8,,8,2,4,1,fp16,full,none,1\n");
    table.rows[0].measured = table.rows[0].predicted * exp(0.1);
    table.rows[1].measured = table.rows[1].predicted * exp(-0.3);
    zr_buffer score = {0};
    zr_sim_table_score(&table, &score);
    assert_non_null(strstr(score.data, "    2     20.0%    28.0%        20.0%    20.0%  Megatron"));
    assert_non_null(strstr(score.data, "  all\n"));
    assert_null(strstr(score.data, "Other"));
    zr_buffer_free(&score);
    zr_sim_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_begin_with_numbers),
        cmocka_unit_test(cells_are_free_text),
        cmocka_unit_test(empty_cells_have_defaults_that_are_told),
        cmocka_unit_test(rows_that_cannot_be_simulated_stay_with_the_reason),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(score_is_of_families_and_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
