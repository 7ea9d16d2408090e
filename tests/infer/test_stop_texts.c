// Texts that end an answer: what may be emitted of an answer that is not yet complete.
#include "infer/stop_texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char *const texts[] = {"\nUser:", "<end>", "</"};
static const zr_stop_texts stops = {texts, ZR_COUNT(texts)};

static void test_what_may_be_emitted(void **state)
{
    static const struct {
        const char *text;
        bool last;
        size_t ready;
        bool found;
    } cases[] = {
        {"", false, 0, false},
        {"plain", false, 5, false},
        {"a\n", false, 1, false},
        {"a\nUs", false, 1, false},
        {"a\nUs", true, 4, false},
        {"a\nUx", false, 4, false},
        {"a\nUser:", false, 1, true},
        {"a\nUser: b", true, 1, true},
        {"<end>", false, 0, true},
        {"<<end>", false, 1, true},
        {"<en<en", false, 3, false},
        {"<en<end>x", false, 3, true},
        {"x<", false, 1, false},
        {"x</", false, 1, true},
        {"a<end>b\nUser:", false, 1, true},
        {"a\nUser:<end>", false, 1, true},
    };
    for (int i = 0; i < ZR_COUNT(cases); i++) {
        bool found;
        size_t ready =
            zr_stop_scan(&stops, cases[i].text, strlen(cases[i].text), cases[i].last, &found);
        if (ready != cases[i].ready || found != cases[i].found)
            fail_msg("\"%s\": %zu bytes, %d", cases[i].text, ready, found);
    }
}

// However a text is cut, the answer is what stands before the first of the texts.
static void test_any_cut(void **state)
{
    static const char text[] = "a <en<b>\nUse\nUser: <end> rest";
    const size_t wanted = strlen("a <en<b>\nUse");
    for (unsigned cuts = 0; cuts < 1u << 12; cuts++) {
        char held[64], out[64];
        size_t kept = 0, emitted = 0;
        bool found = false;
        for (size_t i = 0; text[i] && !found; i++) {
            held[kept++] = text[i];
            if (i % 24 < 12 && !(cuts >> (i % 12) & 1) && text[i + 1])
                continue;
            size_t ready = zr_stop_scan(&stops, held, kept, !text[i + 1], &found);
            memcpy(out + emitted, held, ready);
            emitted += ready;
            kept -= ready;
            memmove(held, held + ready, kept);
        }
        assert_true(found);
        assert_int_equal(emitted, wanted);
        assert_memory_equal(out, text, wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_may_be_emitted),
                                       cmocka_unit_test(test_any_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
