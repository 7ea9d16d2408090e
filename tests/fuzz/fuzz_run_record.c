// config.json of a run, and the state of a training in a checkpoint's manifest (as one object). A
// record that says how a run was made is written to one that says the same.
#include "fuzz.h"

#include "checkpoint/run_record.h"

#include <math.h>
#include <string.h>

static bool same_text(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static void check_same(const zr_run_record *a, const zr_run_record *b)
{
    fuzz_must(same_text(a->new_spec, b->new_spec));
    fuzz_must(a->new_spec || same_text(a->model, b->model));
    fuzz_must(same_text(a->tokenizer, b->tokenizer) && same_text(a->val, b->val));
    fuzz_must(a->ranks == b->ranks && a->steps == b->steps && a->tensor == b->tensor &&
              a->stages == b->stages && a->data_count == b->data_count);
    for (int i = 0; i < a->data_count; i++)
        fuzz_must(same_text(a->data[i], b->data[i]));
}

static zero_status write_again(const zr_run_record *record, zero_error *error)
{
    zr_buffer text = {0};
    zr_run_config_file again = {0};
    zr_buffer_printf(&text, "{\"libzero\": {\"run\": ");
    zr_run_record_write(record, &text);
    zr_buffer_printf(&text, "}}");
    zero_status status = ZERO_OK;
    if (text.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "no memory for a run's record");
    else
        fuzz_put("config.json", text.data, text.length);
    if (status == ZERO_OK)
        status = zr_run_config_read(fuzz_directory(), &again, error);
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY);
    if (status == ZERO_OK)
        check_same(record, &again.run);
    zr_run_config_free(&again);
    zr_buffer_free(&text);
    return status;
}

static void check_state(const json_t *root)
{
    zr_run_state state, again;
    if (!zr_run_state_read(root, &state) || !state.data_hash)
        return;
    fuzz_must(state.tensor >= 1 && state.stages >= 1);
    json_t *packed = zr_run_state_pack(&state);
    if (packed && zr_run_state_read(packed, &again))
        fuzz_must(again.seq == state.seq && again.ranks == state.ranks &&
                  again.tensor == state.tensor && again.stages == state.stages &&
                  (again.best == state.best || !isfinite(state.best)));
    json_decref(packed);
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_run_config_file config = {0};
    zr_run_before before;
    fuzz_put("config.json", data, size);
    zero_status status = zr_run_config_read(fuzz_directory(), &config, error);
    zr_run_before_read(fuzz_directory(), &before);
    if (status == ZERO_OK) {
        check_state(config.root);
        fuzz_must(config.run.tensor >= 1 && config.run.stages >= 1);
        status = zr_run_config_check(&config, error);
    }
    if (status == ZERO_OK)
        status = write_again(&config.run, error);
    zr_run_config_free(&config);
    return status;
}
