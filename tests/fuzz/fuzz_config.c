// The configuration: DeepSpeed's JSON with comments and trailing commas. One that resolves is
// written to a file that resolves to the same.
#include "fuzz.h"

#include "config/config.h"

static zero_status resolve(const char *text, size_t size, zr_config **out, zero_error *error)
{
    const zr_config_facts facts = {.world = 4,
                                   .micro_batch = 2,
                                   .total_steps = 100,
                                   .hidden = 64,
                                   .lr = 1e-3,
                                   .auto_dtype = ZERO_F32};
    ZERO_TRY(zr_config_parse(text, size, "ds.json", out, error));
    ZERO_TRY(zr_config_defaults_apply(*out, &facts, NULL, error));
    return zr_config_resolve(*out, &facts, NULL, error);
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_config *config = NULL, *again = NULL;
    zr_buffer text = {0};
    zero_status status = resolve((const char *)data, size, &config, error);
    if (status == ZERO_OK) {
        fuzz_must(config->stage >= 0 && config->stage <= 3 &&
                  config->train_batch == config->micro_batch * config->accumulation * 4);
        if (zr_config_check_schedule(config, NULL) == ZERO_OK &&
            config->schedule.kind == ZR_SCHEDULE_OWN_WSD)
            fuzz_must(config->schedule.warmup_steps + config->schedule.decay_steps <=
                      config->schedule.total_steps);
        zr_config_write(config, &text);
        if (text.failed)
            status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of the configuration");
        else
            status = resolve(text.data, text.length, &again, error);
        fuzz_must(status == ZERO_ERR_MEMORY ||
                  (status == ZERO_OK && again->train_batch == config->train_batch &&
                   again->stage == config->stage));
    }
    zr_buffer_free(&text);
    zr_config_destroy(config);
    zr_config_destroy(again);
    return status;
}
