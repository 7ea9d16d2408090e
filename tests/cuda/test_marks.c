// What queues wait for each other by, left out of a training on the emulated card: a mark that
// marks nothing, a wait that waits for nothing, a finish that comes at once. Each has to be seen as
// other bits or as a failure where the card does everything as late as it may.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../engine/harness.h"
#include "base/errors.h"
#include "cuda/cards.h"
#include "cuda/queue_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum mistake { NOTHING, MARK, AFTER, FINISH } mistake;

static mistake now; // what is left out in the run under way

uint64_t __real_zr_cuda_queue_mark(zr_queue *queue);
uint64_t __wrap_zr_cuda_queue_mark(zr_queue *queue);
void __real_zr_cuda_queue_after(zr_queue *queue, zr_mark mark);
void __wrap_zr_cuda_queue_after(zr_queue *queue, zr_mark mark);
zero_status __real_zr_cuda_queue_finish(zr_mark mark, double seconds, zero_error *error);
zero_status __wrap_zr_cuda_queue_finish(zr_mark mark, double seconds, zero_error *error);

uint64_t __wrap_zr_cuda_queue_mark(zr_queue *queue)
{
    return now == MARK ? ++zr_cuda_queue_of(queue)->marks : __real_zr_cuda_queue_mark(queue);
}

void __wrap_zr_cuda_queue_after(zr_queue *queue, zr_mark mark)
{
    if (now != AFTER)
        __real_zr_cuda_queue_after(queue, mark);
}

zero_status __wrap_zr_cuda_queue_finish(zr_mark mark, double seconds, zero_error *error)
{
    return now == FINISH ? ZERO_OK : __real_zr_cuda_queue_finish(mark, seconds, error);
}

typedef struct planted {
    const char *name;
    mistake mistake;
    zero_tier states;
} planted;

enum { RANKS = 2, SAME = 0, NOT_RUN = 2, SEEN = 3, TRIES = 8, SECONDS = 100 };

static bool train(mistake mistake, const char *schedule, zero_tier states, int stage,
                  harness_result *out)
{
    harness_failure ranks[RANKS] = {0};
    const harness_case run = {.ranks = RANKS,
                              .stage = stage,
                              .accumulation = 2,
                              .batch = 1,
                              .backend = "cuda",
                              .tiers = harness_tiers((int)states, ZERO_TIER_device)};
    setenv("EMULATED_SCHEDULE", schedule, 1);
    now = mistake;
    harness_try(&run, out, ranks);
    now = NOTHING;
    for (int r = 0; r < RANKS; r++)
        if (ranks[r].status != ZERO_OK)
            return false;
    return true;
}

// In a process of its own, because a driver that has failed does nothing more. Which rank is first
// differs from run to run, so that a mistake ends well now and then: it is tried several times.
static int try(const planted *p, int stage)
{
    static harness_result want, got;
    alarm(SECONDS);
    setenv("EMULATED_LEAKS", "0", 1); // a driver that has failed keeps what it has
    if (!train(NOTHING, "eager", p->states, stage, &want) ||
        !train(NOTHING, "lazy", p->states, stage, &got) || !harness_equal(&got, &want))
        return NOT_RUN;
    for (int i = 0; i < TRIES; i++)
        if (!train(p->mistake, "lazy", p->states, stage, &got) || !harness_equal(&got, &want))
            return SEEN;
    return SAME;
}

static void what_is_left_out_is_seen(void **state)
{
    static const planted mistakes[] = {
        {"no mark, states on the card", MARK, ZERO_TIER_device},
        {"no mark, states on the host", MARK, ZERO_TIER_host},
        {"no wait, states on the card", AFTER, ZERO_TIER_device},
        {"no wait, states on the host", AFTER, ZERO_TIER_host},
        {"no finish, states on the host", FINISH, ZERO_TIER_host},
    };
    for (int i = 0; i < ZR_COUNT(mistakes); i++)
        for (int stage = 1; stage <= 3; stage++) {
            int status = 0;
            pid_t process = fork();
            if (process == 0)
                _exit(try(&mistakes[i], stage));
            assert_int_equal(waitpid(process, &status, 0), process);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != SEEN)
                fail_msg("%s, stage %d: status %x", mistakes[i].name, stage, (unsigned)status);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_left_out_is_seen)};
    zr_cuda_offer();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
