#include "simulate/costs.h"
#include "simulate/step.h"

#include <stdio.h>
#include <string.h>

enum { LEAST_SEQ = 1024, MOST_TIMES = 64 }; // tokens of a sample; the devices, at the most

// A change that is tried: it makes the run's next stronger form, and returns false if there is
// none. The table below goes from the change that costs the most to the one that costs the least.
typedef bool change(zr_sim_run *run);

static bool more_devices(zr_sim_run *run)
{
    run->devices *= 2;
    run->data *= 2;
    if (run->accumulation % 2 == 0)
        run->accumulation /= 2;
    else
        run->global_batch *= 2;
    return true;
}

// Doubles the tensor ranks and halves the data ranks, so that each data rank has twice as many
// micro-batches.
static bool more_tensor(zr_sim_run *run)
{
    bool divides = run->heads % (2 * (int64_t)run->tensor) == 0;
    if (!divides || run->data % 2 || 2 * run->tensor > run->machine.devices)
        return false;
    run->tensor *= 2;
    run->data /= 2;
    run->accumulation *= 2;
    return true;
}

// States leave the device in turn: the optimizer's go to the host, at stage 3 the parameters as
// well, and then both go to NVMe.
static bool offload_farther(zr_sim_run *run)
{
    if (run->optimizer_on_nvme || run->parameters_on_nvme || run->machine.host_link <= 0 ||
        run->machine.host_rate <= 0)
        return false;
    if (!run->optimizer_on_host) {
        run->optimizer_on_host = true;
        run->stage = ZR_MAX(run->stage, 1);
    } else if (!run->parameters_on_host) {
        run->parameters_on_host = true;
        run->stage = 3;
    } else if (run->machine.nvme_read > 0 && run->machine.nvme_write > 0) {
        run->optimizer_on_host = run->parameters_on_host = false;
        run->optimizer_on_nvme = run->parameters_on_nvme = true;
    } else {
        return false;
    }
    return true;
}

static bool higher_stage(zr_sim_run *run) { return run->stage++ < 3; }

static bool recompute_fully(zr_sim_run *run)
{
    if (run->recompute == ZR_SIM_FULL && run->recompute_every == 1)
        return false;
    run->recompute = ZR_SIM_FULL;
    run->recompute_every = 1;
    return true;
}

static bool halve_sequence(zr_sim_run *run)
{
    run->seq /= 2;
    return run->seq >= LEAST_SEQ;
}

static bool smaller_batch(zr_sim_run *run)
{
    if (run->micro_batch % 2)
        return false;
    run->micro_batch /= 2;
    run->accumulation *= 2;
    return true;
}

static change *const changes[] = {more_devices,    more_tensor,    offload_farther, higher_stage,
                                  recompute_fully, halve_sequence, smaller_batch};

typedef struct search {
    const zr_sim_run *from;
    bool keep_seq;
    zr_sim_remedy *out;
} search;

static bool fits_in_memory(const zr_sim_run *run, zr_sim_remedy *out)
{
    zr_sim_run complete = *run;
    if (zr_sim_run_complete(&complete, NULL) != ZERO_OK ||
        zr_sim_run_check(&complete, NULL) != ZERO_OK)
        return false;
    *out = (zr_sim_remedy){.run = complete, .memory = zr_sim_memory(&complete)};
    return out->memory <= complete.machine.memory &&
           zr_sim_host_memory(&complete) <= complete.machine.host_memory;
}

// Tries every form of the changes from `first` on, the last ones first.
static bool try_changes(const search *s, int first, zr_sim_run run)
{
    if (first == ZR_COUNT(changes))
        return fits_in_memory(&run, s->out);
    do {
        if (try_changes(s, first + 1, run))
            return true;
        if (changes[first] == halve_sequence && s->keep_seq)
            return false;
        if (changes[first] == more_devices && run.devices >= MOST_TIMES * s->from->devices)
            return false;
    } while (changes[first](&run));
    return false;
}

typedef struct words {
    char *at;
    size_t left;
} words;

static void append_change(words *w, const char *text)
{
    int used = snprintf(w->at, w->left, "%s", text);
    used = ZR_MIN(used, (int)w->left - 1);
    w->at += used;
    w->left -= (size_t)used;
}

static void append_changed_number(words *w, const char *flag, int64_t now, int64_t before)
{
    char text[64];
    if (now == before)
        return;
    snprintf(text, sizeof text, " %s %lld", flag, (long long)now);
    append_change(w, text);
}

static void append_offload_place(words *w, const char *what, bool host, bool nvme)
{
    char text[96];
    if (!host && !nvme)
        return;
    snprintf(text, sizeof text, " zero_optimization.%s.device \"%s\"", what, nvme ? "nvme" : "cpu");
    append_change(w, text);
}

static void describe_changes(const zr_sim_run *from, zr_sim_remedy *out)
{
    const zr_sim_run *to = &out->run;
    words w = {.at = out->changes, .left = sizeof out->changes};
    append_changed_number(&w, "--ranks", to->devices, from->devices);
    append_changed_number(&w, "--tensor", to->tensor, from->tensor);
    append_changed_number(&w, "--stage", to->stage, from->stage);
    if (to->recompute != from->recompute)
        append_change(&w, " --recompute full");
    append_changed_number(&w, "--seq", to->seq, from->seq);
    append_changed_number(&w, "--micro-batch", to->micro_batch, from->micro_batch);
    append_changed_number(&w, "--global-batch", to->global_batch, from->global_batch);
    if (to->optimizer_on_host != from->optimizer_on_host ||
        to->optimizer_on_nvme != from->optimizer_on_nvme)
        append_offload_place(&w, "offload_optimizer", to->optimizer_on_host, to->optimizer_on_nvme);
    if (to->parameters_on_host != from->parameters_on_host ||
        to->parameters_on_nvme != from->parameters_on_nvme)
        append_offload_place(&w, "offload_param", to->parameters_on_host, to->parameters_on_nvme);
    memmove(out->changes, out->changes + 1, strlen(out->changes)); // without the first blank
}

bool zr_sim_remedy_find(const zr_sim_run *run, bool keep_seq, zr_sim_remedy *out)
{
    const search s = {.from = run, .keep_seq = keep_seq, .out = out};
    if (!try_changes(&s, 0, *run))
        return false;
    describe_changes(run, out);
    return true;
}
