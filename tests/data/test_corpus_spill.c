// Ids in a spill are those in memory: the same streams, windows, packing, hashes and fingerprints,
// whatever the files are; and so are those that one rank makes for all of its machine.
#define _GNU_SOURCE
#include "corpus_files.h"

#include <pthread.h>

enum { RANKS = 3, SEQ = 6 };

typedef struct corpus_case {
    const char *arguments[3];
    bool holds, ends; // ends: the tokenizer has an end token
    zr_pack pack;
} corpus_case;

static const corpus_case cases[] = {
    {.arguments = {"a.txt"}},
    {.arguments = {"a.txt", "b.txt"}, .holds = true, .ends = true},
    {.arguments = {"a.txt", "b.txt", "a.txt"}, .holds = true},
    {.arguments = {"many.jsonl"}, .holds = true},
    {.arguments = {"many.jsonl"}, .holds = true, .ends = true},
    {.arguments = {"many.jsonl", "b.txt", "t.bin"}, .ends = true, .pack = ZR_PACK_ALL},
    {.arguments = {"many.jsonl"}, .ends = true, .pack = ZR_PACK_NONE},
    {.arguments = {"many.jsonl:0.3", "plain.json:0.5", "t.bin:0.2"}, .holds = true, .ends = true},
    {.arguments = {GOLDEN "/conversations.parquet", "plain.json"}, .holds = true, .ends = true},
};

static int make_records_of_all_kinds(void **state)
{
    zr_buffer lines = {0}, array = {0};
    if (make(state))
        return 1;
    for (int i = 0; i < 1500; i++) {
        zr_buffer_printf(&lines, "{\"prompt\": \"p%d\", \"completion\": \"%.*s\"}\n", i % 7,
                         i * 5 % 9 + 1, "completion");
        zr_buffer_printf(&array, "%c{\"text\": \"t%d\"}\n", i ? ',' : '[', i);
    }
    zr_buffer_printf(&array, "]");
    put("many.jsonl", lines.data, lines.length);
    put("plain.json", array.data, array.length);
    zr_buffer_free(&lines);
    zr_buffer_free(&array);
    return setenv("TMPDIR", directory, 1);
}

static zr_reading reading_of(const corpus_case *c, int64_t kept_bytes)
{
    return (zr_reading){.tokenizer = c->ends ? words : bytes,
                        .vocabulary = 256,
                        .seq = SEQ,
                        .pack = c->pack,
                        .kept_bytes = kept_bytes};
}

static zero_status read_case(const corpus_case *c, const zr_reading *reading, bool follows,
                             opened *o, zero_error *error)
{
    int count = 0;
    while (count < 3 && c->arguments[count])
        count++;
    const zr_corpus_options options = {
        .arguments = c->arguments, .count = count, .chat = &chat, .follows = follows};
    *o = (opened){0};
    ZERO_TRY(zr_corpus_open(&options, &o->corpus, error));
    return zr_corpus_read(o->corpus, reading, &o->train, c->holds ? &o->held : NULL, error);
}

static void add_fingerprint(void *user, const zr_token_span *span, double weight, uint64_t hash)
{
    *(uint64_t *)user = *(uint64_t *)user * 31 + hash;
}

static uint64_t fingerprint_of(const zr_dataset *data)
{
    uint64_t hash = 0;
    zr_dataset_fingerprint(data, 7, NULL, add_fingerprint, &hash);
    return hash;
}

static void expect_same_windows(const zr_dataset *a, const zr_dataset *b)
{
    int32_t rows[2][3][SEQ];
    for (int64_t sample = 0; sample < 300; sample++) {
        memset(rows, 0, sizeof rows);
        zr_dataset_train_batch(a, sample, 1, (zr_rows){rows[0][0], rows[0][1], rows[0][2]});
        zr_dataset_train_batch(b, sample, 1, (zr_rows){rows[1][0], rows[1][1], rows[1][2]});
        assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
    }
}

static int64_t count_masked(const zr_dataset *data)
{
    int64_t masked = 0;
    for (int s = 0; s < data->stream_count; s++)
        for (int64_t i = 0; i < data->streams[s].count; i++) {
            int32_t id;
            zr_stream_read(&data->streams[s], i, 1, &id);
            masked += id < 0;
        }
    return masked;
}

static void expect_same_data(const zr_dataset *a, const zr_dataset *b)
{
    assert_int_equal(a->stream_count, b->stream_count);
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->masked, b->masked);
    assert_int_equal(a->bare, b->bare);
    assert_true(a->documents == b->documents);
    assert_true(zr_dataset_hash(a, 0, 1, NULL) == zr_dataset_hash(b, 0, 1, NULL));
    assert_true(fingerprint_of(a) == fingerprint_of(b));
    for (int i = 0; i < a->stream_count; i++)
        assert_true(zr_stream_bare_windows(&a->streams[i], SEQ) ==
                    zr_stream_bare_windows(&b->streams[i], SEQ));
}

static bool has_spill(const zr_dataset *data)
{
    for (int s = 0; s < data->stream_count; s++)
        for (int i = 0; i < data->streams[s].span_count; i++)
            if (data->streams[s].spans[i].spill)
                return true;
    return false;
}

static void expect_same(const opened *kept, const opened *spilled)
{
    assert_false(has_spill(&kept->train));
    assert_int_equal(spilled->train.masked, count_masked(&spilled->train));
    assert_true(has_spill(&spilled->train));
    expect_same_data(&kept->train, &spilled->train);
    expect_same_data(&kept->held, &spilled->held);
    expect_same_windows(&kept->train, &spilled->train);
    assert_int_equal(zr_corpus_empty(kept->corpus), zr_corpus_empty(spilled->corpus));
    assert_int_equal(zr_corpus_plain(kept->corpus), zr_corpus_plain(spilled->corpus));
    assert_int_equal(zr_dataset_check_files(&spilled->train, NULL), ZERO_OK);
}

static void read_well(const corpus_case *c, const zr_reading *reading, opened *o)
{
    zero_error error = {0};
    if (read_case(c, reading, false, o, &error) != ZERO_OK)
        fail_msg("%s: %s", c->arguments[0], error.message);
}

// With most limits the spill begins in the middle of a part, or of the list of parts.
static void test_a_spill_changes_nothing(void **state)
{
    static const int64_t limits[] = {1, 60, 4000, 20000};
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        const zr_reading all = reading_of(&cases[i], 0);
        opened kept;
        read_well(&cases[i], &all, &kept);
        for (int k = 0; k < ZR_COUNT(limits); k++) {
            const zr_reading some = reading_of(&cases[i], limits[k]);
            opened spilled;
            read_well(&cases[i], &some, &spilled);
            if (k == 0 || has_spill(&spilled.train))
                expect_same(&kept, &spilled);
            close_opened(&spilled);
        }
        close_opened(&kept);
    }
}

static void expect_examples(const zr_stream *stream, int count)
{
    int64_t at = 0;
    assert_int_equal(stream->example_count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(stream->examples[i].first, at);
        at += stream->examples[i].count;
    }
    assert_int_equal(at, stream->count);
}

// There are more records than are looked up at once.
static void test_every_record_is_an_example(void **state)
{
    for (int64_t kept_bytes = 0; kept_bytes < 2; kept_bytes++) {
        const zr_reading reading = reading_of(&cases[3], kept_bytes);
        opened o;
        read_well(&cases[3], &reading, &o);
        expect_examples(&o.train.streams[0], 1350);
        expect_examples(&o.held.streams[0], 150);
        close_opened(&o);
    }
}

static void test_no_file_is_seen(void **state)
{
    char names[512] = "";
    const zr_reading some = reading_of(&cases[3], 1);
    opened o;
    read_well(&cases[3], &some, &o);
    assert_int_equal(zr_directory_empty(".", NULL), ZERO_OK);
    assert_false(zr_directory_others(".", zr_path_is_link, names, sizeof names));
    expect_same_windows(&o.train, &o.train);
    close_opened(&o);
    make_records_of_all_kinds(NULL);
}

static void test_a_disk_that_cannot_be_written(void **state)
{
    const zr_reading some = reading_of(&cases[3], 1);
    zero_error error = {0};
    opened o;
    assert_int_equal(setenv("TMPDIR", "/tmp/zero-is-not-there", 1), 0);
    assert_int_equal(read_case(&cases[3], &some, false, &o, &error), ZERO_ERR_USAGE);
    assert_int_equal(setenv("TMPDIR", directory, 1), 0);
    assert_non_null(strstr(error.message, "tokens of \"many.jsonl\""));
    close_opened(&o);
}

static void test_no_memory_beside_a_spill(void **state)
{
    const zr_reading some = reading_of(&cases[7], 1);
    zero_status status = ZERO_ERR_MEMORY;
    for (int64_t nth = 1; status != ZERO_OK; nth += nth < 60 ? 1 : 97) {
        opened o;
        zero_error error = {0};
        zr_alloc_fail_at(nth);
        status = read_case(&cases[7], &some, false, &o, &error);
        zr_alloc_fail_at(0);
        if (status != ZERO_OK && status != ZERO_ERR_MEMORY)
            fail_msg("allocation %lld: %s", (long long)nth, error.message);
        close_opened(&o);
    }
}

// ---- ranks of one machine -----------------------------------------------------------------------

typedef struct machine { // whose ranks are threads here
    pthread_barrier_t meet;
    int64_t words[ZR_SHARED_WORDS];
    zero_status statuses[RANKS];
    int out_of_reach; // the word of the leader that is spoilt; -1: none
    int tells;
    const char *removes; // this file, when the leader tells of its spill; NULL: none
    const corpus_case *asked;
    int64_t kept_bytes;
} machine;

typedef struct rank {
    machine *of;
    int number;
    opened o;
    zero_status status;
    zero_error error;
} rank;

static zero_status tell(void *user, zero_status mine, int64_t words[ZR_SHARED_WORDS],
                        zero_error *error)
{
    rank *r = user;
    machine *m = r->of;
    m->statuses[r->number] = mine;
    if (r->number == 0) {
        memcpy(m->words, words, sizeof m->words);
        if (++m->tells == 2 && m->removes)
            assert_int_equal(unlink(m->removes), 0);
    }
    pthread_barrier_wait(&m->meet);
    zero_status status = ZERO_OK;
    for (int i = 0; i < RANKS && status == ZERO_OK; i++)
        status = m->statuses[i];
    memcpy(words, m->words, sizeof m->words);
    if (m->tells == 2 && m->out_of_reach >= 0)
        words[m->out_of_reach]++;
    pthread_barrier_wait(&m->meet);
    return status;
}

static void *read_as_rank(void *argument)
{
    rank *r = argument;
    zr_reading reading = reading_of(r->of->asked, r->of->kept_bytes);
    reading.sharing =
        (zr_sharing){.tell = tell, .user = r, .leads = r->number == 0, .ranks = RANKS};
    reading.share = r->number;
    reading.shares = RANKS;
    r->status = read_case(r->of->asked, &reading, r->number > 0, &r->o, &r->error);
    return NULL;
}

static void read_on_machine(machine *m, rank ranks[RANKS])
{
    pthread_t threads[RANKS];
    assert_int_equal(pthread_barrier_init(&m->meet, NULL, RANKS), 0);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.of = m, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_as_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&m->meet);
    assert_int_equal(m->tells, 2);
}

static void expect_ranks(const corpus_case *c, int64_t kept_bytes, int out_of_reach)
{
    const zr_reading all = reading_of(c, 0);
    machine m = {.asked = c, .kept_bytes = kept_bytes, .out_of_reach = out_of_reach};
    rank ranks[RANKS];
    opened kept;
    read_well(c, &all, &kept);
    read_on_machine(&m, ranks);
    for (int i = 0; i < RANKS; i++) {
        if (ranks[i].status != ZERO_OK)
            fail_msg("%s", ranks[i].error.message);
        assert_true(has_spill(&ranks[i].o.train) == (kept_bytes > 0));
        expect_same_data(&kept.train, &ranks[i].o.train);
        expect_same_data(&kept.held, &ranks[i].o.held);
        expect_same_windows(&kept.train, &ranks[i].o.train);
        assert_int_equal(zr_corpus_empty(kept.corpus), zr_corpus_empty(ranks[i].o.corpus));
        assert_int_equal(zr_corpus_plain(kept.corpus), zr_corpus_plain(ranks[i].o.corpus));
    }
    for (int i = 0; i < RANKS; i++)
        close_opened(&ranks[i].o);
    close_opened(&kept);
}

static void test_ranks_share_a_spill(void **state)
{
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        expect_ranks(&cases[i], 1, -1);
        expect_ranks(&cases[i], 0, -1); // small: each for itself
    }
}

// In another container a process of that number is another one.
static void test_ranks_that_cannot_reach_it(void **state)
{
    for (int word = 0; word < ZR_SHARED_WORDS; word++)
        if (word != 4) // where the facts begin: of a spill that was found
            expect_ranks(&cases[7], 1, word);
}

// Where the leader fails, all ranks do, and none waits.
static void test_a_leader_that_fails(void **state)
{
    static const corpus_case broken = {.arguments = {"broken.jsonl"}};
    machine m = {.asked = &broken, .kept_bytes = 1, .out_of_reach = -1};
    rank ranks[RANKS];
    put_text("broken.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
    read_on_machine(&m, ranks);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, ZERO_ERR_DATA);
        close_opened(&ranks[i].o);
    }
    assert_non_null(strstr(ranks[0].error.message, "broken.jsonl:2"));
}

// The other ranks do not read what the leader has read: it may be gone by then.
static void test_the_others_read_no_text(void **state)
{
    static const corpus_case one = {.arguments = {"gone.txt"}, .holds = true};
    machine m = {.asked = &one, .kept_bytes = 1, .out_of_reach = -1, .removes = "gone.txt"};
    rank ranks[RANKS];
    put_text("gone.txt", "a text that is removed once the leader has made its tokens");
    read_on_machine(&m, ranks);
    assert_false(zr_path_exists("gone.txt"));
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].status, ZERO_OK);
        expect_same_data(&ranks[0].o.train, &ranks[i].o.train);
    }
    for (int i = 0; i < RANKS; i++)
        close_opened(&ranks[i].o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_spill_changes_nothing),
        cmocka_unit_test(test_every_record_is_an_example),
        cmocka_unit_test(test_a_disk_that_cannot_be_written),
        cmocka_unit_test(test_no_memory_beside_a_spill),
        cmocka_unit_test(test_ranks_share_a_spill),
        cmocka_unit_test(test_ranks_that_cannot_reach_it),
        cmocka_unit_test(test_a_leader_that_fails),
        cmocka_unit_test(test_the_others_read_no_text),
        cmocka_unit_test(test_no_file_is_seen),
    };
    return cmocka_run_group_tests(tests, make_records_of_all_kinds, clean);
}
