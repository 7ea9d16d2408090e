// What tests of the emulated driver share. A part of a test runs in a process of its own, where
// EXPECT, DONE and REFUSED end it with a message.
#ifndef TESTS_CUDA_DRIVER_CHECK_H
#define TESTS_CUDA_DRIVER_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../src/cuda/driver_api.h"
#include "kernels.h"

extern zr_cuda_driver cu;
extern zr_cuda_stream stream; // of open_device

void expect(bool is, const char *text, int line);

#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define DONE(call) expect((call) == ZR_CUDA_SUCCESS, #call, __LINE__)
#define REFUSED(why, call)                                                                         \
    expect((call) == ZR_CUDA_ERROR_##why, #call " is refused: " #why, __LINE__)

#define ADDRESS(pinned) ((zr_cuda_address)(uintptr_t)(pinned))

void load(void);
void enter_device(int device);   // its context becomes the thread's
void open_device(void);          // the first, with a stream
void schedule(const char *text); // opens the device under a schedule
zr_cuda_stream stream_new(void);
zr_cuda_event event_new(void);
zr_cuda_function open_copy(void);
zr_cuda_result launch_on(zr_cuda_stream on, zr_cuda_function function, unsigned blocks,
                         unsigned threads, probe_copy_args *a);
zr_cuda_result launch(zr_cuda_function function, unsigned blocks, unsigned threads,
                      probe_copy_args *a);
volatile unsigned char *pinned_new(size_t bytes); // of zeros
zr_cuda_address device_new(size_t bytes);
void fill(zr_cuda_stream on, volatile unsigned char *at, unsigned char value); // one byte

extern char told[4096]; // what the process of a test said on stderr

// Runs a part of a test in a process of its own. Returns how that ended, as waitpid says it.
int run_apart(void (*part)(void));
void expect_told(const char *part);
void expect_well(void (*part)(void));

#endif
