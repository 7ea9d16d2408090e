// The part of `zero doctor` about NVIDIA's cards: the libraries that they take, and the cards.
#include "commands/doctor_report.h"
#include "cuda/cards.h"

#include <stdio.h>

static void report_library(zr_doctor *d, zr_cuda_library which, bool wanted)
{
    static const char *const keys[] = {"driver", "cublaslt", "nvrtc"};
    static const char *const labels[] = {"NVIDIA", "  cuBLASLt", "  NVRTC"};
    zr_report *r = d->report;
    zr_cuda_library_fact fact;
    char version[32];
    zr_cuda_library_look(which, &fact);
    zr_cuda_version_text(fact.version, version, sizeof version);
    zr_report_begin(r, keys[which]);
    if (fact.found)
        ZR_SENTENCE(r, labels[which],
                    which == ZR_CUDA_DRIVER ? "driver of CUDA {version}, \"{path}\""
                                            : "{version}, \"{path}\"",
                    zr_text(version), zr_text(fact.path));
    else
        ZR_SENTENCE(r, labels[which], "{error} (only needed for NVIDIA's cards)",
                    zr_text(fact.why));
    zr_report_end(r);
    if (!fact.found && wanted)
        zr_doctor_lacks(d, false, fact.name, "for the cards of NVIDIA");
}

static void report_card(zr_report *r, int number)
{
    char label[32];
    zr_cuda_card_fact card;
    zero_error error = {0};
    snprintf(label, sizeof label, "  cuda:%d", number);
    zr_report_begin(r, NULL);
    zr_report_json_only(r, "backend", zr_text(label + 2));
    if (zr_cuda_card_look(number, &card, &error) == ZERO_OK)
        ZR_SENTENCE(r, label,
                    "{name}, compute capability {capability:.1}, {multiprocessors} "
                    "multiprocessors, {unused_bytes:.1G} of {bytes:.1G} GB unused[; {warning}]",
                    zr_text(card.name), zr_real(card.capability / 10.0),
                    zr_integer(card.multiprocessors), zr_integer(card.unused), zr_integer(card.all),
                    *card.warning ? zr_text(card.warning) : zr_absent());
    else
        ZR_SENTENCE(r, label, "{error}", zr_text(error.message));
    zr_report_end(r);
}

void zr_doctor_cards(zr_doctor *d)
{
    zr_report *r = d->report;
    zr_cuda_library_fact driver;
    zero_error error = {0};
    const int count = zr_cuda_card_count(&error);
    zr_report_begin(r, "nvidia");
    for (int i = 0; i < ZR_CUDA_LIBRARIES; i++)
        report_library(d, (zr_cuda_library)i, count > 0);
    zr_report_begin_list(r, "cards");
    for (int i = 0; i < count; i++)
        report_card(r, i);
    zr_report_end(r);
    zr_cuda_library_look(ZR_CUDA_DRIVER, &driver);
    if (driver.found && count == 0)
        ZR_SENTENCE(r, "  cards", "none: {error}", zr_text(error.message));
    zr_report_end(r);
}
