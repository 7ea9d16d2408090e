// Bytes by category (contract 5), and whether they fit.
#include "base/text.h"
#include "plan/plan_parts.h"
#include "plan/stage_traits.h"

#include <stdio.h>

static int64_t largest_product_scratch(const zr_plan *plan, const zr_machine *machine)
{
    int64_t bytes = 0;
    for (int u = 0; u < plan->unit_count && machine->product_scratch; u++) {
        const zero_unit_sizes *sizes = &plan->units[u].sizes;
        for (int i = 0; i < sizes->product_count; i++)
            bytes = ZR_MAX(bytes, (int64_t)machine->product_scratch(
                                      machine->user, plan->settings.precision.activations,
                                      &sizes->products[i]));
    }
    return ZR_ROUND_UP(bytes, ZR_ACTIVATION_ALIGN);
}

int zr_plan_accumulators(const zr_plan *plan)
{
    return plan->step_sums * zr_accumulators(&plan->settings);
}

int64_t zr_plan_share_of_machine(const zr_plan *plan, int64_t bytes)
{
    return (bytes + plan->machine_ranks - 1) / plan->machine_ranks;
}

// What links and collectives hold is no space of the engine's: it counts as communication.
void zr_plan_footprint(zr_plan *plan, const zr_machine *machine)
{
    plan->product_scratch_bytes =
        ZR_MAX(largest_product_scratch(plan, machine), plan->orthogonal_scratch);
    zr_plan_spaces(plan);
    for (int i = 0; i < ZR_SPACE_COUNT; i++)
        plan->bytes[plan->spaces[i].tier][plan->spaces[i].category] += plan->spaces[i].counted;
    for (int i = 0; i < ZR_STORE_COUNT; i++)
        plan->bytes[plan->stores[i].tier][plan->stores[i].category] += plan->stores[i].bytes;
    plan->bytes[ZERO_TIER_device][ZERO_MEM_communication] += machine->staging_bytes;
    zr_plan_count_links(plan);
    plan->bytes[ZERO_TIER_device][ZERO_MEM_workspace] += plan->runtime_bytes;
}

int64_t zr_plan_tier_bytes(const zr_plan *plan, zero_tier tier)
{
    int64_t total = 0;
    for (int c = 0; c < ZERO_MEM_COUNT; c++)
        total += plan->bytes[tier][c];
    return total;
}

int64_t zr_plan_total_bytes(const zr_plan *plan)
{
    return zr_plan_tier_bytes(plan, ZERO_TIER_device) + zr_plan_tier_bytes(plan, ZERO_TIER_host);
}

// Returns the bytes that lie in the memory of the host.
static int64_t bytes_in_memory(const zr_plan *plan)
{
    return plan->far ? zr_plan_tier_bytes(plan, ZERO_TIER_host) : zr_plan_total_bytes(plan);
}

bool zr_plan_fits(const zr_plan *plan, const zr_machine *machine)
{
    for (int t = 0; t < ZERO_TIER_COUNT; t++)
        if (machine->tier_limit[t] > 0 && zr_plan_tier_bytes(plan, t) > machine->tier_limit[t])
            return false;
    return machine->memory_limit <= 0 || bytes_in_memory(plan) <= machine->memory_limit;
}

// Writes "1.95 MB", or "1.95 MB on the device, 778 kB on the host".
static void describe_need(const zr_plan *plan, char *out, size_t size)
{
    int64_t on_host = zr_plan_tier_bytes(plan, ZERO_TIER_host);
    char device[ZR_BYTES_TEXT], host[ZR_BYTES_TEXT];
    zr_bytes_text((double)zr_plan_tier_bytes(plan, ZERO_TIER_device), device);
    zr_bytes_text((double)on_host, host);
    if (on_host)
        snprintf(out, size, "%s on the device, %s on the host", device, host);
    else
        snprintf(out, size, "%s", device);
}

static bool would_fit(const zr_plan *plan, const zr_machine *machine, const zr_settings *settings,
                      const zero_shape *shape, char *need, size_t size)
{
    zr_plan *other = NULL;
    bool good = zr_plan_create(plan->model, shape, settings, machine, &other, NULL) == ZERO_OK &&
                zr_plan_fits(other, machine);
    if (good)
        describe_need(other, need, size);
    zr_plan_destroy(other);
    return good;
}

// Returns the settings with states on tiers at least as far as these. How they travel is what the
// configuration says, or its defaults where it says nothing.
static zr_settings settings_with_farther_tiers(const zr_settings *now, int stage,
                                               zero_tier optimizer, zero_tier parameters)
{
    zr_settings settings = *now;
    zr_tiering *tiering = &settings.tiering;
    settings.stage = stage;
    tiering->optimizer =
        now->inference ? ZERO_TIER_device : ZR_MAX(optimizer, now->tiering.optimizer);
    tiering->parameters = ZR_MAX(parameters, now->tiering.parameters);
    tiering->on_device = tiering->optimizer == now->tiering.optimizer ? now->tiering.on_device : 0;
    if (tiering->optimizer != ZERO_TIER_device && now->tiering.optimizer == ZERO_TIER_device)
        tiering->read_ahead = tiering->write_behind = true;
    return settings;
}

static void describe_fit(const zr_plan *plan, const zr_settings *settings, const zero_shape *shape,
                         const char *need, char *out, size_t size)
{
    static const char *const texts[] = {
        [ZERO_TIER_device] = "none", [ZERO_TIER_host] = "cpu", [ZERO_TIER_nvme] = "nvme"};
    const zr_tiering *tiering = &settings->tiering;
    char window[48] = "", segments[80] = "";
    if (shape->seq != plan->shape.seq)
        snprintf(window, sizeof window, ", --seq %lld", (long long)shape->seq);
    if (settings->activation_checkpoints != plan->settings.activation_checkpoints)
        snprintf(segments, sizeof segments, ", activation_checkpointing.number_checkpoints %lld",
                 (long long)settings->activation_checkpoints);
    if (settings->inference)
        snprintf(out, size, "offload_param %s, micro-batch %lld would fit (%s)",
                 texts[tiering->parameters], (long long)shape->batch, need);
    else
        snprintf(out, size,
                 "stage %d with offload_optimizer %s, offload_param %s, micro-batch %lld%s%s would "
                 "fit (%s)",
                 settings->stage, texts[tiering->optimizer], texts[tiering->parameters],
                 (long long)shape->batch, segments, window, need);
}

// Says whether states may lie on these tiers at a stage: only what it partitions may leave the
// device.
static bool stage_allows_tiers(int stage, zero_tier optimizer, zero_tier parameters)
{
    const zr_stage_traits *traits = zr_stage_traits_of(stage);
    return (optimizer == ZERO_TIER_device || traits->shards_optimizer) &&
           (parameters == ZERO_TIER_device || traits->shards_parameters);
}

// Finds the first change, least intrusive first, under which a plan with such windows and
// activation checkpoints fits: a higher stage, then states and then parameters on farther tiers,
// then a smaller micro-batch. Returns false if there is none.
static bool suggest_for(const zr_plan *plan, const zr_machine *machine, const zr_settings *with,
                        zero_shape shape, char *out, size_t size)
{
    static const zero_tier farther[][2] = {
        // optimizer, parameters
        {ZERO_TIER_device, ZERO_TIER_device}, {ZERO_TIER_host, ZERO_TIER_device},
        {ZERO_TIER_nvme, ZERO_TIER_device},   {ZERO_TIER_host, ZERO_TIER_host},
        {ZERO_TIER_nvme, ZERO_TIER_host},     {ZERO_TIER_nvme, ZERO_TIER_nvme},
    };
    char need[96];
    for (; shape.batch >= 1; shape.batch /= 2) {
        for (int i = 0; i < ZR_COUNT(farther); i++) {
            for (int stage = with->stage; stage < ZR_STAGE_COUNT; stage++) {
                zr_settings settings =
                    settings_with_farther_tiers(with, stage, farther[i][0], farther[i][1]);
                if (!stage_allows_tiers(stage, farther[i][0], farther[i][1]) ||
                    !would_fit(plan, machine, &settings, &shape, need, sizeof need))
                    continue;
                describe_fit(plan, &settings, &shape, need, out, size);
                return true;
            }
        }
    }
    return false;
}

// Returns whether that which keeps least in memory fits: one sample, and all states on NVMe.
static bool any_tier_would_fit(const zr_plan *plan, const zr_machine *machine,
                               const zr_settings *with, zero_shape shape)
{
    char need[96];
    shape.batch = 1;
    for (int tier = ZERO_TIER_nvme; tier >= ZERO_TIER_device; tier--) {
        zr_settings settings =
            settings_with_farther_tiers(with, ZR_STAGE_COUNT - 1, (zero_tier)tier, (zero_tier)tier);
        if (would_fit(plan, machine, &settings, &shape, need, sizeof need))
            return true;
    }
    return false;
}

enum { LEAST_WINDOW = 128 };

// The same with windows as they are, then with an activation checkpoint for each unit, too, then
// with shorter windows.
static bool suggest_more(const zr_plan *plan, const zr_machine *machine, char *out, size_t size)
{
    zr_settings settings = plan->settings;
    zero_shape shape = plan->shape;
    int64_t units = plan->model->unit_count - 1;
    bool open =
        !settings.inference && !machine->pipeline && settings.activation_checkpoints < units;
    do {
        if (any_tier_would_fit(plan, machine, &settings, shape))
            return suggest_for(plan, machine, &settings, shape, out, size);
        if (open && settings.activation_checkpoints < units)
            settings.activation_checkpoints = units;
        else
            shape.seq /= 2;
    } while (!settings.inference && shape.seq >= LEAST_WINDOW);
    return false;
}

bool zr_plan_suggest(const zr_plan *plan, const zr_machine *machine, char *out, size_t size)
{
    if (suggest_for(plan, machine, &plan->settings, plan->shape, out, size) ||
        suggest_more(plan, machine, out, size))
        return true;
    if (plan->settings.inference) // generation has only one rank
        snprintf(out, size,
                 "no offload of this model's parameters fits; a smaller model or larger budgets "
                 "(--device-memory, --host-memory) would");
    else // ranks of one machine share its memory
        snprintf(out, size,
                 "no stage, offload, micro-batch and window of this model fits; a smaller model "
                 "would, or more ranks on further machines");
    return false;
}

void zr_plan_describe_excess(const zr_plan *plan, const zr_machine *machine, char *out, size_t size)
{
    static const char *const budgets[] = {"on the device", "on the host", "on NVMe"};
    char need[ZR_BYTES_TEXT], more[ZR_BYTES_TEXT], limit[ZR_BYTES_TEXT];
    for (int t = 0; t < ZERO_TIER_COUNT; t++) {
        int64_t bytes = zr_plan_tier_bytes(plan, t), most = machine->tier_limit[t];
        if (most <= 0 || bytes <= most)
            continue;
        zr_bytes_text((double)bytes, need);
        zr_bytes_text((double)(bytes - most), more);
        zr_bytes_text((double)most, limit);
        snprintf(out, size, "%s a rank are needed %s, %s more than its budget of %s", need,
                 budgets[t], more, limit);
        return;
    }
    zr_bytes_text((double)bytes_in_memory(plan), need);
    zr_bytes_text((double)machine->memory_limit, limit);
    snprintf(out, size, "%s a rank are needed, %s are there (%s)", need, limit,
             machine->memory_reason);
}

zero_status zr_plan_check_memory(const zr_plan *plan, const zr_machine *machine, zero_error *error)
{
    char excess[256], advice[256];
    if (zr_plan_fits(plan, machine))
        return ZERO_OK;
    zr_plan_describe_excess(plan, machine, excess, sizeof excess);
    zr_plan_suggest(plan, machine, advice, sizeof advice);
    return zr_fail(
        error, ZERO_ERR_LIMIT, "planning %s, stage %d, %d rank%s, micro-batch %lld x %lld: %s; %s",
        plan->model->name, plan->settings.stage, plan->world, plan->world == 1 ? "" : "s",
        (long long)plan->shape.batch, (long long)plan->shape.seq, excess, advice);
}
