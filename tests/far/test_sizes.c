// What the plan says is what the device was asked for, to the byte: all that the ranks reserve of
// device memory, and of pinned memory and the host's together. Nothing comes on top.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/numbers.h"
#include "far_training.h"

static int64_t planned(const harness_result *result, zero_tier tier)
{
    int64_t bytes = 0;
    for (int m = 0; m < ZERO_MEM_COUNT; m++)
        bytes += result->memory.planned[tier][m];
    return bytes;
}

static void assert_bytes(const far_case *c, int stage, int ranks, const char *where,
                         int64_t reserved, int64_t wanted)
{
    if (reserved != wanted)
        fail_msg("%s, stage %d, %d ranks: %lld bytes of %s memory are reserved, %lld are planned",
                 c->name, stage, ranks, (long long)reserved, where, (long long)wanted);
}

// Ranks hold the same.
static void check_sizes(const far_case *c, int stage, int ranks)
{
    static harness_result got;
    harness_case run = far_case_at(c, stage, ranks);
    int all = run.ranks * (run.tensor ? run.tensor : 1);
    far_report report;
    run.backend = "far";
    run.steps = 1;
    far_begin(&(far_options){.order = FAR_LAZY});
    harness_run(&run, &got);
    far_end(&report);
    assert_bytes(c, stage, all, "device",
                 report.reserved[ZR_MEMORY_DEVICE] + all * FAR_RUNTIME_BYTES,
                 all * planned(&got, ZERO_TIER_device));
    assert_bytes(c, stage, all, "pinned and host",
                 report.reserved[ZR_MEMORY_PINNED] + report.reserved[ZR_MEMORY_HOST],
                 all * planned(&got, ZERO_TIER_host));
    assert_true(report.reserved[ZR_MEMORY_DEVICE] > 0 && report.reserved[ZR_MEMORY_PINNED] > 0);
}

static void what_is_reserved_is_what_was_planned(void **state)
{
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        for (int i = 0; i < far_plain_case_count; i++)
            for (int stage = 0; stage <= 3; stage++)
                check_sizes(&far_plain_cases[i], stage, ranks);
    for (int i = 0; i < far_other_case_count; i++)
        for (int stage = 1; stage <= 3; stage += 2)
            check_sizes(&far_other_cases[i], stage, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_reserved_is_what_was_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
