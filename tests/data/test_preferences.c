// Records of preferences, in every form that trl and LLaMA-Factory have, and what becomes of them
// in windows: pairs stand together, are cut together, and answers with labels meet mismatched ones.
#include "corpus_files.h"
#include "data/record_document.h"
#include <zero/preference.h>

static zr_chat chatml, none;
static zr_document document, second;
static zr_record_made made;

static zero_status read_record(const char *record, const char *map, zr_preferences what,
                               const zr_chat *format, zero_error *error)
{
    zr_record_map names = {0};
    json_t *object;
    if (map)
        assert_int_equal(zr_record_map_parse(map, &names, NULL), ZERO_OK);
    assert_int_equal(zr_json_parse(record, strlen(record), "r", &object, NULL), ZERO_OK);
    const zr_record_reading reading = {
        .map = map ? &names : NULL, .chat = format, .name = "f:1", .preferences = what};
    zr_document_clear(&document);
    zr_document_clear(&second);
    zero_status status = zr_record_preference(&reading, object, &document, &second, &made, error);
    json_decref(object);
    zr_record_map_free(&names);
    return status;
}

// Answers stand in [].
static void append(const zr_document *of, char *out, size_t size)
{
    size_t start = 0;
    for (int i = 0; i < of->count; i++) {
        size_t at = strlen(out);
        snprintf(out + at, size - at, of->segments[i].trained ? "[%.*s]" : "%.*s",
                 (int)(of->segments[i].end - start), of->text.data + start);
        start = of->segments[i].end;
    }
}

static void check(const char *record, const char *map, zr_preferences what, const zr_chat *format,
                  const char *expected)
{
    char text[1024] = "";
    zero_error error = {0};
    if (read_record(record, map, what, format, &error) != ZERO_OK)
        fail_msg("%s: %s", record, error.message);
    append(&document, text, sizeof text);
    if (made.pair)
        snprintf(text + strlen(text), sizeof text - strlen(text), " | ");
    append(&second, text, sizeof text);
    assert_string_equal(text, expected);
}

#define PAIRS ZR_PREFERENCES_PAIRS
#define LABELS ZR_PREFERENCES_LABELS
#define USER(text) "<|im_start|>user\n" text "<|im_end|>\n"
#define SAYS(text) "<|im_start|>assistant\n" text "<|im_end|>\n"
// Everything after the prompt is the answer, as in trl; the end of a line has a seam before it.
#define ANSWER(text) "<|im_start|>assistant\n[" text "<|im_end|>][\n]"
#define HUMAN(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define MODEL(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"

static void texts(void **state)
{
    const char *plain = "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}";
    check(plain, NULL, PAIRS, &chatml, "p[c] | p[r]");
    assert_true(made.ends && made.pair && !made.plain);
    check("{\"chosen\": \"H: q A: yes\", \"rejected\": \"H: q A: no\"}", NULL, PAIRS, &none,
          "H: q A:[ yes] | H: q A:[ no]");
    check("{\"chosen\": \"a\xc3\xa9\", \"rejected\": \"a\xc3\xa8\"}", NULL, PAIRS, &none,
          "a[\xc3\xa9] | a[\xc3\xa8]");
    check("{\"question\": \"q\", \"system\": \"s\", \"chosen\": \"c\", \"rejected\": \"r\"}", NULL,
          PAIRS, &none, "s\nq\n[c] | s\nq\n[r]");
    check("{\"instruction\": \"q\", \"chosen\": \"c\", \"rejected\": \"r\"}", NULL, PAIRS, &chatml,
          USER("q") ANSWER("c") " | " USER("q") ANSWER("r"));
    check("{\"a\": \"p\", \"b\": {\"x\": \"c\"}, \"d\": \"r\", \"label\": 3}",
          "prompt=a,chosen=b.x,rejected=d", PAIRS, &none, "p[c] | p[r]");
    check("{\"w\": \"p c\", \"l\": \"p r\"}", "chosen=w,rejected=l", PAIRS, &none, "p[ c] | p[ r]");
}

static void conversations(void **state)
{
    const char *expected = USER("q") ANSWER("c") " | " USER("q") ANSWER("r");
    check("{\"prompt\": [" HUMAN("q") "], \"chosen\": [" MODEL("c") "], \"rejected\": [" MODEL(
              "r") "]}",
          NULL, PAIRS, &chatml, expected);
    assert_false(made.ends);
    check("{\"chosen\": [" HUMAN("q") ", " MODEL("c") "], \"rejected\": [" HUMAN("q") ", " MODEL(
              "r") "]}",
          NULL, PAIRS, &chatml, expected);
    // Zephyr's: the prompt stands apart as text, too, and the chosen answer as messages.
    check("{\"prompt\": \"q\", \"messages\": [" HUMAN("q") ", " MODEL("c") "], \"chosen\": [" HUMAN(
              "q") ", " MODEL("c") "], \"rejected\": [" HUMAN("q") ", " MODEL("r") "]}",
          NULL, PAIRS, &chatml, expected);
    // LLaMA-Factory's.
    check("{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}], \"chosen\": {\"from\": "
          "\"gpt\", \"value\": \"c\"}, \"rejected\": {\"from\": \"gpt\", \"value\": \"r\"}}",
          NULL, PAIRS, &chatml, expected);
    // What follows the first answer belongs to it, also the user's.
    check("{\"prompt\": [" HUMAN("q") "], \"chosen\": [" MODEL("c") ", " HUMAN("d") ", " MODEL(
              "e") "], \"rejected\": [" MODEL("r") "]}",
          NULL, PAIRS, &chatml,
          USER("q") "<|im_start|>assistant\n[c<|im_end|>][\n<|im_start|>user\nd<|im_end|>\n"
                    "<|im_start|>assistant\n][e<|im_end|>][\n] | " USER("q") ANSWER("r"));
}

static void labels(void **state)
{
    check("{\"prompt\": \"p\", \"completion\": \"c\", \"label\": true}", NULL, LABELS, &none,
          "p[c]");
    assert_false(made.unwanted || made.pair);
    check("{\"prompt\": \"p\", \"completion\": \"c\", \"label\": false}", NULL, LABELS, &none,
          "p[c]");
    assert_true(made.unwanted);
    check("{\"messages\": [" HUMAN("q") ", " MODEL("a") ", " HUMAN("r") ", " MODEL(
              "b") "], \"kto_tag\": false}",
          NULL, LABELS, &chatml, USER("q") SAYS("a") USER("r") ANSWER("b"));
    assert_true(made.unwanted);
    check("{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\"}", NULL, LABELS, &none,
          "p[c] | p[r]");
    check("{\"p\": \"p\", \"c\": \"c\", \"l\": false}", "prompt=p,completion=c,label=l", LABELS,
          &none, "p[c]");
    assert_true(made.unwanted);
}

// Nothing to compare: the record counts as one without text.
static void nothing_to_compare(void **state)
{
    check("{\"chosen\": [" HUMAN("q") "], \"rejected\": [" HUMAN("q") "]}", NULL, PAIRS, &chatml,
          " | ");
}

static void what_has_no_answers_is_refused(void **state)
{
    static const struct {
        const char *record, *words;
        zr_preferences what;
    } wrong[] = {
        {"{\"text\": \"t\"}", "no \"chosen\" with a \"rejected\", which --preference dpo", PAIRS},
        {"{\"prompt\": \"p\", \"chosen\": \"c\"}", "it has \"prompt\", \"chosen\"", PAIRS},
        {"{\"prompt\": \"p\", \"completion\": \"c\", \"label\": true}", "no \"chosen\"", PAIRS},
        {"{\"prompt\": \"p\", \"completion\": \"c\"}", "nor a \"label\" that is true", LABELS},
        {"{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": []}", "\"rejected\" a list", PAIRS},
        {"{\"prompt\": \"p\", \"chosen\": 1, \"rejected\": 2}", "\"chosen\" is a number", PAIRS},
        {"{\"chosen\": [" HUMAN("q") "], \"rejected\": [" MODEL("q") "]}", "no common message",
         PAIRS},
        {"{\"chosen\": " MODEL("q") ", \"rejected\": " MODEL("r") "}", "no list of those", PAIRS},
        {"{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"r\", \"images\": [\"x\"]}",
         "images", PAIRS}};
    for (int i = 0; i < ZR_COUNT(wrong); i++) {
        zero_error error = {0};
        assert_true(read_record(wrong[i].record, NULL, wrong[i].what, &chatml, &error) != ZERO_OK);
        assert_int_equal(strncmp(error.message, "f:1: ", 5), 0);
        if (!strstr(error.message, wrong[i].words))
            fail_msg("%s: \"%s\" lacks \"%s\"", wrong[i].record, error.message, wrong[i].words);
    }
}

// ---- streams ------------------------------------------------------------------------------------

static opened open_data(const char *text, zr_preferences what, bool prompt_loss, int64_t seq)
{
    const char *argument = "preferences.jsonl";
    opened out = {0};
    zero_error error = {0};
    put_text(argument, text);
    const zr_corpus_options options = {.arguments = &argument,
                                       .count = 1,
                                       .chat = &chat,
                                       .preferences = what,
                                       .prompt_loss = prompt_loss};
    const zr_reading reading = {.tokenizer = words, .vocabulary = 200, .seq = seq};
    if (zr_corpus_open(&options, &out.corpus, &error) != ZERO_OK ||
        zr_corpus_read(out.corpus, &reading, &out.train, NULL, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return out;
}

// Writes the rows of a window: each document's first token, then the targets, in front of which
// stands their role: c, r, m, p (a prompt that is a target) or - (no target); "." ends a text.
static void dump(const zr_dataset *data, int64_t window, char *out)
{
    int32_t tokens[64], targets[64], positions[64], roles[64];
    float reference[64];
    const zr_rows rows = {.tokens = tokens,
                          .targets = targets,
                          .positions = positions,
                          .roles = roles,
                          .reference = reference};
    zr_dataset_eval_batch(data, window, 1, rows);
    for (int64_t i = 0; i < data->seq; i++) {
        if (!positions[i] && !tokens[i])
            break;
        if (!positions[i])
            out += sprintf(out, "%s%c", i ? " " : "", tokens[i]);
        assert_true((targets[i] >= 0) == (roles[i] != ZERO_ROLE_none));
        out += sprintf(out, "%c%c", "-crmp"[roles[i]],
                       targets[i] > 0 ? targets[i]
                       : !targets[i]  ? '.'
                                      : '?');
        assert_true(roles[i] == ZERO_ROLE_none ||
                    reference[i] == (roles[i] == ZERO_ROLE_prompt ? 1 : (float)roles[i]));
    }
    *out = 0;
}

// As references: the numbers of the roles.
static void give_references(zr_dataset *data)
{
    for (int s = 0; s < data->stream_count; s++)
        for (int i = 0; i < data->streams[s].example_count; i++)
            data->streams[s].references[i] = (float)data->streams[s].marks[i].role;
}

static void expect(const char *text, zr_preferences what, bool prompt_loss, int64_t seq,
                   const char *const *windows)
{
    opened o = open_data(text, what, prompt_loss, seq);
    int64_t count = zr_dataset_eval_windows(&o.train);
    char got[512];
    give_references(&o.train);
    for (int64_t w = 0; w < count; w++) {
        dump(&o.train, w, got);
        assert_non_null(windows[w]);
        assert_string_equal(got, windows[w]);
    }
    assert_null(windows[count]);
    close_opened(&o);
}

static void pairs_stand_together(void **state)
{
    const char *text = "{\"prompt\": \"Q\", \"chosen\": \"ab\", \"rejected\": \"x\"}\n"
                       "{\"prompt\": \"PR\", \"chosen\": \"c\", \"rejected\": \"yz<|endoftext|>\"}";
    expect(text, PAIRS, false, 16, (const char *[]){"P-?ccc. P-?ryrzr. Qcacbc. Qrxr.", NULL});
    expect(text, PAIRS, true, 16, (const char *[]){"PpRccc. P-?ryrzr. Qcacbc. Qrxr.", NULL});
    expect(text, PAIRS, false, 8, (const char *[]){"P-?ccc. P-?ryrzr.", "Qcacbc. Qrxr.", NULL});
}

// The answers lose their ends together; where there is no room for both, the pair is left out.
static void pairs_are_cut_together(void **state)
{
    const char *text = "{\"prompt\": \"Q\", \"chosen\": \"abcdefgh\", \"rejected\": \"x\"}";
    expect(text, PAIRS, false, 8, (const char *[]){"Qcacbcccdcecf Qrxr.", NULL});
    const char *both = "{\"prompt\": \"Q\", \"chosen\": \"abcdefgh\", \"rejected\": \"stuvw\"}";
    expect(both, PAIRS, false, 8, (const char *[]){"Qcacbcccd Qrsrtrurv", NULL});
    opened o = open_data(both, PAIRS, false, 8);
    assert_int_equal(o.train.streams[0].packing.cut, 1);
    close_opened(&o);
    const char *long_ = "{\"prompt\": \"QQQQQ\", \"chosen\": \"a\", \"rejected\": \"b\"}\n"
                        "{\"prompt\": \"P\", \"chosen\": \"a\", \"rejected\": \"b\"}";
    expect(long_, PAIRS, false, 9, (const char *[]){"Pcac. Prbr.", NULL});
    o = open_data(long_, PAIRS, false, 9);
    assert_int_equal(o.train.streams[0].dropped, 1);
    close_opened(&o);
    expect(long_, PAIRS, false, 10,
           (const char *[]){"Q-?-?-?-?ca Q-?-?-?-?rb", "Pcac. Prbr.", NULL});
}

static void answers_meet_mismatched_ones(void **state)
{
    const char *text = "{\"prompt\": \"PR\", \"completion\": \"a\", \"label\": true}\n"
                       "{\"prompt\": \"Q\", \"completion\": \"bc\", \"label\": false}\n"
                       "{\"prompt\": \"S\", \"completion\": \"d\", \"label\": true}";
    expect(text, LABELS, false, 6,
           (const char *[]){"P-?cac. P-?mdm.", "Qrbrcr. Qmam.", "Scdc. Smbmcm.", NULL});
    // Both answers of a pair meet those of the pair before.
    const char *pairs = "{\"prompt\": \"P\", \"chosen\": \"a\", \"rejected\": \"b\"}\n"
                        "{\"prompt\": \"Q\", \"chosen\": \"c\", \"rejected\": \"d\"}";
    expect(pairs, LABELS, false, 16,
           (const char *[]){"Pcac. Pmcm. Prbr. Pmdm. Qccc. Qmam. Qrdr. Qmbm.", NULL});
}

static void other_data_are_refused(void **state)
{
    const char *argument = "some.txt";
    zr_corpus *corpus;
    zero_error error = {0};
    put_text(argument, "text");
    zr_corpus_options options = {.arguments = &argument, .count = 1, .preferences = PAIRS};
    assert_int_equal(zr_corpus_open(&options, &corpus, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "is text, and preferences are records"));
    options.preferences = ZR_PREFERENCES_NONE;
    options.field = "prompt=p,chosen=c,rejected=r";
    assert_int_equal(zr_corpus_open(&options, &corpus, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "only --preference and --task classify read"));
}

// The hash tells which answer is which, though the tokens are the same.
static void roles_change_the_hash(void **state)
{
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        opened o = open_data(i ? "{\"prompt\": \"P\", \"completion\": \"a\", \"label\": true}"
                               : "{\"prompt\": \"P\", \"completion\": \"a\", \"label\": false}",
                             LABELS, false, 16);
        hash[i] = zr_dataset_hash(&o.train, 0, 1, NULL);
        close_opened(&o);
    }
    assert_true(hash[0] != hash[1]);
}

static int begin(void **state)
{
    return make(state) || zr_chat_load(NULL, "chatml", NULL, &chatml, NULL) != ZERO_OK;
}

static int end(void **state)
{
    zr_document_free(&document);
    zr_document_free(&second);
    zr_chat_free(&chatml);
    return clean(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(conversations),
        cmocka_unit_test(labels),
        cmocka_unit_test(nothing_to_compare),
        cmocka_unit_test(what_has_no_answers_is_refused),
        cmocka_unit_test(pairs_stand_together),
        cmocka_unit_test(pairs_are_cut_together),
        cmocka_unit_test(answers_meet_mismatched_ones),
        cmocka_unit_test(other_data_are_refused),
        cmocka_unit_test(roles_change_the_hash),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
