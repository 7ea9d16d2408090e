// A comparison as one JSON object.
#include "tune/comparison.h"

#include "base/cpu.h"

#include <string.h>

static void put_compare_json_text(zr_buffer *out, const char *key, const char *text)
{
    zr_buffer_printf(out, ",\"%s\":", key);
    zr_json_append_string(out, text, strlen(text));
}

static void put_compare_json_number(zr_buffer *out, const char *key, int64_t number)
{
    zr_buffer_printf(out, ",\"%s\":%lld", key, (long long)number);
}

static void put_real(zr_buffer *out, const char *key, double number)
{
    zr_buffer_printf(out, ",\"%s\":", key);
    zr_json_append_double(out, number);
}

static void put_axes(zr_buffer *out, const char *key, const int64_t bytes[ZERO_AXIS_COUNT])
{
    zr_buffer_printf(out, ",\"%s\":{\"data\":%lld,\"tensor\":%lld,\"pipeline\":%lld}", key,
                     (long long)bytes[ZERO_AXIS_data], (long long)bytes[ZERO_AXIS_tensor],
                     (long long)bytes[ZERO_AXIS_pipeline]);
}

static void put_measured(zr_buffer *out, const zr_trial_answer *measured)
{
    zr_buffer_printf(out, ",\"measured\":{\"steps\":%d", measured->count);
    put_real(out, "seconds", measured->seconds);
    put_real(out, "low", measured->low);
    put_real(out, "high", measured->high);
    put_real(out, "tokens_s", measured->token_rate);
    put_compare_json_number(out, "held", measured->memory);
    put_axes(out, "exchanged", measured->exchanged);
    zr_buffer_printf(out, "}");
}

static void put_planned(zr_buffer *out, const zr_compare_row *row)
{
    const int64_t *network = row->network;
    put_compare_json_number(out, "micro_batch", row->config->micro_batch);
    put_compare_json_number(out, "accumulation", row->config->accumulation);
    put_compare_json_number(out, "memory", row->needed);
    put_compare_json_number(out, "held", row->held);
    zr_buffer_printf(out, ",\"fits\":%s", row->fits ? "true" : "false");
    put_axes(out, "exchanged", row->exchanged);
    zr_buffer_printf(
        out, ",\"network\":{\"data\":%lld,\"tensor\":%lld,\"links\":%lld,\"ties\":%lld}",
        (long long)network[ZR_NETWORK_DATA], (long long)network[ZR_NETWORK_TENSOR],
        (long long)network[ZR_NETWORK_LINKS], (long long)network[ZR_NETWORK_TIED_WEIGHTS]);
    zr_buffer_printf(out, ",\"largest\":{\"layers\":%lld,\"parameters\":%lld,\"at_least\":%s}",
                     (long long)row->layers, (long long)row->parameters,
                     row->larger ? "true" : "false");
}

static void put_row(const zr_compare_row *row, zr_buffer *out)
{
    const zr_way *way = &row->way;
    zr_buffer_printf(out, "{\"way\":");
    zr_json_append_string(out, way->name, strlen(way->name));
    put_compare_json_number(out, "data", way->data);
    put_compare_json_number(out, "tensor", way->tensor);
    put_compare_json_number(out, "pipeline", way->stages);
    put_compare_json_number(out, "stage", way->stage);
    if (row->config)
        put_planned(out, row);
    if (row->step.seconds > 0) {
        zr_buffer_printf(out, ",\"predicted\":");
        zr_forecast_json(&row->step, out);
    }
    if (row->measured.count)
        put_measured(out, &row->measured);
    put_compare_json_text(out, "effort", way->effort);
    put_compare_json_text(out, "code", way->code);
    if (row->why[0])
        put_compare_json_text(out, "why", row->why);
    zr_buffer_printf(out, "}");
}

void zr_compare_json(const zr_comparison *c, zr_buffer *out)
{
    char processor[128];
    const char *model = c->subject.name;
    zr_cpu_model(processor, sizeof processor);
    zr_buffer_printf(out, "{\"model\":");
    zr_json_append_string(out, model, strlen(model));
    put_compare_json_number(out, "parameters", c->subject.parameters);
    put_compare_json_text(out, "precision", c->dtype);
    put_compare_json_number(out, "seq", c->subject.seq);
    put_compare_json_number(out, "batch", c->batch.samples);
    put_compare_json_number(out, "ranks", c->ranks);
    put_compare_json_number(out, "threads", c->threads);
    put_compare_json_number(out, "cores", c->cores);
    zr_buffer_printf(out, ",\"crowded\":%s", c->crowded ? "true" : "false");
    zr_buffer_printf(out, ",\"stopped\":%s", c->stopped ? "true" : "false");
    put_compare_json_text(out, "processor", processor);
    put_compare_json_number(out, "memory", c->memory);
    put_compare_json_number(out, "widened", c->widened);
    zr_buffer_printf(out, ",\"ways\":[\n");
    for (int i = 0; i < c->count; i++) {
        put_row(&c->rows[i], out);
        zr_buffer_printf(out, i + 1 < c->count ? ",\n" : "\n");
    }
    zr_buffer_printf(out, "]}\n");
}
