// Finds the answers that are trained on in the text of a conversation (chat.h says how).
#include "chat/chat_internal.h"
#include "chat/unicode_text.h"

#include <string.h>

typedef struct finding {
    const zr_chat_text *text;
    const zr_rendered *whole;
    zr_rendered with, before, plain; // of the messages up to one; of those before it
    bool *counts;                    // (messages) whether the loss counts a message
    size_t answers, counted;         // messages of the assistant; those that count
    const char *end;                 // eos_token; "" if there is none
    zr_chat_targets *out;
} finding;

static bool is_answer(const finding *f, size_t i)
{
    const json_t *message = json_array_get(f->text->of->messages, i);
    return !strcmp(json_string_value(json_object_get(message, "role")), "assistant");
}

static zero_status read_counts(finding *f, zero_error *error)
{
    const zr_conversation *of = f->text->of;
    f->counts = zr_alloc(f->text->count * sizeof *f->counts, error);
    if (!f->counts)
        return ZERO_ERR_MEMORY;
    for (size_t i = 0; i < f->text->count; i++) {
        ZERO_TRY(zr_chat_message_counts(of->name, i, json_array_get(of->messages, i), &f->counts[i],
                                        error));
        f->counts[i] &= i >= of->trained_from;
        f->answers += is_answer(f, i);
        f->counted += f->counts[i];
    }
    return ZERO_OK;
}

// Takes what {% generation %} marks: all of it, or, if some answers do not count, the marks of
// those that do, provided that there is one for each. *taken is false if that is unknown.
static void take_spans(finding *f, bool *taken)
{
    const zr_rendered *whole = f->whole;
    bool all = f->counted == f->answers, paired = (size_t)whole->span_count == f->answers;
    size_t span = 0;
    *taken =
        zr_template_marks_answers(f->text->chat->template) && !whole->misplaced && (paired || all);
    if (!*taken)
        return;
    if (!paired) {
        memcpy(f->out->at, whole->spans, (size_t)whole->span_count * sizeof *whole->spans);
        f->out->count = (size_t)whole->span_count;
    }
    for (size_t i = 0; paired && i < f->text->count; i++)
        if (is_answer(f, i)) {
            if (f->counts[i])
                f->out->at[f->out->count++] = whole->spans[span];
            span++;
        }
}

static size_t common_length(const zr_buffer *a, const zr_buffer *b)
{
    size_t at = 0, most = ZR_MIN(a->length, b->length);
    while (at < most && a->data[at] == b->data[at])
        at++;
    while (at > 0 && at < b->length && ((unsigned char)b->data[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static bool ends_with(const char *text, size_t length, const char *part)
{
    size_t width = strlen(part);
    return width && length >= width && !memcmp(text + length - width, part, width);
}

// Whether the text ends with a mark: the end token, <...> or [...].
static bool ends_with_mark(const finding *f, const char *text, size_t length)
{
    return length &&
           (text[length - 1] == '>' || text[length - 1] == ']' || ends_with(text, length, f->end));
}

// Returns the length without the white space that a template puts after its last mark.
static size_t settle(const finding *f, const zr_buffer *text, size_t length)
{
    size_t shorter = length - zr_text_trailing_spaces(text->data, length);
    return ends_with_mark(f, text->data, shorter) ? shorter : length;
}

static bool begins_with(const zr_buffer *text, const zr_buffer *part, size_t length)
{
    return length <= text->length && !memcmp(text->data, part->data, length);
}

// Finds how much of `part` another text begins with. What may be missing is white space at its end,
// and an end token that the template puts after all messages.
static bool begins_with_most(const finding *f, const zr_buffer *text, const zr_buffer *part,
                             size_t *length)
{
    *length = part->length;
    if (begins_with(text, part, *length))
        return true;
    *length -= zr_text_trailing_spaces(part->data, *length);
    if (begins_with(text, part, *length))
        return true;
    if (!ends_with(part->data, *length, f->end))
        return false;
    *length -= strlen(f->end);
    return begins_with(text, part, *length);
}

// Returns false in *rendered if the template refuses the first messages alone.
static zero_status render_part(finding *f, size_t count, bool prompt, zr_rendered *out,
                               bool *rendered, zero_error *error)
{
    zero_status status = zr_chat_text_render(f->text, count, prompt, out, error);
    *rendered = status == ZERO_OK;
    return status == ZERO_ERR_DATA ? ZERO_OK : status;
}

// Cuts off an end token that the template writes after all messages, not after this one: the text
// with a prompt after it does not have it.
static zero_status cut_trailer(finding *f, size_t i, size_t *length, zero_error *error)
{
    const zr_buffer *with = &f->with.text;
    bool rendered;
    if (!ends_with(with->data, *length, f->end))
        return ZERO_OK;
    size_t shorter = settle(f, with, *length - strlen(f->end));
    if (!ends_with_mark(f, with->data, shorter))
        return ZERO_OK;
    ZERO_TRY(render_part(f, i + 1, true, &f->plain, &rendered, error));
    if (rendered && !begins_with(&f->plain.text, with, *length) &&
        begins_with(&f->plain.text, with, shorter))
        *length = shorter;
    return ZERO_OK;
}

// Returns where the content begins, if the template writes the answer's header without being asked
// for a prompt: it knows no prompt, and there is more than white space before the content.
static size_t skip_header(const finding *f, size_t i, size_t begin)
{
    const zr_buffer *with = &f->with.text;
    const json_t *content = json_object_get(json_array_get(f->text->messages, i), "content");
    const char *text = json_string_value(content);
    size_t length = json_string_length(content);
    if (!text || zr_template_mentions(f->text->chat->template, "add_generation_prompt"))
        return begin;
    size_t spaces = zr_text_leading_spaces(text, length);
    size_t at =
        zr_text_search(with->data, with->length, begin, text + spaces,
                       length - spaces - zr_text_trailing_spaces(text + spaces, length - spaces));
    bool header = at <= with->length && spaces < length &&
                  zr_text_leading_spaces(with->data + begin, at - begin) < at - begin;
    return header ? at : begin;
}

// Goes back to the beginning of a mark that is cut in two.
static size_t before_cut_mark(const zr_buffer *text, size_t at, size_t least)
{
    for (size_t i = at; i > least && i + 64 > at; i--) {
        if (text->data[i - 1] == '>' || text->data[i - 1] == ' ' || text->data[i - 1] == '\n')
            return at;
        if (text->data[i - 1] == '<')
            return i - 1;
    }
    return at;
}

// Returns where the prompt's own text, which `before` has more than `plain`, ends in the text of
// the messages up to the answer; 0 if it is not there.
static size_t find_prompt(const finding *f, size_t least)
{
    const zr_buffer *with = &f->with.text, *before = &f->before.text, *plain = &f->plain.text;
    if (!begins_with(before, plain, plain->length) || before->length == plain->length)
        return 0;
    size_t length = before->length - plain->length;
    size_t at =
        zr_text_search(with->data, with->length, least, before->data + plain->length, length);
    return at <= with->length ? at + length : 0;
}

// Finds where the answer begins in the text of the messages up to it.
static zero_status find_begin(finding *f, size_t i, size_t *begin, bool *found, zero_error *error)
{
    size_t least;
    ZERO_TRY(render_part(f, i, true, &f->before, found, error));
    if (!*found && i == 0) { // some templates refuse no messages
        f->before.text.length = 0;
        *found = true;
    }
    if (!*found)
        return ZERO_OK;
    *begin = common_length(&f->before.text, &f->with.text);
    if (*begin == f->before.text.length) {
        *begin = skip_header(f, i, *begin);
        return ZERO_OK;
    }
    // The prompt has more than the answer begins with, such as an opened thought; or the template
    // writes something before a first message that it does not write before a prompt alone.
    ZERO_TRY(render_part(f, i, false, &f->plain, found, error));
    if (!*found && i == 0) {
        f->plain.text.length = 0;
        *found = true;
    }
    *found = *found && begins_with_most(f, &f->with.text, &f->plain.text, &least);
    if (!*found)
        return ZERO_OK;
    size_t prompt = find_prompt(f, least);
    *begin = prompt ? prompt : before_cut_mark(&f->with.text, ZR_MAX(*begin, least), least);
    return ZERO_OK;
}

static zero_status find_answer(finding *f, size_t i, bool *found, zero_error *error)
{
    const zr_buffer *with = &f->with.text, *whole = &f->whole->text;
    size_t begin, end;
    *found = true;
    if (i + 1 == f->text->count) {
        f->with.text.length = 0;
        zr_buffer_append(&f->with.text, whole->data, whole->length);
        if (f->with.text.failed)
            return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its text", f->text->of->name);
    } else {
        ZERO_TRY(render_part(f, i + 1, false, &f->with, found, error));
    }
    if (*found)
        ZERO_TRY(find_begin(f, i, &begin, found, error));
    if (!*found)
        return ZERO_OK;
    end = settle(f, with, with->length);
    ZERO_TRY(cut_trailer(f, i, &end, error));
    end = settle(f, with, end);
    if (!begins_with(whole, with, end) && begins_with_most(f, whole, with, &end))
        end = settle(f, with, end);
    *found = begins_with(whole, with, end) && begin <= end;
    if (*found && begin < end)
        f->out->at[f->out->count++] = (zr_template_span){begin, end};
    return ZERO_OK;
}

static zero_status find_answers(finding *f, zero_error *error)
{
    size_t lost = 0, last = 0;
    for (size_t i = 0; i < f->text->count; i++) {
        bool found = true;
        if (!f->counts[i])
            continue;
        ZERO_TRY(find_answer(f, i, &found, error));
        lost += !found;
        last = found ? last : i;
    }
    f->out->rewritten = lost > 0;
    if (lost && lost == f->counted)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: message %zu: the chat template writes this answer in another form once "
                       "it is asked for one, so that what is to be trained on is unknown; mark it "
                       "in the template with {%% generation %%}",
                       f->text->of->name, last);
    return ZERO_OK;
}

static zero_status find_all(finding *f, zero_error *error)
{
    bool taken;
    ZERO_TRY(read_counts(f, error));
    size_t most = ZR_MAX((size_t)f->whole->span_count, f->text->count);
    f->out->at = zr_alloc((most + 1) * sizeof *f->out->at, error);
    if (!f->out->at)
        return ZERO_ERR_MEMORY;
    take_spans(f, &taken);
    return taken ? ZERO_OK : find_answers(f, error);
}

zero_status zr_chat_targets_find(const zr_chat_text *text, const zr_rendered *whole,
                                 zr_chat_targets *out, zero_error *error)
{
    const char *end = json_string_value(json_object_get(text->chat->tokens, "eos_token"));
    finding f = {.text = text, .whole = whole, .end = end ? end : "", .out = out};
    *out = (zr_chat_targets){0};
    zero_status status = find_all(&f, error);
    zr_rendered_free(&f.with);
    zr_rendered_free(&f.before);
    zr_rendered_free(&f.plain);
    zr_free(f.counts);
    if (status != ZERO_OK) {
        zr_free(out->at);
        *out = (zr_chat_targets){0};
    }
    return status;
}
