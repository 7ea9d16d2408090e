#include "predict/rates.h"

const char *const zr_time_part_names[ZR_TIME_PARTS] = {
    [ZR_TIME_COMPUTE] = "compute", [ZR_TIME_EXCHANGE] = "exchange",
    [ZR_TIME_UPDATE] = "update",   [ZR_TIME_DISK] = "disk",
    [ZR_TIME_DATA] = "data",       [ZR_TIME_EVALUATION] = "evaluation",
    [ZR_TIME_SAVING] = "saving",   [ZR_TIME_GENERATION] = "generation",
};
