// config.json of a model. What is taken is written to a file that says the same.
#include "fuzz.h"

#include "model/gpt2.h"

#include <string.h>

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zero_gpt2_config config, again;
    zr_buffer text = {0};
    ZERO_TRY(zr_gpt2_config_read(fuzz_put("config.json", data, size), &config, error));
    zr_gpt2_config_write(&config, &text);
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY, "no memory for the text of a model") : ZERO_OK;
    if (status == ZERO_OK)
        status = zr_gpt2_config_read(fuzz_put("config.json", text.data, text.length), &again, error);
    fuzz_must(status == ZERO_ERR_MEMORY || (status == ZERO_OK && again.n_embd == config.n_embd && again.vocab_size == config.vocab_size));
    zr_buffer_free(&text);
    return status;
}
