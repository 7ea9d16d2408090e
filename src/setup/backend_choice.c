#include "setup/backend_choice.h"

#include "cuda/cards.h"
#include "engine/far_check.h"
#include "setup/run_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void zr_backend_configure(const zr_config *config)
{
    const zr_setting *folders = zr_config_setting(config, "libzero.cuda_libraries");
    zr_cuda_look_in(folders ? json_string_value(folders->value) : NULL);
}

zero_status zr_said_backend_find(const char *said, const zr_backend **out, zero_error *error)
{
    zr_cuda_offer();
    return zr_backend_find(said ? said : "cpu", NULL, out, error);
}

zero_status zr_said_queue_open(const char *said, int threads, zr_queue **out, zero_error *error)
{
    zr_cuda_offer();
    return zr_queue_open(said ? said : "cpu", NULL, threads, out, error);
}

const char *zr_planned_backend(const char *said)
{
    bool any = said && strcmp(said, "cuda") == 0 && zr_cuda_card_count() == 0;
    return any ? "cuda:" ZR_CUDA_ANY_CARD : said;
}

// Writes "13.0", and of cuBLASLt, which counts in hundreds, "13.1.0".
static void write_version(int version, char *out, size_t size)
{
    if (version >= 100000)
        snprintf(out, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(out, size, "%d.%d", version / 1000, version / 10 % 100);
}

static void describe_card(const zr_cuda_card_fact *card, char *out, size_t size)
{
    char driver[24], blas[24], nvrtc[24];
    write_version(card->driver, driver, sizeof driver);
    write_version(card->cublaslt, blas, sizeof blas);
    write_version(card->nvrtc, nvrtc, sizeof nvrtc);
    snprintf(out, size, "%s, sm_%d, driver %s, cuBLASLt %s, NVRTC %s", card->name, card->capability,
             driver, blas, nvrtc);
}

zero_status zr_said_instructions(const char *said, char *out, size_t size, zero_error *error)
{
    const zr_backend *found;
    zr_cuda_card_fact card;
    snprintf(out, size, "unknown");
    ZERO_TRY(zr_said_backend_find(said, &found, error));
    if (!zr_backend_is_far(found)) {
        snprintf(out, size, "%s", found->path());
        return ZERO_OK;
    }
    ZERO_TRY(zr_cuda_card_look(atoi(found->path()), &card, error));
    describe_card(&card, out, size);
    return ZERO_OK;
}

static bool is_said(const char *said, const char *name)
{
    return said && strncmp(said, name, strlen(name)) == 0;
}

bool zr_backend_may_be_card(const char *said, int ranks)
{
    return is_said(said, "cuda") || (is_said(said, "auto") && ranks == 1 && zr_cuda_card_count());
}

// Returns the part of a training that a card does not compute, or NULL.
static const char *refusal(const zr_config *config, const zr_lm_config *model, int ranks)
{
    const zr_settings settings = zr_settings_of(config, false);
    const char *what = zr_far_refusal(&settings, model);
    if (ranks > 1)
        return "several ranks on one card";
    return !what && model->base ? "weights in codes" : what;
}

const char *zr_backend_of_auto(const zr_config *config, const zr_lm_config *model, int ranks,
                               char *reason)
{
    zr_cuda_card_fact card;
    zero_error error = {0};
    const char *what = refusal(config, model, ranks);
    *reason = 0;
    if (zr_cuda_card_count() == 0)
        return "cpu";
    if (what)
        snprintf(reason, ZERO_MESSAGE_BYTES, "cpu; the card of this machine does not train %s yet",
                 what);
    else if (zr_cuda_card_look(0, &card, &error) != ZERO_OK)
        snprintf(reason, ZERO_MESSAGE_BYTES, "cpu; %.900s", error.message);
    else
        snprintf(reason, ZERO_MESSAGE_BYTES, "cuda (%s); --backend cpu for the processor",
                 card.name);
    return is_said(reason, "cuda") ? "cuda" : "cpu";
}
