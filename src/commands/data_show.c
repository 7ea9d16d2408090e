// zero_data_show: the first micro-batch as text, with how the loss treats each part of it.
#include "base/alloc.h"
#include "base/errors.h"
#include "base/report.h"
#include "checkpoint/run_directory.h"
#include "infer/token_reading.h"
#include "infer/window_loss.h"
#include "model/architecture.h"
#include "setup/defaults.h"
#include "setup/model_task.h"
#include <zero/commands.h>

#include <string.h>
#include <zero/preference.h>

enum { SEQ = 128, SAMPLES = 2, SEED = 1337 };

typedef struct show {
    const zero_data_options *options;
    char *model_dir, *tokenizer_path; // directories to which the options' model and tokenizer lead
    zr_chat chat;
    zr_reading_progress progress;
    zr_corpus *corpus;
    zr_tokenizer *tokenizer;
    zr_dataset data, held;
    int64_t vocabulary, seq;
    zr_preference preference;
    zr_report *report;   // of one sample
    zr_buffer text, ids; // of one mark: its text, and its tokens as a list of JSON
    zr_decoder decoder;
    zr_labels labels;  // of texts with labels: the model's, or those of the data
    const char *role;  // of preferences: that of the example that is shown
    const char *label; // of the text that is shown
    bool begins;       // the part that is shown next begins a packed example
    bool stopped;
} show;

// How the loss treats a token.
typedef enum mark { MARK_TRAINED, MARK_MASKED, MARK_END } mark;

// Reads the model, if there is one, and what the options say of the examples.
static zero_status read_kind(show *s, bool *classifies, zero_error *error)
{
    const zero_data_options *options = s->options;
    zr_lm_config config;
    s->seq = options->seq ? options->seq : SEQ;
    ZERO_TRY(zr_preference_parse(options->preference, "options.preference", &s->preference, error));
    ZERO_TRY(zr_model_task_parse(options->task, "options.task", classifies, error));
    if (s->model_dir) {
        ZERO_TRY(zr_lm_config_read_in(s->model_dir, &config, error));
        const zr_lm_shape shape = zr_lm_shape_of(&config);
        s->vocabulary = shape.vocab;
        s->seq = zr_default_window(options->seq, shape.positions, &options->logger);
        s->labels = config.labels;
    }
    *classifies = *classifies || s->labels.count;
    if (*classifies && s->preference.kind)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "--preference %s shows answers to compare, and texts with labels (--task "
                       "classify) have none",
                       zr_preference_name(s->preference.kind));
    return *classifies ? zr_model_task_check_attention(options->attention, error) : ZERO_OK;
}

static zero_status read_data_show_all(show *s, zero_error *error)
{
    const zero_data_options *options = s->options;
    bool tenth = !options->val, classifies;
    ZERO_TRY(zr_model_directory(options->model_dir, &options->logger, &s->model_dir, error));
    ZERO_TRY(
        zr_tokenizer_directory(options->tokenizer, &options->logger, &s->tokenizer_path, error));
    ZERO_TRY(zr_reading_chat(s->model_dir, s->tokenizer_path, options->chat, options->chat_date,
                             &s->chat, error));
    ZERO_TRY(read_kind(s, &classifies, error));
    const zr_corpus_options corpus = {.arguments = options->data,
                                      .count = options->data_count,
                                      .field = options->field,
                                      .chat = &s->chat,
                                      .preferences = zr_reading_preferences(&s->preference),
                                      .prompt_loss = s->preference.prompt_loss > 0,
                                      .classifies = classifies,
                                      .watch =
                                          zr_reading_watch(&s->progress, NULL, &options->logger)};
    ZERO_TRY(zr_corpus_open(&corpus, &s->corpus, error));
    if (classifies && !s->labels.count)
        ZERO_TRY(zr_corpus_labels(s->corpus, &s->labels, error));
    ZERO_TRY(
        zr_reading_tokenizer(s->model_dir, s->tokenizer_path, s->corpus, &s->tokenizer, error));
    ZERO_TRY(zr_chat_check_marks(&s->chat, options->chat, s->tokenizer, error));
    zr_reading_warn(s->tokenizer, &options->logger);
    s->vocabulary = s->vocabulary ? s->vocabulary : zr_tokenizer_vocabulary(s->tokenizer);
    zr_reading reading =
        zr_token_reader_options(NULL, options->threads, s->tokenizer, s->vocabulary, s->seq);
    ZERO_TRY(zr_reading_pack(options->attention, &reading.pack, error));
    reading.labels = classifies ? &s->labels : NULL;
    ZERO_TRY(zr_corpus_read(s->corpus, &reading, &s->data, tenth ? &s->held : NULL, error));
    zr_reading_warn_records(s->corpus, &options->logger);
    zr_reading_warn_cut(&s->data, &options->logger);
    zr_reading_warn_shortened(s->corpus, &s->data, &options->logger);
    zr_reading_warn_chat(&s->chat, &options->logger);
    s->data.seed = (uint64_t)(options->seed < 0 ? SEED : options->seed);
    return ZERO_OK;
}

// Explains the marks, once, before the first sample.
static void explain_marks(const show *s)
{
    if (s->options->color)
        zr_report_words(s->report,
                        "The loss counts what is not \033[2mdimmed\033[0m; an \033[7mend "
                        "token\033[0m stands out, and a new line follows it.\n\n");
    else
        zr_report_words(s->report, "The loss does not count what is in [brackets]; a new line "
                                   "follows each end token.\n\n");
}

// Makes dots of the control characters that a terminal would take for commands.
static void show_on_terminal(zr_buffer *text)
{
    size_t kept = 0;
    for (size_t i = 0; i < text->length; kept++) {
        const unsigned char *at = (const unsigned char *)text->data + i;
        size_t left = text->length - i;
        bool white = at[0] == '\n' || at[0] == '\t', c1 = left > 1 && at[0] == 0xc2 && at[1] < 0xa0;
        bool control = !white && (at[0] < 0x20 || at[0] == 0x7f || c1);
        text->data[kept] = control ? '.' : text->data[i];
        i += c1 ? 2 : 1;
    }
    text->length = kept;
}

// Ends a part of a sample, whose tokens the loss treats alike.
static void end_part(show *s, mark mark, bool is_target)
{
    static const char *const around[2][3][2] = {
        {{"", ""}, {"[", "]"}, {"", "\n"}},
        {{"", ""}, {"\033[2m", "\033[0m"}, {"\033[7m", "\033[0m\n"}},
    };
    const char *const *put = around[s->options->color != 0][mark];
    bool has_text = s->text.length > 0; // a character may end in a later part
    zr_buffer_printf(&s->ids, "]");
    if (s->options->terminal)
        show_on_terminal(&s->text);
    zr_report_begin(s->report, NULL);
    zr_report_json_only(s->report, "target", zr_flag(is_target));
    zr_report_json_only(s->report, "end", zr_flag(mark == MARK_END));
    if (s->begins)
        zr_report_json_only(s->report, "begins", zr_flag(true));
    if (s->begins && s->role)
        zr_report_json_only(s->report, "role", zr_text(s->role));
    if (s->begins && s->label)
        zr_report_json_only(s->report, "label", zr_text(s->label));
    s->begins = false;
    zr_report_json_only(s->report, "tokens", zr_both(NULL, s->ids.data));
    zr_report_phrase(s->report, &(zr_heading){"text", has_text ? put[0] : ""},
                     zr_verbatim(has_text ? s->text.data : "", s->text.length));
    zr_report_words(s->report, "%s", has_text ? put[1] : "");
    zr_report_end(s->report);
    s->text.length = s->ids.length = 0;
}

// Rows of one example, or of a window of a stream: a token each, and the last one's target.
typedef struct example {
    const int32_t *tokens, *targets;
    int64_t rows;
} example;

static bool is_target(const example *of, int64_t i) { return i > 0 && of->targets[i - 1] >= 0; }

static int32_t id_at(const example *of, int64_t i)
{
    return i < of->rows ? of->tokens[i] : of->targets[of->rows - 1];
}

static mark mark_of(const show *s, const example *of, int64_t i)
{
    bool end = id_at(of, i) == zr_tokenizer_end(s->tokenizer);
    return end ? MARK_END : is_target(of, i) ? MARK_TRAINED : MARK_MASKED;
}

// Shows the rows' tokens, and the last target if it is a token that counts in the loss.
static void show_example(show *s, const example *of)
{
    int64_t count = of->rows + (of->targets[of->rows - 1] >= 0 && !s->label);
    zr_decoder_begin(&s->decoder, s->tokenizer, false);
    for (int64_t i = 0; i < count; i++) {
        mark mark = mark_of(s, of, i);
        int32_t id = id_at(of, i);
        zr_buffer_printf(&s->ids, s->ids.length ? ",%d" : "[%d", id);
        zr_decoder_push(&s->decoder, id, &s->text);
        if (i + 1 == count)
            zr_decoder_end(&s->decoder, &s->text);
        if (i + 1 == count || mark == MARK_END || mark_of(s, of, i + 1) != mark)
            end_part(s, mark, is_target(of, i));
    }
}

// Returns the rows of the example that begins with row `first`.
static int64_t rows_of_example(const zr_rows *rows, int64_t first, int64_t seq)
{
    int64_t end = first + 1;
    while (end < seq && (!rows->positions || rows->positions[end]))
        end++;
    return end - first;
}

// Says what an example of preferences is.
static void show_role(show *s, const int32_t *roles, int64_t rows)
{
    static const struct {
        const char *text, *name, *color;
    } words[] = {
        [ZERO_ROLE_chosen] = {"chosen", "chosen", "\033[32m"},
        [ZERO_ROLE_rejected] = {"rejected", "rejected", "\033[31m"},
        [ZERO_ROLE_mismatched] = {"mismatched, for the baseline", "mismatched", "\033[33m"}};
    int64_t row = rows;
    while (row > 0 && (roles[row - 1] < 1 || roles[row - 1] >= ZR_COUNT(words)))
        row--;
    if (!row)
        return;
    s->role = words[roles[row - 1]].name;
    zr_report_words(s->report, s->options->color ? "%s--- %s ---\033[0m\n" : "%s--- %s ---\n",
                    s->options->color ? words[roles[row - 1]].color : "",
                    words[roles[row - 1]].text);
}

// Says which label a text has; the target of its last token, if the window has that.
static void show_label(show *s, int32_t target)
{
    s->label = NULL;
    if (target < 0)
        return;
    s->label = zr_labels_name(&s->labels, target);
    zr_buffer_append(&s->text, s->label, strlen(s->label));
    if (s->options->terminal)
        show_on_terminal(&s->text);
    zr_report_words(s->report,
                    s->options->color ? "\033[32m--- label %.*s ---\033[0m\n"
                                      : "--- label %.*s ---\n",
                    (int)s->text.length, s->text.data ? s->text.data : "");
    s->text.length = 0;
}

// Shows the first `filled` rows of a window: those of a stream, or whole examples.
static void show_tokens(show *s, const zr_rows *rows, int64_t filled, bool packed)
{
    zr_report_begin_list(s->report, "parts");
    for (int64_t first = 0, count; first < filled; first += count) {
        count = rows_of_example(rows, first, filled);
        s->begins = packed;
        if (first)
            zr_report_words(s->report, "\n~~~ the next example, which does not see this one\n");
        if (rows->roles)
            show_role(s, rows->roles + first, count);
        if (s->labels.count)
            show_label(s, rows->targets[first + count - 1]);
        show_example(s, &(example){rows->tokens + first, rows->targets + first, count});
    }
    zr_report_end(s->report);
}

// Says where in a stream the window's tokens are, or which window of whole examples it is.
static void show_window(show *s, const zr_stream *stream, int64_t first, int64_t filled)
{
    zr_report *r = s->report;
    const zr_packing *packing = &stream->packing;
    if (!stream->examples) {
        zr_report_phrase(r, &(zr_heading){"first", ", tokens "}, zr_integer(first));
        zr_report_phrase(r, &(zr_heading){"last", " to "}, zr_integer(first + s->seq));
        zr_report_phrase(r, &(zr_heading){"data_tokens", " of "}, zr_integer(stream->count));
        return;
    }
    zr_report_phrase(r, &(zr_heading){"window", ", window "}, zr_integer(first));
    zr_report_phrase(r, &(zr_heading){"windows", " of "}, zr_integer(packing->windows));
    zr_report_phrase(r, &(zr_heading){"examples", ", whole examples: "},
                     zr_integer(packing->begins[first + 1] - packing->begins[first]));
    zr_report_phrase(r, &(zr_heading){"empty", ", empty rows: "}, zr_integer(s->seq - filled));
}

static void show_place(show *s, int64_t number, zr_token_window window, const int32_t *targets,
                       int64_t filled)
{
    const zr_stream *stream = &s->data.streams[window.stream];
    zr_report *r = s->report;
    zr_buffer_append(&s->text, stream->name, strlen(stream->name));
    if (s->options->terminal)
        show_on_terminal(&s->text);
    zr_report_phrase(r, &(zr_heading){"sample", "--- sample "}, zr_integer(number));
    zr_report_phrase(r, &(zr_heading){"data", ": "}, zr_verbatim(s->text.data, s->text.length));
    show_window(s, stream, window.first, filled);
    zr_report_phrase(r, &(zr_heading){"targets", "; "},
                     zr_integer(zr_count_targets(targets, s->seq)));
    zr_report_phrase(r, &(zr_heading){"seq", " of "}, zr_integer(s->seq));
    zr_report_words(r, " targets count ---\n");
    s->text.length = 0;
}

// Emits the answer about a sample, and gives its report back.
static zero_status emit_sample(show *s, int64_t number, zero_error *error)
{
    const zero_data_options *options = s->options;
    zr_buffer out = {.failed = s->text.failed || s->ids.failed};
    zr_report_finish(s->report, options->json ? ZR_REPORT_JSON : ZR_REPORT_TEXT, 0, &out);
    zr_buffer_printf(&out, "\n");
    zero_status status = out.failed
                             ? zr_fail(error, ZERO_ERR_MEMORY,
                                       "no memory for the text of sample %lld", (long long)number)
                             : ZERO_OK;
    if (status == ZERO_OK)
        s->stopped = options->emit(options->user, out.data, out.length) != 0;
    zr_buffer_free(&out);
    return status;
}

static zero_status show_sample(show *s, int64_t number, zr_rows rows, zero_error *error)
{
    zr_token_window window = zr_dataset_train_window(&s->data, number);
    int64_t filled = zr_dataset_window_rows(&s->data, window);
    zr_dataset_train_batch(&s->data, number, 1, rows);
    s->report = zr_report_create(error);
    if (!s->report)
        return ZERO_ERR_MEMORY;
    if (number)
        zr_report_words(s->report, "\n");
    else
        explain_marks(s);
    show_place(s, number, window, rows.targets, filled);
    show_tokens(s, &rows, filled, s->data.streams[window.stream].examples != NULL);
    return emit_sample(s, number, error);
}

static zero_status show_batch(show *s, zero_error *error)
{
    int64_t samples = s->options->micro_batch ? s->options->micro_batch : SAMPLES;
    zr_rows rows;
    zero_status status = zr_windows_alloc(&s->data, 1, &rows, error);
    for (int64_t i = 0; i < samples && status == ZERO_OK && !s->stopped; i++)
        status = show_sample(s, i, rows, error);
    zr_windows_free(&rows);
    return status;
}

zero_status zero_data_show(const zero_data_options *options, zero_error *error)
{
    ZR_NEED(error, options);
    show s = {.options = options};
    if (!options->data || options->data_count < 1 || !options->emit)
        return zr_fail(error, ZERO_ERR_USAGE, "zero_data_show: options.%s is missing",
                       options->emit ? "data" : "emit");
    if (options->seq < 0 || options->micro_batch < 0)
        return zr_fail(error, ZERO_ERR_USAGE,
                       "zero_data_show: seq %lld, micro_batch %lld: both must be 0 or more",
                       (long long)options->seq, (long long)options->micro_batch);
    zero_status status = read_data_show_all(&s, error);
    if (status == ZERO_OK)
        status = show_batch(&s, error);
    zr_buffer_free(&s.text);
    zr_buffer_free(&s.ids);
    zr_dataset_free(&s.data);
    zr_dataset_free(&s.held);
    zr_corpus_close(s.corpus);
    zr_tokenizer_destroy(s.tokenizer);
    zr_chat_free(&s.chat);
    zr_free(s.model_dir);
    zr_free(s.tokenizer_path);
    return status;
}
