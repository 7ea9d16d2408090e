// The backend of NVIDIA's cards. In every build: driver, cuBLASLt and NVRTC are loaded when a card
// is opened, and where they are not, opening says what is missing.
//
// Names of backends: "cuda" and "cuda:0" are the first card, "cuda:1" the second; "cuda:h100-80gb"
// is a card that is not here, for which a training can be planned, and nothing else.
// docs/devices.md has the whole.
#ifndef ZR_CUDA_CARDS_H
#define ZR_CUDA_CARDS_H

#include "compute/compute.h"

enum { ZR_CUDA_MOST_CARDS = 16 };

// Offers the backends to zr_queue_open and zr_backend_find. Any thread may call it, and often:
// nothing is loaded before a card is opened.
void zr_cuda_offer(void);

#define ZR_CUDA_ANY_CARD "any" // a card that is not here, whose memory has no bound

// ---- what is here, for doctor and for `auto` (libraries.c) ----

typedef enum zr_cuda_library {
    ZR_CUDA_DRIVER,
    ZR_CUDA_CUBLASLT,
    ZR_CUDA_NVRTC,
    ZR_CUDA_LIBRARIES
} zr_cuda_library;

typedef struct zr_cuda_library_fact {
    const char *name; // "libcublasLt"
    bool found;
    char path[1024]; // where it was found
    int version;     // 13000: 13.0; of cuBLASLt 130100: 13.1.0
    char why[1280];  // not found: one sentence that says what to install
} zr_cuda_library_fact;

// Looks for a library and loads it: in the loader's path, CUDA_HOME, the packages "nvidia" of the
// active Python environment, and the folders of zr_cuda_look_in. It stays loaded. Any thread.
void zr_cuda_library_look(zr_cuda_library which, zr_cuda_library_fact *out);

// Further folders to look in (libzero.cuda_libraries), separated by colons; NULL: none. Call it
// before a card is opened; later calls with another value change nothing.
void zr_cuda_look_in(const char *folders);

typedef struct zr_cuda_card_fact {
    char name[128]; // "NVIDIA H100 80GB HBM3"
    int capability; // 90
    int multiprocessors;
    int driver, cublaslt, nvrtc;      // versions
    int64_t unused, all;              // bytes
    char warning[ZERO_MESSAGE_BYTES]; // of the cache of its kernels, or empty
} zr_cuda_card_fact;

// Describes a card, which it opens and closes again. The message says what is missing.
zero_status zr_cuda_card_look(int number, zr_cuda_card_fact *out, zero_error *error);
// Returns how many cards there are; 0 also where the driver is missing, or finds none: then the
// error says why.
int zr_cuda_card_count(zero_error *error);

// Writes a version number in words: "13.0"; of cuBLASLt, which has more digits, "13.1.0".
void zr_cuda_version_text(int version, char *out, size_t size);
// Writes what a queue computes with, by what its bits depend on: "avx2"; of a card its name, and
// "sm_90, driver 13.0, cuBLASLt 13.1.0, NVRTC 13.0".
zero_status zr_queue_instructions(const zr_queue *queue, char *out, size_t size, zero_error *error);

// What a card computes of attention: elements of a head, and of what is rotated of it.
enum { ZR_CUDA_MOST_HEAD = 256, ZR_CUDA_MOST_ROTATED = 1024 };

#endif
