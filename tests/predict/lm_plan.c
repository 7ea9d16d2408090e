#include "lm_plan.h"

#include "layers/layers.h"

#include <stdio.h>
#include <stdlib.h>

static void must(zero_status status, const zero_error *error)
{
    if (status == ZERO_OK)
        return;
    fprintf(stderr, "plan: %s\n", error->message);
    abort();
}

static zr_settings settings_of(const lm_plan_case *c, int64_t accumulation)
{
    return (zr_settings){.stage = c->stage,
                         .precision = zr_precision_of(c->dtype, accumulation),
                         .accumulation = accumulation,
                         .state_vectors = 2,
                         .reduce_bucket = 500000000,
                         .prefetch_bucket = 50000000,
                         .tiering = {.optimizer = c->optimizer, .block = 1 << 20}};
}

static void cut(lm_plan *p, int tensor)
{
    const zr_lm_slices slices = {.count = tensor, .ranks = tensor};
    zero_error error = {0};
    must(zr_lm_cut(p->whole, &slices, NULL, &p->part, &error), &error);
}

lm_plan lm_plan_create(const lm_plan_case *c)
{
    lm_plan p = {0};
    zr_lm_config config;
    bool vocab_given;
    zero_error error = {0};
    const zr_settings settings = settings_of(c, ZR_MAX(c->accumulation, 1));
    const zero_shape shape = {.batch = c->batch, .seq = c->seq, .threads = 1, .dtype = c->dtype};
    const zr_machine machine = {
        .ranks = ZR_MAX(c->ranks, 1), .tensor_ranks = ZR_MAX(c->tensor, 1), .threads = 1};
    must(zr_lm_parse_spec(c->spec, &config, &vocab_given, &error), &error);
    must(zr_lora_parse(c->lora, "a plan", &config, &config.lora, &error), &error);
    config.documents = c->documents;
    must(zr_lm_create(&config, &p.whole, &error), &error);
    if (c->tensor)
        cut(&p, c->tensor);
    must(zr_plan_create(p.part ? p.part : p.whole, &shape, &settings, &machine, &p.plan, &error),
         &error);
    return p;
}

void lm_plan_destroy(lm_plan *p)
{
    zr_plan_destroy(p->plan);
    zr_lm_free(p->part);
    zr_lm_free(p->whole);
}
