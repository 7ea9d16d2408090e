// zero_describe_configuration, whose output is docs/configuration.md.
#include "config/config.h"
#include <zero/configuration.h>

zero_status zero_describe_configuration(void (*write)(void *user, const char *text), void *user,
                                        zero_error *error)
{
    ZR_NEED(error, write);
    zr_buffer text = {0};
    zr_config_document(&text);
    zero_status status = text.failed ? zr_fail(error, ZERO_ERR_MEMORY,
                                               "no memory for the table of configuration keys")
                                     : ZERO_OK;
    if (status == ZERO_OK)
        write(user, text.data);
    zr_buffer_free(&text);
    return status;
}
