// A model with any number of equal blocks between an embedding and a head that borrows its flat
// parameter, for plans without arithmetic.
#ifndef TEST_PLAN_FIXTURE_H
#define TEST_PLAN_FIXTURE_H

#include "plan/plan.h"

#define FIXTURE_MAX_BLOCKS 64

typedef struct fixture {
    zero_tensor_desc tensors[3 * FIXTURE_MAX_BLOCKS + 3];
    char names[3 * FIXTURE_MAX_BLOCKS + 3][32];
    char unit_names[FIXTURE_MAX_BLOCKS + 2][16];
    zero_flat_param_desc flat_params[3 * FIXTURE_MAX_BLOCKS + 3];
    zero_unit units[FIXTURE_MAX_BLOCKS + 2];
    zero_flat_param_ref borrowed[2];
    zero_model model;
} fixture;

extern const zr_tiering fixture_on_nvme, fixture_on_host; // parameters and states

// Builds the model. embedding: (vocab, width); block: (width, 4*width) and a bias (4*width); head:
// (width) and the borrowed embedding.
void fixture_build(fixture *f, int blocks, int64_t vocab, int64_t width);
// Builds the part of a model of fixture_build that tensor rank `rank` of `ranks` holds: rows of the
// embedding, of which the last ranks may have none, columns of weights and elements of biases. The
// head's own tensor is whole. `whole` must outlive it.
void fixture_cut(fixture *f, const fixture *whole, int rank, int ranks);
// Plans what fixture_cut has built, stage by stage, with `data` ranks that map.
zr_plan *fixture_plan_cut(const fixture *f, int stage, int data, int rank, int ranks);
// Plans the same with these settings.
zr_plan *fixture_plan_set(const fixture *f, const zr_settings *settings, int data, int rank,
                          int ranks);
// Builds the model of fixture_build with the embedding in two streamed flat parameters, which the
// head borrows, and each block's weight in two, in addition to a flat parameter that stays.
void fixture_build_streamed(fixture *f, int blocks, int64_t vocab, int64_t width);
// Plans stage 3 on several machines whose ranks share what they gather. kept: it stays for a whole
// step (zero_hpz_partition_size).
zr_plan *fixture_plan_on_machines(const fixture *f, int ranks, int machine_ranks, bool kept);
// Plans the same with these settings.
zr_plan *fixture_plan_shared(const fixture *f, const zr_settings *settings, int ranks,
                             int machine_ranks);
// Plans in bf16 on one machine, with states on tiers.
zr_plan *fixture_plan_on_tiers(const fixture *f, int stage, int ranks, int64_t accumulation,
                               const zr_tiering *tiering);
// Returns settings with everything on the device.
zr_settings fixture_settings(zero_dtype dtype, int stage, int64_t accumulation);
zr_plan *fixture_plan_of(const fixture *f, const zr_settings *settings, int ranks, bool mapped);
zr_plan *fixture_plan_in(const fixture *f, zero_dtype dtype, int stage, int ranks,
                         int64_t accumulation, bool mapped);
zr_plan *fixture_plan(const fixture *f, int stage, int ranks, int64_t accumulation, bool mapped);
// Plans stage 3 as a configuration says, in bf16 on 2 ranks, with states and parameters on the
// host.
zr_plan *fixture_plan_as_said(const fixture *f, const char *said);
// Calls `check` for plans of all stages, over numbers of blocks, ranks and micro-batches, and
// types.
void fixture_for_stages(void (*check)(const zr_plan *plan));

#endif
