// A comparison as one JSON object.
#include "tune/comparison.h"

#include "base/cpu.h"

#include <string.h>

static void put_axes(zr_json_writer *w, const char *key, const int64_t bytes[ZERO_AXIS_COUNT])
{
    zr_json_begin_object(w, key);
    zr_json_integer(w, "data", bytes[ZERO_AXIS_data]);
    zr_json_integer(w, "tensor", bytes[ZERO_AXIS_tensor]);
    zr_json_integer(w, "pipeline", bytes[ZERO_AXIS_pipeline]);
    zr_json_end(w);
}

static void put_measured(zr_json_writer *w, const zr_trial_answer *measured)
{
    zr_json_begin_object(w, "measured");
    zr_json_integer(w, "steps", measured->count);
    zr_json_real(w, "seconds", measured->seconds);
    zr_json_real(w, "low", measured->low);
    zr_json_real(w, "high", measured->high);
    zr_json_real(w, "tokens_s", measured->token_rate);
    zr_json_integer(w, "held", measured->memory);
    put_axes(w, "exchanged", measured->exchanged);
    zr_json_end(w);
}

static void put_planned(zr_json_writer *w, const zr_compare_row *row)
{
    zr_json_integer(w, "micro_batch", row->config->micro_batch);
    zr_json_integer(w, "accumulation", row->config->accumulation);
    zr_json_integer(w, "memory", row->needed);
    zr_json_integer(w, "held", row->held);
    zr_json_flag(w, "fits", row->fits);
    put_axes(w, "exchanged", row->exchanged);
    zr_json_begin_object(w, "network");
    zr_json_integer(w, "data", row->network[ZR_NETWORK_DATA]);
    zr_json_integer(w, "tensor", row->network[ZR_NETWORK_TENSOR]);
    zr_json_integer(w, "links", row->network[ZR_NETWORK_LINKS]);
    zr_json_integer(w, "ties", row->network[ZR_NETWORK_TIED_WEIGHTS]);
    zr_json_end(w);
    zr_json_begin_object(w, "largest");
    zr_json_integer(w, "layers", row->layers);
    zr_json_integer(w, "parameters", row->parameters);
    zr_json_flag(w, "at_least", row->larger);
    zr_json_end(w);
}

static void put_row(zr_json_writer *w, const zr_compare_row *row)
{
    const zr_way *way = &row->way;
    zr_json_begin_object(w, NULL);
    zr_json_text(w, "way", way->name);
    zr_json_integer(w, "data", way->data);
    zr_json_integer(w, "tensor", way->tensor);
    zr_json_integer(w, "pipeline", way->stages);
    zr_json_integer(w, "stage", way->stage);
    if (row->config)
        put_planned(w, row);
    if (row->step.seconds > 0)
        zr_forecast_json(&row->step, w, "predicted");
    if (row->measured.count)
        put_measured(w, &row->measured);
    zr_json_text(w, "effort", way->effort);
    zr_json_text(w, "code", way->code);
    if (row->why[0])
        zr_json_text(w, "why", row->why);
    zr_json_end(w);
}

void zr_compare_json(const zr_comparison *c, zr_buffer *out)
{
    char processor[128];
    zr_json_writer w = zr_json_writer_on(out, ZR_JSON_COMPACT);
    zr_cpu_model(processor, sizeof processor);
    zr_json_begin_object(&w, NULL);
    zr_json_text(&w, "model", c->subject.name);
    zr_json_integer(&w, "parameters", c->subject.parameters);
    zr_json_text(&w, "precision", c->dtype);
    zr_json_integer(&w, "seq", c->subject.seq);
    zr_json_integer(&w, "batch", c->batch.samples);
    zr_json_integer(&w, "ranks", c->ranks);
    zr_json_integer(&w, "threads", c->threads);
    zr_json_integer(&w, "cores", c->cores);
    zr_json_flag(&w, "crowded", c->crowded);
    zr_json_flag(&w, "stopped", c->stopped);
    zr_json_text(&w, "processor", processor);
    zr_json_integer(&w, "memory", c->memory);
    zr_json_integer(&w, "widened", c->widened);
    zr_json_begin_array(&w, "ways");
    for (int i = 0; i < c->count; i++) {
        zr_json_line(&w, 0);
        put_row(&w, &c->rows[i]);
    }
    zr_json_line(&w, 0);
    zr_json_finish(&w);
}
