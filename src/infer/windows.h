// Mean loss over windows of a text: batches of windows are shared out over the ranks and summed
// exactly, so that the result does not depend on how many ranks there are.
#ifndef ZR_INFER_WINDOWS_H
#define ZR_INFER_WINDOWS_H

#include "tokens/dataset.h"
#include <zero/engine.h>

typedef struct zr_windows_result {
    double loss;     // nats a token
    int64_t windows; // that were read
    int64_t tokens;  // of their targets, those that count
    bool left;       // it ended early: the others mean nothing
} zr_windows_result;

// asked on each rank, between batches
typedef struct zr_windows_leave {
    bool (*wanted)(void *user);
    void *user;
} zr_windows_leave;

// Collective. Batches of at most `batch` windows (the engine's micro-batch or less); at most `most`
// of those batches, spread evenly over the text, 0: all. leave: as soon as any rank wants it all
// end early; NULL: none does. Between steps only.
zero_status zr_windows_loss(zero_engine *engine, const zr_dataset *dataset, int64_t batch,
                            int64_t most, const zr_windows_leave *leave, zr_windows_result *out,
                            zero_error *error);

// What the engine takes of a batch: tokens and targets, each (rows, seq), which stay the caller's.
zero_tensors zr_windows_batch(int32_t *tokens, int32_t *targets, int64_t rows, int64_t seq);

// After a batch was read, before it is used: the files that it comes from are as long as they were;
// else this rank's failure ends the waits of the others. Not collective.
zero_status zr_windows_check_files(zero_comm *comm, const zr_dataset *dataset, zero_error *error);

#endif
