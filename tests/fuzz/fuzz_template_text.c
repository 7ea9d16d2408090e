// The text of a chat template: it is parsed, or refused with the line and the column. What is
// parsed keeps its text, and is parsed again.
#include "fuzz.h"

#include "chat/template.h"

#include <string.h>

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_template *template, *again;
    size_t length;
    zero_status status = zr_template_parse((const char *)data, size, "x.jinja", &template, error);
    fuzz_must((status == ZERO_OK) == (template != NULL));
    fuzz_must(status == ZERO_OK || status == ZERO_ERR_MEMORY ||
              !strncmp(error->message, "x.jinja:", 8));
    if (status != ZERO_OK)
        return status;
    const char *text = zr_template_text(template, &length);
    fuzz_must(length == size && !memcmp(text, data, size));
    status = zr_template_parse(text, length, "x.jinja", &again, error);
    fuzz_must(status != ZERO_OK ||
              zr_template_marks_answers(again) == zr_template_marks_answers(template));
    zr_template_free(again);
    zr_template_free(template);
    return status;
}
