// Records of preferences. Each answer becomes a record of its own, which record_document.c reads as
// it reads those without preferences:
//
//   {"prompt": P, "chosen": C, "rejected": R}        {"prompt": P, "completion": C} and one with R
//   {"chosen": [M, N, A], "rejected": [M, N, B]}     the prompt is what both begin with, as in trl
//   {"conversations": P, "chosen": M, ...}           LLaMA-Factory's: the answers are messages
//   {"question": Q, "chosen": A, ...}                other turns, with a system prompt and so on
//   {..., "label": true}, {..., "kto_tag": false}    the record's own answer is wanted or not
#include "base/json.h"
#include "data/record_document.h"

#include <string.h>

static const char *const lists[] = {"prompt", "messages", "conversations", "conversation"};
static const char *const preference_keys[] = {ZR_RECORD_CHOSEN, ZR_RECORD_REJECTED, ZR_RECORD_LABEL,
                                              "kto_tag"};

typedef struct reading {
    const zr_record_reading *of;
    json_t *record; // with the names of keys, without those of preferences
    const json_t *chosen, *rejected, *label;
    zr_record_made *made;
} reading;

static zero_status no_memory(const reading *r, zero_error *error)
{
    return zr_fail(error, ZERO_ERR_MEMORY, "%s: no memory for its answers", r->of->name);
}

// Copies the record's members under the names of their keys.
static zero_status copy_record(reading *r, const json_t *record, zero_error *error)
{
    static const char *const kept[] = {"tools", "functions", "documents", "chat_template_kwargs"};
    const zr_record_map *map = r->of->map;
    r->record = map ? json_object() : json_copy((json_t *)record);
    bool failed = !r->record;
    for (int i = 0; map && !failed && i < map->count; i++) {
        const json_t *value = zr_record_get(map, record, map->keys[i].key);
        failed = value && json_object_set(r->record, map->keys[i].key, (json_t *)value);
    }
    for (int i = 0; map && !failed && i < ZR_COUNT(kept); i++) {
        const json_t *value = zr_record_get(map, record, kept[i]);
        failed = value && json_object_set(r->record, kept[i], (json_t *)value);
    }
    for (int i = 0; !failed && i < ZR_COUNT(preference_keys); i++)
        json_object_del(r->record, preference_keys[i]);
    return failed ? no_memory(r, error) : ZERO_OK;
}

// Returns the list of messages that comes before the answers; NULL if there is none.
static const json_t *find_list(const reading *r)
{
    for (int i = 0; i < ZR_COUNT(lists); i++)
        if (json_is_array(json_object_get(r->record, lists[i])))
            return json_object_get(r->record, lists[i]);
    return NULL;
}

// Returns messages [first, end) of a list.
static json_t *slice_list(const json_t *list, size_t first, size_t end)
{
    json_t *out = json_array();
    for (size_t i = first; out && i < end; i++)
        if (json_array_append(out, json_array_get(list, i))) {
            json_decref(out);
            return NULL;
        }
    return out;
}

// Reads one answer: `prompt` and `completion` take the place of the record's own, and are released.
// NULL: there was no memory.
static zero_status read_answer(const reading *r, const char *asks, json_t *prompt,
                               const char *answers, json_t *completion, zr_document *out,
                               zero_error *error)
{
    const zr_record_reading plain = {.chat = r->of->chat, .name = r->of->name};
    json_t *record = json_copy(r->record);
    for (int i = 0; record && prompt && i < ZR_COUNT(lists); i++)
        json_object_del(record, lists[i]);
    bool failed = !record || !completion || (prompt && json_object_set(record, asks, prompt)) ||
                  json_object_set(record, answers, completion);
    json_decref(prompt);
    json_decref(completion);
    zero_status status =
        failed ? no_memory(r, error) : zr_record_document(&plain, record, out, r->made, error);
    json_decref(record);
    zr_document_train_rest(out);
    return status;
}

// Makes a list of messages of an answer: of a list, a message or a text.
static json_t *list_of_answer(const json_t *answer)
{
    if (json_is_array(answer))
        return json_incref((json_t *)answer);
    return json_is_object(answer)
               ? json_pack("[O]", answer)
               : json_pack("[{s:s, s:O}]", "role", "assistant", "content", answer);
}

static size_t count_common_messages(const json_t *a, const json_t *b)
{
    size_t count = 0;
    while (count < json_array_size(a) && count < json_array_size(b) &&
           json_equal(json_array_get(a, count), json_array_get(b, count)))
        count++;
    return count;
}

// Counts the bytes that both texts begin with; a space before they differ is the answers', as in
// trl.
static size_t count_common_bytes(const json_t *a, const json_t *b)
{
    const char *x = json_string_value(a), *y = json_string_value(b);
    size_t count = 0;
    while (x[count] && x[count] == y[count])
        count++;
    while (count && ((unsigned char)x[count] & 0xc0) == 0x80)
        count--; // to the beginning of a character
    return count - (count && x[count - 1] == ' ');
}

// Reads both answers of a list that each begins with the prompt.
static zero_status read_shared_lists(const reading *r, zr_document *out, zr_document *rejected,
                                     zero_error *error)
{
    const json_t *const sides[] = {r->chosen, r->rejected};
    size_t common = count_common_messages(sides[0], sides[1]);
    if (!common)
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: its \"chosen\" and \"rejected\" begin with no common message, and it "
                       "has no other prompt",
                       r->of->name);
    for (int i = 0; i < 2; i++) {
        size_t count = json_array_size(sides[i]);
        if (count == common)
            return ZERO_OK; // nothing to compare
        ZERO_TRY(read_answer(r, "prompt", slice_list(sides[i], 0, common), "completion",
                             slice_list(sides[i], common, count), i ? rejected : out, error));
    }
    return ZERO_OK;
}

static zero_status read_shared_texts(const reading *r, zr_document *out, zr_document *rejected,
                                     zero_error *error)
{
    const json_t *const sides[] = {r->chosen, r->rejected};
    size_t common = count_common_bytes(sides[0], sides[1]);
    for (int i = 0; i < 2; i++) {
        const char *text = json_string_value(sides[i]);
        ZERO_TRY(read_answer(r, "prompt", json_stringn(text, common), "completion",
                             json_string(text + common), i ? rejected : out, error));
    }
    return ZERO_OK;
}

static zero_status read_pair_after(const reading *r, const json_t *list, zr_document *out,
                                   zr_document *rejected, zero_error *error)
{
    ZERO_TRY(read_answer(r, "prompt", json_incref((json_t *)list), "completion",
                         list_of_answer(r->chosen), out, error));
    return read_answer(r, "prompt", json_incref((json_t *)list), "completion",
                       list_of_answer(r->rejected), rejected, error);
}

// Reads texts that answer a prompt or a question.
static zero_status read_turns(const reading *r, zr_document *out, zr_document *rejected,
                              zero_error *error)
{
    bool prompt = json_is_string(json_object_get(r->record, "prompt"));
    const char *key = prompt ? "completion" : zr_record_answer_key(r->record);
    if (!key)
        return read_shared_texts(r, out, rejected, error);
    ZERO_TRY(read_answer(r, NULL, NULL, key, json_incref((json_t *)r->chosen), out, error));
    return read_answer(r, NULL, NULL, key, json_incref((json_t *)r->rejected), rejected, error);
}

static zero_status read_pair(const reading *r, zr_document *out, zr_document *rejected,
                             zero_error *error)
{
    const json_t *list = find_list(r);
    if (json_typeof(r->chosen) != json_typeof(r->rejected) ||
        !(json_is_array(r->chosen) || json_is_object(r->chosen) || json_is_string(r->chosen)))
        return zr_fail(error, ZERO_ERR_DATA,
                       "%s: its \"chosen\" is %s and its \"rejected\" %s, where both must be "
                       "texts, messages or lists of messages",
                       r->of->name, zr_record_type_name(r->chosen),
                       zr_record_type_name(r->rejected));
    // Answers that begin alike have the prompt within them, also where it stands apart as text.
    if (json_is_array(r->chosen) && !json_is_array(json_object_get(r->record, "prompt")) &&
        (!list || count_common_messages(r->chosen, r->rejected)))
        return read_shared_lists(r, out, rejected, error);
    if (list)
        return read_pair_after(r, list, out, rejected, error);
    if (json_is_string(r->chosen))
        return read_turns(r, out, rejected, error);
    return zr_fail(error, ZERO_ERR_DATA,
                   "%s: its answers are messages, and it has no list of those "
                   "before them",
                   r->of->name);
}

// Reads the record's own answer: of a list of messages, its last one.
static zero_status read_labelled(const reading *r, zr_document *out, zero_error *error)
{
    const zr_record_reading plain = {.chat = r->of->chat, .name = r->of->name};
    const json_t *list = json_object_get(r->record, "prompt") ? NULL : find_list(r);
    size_t count = json_array_size(list);
    if (count > 1)
        return read_answer(r, "prompt", slice_list(list, 0, count - 1), "completion",
                           slice_list(list, count - 1, count), out, error);
    ZERO_TRY(zr_record_document(&plain, r->record, out, r->made, error));
    zr_document_train_rest(out);
    return ZERO_OK;
}

static zero_status refuse_record(const reading *r, const json_t *record, zero_error *error)
{
    bool labels = r->of->preferences == ZR_PREFERENCES_LABELS;
    zr_buffer fields = {0};
    zr_record_list_fields(record, &fields);
    zero_status status =
        fields.failed
            ? no_memory(r, error)
            : zr_fail(error, ZERO_ERR_DATA,
                      "%s: the record has no \"chosen\" with a \"rejected\"%s, which "
                      "--preference %s compares (--map names other fields); it has %s",
                      r->of->name, labels ? ", nor a \"label\" that is true or false" : "",
                      labels ? "kto" : "dpo, orpo or simpo", fields.data);
    zr_buffer_free(&fields);
    return status;
}

static zero_status read_record(reading *r, const json_t *record, zr_document *out,
                               zr_document *rejected, zero_error *error)
{
    ZERO_TRY(copy_record(r, record, error));
    if (r->chosen && r->rejected)
        return read_pair(r, out, rejected, error);
    if (r->of->preferences != ZR_PREFERENCES_LABELS || !json_is_boolean(r->label))
        return refuse_record(r, record, error);
    return read_labelled(r, out, error);
}

zero_status zr_record_preference(const zr_record_reading *of, const json_t *record,
                                 zr_document *out, zr_document *rejected, zr_record_made *made,
                                 zero_error *error)
{
    reading r = {.of = of,
                 .chosen = zr_record_get(of->map, record, ZR_RECORD_CHOSEN),
                 .rejected = zr_record_get(of->map, record, ZR_RECORD_REJECTED),
                 .label = zr_record_get(of->map, record, ZR_RECORD_LABEL),
                 .made = made};
    if (!of->map && !json_is_boolean(r.label))
        r.label = json_object_get(record, "kto_tag");
    *made = (zr_record_made){.ends = true};
    zero_status status = read_record(&r, record, out, rejected, error);
    made->pair = r.chosen && r.rejected;
    made->unwanted = !made->pair && json_is_false(r.label);
    if (made->pair && (!out->text.length || !rejected->text.length))
        zr_document_clear(out);
    json_decref(r.record);
    return status;
}
