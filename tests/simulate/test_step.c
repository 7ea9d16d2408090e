// The time of a step against closed forms, and that it goes the right way with each rate.
#include "plan/pipeline/simulate.h"
#include "example.h"
#include "simulate/costs.h"
#include "simulate/step.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-6 * fabs(expected)))
        fail_msg("%.9g instead of %.9g", found, expected);
}

static zr_sim_step step_of(zr_sim_run run)
{
    zr_sim_step step = {0};
    zero_error error = {0};
    if (zr_sim_run_complete(&run, &error) != ZERO_OK ||
        zr_sim_step_find(&run, &step, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return step;
}

static void products_take_their_flops_at_the_rate_reached(void **state)
{
    zr_sim_machine machine = sim_example_machine();
    double flops = 2.0 * 1024 * 2048 * 4096;
    assert_near(zr_sim_product(&machine, ZR_SIM_16_BIT, 1024, 2048, 4096), flops / 50e12);
    assert_near(zr_sim_product(&machine, ZR_SIM_8_BIT, 1024, 2048, 4096), flops / 100e12);
    // A device that has no 4 bits computes in 8.
    assert_near(zr_sim_product(&machine, ZR_SIM_4_BIT, 1024, 2048, 4096), flops / 100e12);
    machine.constants[ZR_SIM_HALF] = 1024;
    double slower = 1 + 1024 * (1.0 / 1024 + 1.0 / 2048 + 1.0 / 4096);
    assert_near(zr_sim_product(&machine, ZR_SIM_16_BIT, 1024, 2048, 4096), slower * flops / 50e12);
    // Rows that begin anywhere take longer than padded ones.
    assert_true(zr_sim_product(&machine, ZR_SIM_16_BIT, 1024, 50257, 4096) >
                zr_sim_product(&machine, ZR_SIM_16_BIT, 1024, 50304, 4096));
}

static void rings_send_their_bytes(void **state)
{
    zr_sim_machine machine = sim_example_machine();
    zr_sim_group group = zr_sim_group_make(&machine, 8, 1);
    assert_int_equal(group.reach, ZR_SIM_IN_NODE);
    double bytes = 1e9, rate = 0.8 * 100e9; // collectives reach 0.8 of a link
    assert_near(zr_sim_all_gather(&group, bytes), bytes * 7 / 8 / rate);
    assert_near(zr_sim_all_reduce(&group, bytes), 2 * bytes * 7 / 8 / rate);
    // Sixteen on two nodes: each link between nodes carries the part of its device.
    group = zr_sim_group_make(&machine, 16, 1);
    assert_int_equal(group.reach, ZR_SIM_RAIL);
    assert_near(zr_sim_all_gather(&group, bytes), bytes * 15 / 16 / (0.9 * 80e9));
    // One of each node: its own link alone.
    group = zr_sim_group_make(&machine, 2, 8);
    assert_near(zr_sim_all_gather(&group, bytes), bytes / 2 / (0.9 * 10e9));
    group = zr_sim_group_make(&machine, 1, 1);
    assert_true(zr_sim_all_reduce(&group, bytes) == 0);
    // A tree takes fewer steps than a ring of many.
    machine.links[ZR_SIM_RAIL].latency = 1e-5;
    group = zr_sim_group_make(&machine, 1024, 8);
    assert_near(zr_sim_all_reduce(&group, 0), 2 * 10 * 1e-5);
    assert_near(zr_sim_all_gather(&group, 0), 1024 * 1e-5);
}

// Without exchanges, bytes and latency a step of p stages and m micro-batches takes (m + p - 1) / m
// as long as on p stages that never wait.
static void bubble_is_the_closed_form(void **state)
{
    zr_sim_run run = sim_example_run();
    run.machine.memory_rate = 1e30;
    for (int i = 0; i < ZR_SIM_REACHES; i++)
        run.machine.links[i].rate = 1e30;
    run.vocab = 1; // no head to speak of
    run.accumulation = 16;
    run.devices = 1;
    double one = step_of(run).seconds;
    run.devices = run.pipeline = 4;
    zr_sim_step step = step_of(run);
    double expected = one / 4 * (16 + 3) / 16;
    assert_true(fabs(step.seconds / expected - 1) < 1e-3);
    run.chunks = 2;
    expected = one / 4 * (16 + 1.5) / 16;
    assert_true(fabs(step_of(run).seconds / expected - 1) < 1e-3);
}

// The closed form against the lists of actions that a run has, on virtual time.
static void bubble_is_that_of_the_lists(void **state)
{
    static const struct {
        zr_pipeline_kind kind;
        int chunks;
    } schedules[] = {{ZR_PIPELINE_1F1B, 1},
                     {ZR_PIPELINE_GPIPE, 1},
                     {ZR_PIPELINE_INTERLEAVED, 2},
                     {ZR_PIPELINE_ZB_H1, 1}};
    for (int i = 0; i < ZR_COUNT(schedules); i++) {
        zr_pipeline pipeline = {.kind = schedules[i].kind,
                                .stages = 4,
                                .chunks = schedules[i].chunks,
                                .micro_batches = 16,
                                .steps = 1};
        zr_chunk_cost costs[8] = {{{0}}};
        bool weights = zr_pipeline_has_weights(pipeline.kind);
        for (int c = 0; c < 4 * pipeline.chunks; c++) {
            costs[c].act[ZR_ACT_FORWARD] = 1.0 / pipeline.chunks;
            costs[c].act[ZR_ACT_BACKWARD] = (weights ? 1.0 : 2.0) / pipeline.chunks;
            costs[c].act[ZR_ACT_WEIGHT] = weights ? 1.0 / pipeline.chunks : 0;
        }
        zr_simulation simulation;
        assert_int_equal(zr_simulate(&pipeline, NULL, costs, &simulation, NULL), ZERO_OK);
        zr_sim_run run = sim_example_run();
        run.machine.memory_rate = 1e30;
        run.vocab = 1;
        run.accumulation = 16;
        for (int j = 0; j < ZR_SIM_REACHES; j++)
            run.machine.links[j].rate = 1e30;
        run.devices = 1;
        double one = step_of(run).seconds / 4 / 16; // of a stage and a micro-batch
        run.devices = run.pipeline = 4;
        run.schedule = pipeline.kind;
        run.chunks = pipeline.chunks;
        double found = step_of(run).seconds / one, expected = simulation.total / 3;
        if (fabs(found / expected - 1) > 0.01)
            fail_msg("%s: %g instead of %g", zr_pipeline_kind_name(pipeline.kind), found, expected);
        zr_simulation_free(&simulation);
    }
}

static void model_flops_are_six_of_a_parameter_and_token(void **state)
{
    zr_sim_run run = sim_example_run();
    zr_sim_step step = step_of(run);
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    double tokens = 8.0 * 2 * 4 * 2048;
    double flops = 6 * run.parameters + 12.0 * 32 * 4096 * 2048;
    assert_near(step.model_flops * step.seconds, flops * tokens / 8);
    assert_near(step.tokens * step.seconds, tokens);
    assert_near(step.utilization, step.model_flops / 100e12);
    // Layers computed again are hardware's work, not the model's.
    run.recompute = ZR_SIM_FULL;
    zr_sim_step again = step_of(run);
    assert_near(again.model_flops * again.seconds, flops * tokens / 8);
    assert_true(again.hardware_flops * again.seconds > 1.25 * step.hardware_flops * step.seconds);
}

static void parts_add_up(void **state)
{
    zr_sim_run run = sim_example_run();
    run.machine.constants[ZR_SIM_LAUNCH] = 1e-5;
    run.devices = 128;
    run.tensor = 8;
    run.pipeline = 4;
    for (int stage = 0; stage <= 3; stage += 3) {
        run.stage = stage;
        zr_sim_step step = step_of(run);
        double sum = 0;
        for (int i = 0; i < ZR_SIM_PARTS; i++) {
            assert_true(step.parts[i] >= 0);
            sum += step.parts[i];
        }
        assert_near(sum, step.seconds);
        assert_true(step.low < step.seconds && step.seconds < step.high);
        assert_int_equal(step.axis_count, 3);
    }
}

static void better_machines_are_never_slower(void **state)
{
    zr_sim_run run = sim_example_run();
    run.devices = 64;
    run.tensor = 2;
    run.stage = 3;
    double before = step_of(run).seconds;
    double *const rates[] = {
        &run.machine.peak[ZR_SIM_16_BIT],
        &run.machine.memory_rate,
        &run.machine.links[ZR_SIM_IN_NODE].rate,
        &run.machine.links[ZR_SIM_RAIL].rate,
    };
    for (int i = 0; i < ZR_COUNT(rates); i++) {
        double old = *rates[i];
        *rates[i] = 2 * old;
        assert_true(step_of(run).seconds < before);
        *rates[i] = old;
    }
    run.framework.constants[ZR_SIM_HIDDEN] = 1;
    assert_true(step_of(run).seconds < before);
}

// Context ranks have the same weights as data ranks: they gather them, and add up gradients.
static void context_ranks_exchange_as_data_ranks_do(void **state)
{
    for (int stage = 0; stage <= 3; stage++) {
        zr_sim_run run = sim_example_run();
        run.devices = 16;
        run.stage = stage;
        double bytes[2] = {0};
        for (int context = 0; context <= 1; context++) {
            run.context = context ? 16 : 1;
            run.data = 0;
            zr_sim_step step = step_of(run);
            assert_true(step.parts[ZR_SIM_DATA] > 0);
            for (int i = 0; i < step.axis_count; i++)
                if (strcmp(step.axes[i].axis, "data") == 0) {
                    assert_int_equal(step.axes[i].ranks, 16);
                    assert_int_equal(step.axes[i].reach, ZR_SIM_RAIL);
                    bytes[context] = step.axes[i].bytes;
                }
        }
        assert_true(bytes[0] > 0);
        assert_near(bytes[1], bytes[0]);
    }
    // 2 x 2 of them in each node, whatever lies between.
    zr_sim_run run = sim_example_run();
    run.devices = 32;
    run.tensor = run.context = 2;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    zr_sim_group group = zr_sim_group_of_states(&run);
    assert_true(group.ranks == 16 && group.within == 4 && group.nodes == 4);
    strcpy(run.order, "context,tensor,data,pipeline");
    group = zr_sim_group_of_states(&run);
    assert_true(group.ranks == 16 && group.within == 4 && group.nodes == 4);
}

// Half of the scores are masked, and context ranks have equal parts of the others.
static void context_ranks_divide_attention_evenly(void **state)
{
    zr_sim_run run = sim_example_run();
    run.attention = ZR_SIM_FLASH;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    double whole = zr_sim_layer_find(&run).forward.attention;
    run.context = 4;
    assert_near(zr_sim_layer_find(&run).forward.attention, whole / 4);
}

// Kernels made for the device reach what those of others do, or more.
static void native_attention_is_never_slower(void **state)
{
    zr_sim_run run = sim_example_run();
    run.attention = ZR_SIM_FLASH;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    double *attended = &run.machine.constants[ZR_SIM_ATTENDED];
    for (int i = 0; i < 2; i++) {
        *attended = i == 0 ? 0.165 : 0.5;
        run.framework.native_attention = false;
        double common = zr_sim_layer_find(&run).forward.attention;
        run.framework.native_attention = true;
        assert_near(zr_sim_layer_find(&run).forward.attention, i == 0 ? common / 2 : common);
    }
}

// An update goes over gradients, masters, moments and weights in several passes.
static void updates_move_all_states(void **state)
{
    zr_sim_run run = sim_example_run();
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    zr_sim_step whole = step_of(run);
    double rate = run.machine.memory_rate * run.machine.constants[ZR_SIM_STREAMED];
    assert_near(whole.parts[ZR_SIM_UPDATE], 44 * zr_sim_device_parameters(&run) / rate);
    run.stage = 1;
    assert_near(step_of(run).parts[ZR_SIM_UPDATE], whole.parts[ZR_SIM_UPDATE] / run.data);
}

static void rates_of_0_are_no_step(void **state)
{
    zr_sim_run run = sim_example_run();
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    run.machine.memory_rate = 0;
    zr_sim_step step;
    zero_error error = {0};
    assert_int_equal(zr_sim_step_find(&run, &step, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "machine \"example\""));
    // A device without 16 bits computes in 32, attention too.
    run = sim_example_run();
    run.machine.peak[ZR_SIM_16_BIT] = run.machine.peak[ZR_SIM_8_BIT] = 0;
    zr_sim_step wide = step_of(run);
    run.number = ZR_SIM_FP32;
    assert_near(step_of(run).parts[ZR_SIM_PRODUCTS], wide.parts[ZR_SIM_PRODUCTS]);
    assert_near(step_of(run).parts[ZR_SIM_ATTENTION], wide.parts[ZR_SIM_ATTENTION]);
}

static void states_are_those_of_the_paper(void **state)
{
    zr_sim_run run = sim_example_run();
    run.devices = 64;
    run.accumulation = 1;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    double p = run.parameters;
    const double expected[] = {16 * p, 4 * p + 12 * p / 64, 2 * p + 14 * p / 64, 16 * p / 64};
    for (run.stage = 0; run.stage <= 3; run.stage++)
        assert_near(zr_sim_states(&run), expected[run.stage]);
}

static void what_does_not_fit_is_told_with_its_time(void **state)
{
    zr_sim_run run = sim_example_run();
    run.machine.memory = 1e9;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    zr_sim_step step;
    zero_error error = {0};
    assert_int_equal(zr_sim_step_find(&run, &step, &error), ZERO_ERR_LIMIT);
    assert_true(step.seconds > 0 && step.memory > 1e9);
    assert_non_null(strstr(error.message, "1.0 GB"));
}

static void many_devices_cost_as_little_as_few(void **state)
{
    zr_sim_run run = sim_example_run();
    run.devices = 131072;
    run.tensor = 8;
    run.pipeline = 16;
    run.stage = 1;
    clock_t begin = clock();
    assert_true(step_of(run).seconds > 0);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 0.5);
}

// The last tiles leave processors idle, and few tiles are computed in parts.
static void tiles_fill_processors(void **state)
{
    zr_sim_machine machine = sim_example_machine();
    machine.processors = 100;
    double n = 100 * 128, one = zr_sim_product(&machine, ZR_SIM_16_BIT, 128, n, 128);
    assert_near(one, 2.0 * 128 * n * 128 / 50e12);
    // A tile more begins a second wave.
    assert_near(zr_sim_product(&machine, ZR_SIM_16_BIT, 128, n + 128, 128), 2 * one);
    // Half of the tiles take as long, unless k is long enough to be divided.
    assert_near(zr_sim_product(&machine, ZR_SIM_16_BIT, 128, n / 2, 128), one);
    assert_near(zr_sim_product(&machine, ZR_SIM_16_BIT, 128, n / 2, 1024), 4 * one);
}

// Products of scores cannot be padded: heads of 108 elements are slower than those of 104.
static void heads_that_are_not_aligned_are_slow(void **state)
{
    zr_sim_run run = sim_example_run();
    run.attention = ZR_SIM_SCORES;
    run.width = 104 * 32;
    double aligned = step_of(run).parts[ZR_SIM_ATTENTION];
    run.width = 108 * 32;
    assert_true(step_of(run).parts[ZR_SIM_ATTENTION] > 2 * aligned);
}

// Fetching parameters from the host takes what the link takes, as far as nothing hides it, and what
// a node keeps there has to fit.
static void offloaded_states_take_time_and_room(void **state)
{
    zr_sim_run run = sim_example_run();
    run.stage = 3;
    double before = step_of(run).seconds;
    run.parameters_on_host = true;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    zr_sim_step step = step_of(run);
    double part = run.parameters / 8 * 2;
    assert_near(step.parts[ZR_SIM_OFFLOAD], 2 * 4 * part / 10e9);
    assert_near(step.seconds, before + step.parts[ZR_SIM_OFFLOAD]);
    run.machine.host_memory = 8 * part - 1;
    zero_error error = {0};
    assert_int_equal(zr_sim_step_find(&run, &step, &error), ZERO_ERR_LIMIT);
    assert_non_null(strstr(error.message, "on their host"));
    run = sim_example_run();
    run.recompute = ZR_SIM_FULL;
    assert_true(step_of(run).parts[ZR_SIM_OFFLOAD] == 0);
    run.checkpoints_on_host = true;
    // Of 32 layers, 2 x 2048 tokens of 4096 elements, written and read, 4 times.
    assert_near(step_of(run).parts[ZR_SIM_OFFLOAD], 2.0 * 4 * 32 * 4096 * 4096 * 2 / 10e9);
}

// What is gathered again inside a node does not cross the network, and is a second copy.
static void copies_in_nodes_are_gathered_there(void **state)
{
    zr_sim_run run = sim_example_run();
    run.devices = 32;
    run.stage = 3;
    run.accumulation = 1;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    double whole = step_of(run).axes[0].seconds, states = zr_sim_states(&run);
    run.fully_sharded_in_node = true;
    double bytes = 2 * run.parameters;
    assert_near(zr_sim_states(&run) - states, bytes / 8);
    double between = bytes * 31 / 32 / (0.9 * 80e9), inside = bytes * 7 / 8 / (0.8 * 100e9);
    assert_near(whole - step_of(run).axes[0].seconds, between - inside);
}

// Who gathers each weight by itself waits for four latencies a layer, three times.
static void weights_by_themselves_wait_longer(void **state)
{
    zr_sim_run run = sim_example_run();
    run.stage = 3;
    run.accumulation = 1;
    run.machine.links[ZR_SIM_IN_NODE].latency = 1e-5;
    double layers = step_of(run).axes[0].seconds;
    run.framework.by_weight = true;
    assert_near(step_of(run).axes[0].seconds - layers, 3 * 32 * 3 * 7e-5);
}

// Elements of 32 bits are 4 bytes in every exchange.
static void wide_numbers_are_exchanged_wide(void **state)
{
    zr_sim_run run = sim_example_run();
    run.tensor = 2;
    run.pipeline = 2;
    run.machine.peak[ZR_SIM_FP32] = 50e12;
    zr_sim_step narrow = step_of(run);
    run.number = ZR_SIM_FP32;
    zr_sim_step wide = step_of(run);
    assert_int_equal(narrow.axis_count, 3);
    for (int i = 0; i < 3; i++)
        assert_near(wide.axes[i].bytes, 2 * narrow.axes[i].bytes);
}

// Two neighbours far apart cross the spine, though they are in two nodes, at its taper.
static void spine_is_a_matter_of_distance(void **state)
{
    zr_sim_machine machine = sim_example_machine();
    machine.rail_nodes = 4;
    machine.taper = 0.25;
    zr_sim_group near = zr_sim_group_make(&machine, 2, 3 * 8),
                 far = zr_sim_group_make(&machine, 2, 4 * 8),
                 all = zr_sim_group_make(&machine, 40, 1);
    assert_int_equal(near.reach, ZR_SIM_RAIL);
    assert_int_equal(far.reach, ZR_SIM_SPINE);
    assert_int_equal(all.reach, ZR_SIM_SPINE);
    assert_near(far.rate, near.rate / 4);
    assert_near(all.rate, 0.25 * 0.9 * 80e9);
}

// gpipe keeps every micro-batch, and asynchronous schedules versions of weights.
static void schedules_need_their_memory(void **state)
{
    zr_sim_run run = sim_example_run();
    run.pipeline = 4;
    run.accumulation = 16;
    assert_int_equal(zr_sim_run_complete(&run, NULL), ZERO_OK);
    double activations = zr_sim_activations(&run), states = zr_sim_states(&run);
    double weights = 2 * zr_sim_device_parameters(&run);
    run.schedule = ZR_PIPELINE_GPIPE;
    assert_true(zr_sim_activations(&run) > 3 * activations);
    run.schedule = ZR_PIPELINE_2BW;
    assert_near(zr_sim_states(&run), states + weights);
    run.schedule = ZR_PIPELINE_PIPEDREAM;
    assert_near(zr_sim_states(&run), states + 3 * weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_take_their_flops_at_the_rate_reached),
        cmocka_unit_test(rings_send_their_bytes),
        cmocka_unit_test(bubble_is_the_closed_form),
        cmocka_unit_test(bubble_is_that_of_the_lists),
        cmocka_unit_test(model_flops_are_six_of_a_parameter_and_token),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(better_machines_are_never_slower),
        cmocka_unit_test(context_ranks_exchange_as_data_ranks_do),
        cmocka_unit_test(context_ranks_divide_attention_evenly),
        cmocka_unit_test(native_attention_is_never_slower),
        cmocka_unit_test(updates_move_all_states),
        cmocka_unit_test(rates_of_0_are_no_step),
        cmocka_unit_test(states_are_those_of_the_paper),
        cmocka_unit_test(what_does_not_fit_is_told_with_its_time),
        cmocka_unit_test(many_devices_cost_as_little_as_few),
        cmocka_unit_test(tiles_fill_processors),
        cmocka_unit_test(heads_that_are_not_aligned_are_slow),
        cmocka_unit_test(offloaded_states_take_time_and_room),
        cmocka_unit_test(copies_in_nodes_are_gathered_there),
        cmocka_unit_test(weights_by_themselves_wait_longer),
        cmocka_unit_test(wide_numbers_are_exchanged_wide),
        cmocka_unit_test(spine_is_a_matter_of_distance),
        cmocka_unit_test(schedules_need_their_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
