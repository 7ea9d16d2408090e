// Runs a template: makes its variables ready, runs its block, and reports what goes wrong.
#include "chat/rendering.h"

#include <stdio.h>
#include <string.h>

static zero_status fail_here(zr_rendering *r, const char *how, const char *what)
{
    size_t offset = r->at ? r->at->offset : 0;
    zr_json_position at = zr_json_position_of(r->of->source.text, offset);
    return zr_fail(r->error, ZERO_ERR_DATA, "the chat template %s: %.400s (%s, line %d, column %d)",
                   how, what, r->of->name, at.line, at.column);
}

zero_status zr_rendering_fail(zr_rendering *r, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return fail_here(r, "fails", what);
}

zero_status zr_rendering_refuse(zr_rendering *r, const char *text, size_t length)
{
    char what[512];
    snprintf(what, sizeof what, "%.*s", (int)ZR_MIN(length, sizeof what - 1), text);
    return fail_here(r, "refuses", what);
}

zero_status zr_rendering_no_memory(zr_rendering *r)
{
    if (r->memory.over)
        return zr_rendering_fail(r, "its values need more than %zu bytes", r->memory.limit);
    return zr_fail(r->error, ZERO_ERR_MEMORY, "%s: no memory for the values of the chat template",
                   r->of->name);
}

zero_status zr_rendering_steps(zr_rendering *r, size_t count)
{
    int64_t most = r->options->steps ? r->options->steps : ZR_TEMPLATE_STEPS;
    if (count > (size_t)r->steps)
        return zr_rendering_fail(r, "it takes more than %lld steps", (long long)most);
    r->steps -= (int64_t)count;
    return ZERO_OK;
}

zero_status zr_rendering_enter(zr_rendering *r)
{
    if (r->levels == ZR_RENDERING_LEVELS)
        return zr_rendering_fail(r, "more than %d levels within one another", ZR_RENDERING_LEVELS);
    r->levels++;
    return zr_rendering_steps(r, 1);
}

zero_status zr_rendering_write(zr_rendering *r, const char *text, size_t length)
{
    if (length > r->most_output - r->out->length)
        return zr_rendering_fail(r, "it writes more than %zu bytes", r->most_output);
    zr_buffer_append(r->out, text, length);
    return r->out->failed ? zr_fail(r->error, ZERO_ERR_MEMORY,
                                    "%s: no memory for what the chat template writes", r->of->name)
                          : ZERO_OK;
}

int zr_rendering_name(const zr_rendering *r, const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < r->of->name_count; i++)
        if (r->of->names[i].length == length && !memcmp(r->of->names[i].text, name, length))
            return i;
    return -1;
}

// The variables that the template names: the record's, or else the environment's functions.
static zero_status fill_context(zr_rendering *r, const json_t *variables)
{
    const char *key;
    json_t *value;
    r->context = zr_value_memory_take(&r->memory, (size_t)r->of->name_count * sizeof *r->context);
    if (!r->context)
        return zr_rendering_no_memory(r);
    for (int i = 0; i < r->of->name_count; i++) {
        const zr_builtin *function = zr_function_find(r->of->names[i].text, r->of->names[i].length);
        if (function)
            r->context[i] = (zr_chat_value){.kind = ZR_KIND_FUNCTION, .function = function};
    }
    json_object_foreach((json_t *)variables, key, value)
    {
        int id = zr_rendering_name(r, key);
        if (id < 0)
            continue;
        r->context[id] = zr_value_of_json(&r->memory, value);
        if (r->context[id].kind == ZR_KIND_MISSING)
            return zr_rendering_no_memory(r);
    }
    return ZERO_OK;
}

static zero_status run(zr_rendering *r, const json_t *variables)
{
    zr_scope *before = NULL;
    ZERO_TRY(fill_context(r, variables));
    ZERO_TRY(zr_scope_enter(r, NULL, &before));
    return zr_execute(r, r->of->root);
}

zero_status zr_template_render(const zr_template *of, const json_t *variables,
                               const zr_template_options *options, zr_rendered *out,
                               zero_error *error)
{
    static const zr_template_options standard = {0};
    options = options ? options : &standard;
    zr_rendering r = {.of = of,
                      .options = options,
                      .memory = {.limit = options->memory ? options->memory : ZR_TEMPLATE_MEMORY},
                      .error = error,
                      .steps = options->steps ? options->steps : ZR_TEMPLATE_STEPS,
                      .most_output = options->output ? options->output : ZR_TEMPLATE_OUTPUT,
                      .out = &out->text,
                      .rendered = out};
    out->text.length = 0;
    out->span_count = 0;
    out->misplaced = false;
    zr_buffer_append(&out->text, "", 0);
    zero_status status = run(&r, variables);
    zr_value_memory_free(&r.memory);
    if (status == ZERO_OK && out->text.failed)
        status = zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for what the chat template writes",
                         of->name);
    return status;
}

void zr_rendered_free(zr_rendered *rendered)
{
    zr_buffer_free(&rendered->text);
    zr_free(rendered->spans);
    *rendered = (zr_rendered){0};
}
