// What the files of the probe have in common: the answer, a line of JSON; the session, a device
// with what was taken of it; and the probes themselves.
#ifndef ZR_GPU_PROBE_H
#define ZR_GPU_PROBE_H

#include "../../src/cuda/cublaslt_api.h"
#include "../../src/cuda/driver_api.h"
#include "../../src/cuda/nvrtc_api.h"

#include <stdbool.h>
#include <stdint.h>

#define PROBE_LENGTH(array) (sizeof(array) / sizeof *(array))
#define PROBE_MIN(a, b) ((a) < (b) ? (a) : (b))

// probe_answer.c: an answer gathers its members, and keeps what it has if the probe fails. It lies
// in memory that the probe's process shares with the one that waits for it.
typedef struct probe_answer {
    char name[32];
    char members[8192]; // of the JSON object, each with a comma before it
    size_t used;        // bytes of members
    bool failed;
    char call[64]; // the function that failed, if it was a call
    int status;    // its number
    char why[512];
} probe_answer;

void probe_answer_begin(probe_answer *answer, const char *name);
void probe_answer_number(probe_answer *answer, const char *key, double value); // null if not finite
void probe_answer_integer(probe_answer *answer, const char *key, long long value);
void probe_answer_text(probe_answer *answer, const char *key, const char *value);
// These keep the first failure. The call's message is "NAME: NUMBER TEXT".
__attribute__((format(printf, 2, 3))) void probe_answer_fail(probe_answer *answer,
                                                             const char *format, ...);
void probe_answer_fail_call(probe_answer *answer, const char *call, int status, const char *text);
void probe_answer_print(const probe_answer *answer); // one line on stdout, flushed

typedef struct probe_options {
    bool small;                // sizes at which an emulated device is quick
    double limit;              // seconds for all probes
    const char *image;         // file of compiled kernels; NULL: NVRTC compiles them
    const char *text;          // folder of kernels.cu and kernels.h
    const char *libraries[32]; // folders to look in after the loader's own
    int library_count;
} probe_options;

typedef struct probe_session probe_session;

// Something that was taken, and how to give it back.
typedef struct probe_held {
    void (*release)(probe_session *, const struct probe_held *);
    zr_cuda_address address; // of the device
    void *pointer;           // any handle, or memory of the host
    size_t bytes;
} probe_held;

struct probe_session {
    const probe_options *options;
    probe_answer *answer;
    zr_cuda_driver cu;
    zr_blas blas;
    zr_nvrtc nvrtc;
    zr_cuda_device device;
    zr_cuda_module module; // the kernels, once loaded
    zr_cuda_stream stream, other, third;
    zr_cuda_event begin, end; // with times
    zr_cuda_event mark;       // without
    int driver_version;       // 12040: 12.4
    int processors;           // of the device
    int capability;           // 90: 9.0
    uint16_t *pattern;        // what probe_fill writes, again and again: bf16 below 1/4
    size_t pattern_count;     // elements
    probe_held held[64];
    int held_count;
};

// Forwards the failure of a call of the driver: the answer names it.
#define PROBE_TRY(session, name, ...)                                                              \
    do {                                                                                           \
        if (!probe_check(session, #name, (session)->cu.name(__VA_ARGS__)))                         \
            return false;                                                                          \
    } while (0)

// probe_libraries.c. Each says in the answer what was not found, and where it was looked for.
bool probe_load_driver(probe_session *session);
bool probe_load_blas(probe_session *session, char *path, size_t bytes);
bool probe_load_nvrtc(probe_session *session, char *path, size_t bytes);

// probe_session.c
bool probe_check(probe_session *session, const char *call, zr_cuda_result result);
bool probe_session_open(probe_session *session); // streams and events, of device 0
void probe_session_close(probe_session *session);
bool probe_hold(probe_session *session, probe_held held); // gives it back at once if it cannot
void probe_release_to(probe_session *session, int count); // all but the first `count` held
bool probe_hold_device(probe_session *session, size_t bytes, zr_cuda_address *out);
bool probe_hold_pinned(probe_session *session, size_t bytes, void **out);
bool probe_hold_host(probe_session *session, size_t bytes, void **out); // zeroed
bool probe_fill(probe_session *session, zr_cuda_address at, size_t bytes);
bool probe_function(probe_session *session, const char *name, zr_cuda_function *out);
bool probe_launch(probe_session *session, zr_cuda_function function, unsigned blocks_x,
                  unsigned blocks_y, unsigned threads, zr_cuda_stream stream, void *arguments);
// Seconds of one run of work, by events around `times` runs after one that does not count.
bool probe_time(probe_session *session, int times, bool (*work)(probe_session *, void *), void *of,
                double *seconds);
double probe_now(void); // seconds
size_t probe_size(const probe_session *session, size_t full, size_t small);
// At most `most` bytes, and a share of what is free: of the device, of the host.
bool probe_device_share(probe_session *session, size_t most, unsigned parts, size_t *out);
size_t probe_host_share(size_t most, unsigned parts);
float probe_widen(uint16_t bf16);

// probe_compile.c: an image of kernels.cu for this device, which the caller frees.
bool probe_load_kernels(probe_session *session); // session->module
bool probe_compile(probe_session *session);

// The other probes, each in the file of its name.
bool probe_facts(probe_session *session);
bool probe_copies(probe_session *session);
bool probe_launches(probe_session *session);
bool probe_words(probe_session *session);
bool probe_limbs(probe_session *session);
bool probe_attention(probe_session *session);
bool probe_products(probe_session *session);
bool probe_host_memory(probe_session *session);

#endif
