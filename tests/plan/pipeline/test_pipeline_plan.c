// What a plan has of a pipeline: chunks and links with their numbers and bytes, sets of activations
// and what they take, the messages of a step, and where all of it counts.
#include "pipeline_fixture.h"

#include "base/numbers.h"
#include "model/pipeline_stage_cut.h"
#include "plan/plan_parts.h"
#include "program_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <cmocka.h>

static const zr_pipeline *pipeline_in(const pipeline_plans *stages)
{
    return &stages->plans[0]->pipeline->pipeline;
}

static int chunks_in(const pipeline_plans *stages)
{
    return pipeline_in(stages)->stages * pipeline_in(stages)->chunks;
}

// Returns the plan of the stage that has chunk `number` of the model, and its chunk.
static const zr_plan *plan_with(const pipeline_plans *stages, int number,
                                const zr_chunk_plan **chunk)
{
    const zr_plan *plan = stages->plans[number % stages->count];
    *chunk = &plan->chunks[number / stages->count];
    return plan;
}

static void check_chunk(const pipeline_plans *stages, int number)
{
    const zr_chunk_plan *chunk;
    const zr_plan *plan = plan_with(stages, number, &chunk);
    bool first = number == 0, last = number == chunks_in(stages) - 1;
    assert_int_equal(chunk->number, number);
    assert_int_equal(zr_chunk_is_last(plan, chunk), last);
    for (int u = chunk->first_unit; u < chunk->end_unit; u++) {
        assert_ptr_equal(zr_plan_chunk_of(plan, u), chunk);
        assert_int_equal(zr_pipeline_stage_unit(plan->model, u),
                         stages->first_unit[number] + u - chunk->first_unit);
        assert_int_equal(plan->units[u].fused, plan->model->units[u].ops->forward_backward && last);
    }
    assert_int_equal(chunk->end_unit - chunk->first_unit,
                     stages->first_unit[number + 1] - stages->first_unit[number]);
    assert_int_equal(chunk->input, first ? -1 : 2 * number - 2);
    assert_int_equal(chunk->gradient_out, first ? -1 : 2 * number - 1);
    assert_int_equal(chunk->output, last ? -1 : 2 * number);
    assert_int_equal(chunk->gradient_in, last ? -1 : 2 * number + 1);
}

// Checks the two links between a chunk and the next one, which all stages list alike.
static void check_links(const pipeline_plans *stages, int number)
{
    const zr_chunk_plan *before, *after;
    const zr_plan *from = plan_with(stages, number, &before);
    const zr_plan *to = plan_with(stages, number + 1, &after);
    int64_t bytes = pipeline_boundary_bytes(stages->first_unit[number + 1] - 1);
    for (int s = 0; s < stages->count; s++) {
        const zr_link *link = &stages->plans[s]->links[2 * number];
        assert_int_equal(link[0].from, from->pipeline->stage);
        assert_int_equal(link[0].to, to->pipeline->stage);
        assert_int_equal(link[1].from, to->pipeline->stage);
        assert_int_equal(link[1].to, from->pipeline->stage);
        assert_int_equal(link[0].slots, after->buffers.input_slots);
        assert_int_equal(link[1].slots, before->buffers.gradient_slots);
        assert_int_equal(link[0].bytes, bytes);
        assert_int_equal(link[1].bytes, bytes);
    }
    assert_int_equal(zr_boundary_bytes(&after->in), bytes);
    assert_int_equal(before->end_unit > before->first_unit &&
                         zr_boundary_bytes(&from->units[before->end_unit - 1].sizes.out) == bytes,
                     true);
}

// Returns the links of a step's sums: two for each stage but the first.
static int sums_links(const pipeline_plans *stages)
{
    return pipeline_in(stages)->kind == ZR_PIPELINE_2BW ? 2 * (stages->count - 1) : 0;
}

// Checks the links of a step's sums, which come after all others, on one stage.
static void check_sums(const zr_plan *plan)
{
    const int64_t message = sizeof(zr_step_sums);
    for (int s = 1; s < plan->pipeline->pipeline.stages; s++) {
        const zr_link *to = &plan->links[zr_plan_sums_to_first(plan, s)];
        const zr_link *from = &plan->links[zr_plan_sums_from_first(plan, s)];
        assert_true(to->from == s && to->to == 0 && from->from == 0 && from->to == s);
        assert_true(to->slots == 2 && from->slots == 2);
        assert_true(to->first == 0 && to->message == message);
        assert_true(from->first == 0 && from->message == message);
        assert_int_equal(to->bytes, ZR_ROUND_UP(message, ZR_ACTIVATION_ALIGN));
        assert_int_equal(from->bytes, to->bytes);
    }
}

static void check_numbers(const pipeline_plans *stages)
{
    int units = 0, joints = 2 * (chunks_in(stages) - 1), sums = sums_links(stages);
    for (int s = 0; s < stages->count; s++) {
        const zr_plan *plan = stages->plans[s];
        assert_int_equal(plan->chunk_count, pipeline_in(stages)->chunks);
        assert_int_equal(plan->link_count, joints + sums);
        assert_int_equal(plan->sums_link, sums ? joints : -1);
        if (sums)
            check_sums(plan);
        assert_int_equal(plan->world, plan->ranks * plan->tensor_ranks * stages->count);
        assert_true(plan->job_hash == stages->plans[0]->job_hash);
        units += plan->unit_count;
    }
    assert_int_equal(units, stages->first_unit[chunks_in(stages)]);
    for (int number = 0; number < chunks_in(stages); number++)
        check_chunk(stages, number);
    for (int number = 0; number + 1 < chunks_in(stages); number++)
        check_links(stages, number);
}

static void chunks_and_links_have_the_numbers_of_the_model(void **state)
{
    pipeline_for_all(check_numbers);
}

static void links_are_named_by_what_they_join(void **state)
{
    pipeline_plans stages;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 2, 1, 2);
    pipeline_plans_simple(&pipeline, &stages);
    assert_string_equal(stages.plans[0]->links[0].name, "activations h.3 to h.4");
    assert_string_equal(stages.plans[1]->links[1].name, "gradients h.4 to h.3");
    pipeline_plans_free(&stages);
    const zr_pipeline two = pipeline_of(ZR_PIPELINE_2BW, 3, 1, 4);
    pipeline_plans_simple(&two, &stages);
    assert_string_equal(stages.plans[0]->links[6].name, "sums of pipeline stage 2");
    assert_string_equal(stages.plans[1]->links[7].name, "sums for pipeline stage 2");
    pipeline_plans_free(&stages);
}

// Micro-batches that a stage holds at one time.
typedef int sets_formula(const zr_pipeline *pipeline, int stage);

static int gpipe_sets(const zr_pipeline *pipeline, int stage) { return pipeline->micro_batches; }

static int one_f_one_b_sets(const zr_pipeline *pipeline, int stage)
{
    return ZR_MIN(pipeline->stages - stage, pipeline->micro_batches);
}

static int zb_h1_sets(const zr_pipeline *pipeline, int stage)
{
    return ZR_MIN(pipeline->stages, pipeline->micro_batches);
}

// What a set of one chunk takes: what units save and hold, and the boundaries between them. The
// last unit makes forward and backward in one call, so it keeps nothing.
static int64_t set_bytes(const pipeline_plans *stages, int number, bool holds)
{
    int64_t bytes = 0;
    int end = stages->first_unit[number + 1];
    for (int u = stages->first_unit[number]; u < end; u++) {
        bool last = u == stages->first_unit[chunks_in(stages)] - 1, embedding = u == 0;
        bytes += last ? 0 : pipeline_saved_bytes(u);
        bytes += holds && !last && !embedding ? pipeline_held_bytes(u) : 0;
        bytes += u + 1 < end ? pipeline_boundary_bytes(u) : 0;
    }
    return bytes;
}

static void check_sets(zr_pipeline_kind kind, bool splits, sets_formula *formula)
{
    static pipeline_model model;
    pipeline_build(&model, 9, (pipeline_style){.splits = splits});
    for (int p = 2; p <= 4; p++)
        for (int m = 1; m <= 8; m++) {
            pipeline_plans stages;
            const zr_pipeline pipeline = pipeline_of(kind, p, 1, m);
            const zr_settings settings = fixture_settings(ZERO_F32, 1, m);
            pipeline_plans_make(&model.f.model, &pipeline, &settings,
                                &(zr_machine){.ranks = 1, .mapped = true}, &stages);
            for (int s = 0; s < p; s++) {
                const zr_plan *plan = stages.plans[s];
                int64_t bytes = set_bytes(&stages, s, kind == ZR_PIPELINE_ZB_H1 && splits);
                int64_t both = s == p - 1 ? pipeline_saved_bytes(10) : 0;
                assert_int_equal(plan->chunks[0].buffers.sets, formula(&pipeline, s));
                assert_int_equal(plan->chunks[0].set_bytes, bytes);
                assert_int_equal(plan->activation_bytes,
                                 formula(&pipeline, s) * bytes + both + 2 * plan->boundary_bytes);
            }
            pipeline_plans_free(&stages);
        }
}

static void activations_are_those_of_the_papers(void **state)
{
    check_sets(ZR_PIPELINE_GPIPE, true, gpipe_sets);
    check_sets(ZR_PIPELINE_1F1B, true, one_f_one_b_sets);
    check_sets(ZR_PIPELINE_ZB_H1, false, zb_h1_sets);
    check_sets(ZR_PIPELINE_ZB_H1, true, zb_h1_sets);
}

// Where everything is computed again, a set has the boundary that enters the last unit, if any.
static void activation_checkpoints_replace_sets(void **state)
{
    static pipeline_model model;
    pipeline_plans stages;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_GPIPE, 2, 1, 4);
    zr_settings settings = fixture_settings(ZERO_F32, 1, 4);
    settings.activation_checkpoints = 10; // of the whole model's 10 units before the last
    pipeline_build(&model, 9, (pipeline_style){0});
    pipeline_plans_make(&model.f.model, &pipeline, &settings, &(zr_machine){.ranks = 1}, &stages);
    const zr_plan *first = stages.plans[0], *last = stages.plans[1];
    assert_int_equal(first->segment_count, 5);
    assert_int_equal(first->chunks[0].set_bytes, 0);
    assert_int_equal(last->chunks[0].set_bytes, pipeline_boundary_bytes(9));
    int64_t kept = 0;
    for (int u = 0; u < 4; u++) // what enters segments after the first, of units 0 to 4
        kept += pipeline_boundary_bytes(u);
    assert_int_equal(first->chunks[0].kept_bytes, kept);
    assert_int_equal(first->activation_checkpoint_buffer_bytes, 4 * kept);
    assert_int_equal(first->bytes[ZERO_TIER_device][ZERO_MEM_checkpoints], 4 * kept);
    // the area of the largest segment, of unit 4, whose boundary leaves
    assert_int_equal(first->activation_bytes, pipeline_saved_bytes(4) + 2 * first->boundary_bytes);
    pipeline_plans_free(&stages);
}

// pipeline.activation_checkpoint_interval: segments of so many units, in each chunk anew.
static void segments_have_the_units_of_an_interval(void **state)
{
    static pipeline_model model;
    pipeline_plans stages;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 2, 1, 4);
    zr_settings settings = fixture_settings(ZERO_F32, 1, 4);
    settings.activation_checkpoints = INT32_MAX;
    pipeline_build(&model, 9, (pipeline_style){0});
    pipeline_plans_make(&model.f.model, &pipeline, &settings, &(zr_machine){.ranks = 1}, &stages);
    assert_int_equal(stages.plans[0]->segment_count, 5); // one for each unit
    for (int interval = 1; interval <= 6; interval++) {
        zr_pipeline_part part = stages.parts[0];
        const zr_machine machine = {.ranks = 1, .pipeline = &part};
        const zero_shape shape = stages.plans[0]->shape;
        zr_plan *plan = NULL;
        part.checkpoint_interval = interval;
        assert_int_equal(zr_plan_create(stages.models[0], &shape, &settings, &machine, &plan, NULL),
                         ZERO_OK);
        assert_int_equal(plan->segment_count, (5 + interval - 1) / interval);
        zr_plan_destroy(plan);
    }
    pipeline_plans_free(&stages);
}

// Adds what a stage sends and receives in a step.
static void add_step(const zr_plan *plan, zr_traffic_plan *sum)
{
    for (int a = 0; a < plan->action_count; a++) {
        if (!program_has_pass(&plan->actions[a]))
            continue;
        const zr_traffic_plan *pass = &plan->traffic[program_pass_of(&plan->actions[a])].pipeline;
        sum->messages += pass->messages;
        sum->calls[ZERO_COMM_send] += pass->calls[ZERO_COMM_send];
        sum->calls[ZERO_COMM_recv] += pass->calls[ZERO_COMM_recv];
        sum->bytes[ZERO_COMM_send] += pass->bytes[ZERO_COMM_send];
    }
}

static void check_messages(const pipeline_plans *stages)
{
    zr_traffic_plan sum = {0};
    int64_t boundaries = 0, window = zr_pipeline_window(pipeline_in(stages));
    int joints = chunks_in(stages) - 1;
    for (int s = 0; s < stages->count; s++)
        add_step(stages->plans[s], &sum);
    for (int number = 0; number < joints; number++)
        boundaries += pipeline_boundary_bytes(stages->first_unit[number + 1] - 1);
    assert_int_equal(sum.calls[ZERO_COMM_send], joints * window * 2);
    assert_int_equal(sum.calls[ZERO_COMM_recv], joints * window * 2);
    assert_int_equal(sum.messages, joints * window * 4);
    assert_int_equal(sum.bytes[ZERO_COMM_send], boundaries * window * 2);
}

static void a_step_sends_each_boundary_there_and_back(void **state)
{
    pipeline_for_all(check_messages);
}

// Bytes of parameters that a step gathers and reduces over the data ranks, as a multiple of those
// that a stage has: K+1 at stages 0 to 2, 3K at stage 3, where units that read nothing in backward
// (the embedding), or make both in one call (the head), gather once less, and those whose weights'
// part reads parameters once more.
static void check_data_traffic(const zr_plan *plan, int64_t k)
{
    const int64_t others = plan->ranks - 1, size = sizeof(float);
    int64_t moved = 0, expected = 0;
    for (int a = 0; a < plan->action_count; a++) {
        const zr_traffic_plan *pass = &plan->traffic[program_pass_of(&plan->actions[a])].data;
        moved += pass->bytes[ZERO_COMM_all_gather] + pass->bytes[ZERO_COMM_reduce_scatter];
    }
    moved += plan->traffic[ZR_PASS_BOUNDARY].data.bytes[ZERO_COMM_all_gather] +
             plan->traffic[ZR_PASS_PUBLISH].data.bytes[ZERO_COMM_all_gather];
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        const zr_unit_plan *owner = &plan->units[flat_param->ref.unit];
        bool once = owner->fused || !owner->sizes.backward_reads;
        int64_t gathers = plan->settings.stage < 3 ? 1 : k * (2 - once + owner->split);
        expected += (k + gathers) * others * flat_param->shard * size;
    }
    assert_int_equal(moved, expected);
}

static void a_stage_exchanges_what_its_units_would(void **state)
{
    static pipeline_model model;
    for (int splits = 0; splits < 2; splits++)
        for (int stage = 0; stage < 4; stage++)
            for (zr_pipeline_kind kind = 0; kind <= ZR_PIPELINE_ZB_H1; kind++)
                for (int m = 4; m <= 8; m += 4) {
                    pipeline_plans stages;
                    const zr_pipeline pipeline =
                        pipeline_of(kind, 4, kind == ZR_PIPELINE_INTERLEAVED ? 2 : 1, m);
                    const zr_settings settings = fixture_settings(ZERO_F32, stage, m);
                    pipeline_build(&model, 9, (pipeline_style){.splits = splits});
                    pipeline_plans_make(&model.f.model, &pipeline, &settings,
                                        &(zr_machine){.ranks = 4}, &stages);
                    for (int s = 0; s < 4; s++)
                        check_data_traffic(stages.plans[s], m);
                    pipeline_plans_free(&stages);
                }
}

// Nothing is gathered, fetched or reduced over the end of a pass: what a visit begins belongs to
// visits of its own pass.
static void check_passes(const zr_plan *plan)
{
    for (int c = 0; c < plan->chunk_count; c++) {
        const zr_chunk_plan *chunk = &plan->chunks[c];
        const int ends[] = {chunk->first_visit, chunk->backward_visit, chunk->weight_visit,
                            chunk->end_visit};
        for (int pass = 0; pass < 3; pass++)
            for (int v = ends[pass]; v < ends[pass + 1]; v++) {
                const zr_visit *visit = &plan->visits[v];
                assert_int_equal(visit->pass_end, ends[pass + 1]);
                assert_true(zr_last_fetched(plan, v, visit->pass_end) < ends[pass + 1]);
                assert_true(visit->reuses < 0 || visit->reuses >= ends[pass]);
                assert_true(v > ends[pass] || !visit->ahead);
            }
    }
    for (int p = 0; p < plan->flat_param_count; p++) {
        const zr_flat_param *flat_param = &plan->flat_params[p];
        if (flat_param->first_backward >= 0)
            assert_int_equal(plan->visits[flat_param->reduced_after].pass_end,
                             plan->visits[flat_param->sealed_at].pass_end);
    }
}

static void nothing_goes_on_after_a_pass(void **state) { pipeline_for_each(check_passes); }

// Slots count as communication: where stages share memory the sender's, else those of both ends.
static void check_footprint(const pipeline_plans *stages)
{
    for (int s = 0; s < stages->count; s++) {
        const zr_plan *plan = stages->plans[s];
        const int64_t *device = plan->bytes[ZERO_TIER_device];
        int64_t slots = 0, other = plan->open_bytes + plan->gather_share + plan->exchange_bytes +
                                   plan->shared_exchange_bytes;
        for (int c = 0; c < plan->chunk_count; c++) {
            const zr_chunk_plan *chunk = &plan->chunks[c];
            const int of[] = {chunk->output, chunk->gradient_out, chunk->input, chunk->gradient_in};
            for (int i = 0; i < (plan->pipeline->mapped ? 2 : 4); i++)
                if (of[i] >= 0)
                    slots += plan->links[of[i]].slots * plan->links[of[i]].bytes;
        }
        // Of a step's sums the first stage has the ends of all, and others those of their own.
        int ends = sums_links(stages) / (s ? stages->count - 1 : 1);
        int64_t a_slot = ZR_ROUND_UP((int64_t)sizeof(zr_step_sums), ZR_ACTIVATION_ALIGN);
        slots += 2 * a_slot * ends / (plan->pipeline->mapped ? 2 : 1);
        if (plan->gradient_window_is == ZERO_MEM_communication)
            other += plan->grad_bytes;
        assert_int_equal(zr_plan_link_bytes(plan), slots);
        assert_int_equal(device[ZERO_MEM_communication], other + slots);
        assert_int_equal(device[ZERO_MEM_activations], plan->activation_bytes);
    }
}

static void sets_are_activations_and_slots_communication(void **state)
{
    pipeline_for_all(check_footprint);
}

// The two that a slot takes where there is no shared memory are one each at its ends.
static void slots_lie_once_where_stages_share_memory(void **state)
{
    static pipeline_model model;
    int64_t bytes[2] = {0};
    pipeline_build(&model, 9, (pipeline_style){0});
    for (int mapped = 0; mapped < 2; mapped++) {
        pipeline_plans stages;
        const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 4, 1, 8);
        const zr_settings settings = fixture_settings(ZERO_F32, 1, 8);
        pipeline_plans_make(&model.f.model, &pipeline, &settings,
                            &(zr_machine){.ranks = 1, .mapped = mapped}, &stages);
        for (int s = 0; s < 4; s++)
            bytes[mapped] += zr_plan_link_bytes(stages.plans[s]);
        pipeline_plans_free(&stages);
    }
    assert_true(bytes[1] > 0);
    assert_int_equal(bytes[0], 2 * bytes[1]);
}

// What data ranks compare differs between stages and schedules, and all compare the rest.
static void hashes_tell_pipelines_apart(void **state)
{
    pipeline_plans stages, other;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 2, 1, 4);
    const zr_pipeline gpipe = pipeline_of(ZR_PIPELINE_GPIPE, 2, 1, 4);
    pipeline_plans_simple(&pipeline, &stages);
    pipeline_plans_simple(&gpipe, &other);
    assert_true(stages.plans[0]->job_hash == stages.plans[1]->job_hash);
    assert_true(stages.plans[0]->hash != stages.plans[1]->hash);
    assert_true(stages.plans[0]->job_hash != other.plans[0]->job_hash);
    assert_true(stages.plans[0]->hash != other.plans[0]->hash);
    pipeline_plans_free(&stages);
    pipeline_plans_free(&other);
}

static void a_schedule_that_cannot_be_made_is_refused(void **state)
{
    static const int first[] = {0, 2, 4};
    const zr_pipeline_part part = {.pipeline = pipeline_of(ZR_PIPELINE_2BW, 2, 1, 1),
                                   .first_unit = first};
    const zr_unit_range range = {0, 2};
    const zero_shape shape = {.batch = 2, .seq = 8};
    const zr_settings settings = fixture_settings(ZERO_F32, 1, 1);
    static pipeline_model model;
    zero_model *stage = NULL;
    zr_plan *plan = NULL;
    zero_error error = {0};
    pipeline_build(&model, 2, (pipeline_style){0});
    assert_int_equal(zr_pipeline_stage_cut(&model.f.model, &range, 1, false, &stage, &error),
                     ZERO_OK);
    assert_int_equal(zr_plan_create(stage, &shape, &settings,
                                    &(zr_machine){.ranks = 1, .pipeline = &part}, &plan, &error),
                     ZERO_ERR_CONFIG);
    assert_null(plan);
    zr_pipeline_stage_free(stage);
}

// Of 1,024 ranks: 64 pipeline stages, 8 tensor ranks, 2 data ranks. All stages of one tensor rank
// take much less than a second, and a rank makes one plan of them.
static void many_stages_are_planned_at_once(void **state)
{
    static pipeline_model model;
    static pipeline_plans stages;
    const zr_pipeline pipeline = pipeline_of(ZR_PIPELINE_1F1B, 64, 1, 256);
    const zr_settings settings = fixture_settings(ZERO_F32, 3, 256);
    pipeline_build(&model, FIXTURE_MAX_BLOCKS, (pipeline_style){.divided = true});
    clock_t begin = clock();
    pipeline_plans_make(&model.f.model, &pipeline, &settings,
                        &(zr_machine){.ranks = 2, .tensor_ranks = 8, .tensor_rank = 3}, &stages);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(stages.plans[0]->world, 1024);
    assert_true(seconds < 1);
    pipeline_plans_free(&stages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_and_links_have_the_numbers_of_the_model),
        cmocka_unit_test(links_are_named_by_what_they_join),
        cmocka_unit_test(activations_are_those_of_the_papers),
        cmocka_unit_test(activation_checkpoints_replace_sets),
        cmocka_unit_test(segments_have_the_units_of_an_interval),
        cmocka_unit_test(a_step_sends_each_boundary_there_and_back),
        cmocka_unit_test(a_stage_exchanges_what_its_units_would),
        cmocka_unit_test(nothing_goes_on_after_a_pass),
        cmocka_unit_test(sets_are_activations_and_slots_communication),
        cmocka_unit_test(slots_lie_once_where_stages_share_memory),
        cmocka_unit_test(hashes_tell_pipelines_apart),
        cmocka_unit_test(a_schedule_that_cannot_be_made_is_refused),
        cmocka_unit_test(many_stages_are_planned_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
