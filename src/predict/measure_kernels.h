// How long the operations of a plan take here, while as many ranks of the machine work at once: its
// units are called with the kernels that compute (predict/harness.h), the update walks over states,
// and ranks exchange shards. For predictions of a step (predict/forecast.h).
#ifndef ZR_PREDICT_MEASURE_KERNELS_H
#define ZR_PREDICT_MEASURE_KERNELS_H

#include "compute/compute.h"
#include "plan/plan.h"
#include "predict/rates.h"

typedef struct zr_unit_rates_question {
    const zr_plan *plan;
    const char *backend;   // as zr_queue_open takes it
    int together;          // ranks of this machine that work at once; 0: 1
    double seconds;        // about so long, in all; 0: 1
    zr_update_kind update; // of the plan's optimizer
    // On the disk of the NVMe tiers; NULL if no disk is to be measured.
    const char *directory;
    const zero_logger *logger;
} zr_unit_rates_question;

// Finds the setting of the rates of ranks with `threads` threads each, `together` of them on a
// machine, that store in this type.
// ZERO_ERR_USAGE, ZERO_ERR_UNSUPPORTED: there is no such backend.
zero_status zr_unit_rates_setting(const char *backend, zero_dtype dtype, int threads, int together,
                                  zr_rate_setting *out, zero_error *error);
// Measures what `known` lacks (NULL: everything), and adds it to the setting's rates in `found`,
// another book; not collective, because threads of this process stand for the ranks. A unit whose
// calls would take too long gets fewer samples, then shorter ones. What is known of exactly these
// operations is not measured again; a unit for which there is no memory is left out, which a
// warning says. ZERO_ERR_UNSUPPORTED: the units are a program's own. ZERO_ERR_MEMORY, ZERO_ERR_IO.
zero_status zr_unit_rates_measure(const zr_unit_rates_question *question, const zr_rate_book *known,
                                  zr_rate_book *found, zero_error *error);

#endif
