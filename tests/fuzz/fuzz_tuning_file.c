// The DeepSpeed file that zero tune reads, with lists and a section that no other reader knows.
// What is written of a candidate, tuned.json, is a configuration that can be read.
#include "fuzz.h"

#include "tune/base_config.h"

#include <string.h>

static zero_status write_candidate(const zr_tuning_file *file, bool quiet, zero_error *error)
{
    const zr_run_candidate candidate = {.ranks = 4,
                                        .threads = 1,
                                        .tensor = 1,
                                        .stages = 2,
                                        .stage = 1,
                                        .micro_batch = 2,
                                        .accumulation = 2,
                                        .chunks = 1,
                                        .delayed = true};
    zr_config *config = NULL;
    char *text = zr_tuning_file_of(file, &candidate, quiet, error);
    if (!text)
        return ZERO_ERR_MEMORY;
    zero_status status = zr_config_parse(text, strlen(text), "tuned.json", &config, error);
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY);
    zr_config_destroy(config);
    zr_free(text);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    const zr_tuning_flags flags = {.count = 0};
    zr_tuning_file file;
    zero_status status = zr_tuning_file_read(fuzz_put("ds.json", data, size), &flags, &file, error);
    if (status == ZERO_OK) {
        fuzz_must(file.stages.count >= 0 && file.stages.count <= ZR_SPACE_MOST);
        fuzz_must(file.micro_batches.count >= 0 && file.micro_batches.count <= ZR_SPACE_MOST);
        zr_tuning_file_number(&file, ZR_TUNING_MICRO_BATCH);
        zr_tuning_file_text(&file, ZR_TUNING_SCHEDULE);
        status = write_candidate(&file, false, error);
    }
    if (status == ZERO_OK)
        status = write_candidate(&file, true, error);
    zr_tuning_file_free(&file);
    return status;
}
