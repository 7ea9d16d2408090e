// Names of the keys that config/ asks for by name, where pipelines are settled and checked.
#ifndef ZR_CONFIG_PIPELINE_KEYS_H
#define ZR_CONFIG_PIPELINE_KEYS_H

#define ZR_PIPELINE_STAGES "pipeline.stages"
#define ZR_PIPELINE_PARTITION "pipeline.partition"
#define ZR_PIPELINE_INTERVAL "pipeline.activation_checkpoint_interval"
#define ZR_PIPELINE_SCHEDULE "libzero.pipeline.schedule"
#define ZR_PIPELINE_SPLIT "libzero.pipeline.split"
#define ZR_PIPELINE_FLUSH "libzero.pipeline.flush_every"

#endif
