// What a division of units among pipeline stages is said to be.
#include "setup/pipeline_stages.h"
#include <zero/model.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static zero_status part_of_backward(zero_context *context, const zero_tensors *in)
{
    return ZERO_OK;
}

static zero_status input_of_backward(zero_context *context, const zero_tensors *in,
                                     const zero_tensors *d_out, const zero_tensors *d_in)
{
    return ZERO_OK;
}

static const zero_unit_ops whole = {.kind = "table"}, block = {.kind = "block",
                                                               .backward_input = input_of_backward,
                                                               .backward_weight = part_of_backward};
static const zero_unit units[] = {
    {.name = "embedding", .ops = &whole}, {.name = "h.0", .ops = &block},
    {.name = "h.1", .ops = &block},       {.name = "h.2", .ops = &block},
    {.name = "h.3", .ops = &block},       {.name = "head", .ops = &whole},
};
static const zero_model model = {.units = (zero_unit *)units, .unit_count = 6};

static const int first_unit[] = {0, 2, 4, 5, 6};
static const double share[] = {0.2, 0.4, 0.1, 0.3};
static const zr_pipeline_part part = {
    .pipeline =
        {.kind = ZR_PIPELINE_INTERLEAVED, .stages = 2, .chunks = 2, .micro_batches = 8, .steps = 1},
    .first_unit = first_unit,
    .share = share,
};

static void is_text(zr_buffer *text, const char *words)
{
    assert_false(text->failed);
    assert_string_equal(text->length ? text->data : "", words);
    zr_buffer_free(text);
}

static void a_stage_has_its_chunks(void **state)
{
    zr_buffer text = {0};
    zr_pipeline_stages_units(&part, &model, 0, &text);
    is_text(&text, "embedding, h.0; h.3");
    zr_pipeline_stages_units(&part, &model, 1, &text);
    is_text(&text, "h.1 to h.2; head");
}

static void the_heading_has_bubble_and_imbalance(void **state)
{
    zr_buffer text = {0};
    zr_pipeline_part other = part;
    zr_pipeline_stages_heading(&part, 0.158, &text);
    is_text(&text, "interleaved:2, 2 pipeline stages, 8 micro-batches in flight: bubble 16%, "
                   "largest pipeline stage 1.40 x the mean");
    other.share = (const double[]){0.4, 0.6};
    other.pipeline = (zr_pipeline){
        .kind = ZR_PIPELINE_2BW, .stages = 2, .chunks = 1, .micro_batches = 1, .steps = 10};
    zr_pipeline_stages_heading(&other, 0.04, &text);
    is_text(&text, "2bw, 2 pipeline stages, 1 micro-batch a step, drained every 10 steps: bubble "
                   "4% of these, largest pipeline stage 1.20 x the mean");
    other.pipeline.steps = 1;
    zr_pipeline_stages_heading(&other, 0.5, &text);
    is_text(&text, "2bw, 2 pipeline stages, 1 micro-batch a step, drained after every step: bubble "
                   "50%, largest pipeline stage 1.20 x the mean");
}

static void versions_are_those_of_the_list(void **state)
{
    zr_buffer text = {0};
    zr_pipeline_part other = part;
    zr_pipeline_stages_versions(&part, 0, &text);
    is_text(&text, "");
    other.pipeline = (zr_pipeline){
        .kind = ZR_PIPELINE_PIPEDREAM, .stages = 4, .chunks = 1, .micro_batches = 1, .steps = 10};
    zr_pipeline_stages_versions(&other, 1, &text);
    is_text(&text, ", 3 versions of its parameters");
    zr_pipeline_stages_versions(&other, 3, &text);
    is_text(&text, ", 1 version of its parameters");
    other.pipeline.micro_batches = 4;
    other.pipeline.kind = ZR_PIPELINE_2BW;
    zr_pipeline_stages_versions(&other, 3, &text);
    is_text(&text, ", 2 versions of its parameters");
}

static void units_in_one_part_are_named(void **state)
{
    zr_buffer text = {0};
    zr_pipeline_part other = part;
    zr_pipeline_stages_in_one_part(&other, &model, false, &text);
    is_text(&text, "");
    other.pipeline.kind = ZR_PIPELINE_ZB_H1;
    zr_pipeline_stages_in_one_part(&other, &model, false, &text);
    is_text(&text, "backward in one part: embedding, head; zb-h1 fills its bubble with the "
                   "weights' part of the others");
    zr_pipeline_stages_in_one_part(&other, &model, true, &text);
    is_text(&text, "backward of all units is in one part, because activations are computed again, "
                   "which leaves zb-h1 no more than 1f1b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_has_its_chunks),
        cmocka_unit_test(the_heading_has_bubble_and_imbalance),
        cmocka_unit_test(versions_are_those_of_the_list),
        cmocka_unit_test(units_in_one_part_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
