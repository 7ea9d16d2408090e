// The backend that a user names: "cpu", "cpu:PATH", "ref", "cuda", "cuda:1", "auto".
#ifndef ZR_SETUP_BACKEND_CHOICE_H
#define ZR_SETUP_BACKEND_CHOICE_H

#include "compute/compute.h"
#include "config/config.h"
#include "model/architecture.h"

// Says where else CUDA's libraries may lie (libzero.cuda_libraries), before a card is opened.
void zr_backend_configure(const zr_config *config);

// As zr_queue_open and zr_backend_find; said: NULL stands for "cpu".
zero_status zr_said_queue_open(const char *said, int threads, zr_queue **out, zero_error *error);
zero_status zr_said_backend_find(const char *said, const zr_backend **out, zero_error *error);

// Returns what stands for `said` where nothing is to be computed: "cuda" is then a card that need
// not be here.
const char *zr_planned_backend(const char *said);

// Returns whether it names a card.
bool zr_backend_is_card(const char *said);

// Writes what computes, by what its bits depend on: "avx2"; of a card its name, and "sm_90, driver
// 13.0, cuBLASLt 13.1.0, NVRTC 13.0". Where there is no such backend, or its card cannot be opened,
// it writes "unknown", and the error says why.
zero_status zr_said_instructions(const char *said, char *out, size_t size, zero_error *error);

// Decides what "auto" stands for in a training: "cuda" where a card and its libraries are here and
// compute all of it, else "cpu". *card: a queue of the card, which keeps it open (zr_queue_close);
// else NULL. reason (ZERO_MESSAGE_BYTES): one line for the user, that names the card, or says why
// one that is here is not taken; empty where there is none. ranks: of the job.
const char *zr_backend_of_auto(const zr_config *config, const zr_lm_config *model, int ranks,
                               zr_queue **card, char *reason);

#endif
