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
    bool any = said && strcmp(said, "cuda") == 0 && zr_cuda_card_count(NULL) == 0;
    return any ? "cuda:" ZR_CUDA_ANY_CARD : said;
}

zero_status zr_said_instructions(const char *said, char *out, size_t size, zero_error *error)
{
    const zr_backend *found;
    zr_queue *queue = NULL;
    snprintf(out, size, "unknown");
    ZERO_TRY(zr_said_backend_find(said, &found, error));
    if (!zr_backend_is_far(found)) { // no queue is needed to know
        snprintf(out, size, "%s", found->path());
        return ZERO_OK;
    }
    ZERO_TRY(zr_said_queue_open(said, 1, &queue, error));
    zero_status status = zr_queue_instructions(queue, out, size, error);
    zr_queue_close(queue);
    return status;
}

static bool is_said(const char *said, const char *name)
{
    return said && strncmp(said, name, strlen(name)) == 0;
}

bool zr_backend_is_card(const char *said) { return is_said(said, "cuda"); }

// Returns the part of a training that a card does not compute, or NULL.
static const char *refusal(const zr_config *config, const zr_lm_config *model, int ranks)
{
    const zr_settings settings = zr_settings_of(config, false);
    const zr_lm_shape shape = zr_lm_shape_of(model);
    if (ranks > 1)
        return "several ranks";
    if (model->base)
        return "weights in codes";
    if (shape.head_dim > ZR_CUDA_MOST_HEAD || shape.rotated > ZR_CUDA_MOST_ROTATED)
        return "heads of that many elements";
    return zr_far_refusal(&settings, model);
}

const char *zr_backend_of_auto(const zr_config *config, const zr_lm_config *model, int ranks,
                               zr_queue **card, char *reason)
{
    zero_error error = {0};
    char name[256];
    const char *what = refusal(config, model, ranks);
    *reason = 0;
    *card = NULL;
    if (zr_cuda_card_count(NULL) == 0)
        return "cpu";
    if (what) {
        snprintf(reason, ZERO_MESSAGE_BYTES, "cpu; the card of this machine does not train %s yet",
                 what);
        return "cpu";
    }
    zero_status status = zr_said_queue_open("cuda", 1, card, &error);
    if (status == ZERO_OK)
        status = zr_queue_instructions(*card, name, sizeof name, &error);
    if (status != ZERO_OK) {
        zr_queue_close(*card);
        *card = NULL;
        snprintf(reason, ZERO_MESSAGE_BYTES, "cpu; %.900s", error.message);
        return "cpu";
    }
    snprintf(reason, ZERO_MESSAGE_BYTES, "cuda (%.*s); --backend cpu for the processor",
             (int)strcspn(name, ","), name);
    return "cuda";
}
