#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/numbers.h"
#include "forecast_desk.h"

#include <math.h>

static const zr_operation forward_made = {ZR_ACTIVITY_norm, FORWARD, 0, 1},
                          backward_made = {ZR_ACTIVITY_norm, BACKWARD, 0, 1},
                          both_made = {ZR_ACTIVITY_norm, FORWARD + BACKWARD, 0, 1},
                          input_made = {ZR_ACTIVITY_norm, BACKWARD - WEIGHT, 0, 1},
                          weight_made = {ZR_ACTIVITY_norm, WEIGHT, 0, 1};

void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12 + 1e-9 * fabs(wanted)))
        fail_msg("%.12g, expected %.12g", got, wanted);
}

// A machine on which every byte of an activity takes the same time.
static void learn(zr_rate_book *book, const zr_rate_setting *setting)
{
    static const struct {
        zr_activity what;
        double seconds; // of a byte
    } known[] = {
        {ZR_ACTIVITY_optimizer, OPTIMIZER},   {ZR_ACTIVITY_element, ELEMENT},
        {ZR_ACTIVITY_square_sum, SQUARES},    {ZR_ACTIVITY_norm, NORM},
        {ZR_ACTIVITY_reduce_scatter, REDUCE}, {ZR_ACTIVITY_all_gather, GATHER},
        {ZR_ACTIVITY_all_reduce, SCALARS},    {ZR_ACTIVITY_exchange, EXCHANGE},
    };
    enum { LARGE = 1 << 30 }; // than which nothing is larger: all is in proportion
    zr_rates *rates = zr_rate_book_take(book, setting, NULL);
    assert_non_null(rates);
    for (int i = 0; i < ZR_COUNT(known); i++)
        zr_rates_add(rates, known[i].what, LARGE, 0, LARGE * known[i].seconds, 1);
}

void open_desk(desk *d)
{
    *d = (desk){.question = {.setting = {"avx512", ZERO_BF16, 1, 2}, .kv_replicas = 1}};
    learn(&d->book, &d->question.setting);
    d->book.read = 2e8, d->book.write = d->book.mix = 1e8;
    d->question.book = &d->book;
    d->question.plans = d->plans;
    d->question.operations = d->operations;
}

zr_link_speed link_of(desk *d, double rate, double latency)
{
    static const zr_activity made[] = {ZR_ACTIVITY_reduce_scatter, ZR_ACTIVITY_all_gather,
                                       ZR_ACTIVITY_all_reduce, ZR_ACTIVITY_exchange,
                                       ZR_ACTIVITY_send};
    d->link = (zr_rates){.setting = zr_link_setting(2, 1, false)};
    for (int i = 0; i < ZR_COUNT(made); i++) {
        zr_rates_add(&d->link, made[i], 0, 0, latency, 1);
        zr_rates_add(&d->link, made[i], 1000000, 0, latency + 1e6 / rate, 1);
    }
    return (zr_link_speed){.rates = &d->link};
}

// The operations of each unit: one a call.
void describe(desk *d, const zr_plan *plan)
{
    int stage = d->question.stages++;
    zr_unit_operations *units = zr_alloc((size_t)plan->unit_count * sizeof *units, NULL);
    assert_non_null(units);
    for (int u = 0; u < plan->unit_count; u++) {
        zr_operation_list *calls = units[u].calls;
        calls[ZR_CALL_FORWARD] = calls[ZR_CALL_AGAIN] = (zr_operation_list){&forward_made, 1};
        calls[ZR_CALL_BACKWARD] = (zr_operation_list){&backward_made, 1};
        calls[ZR_CALL_BOTH] = (zr_operation_list){&both_made, 1};
        calls[ZR_CALL_INPUT] = (zr_operation_list){&input_made, 1};
        calls[ZR_CALL_WEIGHT] = (zr_operation_list){&weight_made, 1};
    }
    d->plans[stage] = plan;
    d->operations[stage] = (zr_plan_operations){.unit_count = plan->unit_count, .units = units};
}

void forget_plans(desk *d)
{
    for (int s = 0; s < d->question.stages; s++)
        zr_free(d->operations[s].units);
    d->question.stages = 0;
}

void close_desk(desk *d)
{
    forget_plans(d);
    zr_rate_book_free(&d->book);
}

zr_forecast ask(const desk *d)
{
    zr_forecast f;
    zero_error error = {0};
    if (zr_forecast_find(&d->question, &f, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    double sum = 0;
    for (int part = 0; part < ZR_TIME_PARTS; part++) {
        assert_true(f.parts[part] >= 0);
        sum += f.parts[part];
    }
    near(f.seconds, sum);
    assert_true(f.low < f.seconds && f.seconds < f.high);
    assert_true(f.parts[ZR_TIME_DATA] == 0 && f.parts[ZR_TIME_SAVING] == 0);
    return f;
}

zr_forecast ask_of(desk *d, const zr_plan *plan)
{
    forget_plans(d);
    describe(d, plan);
    return ask(d);
}

// Elements of the tensors that the first rank updates, without padding, and whose squares it adds.
double elements_of(const zr_plan *plan, bool whole)
{
    double sum = 0;
    for (int p = 0; p < plan->flat_param_count; p++)
        for (int t = 0; t < plan->flat_params[p].tensor_count; t++) {
            const zr_plan_tensor *tensor = &plan->flat_params[p].tensors[t];
            int64_t end = whole ? plan->flat_params[p].padded : plan->flat_params[p].shard;
            sum += (double)ZR_MAX(ZR_MIN(tensor->first + tensor->count, end) - tensor->first, 0);
        }
    return sum;
}

double scalars_of(int others)
{
    return others * 2 * ZR_EXACT_WORDS * (double)sizeof(int64_t) * SCALARS;
}

double unit_seconds(const zr_plan *plan)
{
    return plan->unit_count * (double)(FORWARD + BACKWARD) * NORM;
}

void make_nothing(desk *d, int stage)
{
    for (int u = 0; u < d->operations[stage].unit_count; u++)
        d->operations[stage].units[u] = (zr_unit_operations){0};
}
