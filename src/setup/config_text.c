#include "setup/config_text.h"

#include "base/file.h"
#include "config/config.h"

zero_status zr_config_text_read(const char *path, char **text, size_t *length, zero_error *error)
{
    *text = NULL;
    *length = 0;
    if (!path)
        return ZERO_OK;
    zero_status status = zr_file_read_stream(path, ZR_CONFIG_MAX_BYTES, text, length, error);
    if (status == ZERO_OK || status == ZERO_ERR_MEMORY || !zr_path_exists(path))
        return status;
    if (error) // a directory, or too large: described in base/, for which this is a file like any other
        error->status = ZERO_ERR_CONFIG;
    return ZERO_ERR_CONFIG;
}
