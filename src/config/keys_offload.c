// Rows of placement: the offload sections, what stage 3 keeps on the device, asynchronous I/O and
// the budgets.
#include "config/key_rows.h"

#define Z "zero_optimization."
#define P Z "offload_param."
#define O Z "offload_optimizer."
#define PARAM_DEVICE P "device"
#define OPTIMIZER_DEVICE O "device"
#define DELAYED "libzero.delayed_update.start_step"
#define PINNED                                                                                     \
    "the memory of this backend's host is the processor's own: there is nothing to pin it for"

// clang-format off
const zr_key zr_keys_offload[] = {
    KEY(ENUM, PARAM_DEVICE, "none", FIELD(offload.parameters), .choices = "none|cpu|nvme",
        .help = "where a rank's shard of the parameters lies, at stage 3; units are gathered to "
                "the device as they are needed"),
    KEY(ANY, P "nvme_path", "null", .nullable = true, .needs = PARAM_DEVICE,
        .help = "a directory for parameters, or a list of directories, over which they are "
                "striped"),
    KEY(INT, P "buffer_count", "5", .least = 1, .needs = PARAM_DEVICE,
        FIELD(offload.parameter_buffers),
        .help = "buffer_count x buffer_size elements are on their way from NVMe at most; the next "
                "unit always fits"),
    KEY(INT, P "buffer_size", "1e8", .least = 1, .needs = PARAM_DEVICE,
        FIELD(offload.parameter_buffer_elems),
        .help = "elements of a buffer between NVMe and device; the plan takes what the model "
                "needs, and less than this where that is enough"),
    KEY(INT, P "max_in_cpu", "0", .needs = PARAM_DEVICE, FIELD(offload.in_host),
        .help = "with nvme: elements of parameters that stay on the host (DeepSpeed's default is "
                "1e9)"),
    KEY(BOOL, P "pin_memory", "true", NO_EFFECT(PINNED), .help = "page-locked host memory"),
    KEY(ENUM, OPTIMIZER_DEVICE, "none", FIELD(offload.optimizer), .choices = "none|cpu|nvme",
        .help = "where master weights, optimizer states and accumulated gradients lie, at stages 1 "
                "to 3; they are updated from the host"),
    KEY(ANY, O "nvme_path", "null", .nullable = true, .needs = OPTIMIZER_DEVICE,
        .help = "a directory for gradients and optimizer states, or a list of directories, over "
                "which they are striped"),
    KEY(INT, O "buffer_count", "4", .least = 1, .needs = OPTIMIZER_DEVICE,
        FIELD(offload.optimizer_buffers),
        .help = "sub-groups in memory at most, where states are on NVMe: 3 are read, updated and "
                "written at once, more are not needed"),
    KEY(BOOL, O "pin_memory", "true", NO_EFFECT(PINNED), .help = "page-locked host memory"),
    KEY(BOOL, O "pipeline_read", "true", .needs = OPTIMIZER_DEVICE, FIELD(offload.read_ahead),
        .help = "with nvme: read the next sub-group while one is updated (DeepSpeed's default is "
                "false)"),
    KEY(BOOL, O "pipeline_write", "true", .needs = OPTIMIZER_DEVICE, FIELD(offload.write_behind),
        .help = "with nvme: write a sub-group while the next is updated (DeepSpeed's default is "
                "false)"),
    KEY(BOOL, O "fast_init", "false",
        NO_EFFECT("states that begin as zeros are never written at the start"),
        .help = "quicker start with NVMe"),
    KEY(NUMBER, O "ratio", "1.0", .most = 1, .needs = OPTIMIZER_DEVICE, FIELD(offload.ratio),
        .help = "part of the elements whose states are offloaded; the others are updated on the "
                "device (Twin-Flow), stage 3"),
    KEY(BOOL, O "super_offload", "false", REFUSED("false", "it is made for superchips with a GPU"),
        .help = "offload on superchips"),
    KEY(NUMBER, O "cpuadam_cores_perc", "0.8", .most = 1, NO_EFFECT("it belongs to super_offload"),
        .help = "part of the cores for host updates"),
    KEY(BOOL, Z "cpu_offload", NULL,
        RENAMED(OPTIMIZER_DEVICE, "deprecated: true is the device cpu"),
        .help = "the older way to offload optimizer states"),
    KEY(BOOL, Z "cpu_offload_param", NULL,
        RENAMED(PARAM_DEVICE, "deprecated: true is the device cpu"),
        .help = "the older way to offload parameters"),
    KEY(BOOL, Z "cpu_offload_use_pin_memory", "null", .nullable = true,
        NO_EFFECT("it is deprecated and has no successor"),
        .help = "page-locked host memory"),
    KEY(INT, Z "sub_group_size", "1e9", FIELD(offload.sub_group),
        .help = "elements updated at a time, at most; where they travel to and from NVMe never "
                "more than 1048576, which keeps the disk busy; 0: each parameter by itself (those "
                "that share 2048 elements go together)"),
    KEY(INT, Z "stage3_param_persistence_threshold", "1e5", FIELD(offload.persistent),
        .help = "offloaded flat parameters (a unit's) below so many elements stay on the device "
                "until the weights change"),
    KEY(INT, Z "stage3_model_persistence_threshold", "max", FIELD(offload.persistent_most),
        .help = "elements that stay on the device so, at most"),
    KEY(INT, Z "stage3_max_live_parameters", "1e9", FIELD(offload.live),
        .help = "gathered elements at a time, at most: above it nothing is gathered ahead; one "
                "unit is always gathered completely, with 0 too"),
    KEY(INT, Z "stage3_max_reuse_distance", "0", FIELD(offload.reuse),
        .help = "a unit that is gathered stays for its backward where at most so many elements are "
                "gathered in between, and stage3_max_live_parameters allows it (DeepSpeed's "
                "default is 1e9, which keeps most models completely gathered)"),
    KEY(INT, "aio.block_size", "1048576", .above = true, FIELD(offload.block),
        .help = "bytes of one transfer to or from NVMe, at most; a multiple of 4096, the next "
                "below where there is one"),
    KEY(INT, "aio.queue_depth", "8", .above = true, FIELD(offload.queue_depth),
        .help = "transfers under way on each of intra_op_parallelism threads; more than 256 is "
                "256"),
    KEY(INT, "aio.intra_op_parallelism", "1", .above = true, FIELD(offload.lanes),
        .help = "threads that submit transfers and compare checksums; more than 16 is 16"),
    KEY(BOOL, "aio.single_submit", "false", FIELD(offload.single_submit),
        .help = "a system call for each transfer, instead of one for all that are ready"),
    KEY(BOOL, "aio.overlap_events", "true", FIELD(offload.overlap_events),
        .help = "begin a transfer as soon as another ends; false: when all that are under way have "
                "ended"),
    KEY(BOOL, "aio.use_gds", "false", REFUSED("false", "GPUDirect Storage needs a GPU"),
        .help = "GPUDirect Storage"),
    KEY(ENUM, "libzero.checkpoints.device", "none", FIELD(offload.activation_checkpoint_tier),
        .choices = "none|cpu|nvme",
        .help = "where activation checkpoints are kept: none is the device, cpu the same as "
                "activation_checkpointing.cpu_checkpointing"),
    KEY(ANY, "libzero.checkpoints.nvme_path", "null", .nullable = true,
        .needs = "libzero.checkpoints.device",
        .help = "a directory for activation checkpoints, or a list of directories"),
    KEY(INT, "libzero.tiling", NULL, .above = true,
        RENAMED("libzero.tiling.all", "one number is for every operator"),
        .help = "the same as libzero.tiling.all"),
    KEY(INT, "libzero.tiling.all", "1", .above = true, .most = 256, FIELD(offload.tiles),
        .help = "tiles into which the weight of each large operator is cut, which come and go one "
                "by one; other bits than without"),
    KEY(INT, "libzero.tiling.embedding", "null", .nullable = true, .above = true, .most = 256,
        FIELD(offload.tiles_embedding),
        .help = "tiles of the table of tokens, which embedding and head share; null: as all"),
    KEY(INT, "libzero.tiling.attention", "null", .nullable = true, .above = true, .most = 256,
        FIELD(offload.tiles_attention),
        .help = "tiles of each of the attention's weights; null: as all"),
    KEY(INT, "libzero.tiling.mlp", "null", .nullable = true, .above = true, .most = 256,
        FIELD(offload.tiles_mlp),
        .help = "tiles of each of the MLP's weights; null: as all"),
    KEY(ENUM, "libzero.offload", "given", FIELD(offload.automatic), .choices = "given|auto",
        .help = "auto: stage, offload devices, sub-groups and tiles that the file leaves open are "
                "chosen by budgets, measured bandwidths and the least predicted step"),
    KEY(ANY, "libzero.nvme_path", "null", .nullable = true,
        .help = "a directory, or a list of directories, for what goes to NVMe where its own "
                "section names none; with offload auto: that states may be put into"),
    KEY(INT, DELAYED, "null", .nullable = true, .above = true, FIELD(offload.delayed_from),
        .help = "from this step on the update of a step is made while the next step computes, with "
                "parameters one update old (ZeRO-Offload 5.2); with offload_optimizer"),
    KEY(BYTES, "libzero.device_memory", "null", .nullable = true, FIELD(offload.device_memory),
        .help = "what a rank may hold on its device (\"512MB\", or bytes; --device-memory); null: "
                "what the machine has"),
    KEY(BYTES, "libzero.host_memory", "null", .nullable = true, FIELD(offload.host_memory),
        .help = "what the ranks of a machine may hold on its host, in equal parts (--host-memory); "
                "null: what the machine has"),
};
// clang-format on
const int zr_keys_offload_count = ZR_COUNT(zr_keys_offload);
