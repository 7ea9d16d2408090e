// Tables of runs: cells that are free text, defaults that are told, rows that cannot be simulated,
// lines that are no rows, and the score.
#include "simulate/catalogue.h"
#include "simulate/runs_table.h"

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

// Reads a table, with a machine for all rows or (NULL) that of each.
static zero_status read_text(const char *text, const char *name, zr_sim_table *table,
                             zero_error *error)
{
    zr_sim_machine machine;
    snprintf(path, sizeof path, "runs-%ld.csv", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    zr_sim_catalogue catalogue;
    assert_int_equal(zr_sim_catalogue_open(&catalogue, NULL), ZERO_OK);
    if (name != NULL)
        assert_int_equal(zr_sim_machine_find(&catalogue, name, &machine, NULL), ZERO_OK);
    zero_status status =
        zr_sim_table_read(&catalogue, path, name != NULL ? &machine : NULL, table, error);
    zr_sim_catalogue_close(&catalogue);
    unlink(path);
    return status;
}

static zr_sim_table table_of(const char *text)
{
    zr_sim_table table;
    zero_error error = {0};
    if (read_text(text, NULL, &table, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return table;
}

static void refused(const char *text, const char *part)
{
    zr_sim_table table;
    zero_error error = {0};
    assert_int_equal(read_text(text, NULL, &table, &error), ZERO_ERR_DATA);
    zr_sim_table_free(&table);
    if (strstr(error.message, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, part);
}

static void tells(const zr_sim_row *row, const char *part)
{
    if (strstr(row->why, part) == NULL)
        fail_msg("\"%s\" does not tell \"%s\"", row->why, part);
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
    static const char *const told[] = {
        "gpus_per_node 8",
        "link_in_node_GBps 300",
        "link_between_nodes_Gbps_per_node ",
        "system standard",
        "layers 32",
        "seq 2048",
        "precision bf16",
        "tp 1",
        "pp 1",
        "cp 1",
        "gpus ",
        "dp ",
        "zero_stage 1",
        "offload none",
        "global_batch ",
        "recompute none",
        "micro_batch ",
        "grad_accum ",
    };
    for (int i = 0; i < ZR_COUNT(told); i++)
        tells(a, told[i]);
    assert_int_equal(b->run.seq, 1024);
    assert_int_equal(b->run.global_batch, 384);
    // As many parameters as are said, whatever the shape.
    double apart = zr_sim_run_parameters(&b->run) / 18e9;
    assert_true(apart > 0.85 && apart < 1.2);
    zr_sim_table_free(&table);
}

// Of every cell that is empty something is told, except of those that have no default.
static void no_default_is_silent(void **state)
{
    static const char *const columns[] = {
        "params_B",
        "layers",
        "hidden",
        "heads",
        "kv_heads",
        "ffn",
        "vocab",
        "seq",
        "gpus",
        "gpus_per_node",
        "global_batch",
        "micro_batch",
        "grad_accum",
        "tp",
        "pp",
        "vpp",
        "cp",
        "dp",
        "zero_stage",
        "precision",
        "recompute",
        "offload",
        "link_in_node_GBps",
        "link_between_nodes_Gbps_per_node",
    };
    static const char *const rows[] = {
        "gpu,model,pp\nA100-80GB,LLaMA 7B,2\n",
        "gpu,model,pp\nA100-80GB,GPT 7B,2\n",
        "gpu,layers,hidden,pp\nA100-80GB,24,2048,2\n",
        "gpu,model,pp,micro_batch\nA100-80GB,GPT 7B,2,4096 tokens\n",
        "gpu,model,pp,global_batch\nA100-80GB,GPT 7B,2,4096 tokens a GPU\n",
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_sim_table table = table_of(rows[i]);
        assert_true(table.rows[0].predicted > 0);
        for (int c = 0; c < ZR_COUNT(columns); c++) {
            char told[40];
            snprintf(told, sizeof told, "%s ", columns[c]);
            bool said = strstr(rows[i], columns[c]) != NULL || strcmp(columns[c], "pp") == 0;
            if (!said)
                tells(&table.rows[0], told);
        }
        zr_sim_table_free(&table);
    }
}

static zr_sim_table table_of_recompute(const char *words, const char *system)
{
    char text[400];
    snprintf(text, sizeof text, "gpu,system,layers,hidden,pp,recompute\nA100,%s,24,2048,2,\"%s\"\n",
             system, words);
    return table_of(text);
}

static void what_is_computed_again_has_many_words(void **state)
{
    static const struct {
        const char *words;
        zr_sim_recompute wanted;
        int every;
        const char *told; // NULL: nothing of it
    } rows[] = {
        {"none", ZR_SIM_KEEP, 1, NULL},
        {"no_recompute", ZR_SIM_KEEP, 1, NULL},
        {"full", ZR_SIM_FULL, 1, NULL},
        {"full, every 4th layer", ZR_SIM_FULL, 4, NULL},
        {"uniform", ZR_SIM_FULL, 1, "recompute full"},
        {"granularity: full", ZR_SIM_FULL, 1, "recompute full"},
        {"block", ZR_SIM_FULL, 1, "recompute full"},
        {"block, 3 layers", ZR_SIM_FULL, 4, "recompute full, of every 4 layers one"},
        {"1 of 2 layers", ZR_SIM_FULL, 2, "recompute full, of every 2 layers one"},
        {"selective", ZR_SIM_SELECTIVE, 1, NULL},
        {"selective granularity", ZR_SIM_SELECTIVE, 1, NULL},
        {"attention only", ZR_SIM_SELECTIVE, 1, "recompute selective"},
        {"core_attn", ZR_SIM_SELECTIVE, 1, "recompute selective"},
        {"selective (op)", ZR_SIM_OPERATORS, 1, NULL},
        {"granular", ZR_SIM_KEEP, 1, "recompute none, since the cell's words are not known"},
    };
    for (int i = 0; i < ZR_COUNT(rows); i++) {
        zr_sim_table table = table_of_recompute(rows[i].words, "Megatron-LM");
        const zr_sim_row *row = &table.rows[0];
        if (row->run.recompute != rows[i].wanted || row->run.recompute_every != rows[i].every)
            fail_msg("\"%s\" is %d, every %d", rows[i].words, (int)row->run.recompute,
                     row->run.recompute_every);
        if (rows[i].told != NULL)
            tells(row, rows[i].told);
        else
            assert_null(strstr(row->why, "recompute"));
        zr_sim_table_free(&table);
    }
    zr_sim_table titan = table_of_recompute("selective", "torchtitan");
    assert_int_equal(titan.rows[0].run.recompute, ZR_SIM_OPERATORS);
    zr_sim_table_free(&titan);
}

// Its stages keep what they have gathered, too, and those of looped schedules have two chunks.
static void torchtitans_pipelines_are_read_as_it_runs_them(void **state)
{
    zr_sim_table table =
        table_of("gpu,system,layers,hidden,gpus,pp,dp,micro_batch,grad_accum,global_batch\n"
                 "A100,torchtitan FSDP,24,2048,16,8,2,16,,32\n"
                 "A100,torchtitan,24,2048,16,8,2,2,8,32\n"
                 "A100,FSDP,24,2048,16,8,2,16,,32\n"
                 "A100,torchtitan FSDP Interleaved 1F1B,24,2048,16,8,2,4,,\n");
    const int64_t wanted[][4] = {{2, 8, 1, 1}, {2, 8, 1, 1}, {16, 1, 3, 1}, {1, 4, 1, 2}};
    for (int i = 0; i < ZR_COUNT(wanted); i++) {
        const zr_sim_run *run = &table.rows[i].run;
        const int64_t read[] = {run->micro_batch, run->accumulation, run->stage, run->chunks};
        assert_memory_equal(read, wanted[i], sizeof read);
    }
    tells(&table.rows[0], "micro_batch 2, of a local batch divided by pp");
    tells(&table.rows[0], "zero_stage 1, since stages of a pipeline keep what they have gathered");
    zr_sim_table_free(&table);
}

static void what_cannot_be_offloaded_is_told(void **state)
{
    zr_sim_table table = table_of("gpu,layers,hidden,zero_stage,offload\n"
                                  "A100,24,2048,1,\"cpu: optimizer, parameters\"\n"
                                  "A100,24,2048,1,to a shelf\n"
                                  "A100,24,2048,1,cpu where needed\n");
    tells(&table.rows[0], "offload of the optimizer alone, since zero_stage is 1");
    assert_true(table.rows[0].run.optimizer_on_host && !table.rows[0].run.parameters_on_host);
    tells(&table.rows[1], "offload none, since the cell's words are not known");
    tells(&table.rows[2], "offload none, as if it were not needed");
    assert_false(table.rows[1].run.optimizer_on_host || table.rows[2].run.optimizer_on_host);
    zr_sim_table_free(&table);
}

// What a framework does where its users set nothing is what a table without the column means.
static void frameworks_have_defaults_of_their_own(void **state)
{
    static const char *const systems[] = {"Megatron-DeepSpeed", "Megatron-LM", "GPT-NeoX", ""};
    static const int stages[] = {0, 0, 1, 1};
    char text[2048] = COLUMNS;
    for (int i = 0; i < ZR_COUNT(systems); i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used,
                 "a,dev,A,%s," GPT "512,4,64,A100-80GB,8,,8,1,8,,fp16,,none,\n", systems[i]);
    }
    zr_sim_table table = table_of(text);
    for (int i = 0; i < table.count; i++)
        assert_int_equal(table.rows[i].run.stage, stages[i]);
    assert_int_equal(table.rows[2].run.recompute, ZR_SIM_FULL);
    tells(&table.rows[2], "recompute full");
    assert_int_equal(table.rows[3].run.recompute, ZR_SIM_KEEP);
    zr_sim_table_free(&table);
}

static void numbers_may_have_separators_and_units(void **state)
{
    zr_sim_table table = table_of(
        COLUMNS
        "a,dev,A,Megatron,GPT,,24,\"2,304\",24,\"51,200\",2k,4M tokens,4,64,A100-80GB,8,,8,"
        "1,8,1,\"bf16 (fp32 gradients)\",full,none,\n"
        "b,dev,A,DeepSpeed,GPT,125M,,,,,2048,2048 (32 x 64),4,64,A100-80GB,8,,1,1,64,ZeRO-2,"
        "fp32,\"full, every 4th layer\",no cpu offload,\n"
        "c,dev,A,DeepSpeed,GPT 13B,13,,,,,,512 (of 1 micro-batch),\"8,192 tokens a GPU\",64,"
        "A100-80GB,8,,1,1,64,3,\"mixed fp16/fp32\",full,cpu: activations,\n"
        "d,dev,A,DeepSpeed,GPT 13B,13,,,,,,512 (1 epoch),,64,A100-80GB,8,,1,1,64,3,tf32,full,"
        "none,\n");
    const zr_sim_run *a = &table.rows[0].run, *b = &table.rows[1].run, *c = &table.rows[2].run,
                     *d = &table.rows[3].run;
    for (int i = 0; i < table.count; i++)
        if (table.rows[i].predicted <= 0)
            fail_msg("row %d: %s", i, table.rows[i].why);
    assert_true(a->width == 2304 && a->vocab == 51200 && a->seq == 2048);
    assert_int_equal(a->global_batch, 2048);
    assert_int_equal(a->number, ZR_SIM_16_BIT);
    assert_true(b->parameters == 125e6);
    assert_true(b->seq == 2048 && b->global_batch == 2048);
    assert_true(b->number == ZR_SIM_FP32 && b->stage == 2 && b->recompute_every == 4);
    assert_false(b->optimizer_on_host);
    // The tokens of a micro-batch are those of one sample, where nothing says how long these are.
    assert_true(c->seq == 8192 && c->micro_batch == 1 && c->number == ZR_SIM_16_BIT);
    assert_true(c->checkpoints_on_host && !c->optimizer_on_host && !c->parameters_on_host);
    assert_true(d->seq == 2048 && d->global_batch == 512 && d->number == ZR_SIM_FP32);
    zr_sim_table_free(&table);
}

// A name may be all that tells the size, and a layer's width follows from it.
static void sizes_are_read_from_names(void **state)
{
    zr_sim_table table = table_of(
        COLUMNS
        "a,dev,A,DeepSpeed,LLaMA 65B,,,,,,,512,1,64,A100-80GB,8,,1,1,64,3,fp16,full,none,\n"
        "b,dev,A,DeepSpeed,Llama 3.1 405B,,,,,,,512,1,64,A100-80GB,8,,1,1,64,3,fp16,full,,\n"
        "c,dev,A,DeepSpeed,Llama 2 7B,7,,,,,,512,1,64,A100-80GB,8,,1,1,64,3,fp16,full,none,\n"
        "d,dev,A,DeepSpeed,GPT 39B,,48,,,,,512,1,64,A100-80GB,8,,1,1,64,3,fp16,full,none,\n"
        "e,dev,A,DeepSpeed,GPT-2 large,,,,,,,512,1,64,A100-80GB,8,,1,1,64,3,fp16,full,,\n");
    assert_true(table.rows[0].run.width == 8192 && table.rows[0].run.ffn == 22016);
    assert_int_equal(table.rows[1].run.layers, 126);
    assert_int_equal(table.rows[2].run.ffn, 11008);
    assert_true(table.rows[3].run.layers == 48 && table.rows[3].run.width == 8192);
    tells(&table.rows[3], "params_B 39");
    assert_false(table.rows[4].simulated);
    tells(&table.rows[4], "tells no size");
    zr_sim_table_free(&table);
}

// Cells in which a number is expected and none begins them.
static void cells_without_numbers_have_defaults(void **state)
{
    zr_sim_table table = table_of(
        COLUMNS
        "a,dev,A,DeepSpeed,GPT 13B,13,,,,,,512,about 1024 tokens a GPU,64,A100-80GB,8,,1,1,"
        "64,3,fp16,full,none,\n"
        "b,dev,A,DeepSpeed,GPT 13B,13,,,,,,tokens per GPU: 2048,0 tokens a GPU,64,A100-80GB,"
        "8,,1,1,64,3,fp16,full,none,\n");
    for (int i = 0; i < table.count; i++) {
        assert_true(table.rows[i].predicted > 0);
        assert_int_equal(table.rows[i].run.seq, 2048);
        tells(&table.rows[i], "seq 2048");
        tells(&table.rows[i], "micro_batch ");
    }
    zr_sim_table_free(&table);
}

static void contradictions_are_told(void **state)
{
    zr_sim_table table = table_of(COLUMNS "a,dev,A,DeepSpeed,GPT 7B,47,"
                                          "32,4096,32,51200,2048,"
                                          "64,1,128,A100-80GB,8,800,1,1,64,3,fp16,full,none,\n");
    tells(&table.rows[0], "dp 128");
    tells(&table.rows[0], "global_batch 128, a multiple");
    tells(&table.rows[0], "params_B 47 for states");
    zr_sim_table_free(&table);
}

static void columns_may_lack(void **state)
{
    static const char text[] = "layers,hidden,global_batch,gpus\n24,2048,64,8\n\n24,2048,128,8\n";
    zr_sim_table table;
    zero_error error = {0};
    if (read_text(text, "h100-hgx", &table, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    assert_true(table.rows[0].predicted > 0);
    assert_string_equal(table.rows[0].id, "line 2");
    assert_string_equal(table.rows[1].id, "line 4");
    assert_string_equal(table.rows[0].family, "(not said) x H100-80GB");
    tells(&table.rows[0], "links of h100-hgx");
    zr_sim_table_free(&table);
}

static void rows_whose_steps_fail_keep_the_reason(void **state)
{
    zr_sim_table table =
        table_of(COLUMNS "a,dev,A,Megatron," GPT "512,4,64,A100,8,,8,2,4,1,fp16,full,none,9.5\n"
                         "b,dev,A,Megatron," GPT "512,4,64,A100,8,,8,2,4,1,fp16,full,none,9.5\n");
    table.rows[0].run.machine.memory_rate = 0;
    table.rows[0].predicted = 0;
    zr_sim_table_predict(&table);
    assert_true(table.rows[0].predicted == 0 && table.rows[1].predicted > 0);
    tells(&table.rows[0], "one of which must be wrong");
    zr_buffer score = {0};
    zr_sim_table_score(&table, &score);
    assert_non_null(strstr(score.data, "\n    1 rows could not be predicted"));
    zr_buffer_free(&score);
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
    refused("id,gpu\na,\"two\nlines\"\nb,c,d\n",
            "line 4: 3 cells, where the first line names 2 columns; "
            "a cell with a comma");
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

// Of two rows of one model, devices and batch the slower one is predicted to be the faster, by its
// micro-batch; a third is alone.
static void score_has_memory_and_what_choosing_costs(void **state)
{
#define KINDS "id,gpu,params_B,layers,hidden,seq,global_batch,micro_batch,gpus,tp,recompute,"
    zr_sim_table table = table_of(KINDS "iter_s,memory_GB_per_gpu,memory_kind\n"
                                        "a,A100-80GB,7,32,4096,2048,512,1,64,8,full,8,40,\n"
                                        "b,A100-80GB,7,32,4096,2048,512,4,64,8,full,10,40,\"peak "
                                        "allocated, of one\"\n"
                                        "c,A100-80GB,7,32,4096,2048,128,4,64,8,full,10,,\n");
    table.rows[0].predicted = 2 * table.rows[1].predicted;
    table.rows[1].predicted_memory = 44e9;
    zr_buffer score = {0};
    zr_sim_table_score(&table, &score);
    assert_non_null(strstr(score.data,
                           "    1      9.5%     9.5% (largest)  memory, where it is the "
                           "peak allocated\n"));
    assert_non_null(strstr(score.data, "measured otherwise\n"));
    assert_non_null(strstr(score.data, "    1     25.0%    25.0% (mean, largest)  what choosing"));
    zr_buffer_free(&score);
    zr_sim_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_free_text),
        cmocka_unit_test(empty_cells_have_defaults_that_are_told),
        cmocka_unit_test(no_default_is_silent),
        cmocka_unit_test(what_is_computed_again_has_many_words),
        cmocka_unit_test(torchtitans_pipelines_are_read_as_it_runs_them),
        cmocka_unit_test(what_cannot_be_offloaded_is_told),
        cmocka_unit_test(frameworks_have_defaults_of_their_own),
        cmocka_unit_test(numbers_may_have_separators_and_units),
        cmocka_unit_test(sizes_are_read_from_names),
        cmocka_unit_test(cells_without_numbers_have_defaults),
        cmocka_unit_test(contradictions_are_told),
        cmocka_unit_test(columns_may_lack),
        cmocka_unit_test(rows_whose_steps_fail_keep_the_reason),
        cmocka_unit_test(rows_that_cannot_be_simulated_stay_with_the_reason),
        cmocka_unit_test(bad_lines_are_named),
        cmocka_unit_test(score_is_of_families_and_all),
        cmocka_unit_test(score_has_memory_and_what_choosing_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
