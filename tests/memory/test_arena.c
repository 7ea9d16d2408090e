// Arenas: alignment, zeros, memory that is really backed, exact accounting, and refusals. The
// linker's --wrap replaces the functions below, so that the kernel can refuse.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cpu.h"
#include "memory/arena.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define POPULATE_WRITE 23 // MADV_POPULATE_WRITE, which older headers do not know

static int mmap_errno, populate_errno; // what the next such call is refused with, 0: not

void *__real_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);

void *__wrap_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
    errno = mmap_errno;
    mmap_errno = 0;
    return errno ? MAP_FAILED : __real_mmap64(address, length, protection, flags, fd, offset);
}

int __wrap_madvise(void *address, size_t length, int advice)
{
    if (advice == POPULATE_WRITE && populate_errno) {
        errno = populate_errno;
        return -1;
    }
    return __real_madvise(address, length, advice);
}

static bool all_resident(const zr_arena *arena)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (arena->bytes + page - 1) / page;
    unsigned char *resident = malloc(pages);
    bool all = mincore(arena->base, arena->bytes, resident) == 0;
    for (size_t i = 0; i < pages; i++)
        all = all && (resident[i] & 1);
    free(resident);
    return all;
}

static void flat_params_are_aligned_zeroed_and_apart(void **state)
{
    zr_ledger ledger = {0};
    zr_arena arena;
    assert_int_equal(
        zr_arena_on_host(&ledger, ZERO_TIER_device, ZERO_MEM_activations, 1000, &arena, NULL),
        ZERO_OK);
    assert_int_equal((uintptr_t)arena.base % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    static const size_t sizes[] = {1, 63, 64, 65, 0, 600};
    char *before = NULL;
    for (int i = 0; i < ZR_COUNT(sizes); i++) {
        char *flat_param = zr_arena_take(&arena, sizes[i]);
        assert_non_null(flat_param);
        assert_int_equal((uintptr_t)flat_param % ZR_ALIGN, 0);
        assert_true(i == 0 || flat_param >= before + sizes[i - 1]);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_int_equal(flat_param[k], 0);
        memset(flat_param, i + 1, sizes[i]);
        before = flat_param;
    }
    assert_int_equal(arena.used, 64 + 64 + 64 + 128 + 600);
    zr_arena_destroy(&arena);
}

static void the_ledger_holds_exactly_the_bytes(void **state)
{
    zr_ledger ledger = {0};
    zr_arena a, b, empty;
    assert_int_equal(zr_arena_on_host(&ledger, ZERO_TIER_host, ZERO_MEM_gradients, 12345, &a, NULL),
                     ZERO_OK);
    assert_int_equal(zr_arena_on_host(&ledger, ZERO_TIER_host, ZERO_MEM_gradients, 55, &b, NULL),
                     ZERO_OK);
    assert_int_equal(zr_arena_on_host(&ledger, ZERO_TIER_host, ZERO_MEM_gradients, 0, &empty, NULL),
                     ZERO_OK);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_gradients], 12400);
    assert_non_null(zr_arena_take(&empty, 0));
    zr_arena_destroy(&a);
    zr_arena_destroy(&empty);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_gradients], 55);
    assert_int_equal(ledger.peak[ZERO_TIER_host][ZERO_MEM_gradients], 12400);
    zr_arena_destroy(&b);
    zr_arena_destroy(&b);
    assert_int_equal(ledger.held[ZERO_TIER_host][ZERO_MEM_gradients], 0);
}

static void every_page_is_there_at_once(void **state)
{
    static const int errnums[] = {0, EINVAL}; // EINVAL: a kernel that does not know the advice
    for (int i = 0; i < ZR_COUNT(errnums); i++) {
        zr_ledger ledger = {0};
        zr_arena arena;
        populate_errno = errnums[i];
        assert_int_equal(zr_arena_on_host(&ledger, ZERO_TIER_device, ZERO_MEM_parameters,
                                          (5 << 20) + 1, &arena, NULL),
                         ZERO_OK);
        populate_errno = 0;
        assert_true(all_resident(&arena));
        zr_arena_destroy(&arena);
    }
}

static void assert_refused(size_t bytes, const char *words)
{
    zr_ledger ledger = {0};
    zero_error error = {0};
    zr_arena arena;
    char number[32];
    snprintf(number, sizeof number, "%zu bytes", bytes);
    assert_int_equal(
        zr_arena_on_host(&ledger, ZERO_TIER_device, ZERO_MEM_optimizer, bytes, &arena, &error),
        ZERO_ERR_MEMORY);
    assert_non_null(strstr(error.message, number));
    assert_non_null(strstr(error.message, "device memory for optimizer"));
    assert_non_null(strstr(error.message, words));
    assert_null(arena.base);
    assert_int_equal(ledger.held[ZERO_TIER_device][ZERO_MEM_optimizer], 0);
    zr_arena_destroy(&arena);
}

static void more_than_there_is_is_refused_before_it_is_taken(void **state)
{
    assert_refused((size_t)zr_memory_available(NULL, 0) * 2, "bytes are left (");
    assert_refused((size_t)1 << 60, "bytes are left (");
    assert_refused(SIZE_MAX, "bytes are left (");
}

static void the_kernel_s_refusal_is_reported(void **state)
{
    mmap_errno = ENOMEM;
    assert_refused(1 << 20, "Cannot allocate memory");
    populate_errno = ENOMEM;
    assert_refused(1 << 20, "Cannot allocate memory");
    populate_errno = 0;
}

// Taking more than was planned: an assertion where those are built in, NULL where not.
static void taking_too_much_never_succeeds(void **state)
{
    pid_t child = fork();
    if (child == 0) {
        zr_ledger ledger = {0};
        zr_arena arena;
        fclose(stderr); // the assertion's message is expected
        bool made = zr_arena_on_host(&ledger, ZERO_TIER_device, ZERO_MEM_workspace, 128, &arena,
                                     NULL) == ZERO_OK;
        bool fits = made && zr_arena_take(&arena, 1) && zr_arena_take(&arena, 64);
        _exit(!fits ? 1 : zr_arena_take(&arena, 1) ? 2 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
#ifdef NDEBUG
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#else
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_params_are_aligned_zeroed_and_apart),
        cmocka_unit_test(the_ledger_holds_exactly_the_bytes),
        cmocka_unit_test(every_page_is_there_at_once),
        cmocka_unit_test(more_than_there_is_is_refused_before_it_is_taken),
        cmocka_unit_test(the_kernel_s_refusal_is_reported),
        cmocka_unit_test(taking_too_much_never_succeeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
