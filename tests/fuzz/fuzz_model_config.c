// config.json of a model. One that is accepted is written to a file that says the same.
#include "fuzz.h"

#include "model/architecture.h"

#include <string.h>

static bool same_shape(const zr_lm_config *a, const zr_lm_config *b)
{
    const zr_lm_shape x = zr_lm_shape_of(a), y = zr_lm_shape_of(b);
    return a->kind == b->kind && x.width == y.width && x.vocab == y.vocab && x.layers == y.layers &&
           x.positions == y.positions && a->labels.count == b->labels.count &&
           !memcmp(a->labels.text, b->labels.text, (size_t)a->labels.bytes);
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_lm_config config, again;
    zr_buffer text = {0};
    ZERO_TRY(zr_lm_config_read(fuzz_put("config.json", data, size), &config, error));
    zr_lm_config_write(&config, &text);
    zero_status status = text.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of a model")
                             : ZERO_OK;
    if (status == ZERO_OK)
        status = zr_lm_config_read(fuzz_put("config.json", text.data, text.length), &again, error);
    fuzz_must(status == ZERO_ERR_MEMORY || (status == ZERO_OK && same_shape(&again, &config)));
    zr_buffer_free(&text);
    return status;
}
