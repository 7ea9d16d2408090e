// Files of every kind become streams of tokens: what is trained on, what is held out, what
// separates documents, and what is refused.
#define _GNU_SOURCE
#include "corpus_files.h"

static void test_text_is_one_stream(void **state)
{
    opened o = open_well(bytes, 4, false, "a.txt", "b.txt"),
           held = open_well(bytes, 1, true, "a.txt", "b.txt"),
           short_ = open_well(bytes, 4, true, "a.txt", "b.txt");
    assert_string_equal(spelled(&o.train, 0), "abcdefghijABCDEFGHIJ");
    assert_int_equal(o.train.stream_count, 1);
    assert_int_equal(o.train.count, 20);
    assert_string_equal(spelled(&held.train, 0), "abcdefghijABCDEFGH");
    assert_string_equal(spelled(&held.held, 0), "IJ");
    // a tenth is no window of 5
    assert_string_equal(spelled(&short_.train, 0), "abcdefghijABCDEFGHIJ");
    assert_int_equal(short_.held.count, 0);
    assert_int_equal(zr_corpus_bytes(o.corpus), 20);
    close_opened(&o);
    close_opened(&held);
    close_opened(&short_);
}

static void test_the_end_token_separates_files(void **state)
{
    opened o = open_well(words, 2, true, "?.txt", "a.txt");
    assert_string_equal(spelled(&o.train, 0), "abcdefghij|ABCDEFGHIJ|abcdefg");
    assert_string_equal(spelled(&o.held, 0), "hij|");
    close_opened(&o);
    put_text("e.txt", "<|endoftext|>");
    o = open_well(words, 2, false, "e.txt", NULL); // in a text file it is text
    assert_string_equal(spelled(&o.train, 0), "<|endoftext|>|");
    close_opened(&o);
}

static void test_characters_cut_by_files(void **state)
{
    put("half1.txt", "x\xe2\x82", 3);
    put("half2.txt", "\xacy", 2);
    const char *const arguments[] = {"half1.txt", "half2.txt"};
    const zr_corpus_options options = {.arguments = arguments, .count = 2};
    zr_corpus *corpus;
    zr_tokenizer *chars;
    assert_int_equal(zr_corpus_open(&options, &corpus, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_characters(corpus, &chars, NULL), ZERO_OK);
    assert_int_equal(zr_tokenizer_vocabulary(chars), 3);
    zr_dataset train;
    assert_int_equal(zr_corpus_read(corpus,
                                    &(zr_reading){.tokenizer = chars, .vocabulary = 3, .seq = 2},
                                    &train, NULL, NULL),
                     ZERO_OK);
    assert_int_equal(train.count, 3);
    zr_dataset_free(&train);
    zr_corpus_close(corpus);
    zr_tokenizer_destroy(chars);
}

static void test_records(void **state)
{
    put_text("r.jsonl",
             "{\"text\": \"one\"}\n{\"prompt\": \"2=\", \"completion\": \"two\"}\n\n{\"messages\": "
             "[{\"role\": \"assistant\", \"content\": \"hi\"}]}\n");
    opened o = open_well(words, 2, true, "r.jsonl", NULL);
    assert_string_equal(spelled(&o.train, 0), "one|[2][=]two|[<][|][i][m][_][s][t][a][r][t][|][>]["
                                              "a][s][s][i][s][t][a][n][t][\2]hi<|im_end|>[\2]");
    assert_int_equal(o.train.masked, 2 + 12 + 10 + 1);
    assert_int_equal(o.held.count, 0); // no tenth of three
    close_opened(&o);
    o = open_well(bytes, 2, false, "r.jsonl", NULL); // no end token: a line each
    assert_memory_equal(spelled(&o.train, 0), "one\n[2][=]two\n[<]", 17);
    close_opened(&o);
}

// twenty.jsonl: records of two letters each, aa to tt.
static void put_twenty_records(void)
{
    char text[2048] = "";
    for (int i = 0; i < 20; i++)
        sprintf(text + strlen(text), "{\"text\": \"%c%c\"}\n", 'a' + i, 'a' + i);
    put_text("twenty.jsonl", text);
}

static void test_a_tenth_of_the_records(void **state)
{
    char expected[256] = "";
    put_twenty_records();
    for (int i = 0; i < 18; i++)
        sprintf(expected + strlen(expected), "%c%c|", 'a' + i, 'a' + i);
    opened o = open_well(words, 3, true, "twenty.jsonl", NULL);
    assert_string_equal(spelled(&o.train, 0), expected);
    assert_string_equal(spelled(&o.held, 0), "ss|tt|");
    close_opened(&o);
}

// The same records as lines, as one array, and as objects on several lines.
static void test_an_array_is_read_as_lines_are(void **state)
{
    static const char *const ways[][3] = {
        {"[", ",\n", "]"}, {"\n [\n", " , ", "\n]\n"}, {"", "\n\n", ""}, {"", "", "\n"}};
    put_twenty_records();
    opened lines = open_well(words, 3, true, "twenty.jsonl", NULL);
    uint64_t hash = zr_dataset_hash(&lines.train, 0, 1, NULL),
             held = zr_dataset_hash(&lines.held, 0, 1, NULL);
    for (int w = 0; w < ZR_COUNT(ways); w++) {
        char text[2048];
        int at = snprintf(text, sizeof text, "%s", ways[w][0]);
        for (int i = 0; i < 20; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s{\n\"text\": \"%c%c\"}",
                           i ? ways[w][1] : "", 'a' + i, 'a' + i);
        snprintf(text + at, sizeof text - (size_t)at, "%s", ways[w][2]);
        put_text("twenty.json", text);
        opened o = open_well(words, 3, true, "twenty.json", NULL);
        assert_true(zr_dataset_hash(&o.train, 0, 1, NULL) == hash);
        assert_true(zr_dataset_hash(&o.held, 0, 1, NULL) == held);
        close_opened(&o);
    }
    close_opened(&lines);
}

// Of nineteen records one is held out: a tenth, rounded down.
static void test_a_tenth_is_rounded_down(void **state)
{
    char text[1024] = "[";
    for (int i = 0; i < 19; i++)
        sprintf(text + strlen(text), "%s{\"text\": \"%c%c\"}", i ? "," : "", 'a' + i, 'a' + i);
    strcat(text, "]");
    put_text("nineteen.json", text);
    opened o = open_well(words, 2, true, "nineteen.json", NULL);
    assert_string_equal(spelled(&o.held, 0), "ss|");
    close_opened(&o);
}

static void test_what_records_may_say(void **state)
{
    put_text("special.jsonl", "{\"text\": \"a<|endoftext|>b\"}\n");
    // in a record it is that token, as in transformers
    opened o = open_well(words, 2, false, "special.jsonl", NULL);
    assert_string_equal(spelled(&o.train, 0), "a|b|");
    close_opened(&o);
}

static void test_token_files(void **state)
{
    opened o = open_well(bytes, 4, true, "t.bin", NULL);
    int32_t tokens[4], targets[4];
    assert_int_equal(o.train.count, 90);
    assert_int_equal(o.held.count, 10);
    zr_dataset_eval_batch(&o.held, 1, 1, (zr_rows){tokens, targets, NULL});
    assert_int_equal(tokens[0], 194);
    assert_int_equal(targets[3], 198);
    close_opened(&o);
    zero_error error = {0};
    assert_int_equal(open_as(&o, bytes, 150, 4, false, &error, "t.bin", NULL), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "t.bin"));
    assert_non_null(strstr(error.message, "150")); // the id, which stands at 50
    assert_non_null(strstr(error.message, "50"));
    close_opened(&o);
}

// Each rank checks its part, all of them the whole.
static void test_ranks_share_the_check(void **state)
{
    int refused = 0;
    for (int rank = 0; rank < 7; rank++) {
        const char *const argument = "t.bin";
        const zr_corpus_options options = {.arguments = &argument, .count = 1};
        zr_corpus *corpus;
        zr_dataset train;
        assert_int_equal(zr_corpus_open(&options, &corpus, NULL), ZERO_OK);
        refused +=
            zr_corpus_read(
                corpus,
                &(zr_reading){
                    .tokenizer = bytes, .vocabulary = 199, .seq = 4, .share = rank, .shares = 7},
                &train, NULL, NULL) == ZERO_ERR_DATA;
        zr_dataset_free(&train);
        zr_corpus_close(corpus);
    }
    assert_int_equal(refused, 1); // id 199 stands at the end, in the last one's
}

static void test_weights_make_streams(void **state)
{
    opened o = open_well(bytes, 3, true, "a.txt:3", "t.bin:1");
    int from_text = 0;
    assert_int_equal(o.train.stream_count, 2);
    assert_string_equal(spelled(&o.train, 0), "abcdefghij"); // too short to hold anything out
    assert_int_equal(o.train.streams[1].count, 90);
    assert_int_equal(zr_dataset_eval_windows(&o.held), 3);
    assert_int_equal(zr_dataset_eval_window(&o.held, 2).stream, 1);
    for (int64_t s = 0; s < 4000; s++) {
        int32_t tokens[3], targets[3];
        zr_dataset_train_batch(&o.train, s, 1, (zr_rows){tokens, targets, NULL});
        from_text += tokens[0] < 'k';
        assert_int_equal(tokens[0] < 'k' || tokens[0] >= 100, 1);
        assert_int_equal(targets[2], tokens[2] + 1);
    }
    // ids 100 to 106 of the file are letters too
    assert_in_range(from_text, 2999, 3001 + 4000 / 10);
    close_opened(&o);
}

// The same file twice: two streams, each in an order of its own.
static void test_streams_have_orders_of_their_own(void **state)
{
    opened o = open_well(bytes, 3, false, "t.bin:1", "t.bin:1.0");
    int differ = 0;
    for (int64_t s = 0; s < 40; s += 2) {
        zr_token_window a = zr_dataset_train_window(&o.train, s),
                        b = zr_dataset_train_window(&o.train, s + 1);
        assert_int_equal(a.stream + b.stream, 1);
        differ += a.first != b.first;
    }
    assert_true(differ > 10);
    close_opened(&o);
}

static void refuse(zero_status status, const char *words_, const char *first, const char *second)
{
    opened o;
    zero_error error = {0};
    zero_status got = open_as(&o, bytes, 256, 4, false, &error, first, second);
    close_opened(&o);
    if (got != status || !strstr(error.message, words_))
        fail_msg("status %d, \"%s\", where %d, \"%s\" is due", got, error.message, status, words_);
}

static void test_what_is_refused(void **state)
{
    put_text("empty", "");
    put_text("short.txt", "abcd");
    put_text("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 1}\n");
    put_text("blank.jsonl", "\n\n \n");
    put_text("prompts.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"only questions\"}]}\n");
    refuse(ZERO_ERR_IO, "missing.txt", "missing.txt", NULL);
    refuse(ZERO_ERR_IO, "missing.jsonl", "a.txt", "missing.jsonl");
    refuse(ZERO_ERR_DATA, "\"empty\" is empty", "empty", NULL);
    refuse(ZERO_ERR_DATA, "is empty, where JSON is needed", "jsonl:empty", NULL);
    refuse(ZERO_ERR_DATA, "is a directory", ".", NULL);
    refuse(ZERO_ERR_DATA, "short.txt: 4 tokens, fewer than the 5 of one window", "short.txt", NULL);
    refuse(ZERO_ERR_DATA, "short.txt: 4 tokens", "a.txt:1", "short.txt:1");
    refuse(ZERO_ERR_DATA, "bad.jsonl:2: the field \"text\" is a number", "bad.jsonl", NULL);
    refuse(ZERO_ERR_DATA, "anything to train on", "blank.jsonl", NULL);
    refuse(ZERO_ERR_DATA, "anything to train on", "prompts.jsonl", NULL);
    refuse(ZERO_ERR_USAGE, "\"b.txt\" has none", "a.txt:1", "b.txt");
    refuse(ZERO_ERR_USAGE, "sum is not finite", "a.txt:1e308", "b.txt:1e308");
}

// What makes other streams of the same files makes another hash: which files, in which order, as
// what; how records are read; what is held out.
static void test_the_hash_covers_everything(void **state)
{
    static const struct {
        const char *first, *second, *field, *format;
        bool holds, ends;
    } cases[] = {
        {"a.txt", "b.txt"},
        {"b.txt", "a.txt"},
        {"a.txt", NULL},
        {"a.txt:1", "b.txt:1"},
        {"a.txt:1", "b.txt:2"},
        {"t.bin", NULL},
        {"text:t.bin", NULL},
        {.first = "a.txt", .second = "b.txt", .holds = true},
        {.first = "a.txt", .ends = true},
        {.first = "fields.jsonl", .format = "chatml"},
        {.first = "fields.jsonl", .field = "text"},
        {.first = "fields.jsonl", .field = "other"},
        {.first = "fields.jsonl", .format = "llama3"},
    };
    uint64_t hashes[ZR_COUNT(cases)];
    put_text("fields.jsonl",
             "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
             "\"content\": \"a\"}], \"text\": \"words\", \"other\": \"drows\"}\n");
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zr_chat as = {0};
        const char *const arguments[] = {cases[i].first, cases[i].second};
        const zr_corpus_options options = {.arguments = arguments,
                                           .count = cases[i].second ? 2 : 1,
                                           .field = cases[i].field,
                                           .chat = &as};
        const zr_reading reading = {
            .tokenizer = cases[i].ends ? words : bytes, .vocabulary = 256, .seq = 1};
        opened o = {0};
        assert_int_equal(zr_chat_load(NULL, cases[i].format, NULL, &as, NULL), ZERO_OK);
        assert_int_equal(zr_corpus_open(&options, &o.corpus, NULL), ZERO_OK);
        assert_int_equal(
            zr_corpus_read(o.corpus, &reading, &o.train, cases[i].holds ? &o.held : NULL, NULL),
            ZERO_OK);
        hashes[i] = zr_dataset_hash(&o.train, 0, 1, NULL);
        close_opened(&o);
        zr_chat_free(&as);
        for (int j = 0; j < i; j++)
            if (hashes[i] == hashes[j])
                fail_msg("cases %d and %d have the same hash", j, i);
    }
}

static void test_characters_of_all(void **state)
{
    const char *const arguments[] = {"a.txt", "twenty.jsonl"}, *const tokens[] = {"t.bin"};
    const zr_corpus_options options = {.arguments = arguments, .count = 2},
                            none = {.arguments = tokens, .count = 1};
    zr_corpus *corpus;
    zr_tokenizer *chars;
    zero_error error;
    put_twenty_records();
    assert_int_equal(zr_corpus_open(&options, &corpus, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_characters(corpus, &chars, NULL), ZERO_OK);
    // a to t, and the new line that ends records
    assert_int_equal(zr_tokenizer_vocabulary(chars), 21);
    zr_tokenizer_destroy(chars);
    zr_corpus_close(corpus);
    assert_int_equal(zr_corpus_open(&none, &corpus, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_characters(corpus, &chars, &error), ZERO_ERR_USAGE);
    assert_non_null(strstr(error.message, "t.bin"));
    zr_corpus_close(corpus);
}

static int beats;

static void count_beat(void *user, const char *name, size_t done, size_t total)
{
    assert_true(done <= total);
    beats++;
}

// Text in pieces, whose borders do not show: characters of 3 bytes, no multiple of a piece's end.
static void test_pieces_do_not_show(void **state)
{
    const size_t characters = 3 << 20;
    char *text = zr_alloc(3 * characters, NULL);
    const char *const argument = "euro.txt";
    const zr_corpus_options options = {
        .arguments = &argument, .count = 1, .watch = {.beat = count_beat}};
    zr_corpus *corpus;
    zr_tokenizer *chars;
    zr_dataset train;
    for (size_t i = 0; i < characters; i++)
        memcpy(text + 3 * i, i % 7 ? "\xe2\x82\xac" : "\xe2\x82\xad", 3);
    put("euro.txt", text, 3 * characters);
    assert_int_equal(zr_corpus_open(&options, &corpus, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_characters(corpus, &chars, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_read(corpus,
                                    &(zr_reading){.tokenizer = chars, .vocabulary = 2, .seq = 16},
                                    &train, NULL, NULL),
                     ZERO_OK);
    assert_int_equal(train.count, characters);
    for (size_t i = 0; i < characters; i++)
        assert_true(train.streams[0].spans[0].tokens[i] == (i % 7 == 0));
    assert_true(beats >= 2);
    zr_dataset_free(&train);
    zr_corpus_close(corpus);
    text[8000000] = (char)0xff; // in the second piece
    put("euro.txt", text, 3 * characters);
    zero_error error;
    const char *const raw = "text:euro.txt";
    assert_int_equal(zr_corpus_open(&options, &corpus, &error), ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "euro.txt: byte 7999998 (0xe2) is not valid UTF-8"));
    const zr_corpus_options as_is = {.arguments = &raw, .count = 1};
    assert_int_equal(zr_corpus_open(&as_is, &corpus, NULL), ZERO_OK);
    assert_int_equal(zr_corpus_read(corpus,
                                    &(zr_reading){.tokenizer = chars, .vocabulary = 2, .seq = 16},
                                    &train, NULL, &error),
                     ZERO_ERR_DATA);
    assert_non_null(strstr(error.message, "euro.txt: byte 7999998 "));
    zr_corpus_close(corpus);
    zr_tokenizer_destroy(chars);
    zr_free(text);
}

static zero_status open_file(const char *argument, zero_error *error)
{
    zr_corpus *corpus;
    const zr_corpus_options options = {.arguments = &argument, .count = 1};
    zero_status status = zr_corpus_open(&options, &corpus, error);
    if (status == ZERO_OK)
        zr_corpus_close(corpus);
    return status;
}

static void test_what_is_no_text(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t length;
        const char *words; // NULL: it is text
    } cases[] = {
        {"rows.csv", "a,b\n1,2\n", 8, "csv.DictReader(open(\"rows.csv\", newline=\"\"))"},
        {"rows.tsv", "a\tb\n1\t2\n", 8, "delimiter=\"\\t\""},
        {"f.arrow", "ARROW1\0\0", 8, "is an Arrow file"},
        {"f.npy", "\x93NUMPY\1\0", 8, "is an array of NumPy"},
        {"f.safetensors", "\2\0\0\0\0\0\0\0{}", 10, "is a safetensors file"},
        {"f.gguf", "GGUF\3\0\0\0", 8, "is a GGUF file"},
        {"f.pkl", "\x80\4\x95.", 4, "is a pickle"},
        {"f.png", "\x89PNG\r\n", 6, "is a PNG image"},
        {"f.elf",
         "\x7f"
         "ELF\2",
         5, "is an executable"},
        {"utf16.jsonl", "\xff\xfe{\0", 4, "is text in UTF-16, where JSON is needed: iconv"},
        {"bare16.txt", "a\0b\0", 4, "bare16.txt: byte 1 is a NUL"},
        {"latin.txt", "Caf\xe9 noir, plain words", 22, "byte 3 (0xe9) is not valid UTF-8"},
        {"utf8.txt", "Caf\xc3\xa9 \xf0\x9f\x98\x80, plain words\x7f", 24, NULL},
        {"cut.txt", "\x98\x80 plain words, cut \xf0\x9f", 22, NULL},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        zero_error error = {0};
        char raw[64];
        put(cases[i].name, cases[i].bytes, cases[i].length);
        zero_status status = open_file(cases[i].name, &error);
        if (status != (cases[i].words ? ZERO_ERR_DATA : ZERO_OK) ||
            (cases[i].words && !strstr(error.message, cases[i].words)))
            fail_msg("%s: %d, %s", cases[i].name, status, error.message);
        snprintf(raw, sizeof raw, "text:%s", cases[i].name);
        assert_int_equal(open_file(raw, NULL), ZERO_OK);
        unlink(cases[i].name);
    }
}

static void test_no_memory(void **state)
{
    opened o;
    put_twenty_records();
    int64_t before = zr_alloc_count();
    assert_int_equal(open_as(&o, bytes, 256, 4, true, NULL, "twenty.jsonl", "?.txt"), ZERO_OK);
    close_opened(&o);
    for (int64_t nth = 1, all = zr_alloc_count() - before; nth <= all; nth++) {
        zr_alloc_fail_at(nth);
        zero_status status = open_as(&o, bytes, 256, 4, true, NULL, "twenty.jsonl", "?.txt");
        zr_alloc_fail_at(0);
        close_opened(&o);
        assert_int_equal(status, ZERO_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_one_stream),
        cmocka_unit_test(test_the_end_token_separates_files),
        cmocka_unit_test(test_characters_cut_by_files),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_a_tenth_of_the_records),
        cmocka_unit_test(test_an_array_is_read_as_lines_are),
        cmocka_unit_test(test_a_tenth_is_rounded_down),
        cmocka_unit_test(test_what_records_may_say),
        cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_ranks_share_the_check),
        cmocka_unit_test(test_weights_make_streams),
        cmocka_unit_test(test_streams_have_orders_of_their_own),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_the_hash_covers_everything),
        cmocka_unit_test(test_characters_of_all),
        cmocka_unit_test(test_pieces_do_not_show),
        cmocka_unit_test(test_what_is_no_text),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
