// Chat templates: programs in Jinja, parsed once and run on a conversation, as transformers runs
// them (jinja2 with trim_blocks and lstrip_blocks, loop controls, {% generation %}, the immutable
// sandbox, and its own tojson).
//
// A template comes from a file that may be hostile. What it may do is bounded: the steps, the
// nesting, the memory and the text that it writes. It changes nothing but its own variables.
#ifndef ZR_CHAT_TEMPLATE_H
#define ZR_CHAT_TEMPLATE_H

#include "base/json.h"

#define ZR_TEMPLATE_STEPS ((int64_t)10000000)      // nodes and items that a rendering may visit
#define ZR_TEMPLATE_OUTPUT ((size_t)64 << 20)      // bytes that it may write
#define ZR_TEMPLATE_MEMORY ((size_t)512 << 20)     // bytes of the values that it makes
#define ZR_TEMPLATE_DEPTH 64                       // of nested statements, expressions and calls
#define ZR_TEMPLATE_SOURCE_BYTES ((size_t)4 << 20) // of a template's own text

typedef struct zr_template zr_template;

// Parses a template, which keeps a copy of its text and name. Returns ZERO_ERR_DATA with
// "NAME:LINE:COLUMN: ..." for what is no template, ZERO_ERR_UNSUPPORTED for include, import,
// extends and other tags that are not built.
zero_status zr_template_parse(const char *text, size_t length, const char *name, zr_template **out,
                              zero_error *error);
void zr_template_free(zr_template *of); // NULL is allowed

const char *zr_template_text(const zr_template *of, size_t *length);
// Returns whether the template mentions the word anywhere: as a variable, an attribute, or within a
// literal.
bool zr_template_mentions(const zr_template *of, const char *word);
// Returns whether it has {% generation %}.
bool zr_template_marks_answers(const zr_template *of);

typedef struct zr_template_date {
    int year, month, day; // month and day from 1
} zr_template_date;

typedef struct zr_template_options {
    zr_template_date date; // for strftime_now; year 0: a template that asks for it fails
    // Smaller bounds than those above, for tests; 0: those above.
    int64_t steps;
    size_t output, memory;
} zr_template_options;

typedef struct zr_template_span {
    size_t begin, end; // bytes of the text
} zr_template_span;

typedef struct zr_rendered {
    zr_buffer text;
    zr_template_span *spans; // (span_count) what stood inside {% generation %}, in order
    int span_count, span_capacity;
    // A {% generation %} stood where its place in the text is unknown (in a macro, or in a block
    // that is set or filtered): its span is where transformers says, which need not be right.
    bool misplaced;
} zr_rendered;

void zr_rendered_free(zr_rendered *rendered);

// Runs the template. `variables` is an object; the template sees its members as Python would after
// json.loads. *out is written over, its memory kept; the caller frees it.
//
// Returns ZERO_ERR_DATA with "the chat template refuses: MESSAGE (NAME, line L, column C)" where it
// calls raise_exception, and "the chat template fails: ..." for any other error that Python would
// raise, and where it exceeds a bound.
zero_status zr_template_render(const zr_template *of, const json_t *variables,
                               const zr_template_options *options, zr_rendered *out,
                               zero_error *error);

#endif
