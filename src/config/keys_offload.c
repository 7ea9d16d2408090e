// Rows of what lies where: the offload sections, what stage 3 keeps on the device, asynchronous I/O and the budgets.
#include "config/config.h"

#define Z "zero_optimization."
#define P Z "offload_param."
#define O Z "offload_optimizer."
#define PARAM_DEVICE P "device"
#define OPTIMIZER_DEVICE O "device"
#define PINNED "the memory of this backend's host is the processor's own: there is nothing to pin it for"

const zr_key zr_keys_offload[] = {
    {.path = PARAM_DEVICE, .type = ZR_KEY_ENUM, .choices = "none|cpu|nvme", .standard = "none", .field = offsetof(zr_config, offload.parameters),
     .help = "where a rank's shard of the parameters lies, at stage 3; units are gathered to the device as they are needed"},
    {.path = P "nvme_path", .type = ZR_KEY_ANY, .standard = "null", .nullable = true, .needs = PARAM_DEVICE,
     .help = "a directory for parameters, or a list of directories, over which they are striped"},
    {.path = P "buffer_count", .type = ZR_KEY_INT, .standard = "5", .least = 1, .needs = PARAM_DEVICE, .field = offsetof(zr_config, offload.parameter_buffers),
     .help = "buffer_count x buffer_size elements are on their way from NVMe at most; the next unit always fits"},
    {.path = P "buffer_size", .type = ZR_KEY_INT, .standard = "1e8", .least = 1, .needs = PARAM_DEVICE, .field = offsetof(zr_config, offload.parameter_buffer_elems),
     .help = "elements of a buffer between NVMe and device; the plan takes what the model needs, and less than this where that is enough"},
    {.path = P "max_in_cpu", .type = ZR_KEY_INT, .standard = "0", .needs = PARAM_DEVICE, .field = offsetof(zr_config, offload.in_host),
     .help = "with nvme: elements of parameters that stay on the host (DeepSpeed's default is 1e9)"},
    {.path = P "pin_memory", .type = ZR_KEY_BOOL, .standard = "true", .treatment = ZR_KEY_NO_EFFECT, .reason = PINNED, .help = "page-locked host memory"},
    {.path = OPTIMIZER_DEVICE, .type = ZR_KEY_ENUM, .choices = "none|cpu|nvme", .standard = "none", .field = offsetof(zr_config, offload.optimizer),
     .help = "where master weights, optimizer states and accumulated gradients lie, at stages 1 to 3; they are updated from the host"},
    {.path = O "nvme_path", .type = ZR_KEY_ANY, .standard = "null", .nullable = true, .needs = OPTIMIZER_DEVICE,
     .help = "a directory for gradients and optimizer states, or a list of directories, over which they are striped"},
    {.path = O "buffer_count", .type = ZR_KEY_INT, .standard = "4", .least = 1, .needs = OPTIMIZER_DEVICE, .field = offsetof(zr_config, offload.optimizer_buffers),
     .help = "sub-groups in memory at most, where states are on NVMe: 3 are read, updated and written at once, more are not needed"},
    {.path = O "pin_memory", .type = ZR_KEY_BOOL, .standard = "true", .treatment = ZR_KEY_NO_EFFECT, .reason = PINNED, .help = "page-locked host memory"},
    {.path = O "pipeline_read", .type = ZR_KEY_BOOL, .standard = "true", .needs = OPTIMIZER_DEVICE, .field = offsetof(zr_config, offload.read_ahead),
     .help = "with nvme: read the next sub-group while one is updated (DeepSpeed's default is false)"},
    {.path = O "pipeline_write", .type = ZR_KEY_BOOL, .standard = "true", .needs = OPTIMIZER_DEVICE, .field = offsetof(zr_config, offload.write_behind),
     .help = "with nvme: write a sub-group while the next is updated (DeepSpeed's default is false)"},
    {.path = O "fast_init", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_NO_EFFECT,
     .reason = "states that begin as zeros are never written at the start", .help = "quicker start with NVMe"},
    {.path = O "ratio", .type = ZR_KEY_NUMBER, .standard = "1.0", .most = 1, .needs = OPTIMIZER_DEVICE, .field = offsetof(zr_config, offload.ratio),
     .help = "part of the elements whose states are offloaded; the others are updated on the device (Twin-Flow), stage 3"},
    {.path = O "super_offload", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_REFUSED, .allowed = "false",
     .reason = "it is made for superchips with a GPU", .help = "offload on superchips"},
    {.path = O "cpuadam_cores_perc", .type = ZR_KEY_NUMBER, .standard = "0.8", .most = 1, .treatment = ZR_KEY_NO_EFFECT,
     .reason = "it belongs to super_offload", .help = "part of the cores for host updates"},
    {.path = Z "cpu_offload", .type = ZR_KEY_BOOL, .treatment = ZR_KEY_RENAMED, .becomes = OPTIMIZER_DEVICE,
     .reason = "deprecated: true is the device cpu", .help = "the older way to offload optimizer states"},
    {.path = Z "cpu_offload_param", .type = ZR_KEY_BOOL, .treatment = ZR_KEY_RENAMED, .becomes = PARAM_DEVICE,
     .reason = "deprecated: true is the device cpu", .help = "the older way to offload parameters"},
    {.path = Z "cpu_offload_use_pin_memory", .type = ZR_KEY_BOOL, .standard = "null", .nullable = true,
     .treatment = ZR_KEY_NO_EFFECT, .reason = "it is deprecated and has no successor", .help = "page-locked host memory"},
    {.path = Z "sub_group_size", .type = ZR_KEY_INT, .standard = "1e9", .above = true, .field = offsetof(zr_config, offload.sub_group),
     .help = "elements updated at a time, at most; where they travel to and from NVMe never more than 1048576, which keeps the disk busy"},
    {.path = Z "stage3_param_persistence_threshold", .type = ZR_KEY_INT, .standard = "1e5", .field = offsetof(zr_config, offload.persistent),
     .help = "offloaded pieces (a unit's parameters) below so many elements stay on the device until the weights change"},
    {.path = Z "stage3_model_persistence_threshold", .type = ZR_KEY_INT, .standard = "max", .field = offsetof(zr_config, offload.persistent_most),
     .help = "elements that stay on the device so, at most"},
    {.path = Z "stage3_max_live_parameters", .type = ZR_KEY_INT, .standard = "1e9", .least = 1, .field = offsetof(zr_config, offload.live),
     .help = "gathered elements at a time, at most: above it nothing is gathered ahead; one unit is always whole"},
    {.path = Z "stage3_max_reuse_distance", .type = ZR_KEY_INT, .standard = "1e9", .treatment = ZR_KEY_NO_EFFECT,
     .reason = "what is gathered stays for one visit, or until the weights change (stage3_param_persistence_threshold)",
     .help = "keep what is needed again within so many elements"},

    {.path = "aio.block_size", .type = ZR_KEY_INT, .standard = "1048576", .above = true, .field = offsetof(zr_config, offload.block),
     .help = "bytes of one transfer to or from NVMe, at most; a multiple of 4096, the next below where there is one"},
    {.path = "aio.queue_depth", .type = ZR_KEY_INT, .standard = "8", .above = true, .field = offsetof(zr_config, offload.queue_depth),
     .help = "transfers under way on each of intra_op_parallelism threads; more than 256 is 256"},
    {.path = "aio.intra_op_parallelism", .type = ZR_KEY_INT, .standard = "1", .above = true, .field = offsetof(zr_config, offload.lanes),
     .help = "threads that submit transfers and compare checksums; more than 16 is 16"},
    {.path = "aio.single_submit", .type = ZR_KEY_BOOL, .standard = "false", .field = offsetof(zr_config, offload.single_submit),
     .help = "a system call for each transfer, instead of one for all that are ready"},
    {.path = "aio.overlap_events", .type = ZR_KEY_BOOL, .standard = "true", .field = offsetof(zr_config, offload.overlap_events),
     .help = "begin a transfer as soon as another ends; false: when all that are under way have ended"},
    {.path = "aio.use_gds", .type = ZR_KEY_BOOL, .standard = "false", .treatment = ZR_KEY_REFUSED, .allowed = "false",
     .reason = "GPUDirect Storage needs a GPU", .help = "GPUDirect Storage"},

    {.path = "libzero.device_memory", .type = ZR_KEY_BYTES, .standard = "null", .nullable = true, .field = offsetof(zr_config, offload.device_memory),
     .help = "what a rank may hold on its device (\"512MB\", or bytes; --device-memory); null: what the machine has"},
    {.path = "libzero.host_memory", .type = ZR_KEY_BYTES, .standard = "null", .nullable = true, .field = offsetof(zr_config, offload.host_memory),
     .help = "what the ranks of a machine may hold on its host, in equal parts (--host-memory); null: what the machine has"},
};
const int zr_keys_offload_count = ZR_COUNT(zr_keys_offload);
