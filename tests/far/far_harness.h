// What the tests of the far device share: a device with queues, and copies between memories.
#ifndef TESTS_FAR_HARNESS_H
#define TESTS_FAR_HARNESS_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "far.h"
#include <string.h>

static inline void *take(zr_memory kind, size_t bytes)
{
    void *at = NULL;
    zero_error error = {0};
    if (far_device()->ops->reserve(far_device(), kind, bytes, &at, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return at;
}

static inline void give_back(zr_memory kind, void *at, size_t bytes)
{
    far_device()->ops->release(far_device(), kind, at, bytes);
}

static inline zr_queue *far_queue_new(void)
{
    zr_queue *queue = NULL;
    zero_error error = {0};
    if (zr_queue_open("far", NULL, 1, &queue, &error) != ZERO_OK)
        fail_msg("%s", error.message);
    return queue;
}

static inline void far_copy(zr_queue *queue, const void *from, void *to, size_t bytes)
{
    zr_run(queue, zr_op_copy(&(zr_bytes){(int64_t)bytes}, from, to));
}

static inline void far_fill(zr_queue *queue, void *to, size_t bytes, int value)
{
    zr_run(queue, zr_op_fill(&(zr_bytes){(int64_t)bytes, (uint8_t)value}, to));
}

static inline void finish_all(zr_queue *queue)
{
    zero_error error = {0};
    if (zr_mark_finish(zr_queue_mark(queue), 10, &error) != ZERO_OK)
        fail_msg("%s", error.message);
}

// Ends the device, on which nothing may have gone wrong.
static inline void end_clean(void)
{
    far_report report;
    far_end(&report);
    if (report.violations)
        fail_msg("%s", report.first);
    assert_int_equal(report.allocations, 0);
}

// Ends the device, on which `text` is the first violation.
static inline void end_with(const char *text)
{
    far_report report;
    far_end(&report);
    if (!report.violations || !strstr(report.first, text))
        fail_msg("%lld violations, the first: \"%s\", not \"%s\"", (long long)report.violations,
                 report.first, text);
}

#endif
