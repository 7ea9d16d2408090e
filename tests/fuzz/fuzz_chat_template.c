// A chat template that is run on a conversation: it renders, or fails with a message.
#include "fuzz.h"

#include "chat/chat.h"

#include <string.h>

// What a hostile template may use here; smaller than in earnest, so that the target is fast.
static const zr_template_options bounds = {
    .date = {2025, 3, 9}, .steps = 20000, .output = 1 << 20, .memory = 4 << 20};

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
    "\"content\": \"2+2?\"}, {\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": "
    "\"sum\", \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"add\", "
    "\"arguments\": {\"a\": 2, \"b\": 2.5, \"c\": [true, null]}}}]}, {\"role\": \"tool\", "
    "\"content\": \"4\"}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": "
    "\"\xc3\x9c 4\"}]}], \"tools\": [{\"function\": {\"name\": \"add\", \"parameters\": {}}}], "
    "\"documents\": null, \"add_generation_prompt\": true, \"bos_token\": \"<s>\", "
    "\"eos_token\": \"</s>\"}";

static zero_status check_render(const zr_template *template, const json_t *variables,
                                zero_error *error)
{
    zr_rendered rendered = {.span_count = 0};
    zero_status status = zr_template_render(template, variables, &bounds, &rendered, error);
    if (status == ZERO_OK) {
        fuzz_must(rendered.text.length <= bounds.output);
        fuzz_must(rendered.text.data[rendered.text.length] == 0);
        for (int i = 0; i < rendered.span_count && !rendered.misplaced; i++) {
            fuzz_must(rendered.spans[i].begin <= rendered.spans[i].end);
            fuzz_must(rendered.spans[i].end <= rendered.text.length);
        }
    }
    zr_rendered_free(&rendered);
    return status;
}

zero_status fuzz_one(const uint8_t *data, size_t size, zero_error *error)
{
    zr_template *template;
    json_t *variables = json_loads(conversation, 0, NULL);
    fuzz_must(variables);
    zero_status status = zr_template_parse((const char *)data, size, "x.jinja", &template, error);
    if (status == ZERO_OK)
        status = check_render(template, variables, error);
    zr_template_free(template);
    json_decref(variables);
    return status;
}
