// How the ranks of a job are divided, by what a configuration, its flags and the facts say, and who
// says so.
#ifndef ZR_CONFIG_CONFIG_RANKS_H
#define ZR_CONFIG_CONFIG_RANKS_H

#include "config/config.h"

// The keys that divide ranks.
#define ZR_TENSOR_AUTOTP "tensor_parallel.autotp_size"
#define ZR_TENSOR_SIZE "tensor_parallel.tp.tp_size"
#define ZR_TENSOR_SEQUENCE "libzero.sequence_parallel"
#define ZR_PIPELINE_STAGES "pipeline.stages"
#define ZR_PIPELINE_PARTITION "pipeline.partition"
#define ZR_PIPELINE_INTERVAL "pipeline.activation_checkpoint_interval"
#define ZR_PIPELINE_SCHEDULE "libzero.pipeline.schedule"
#define ZR_PIPELINE_SPLIT "libzero.pipeline.split"
#define ZR_PIPELINE_FLUSH "libzero.pipeline.flush_every"

// Puts in facts->parallel; then fills world, tensor, ranks, exact_tensor and, of `pipeline`, the
// stages, the schedule and the split, from the keys and facts->world. It may be called before
// zr_config_resolve, once the flags are put in; with facts->world 0, world and ranks stay 0.
// Returns ZERO_ERR_CONFIG or ZERO_ERR_USAGE, with the numbers, if they contradict each other.
zero_status zr_config_find_ranks(zr_config *config, const zr_config_facts *facts,
                                 zero_error *error);

// Returns how the ranks of the job are divided, once they are found.
zr_job_grid zr_config_grid(const zr_config *config);
int zr_config_model_ranks(const zr_config *config); // ranks that compute one model

// Writes what so few micro-batches as a step of a resolved configuration has cost its pipeline, and
// how many would cost less. Returns false if they are enough, or there is no pipeline.
bool zr_config_pipeline_hint(const zr_config *config, char *out, size_t size);
// Refuses `flag`, which requests something at every `every`-th step (0, -1: never), where a
// pipeline whose steps overlap is not empty after each of them. The configuration is resolved.
zero_status zr_config_check_drain(const zr_config *config, const char *flag, int64_t every,
                                  zero_error *error);

// Writes what sets the slices of a resolved configuration that has some, for messages:
// "--tensor 2", "libzero.exact_tensor 4 (ds.json:1:20)".
void zr_config_describe_slices(const zr_config *config, char *out, size_t size);

#endif
