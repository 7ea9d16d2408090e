// What measure_kernels.c lets ranks do together. Only measure/ includes this.
#ifndef ZR_PREDICT_RATE_TASKS_H
#define ZR_PREDICT_RATE_TASKS_H

#include "compute/compute.h"
#include "predict/concurrent_timing.h"
#include "plan/plan.h"

typedef struct zr_unit_task { // the calls of one unit that the plan's program makes
    const zr_plan *plan;
    int unit;
    zero_shape shape;
    uint32_t training, evaluation; // bit c: zr_call c is made
    // Bytes that a rank touches from one call of the unit to the next: caches hold what they can of
    // them, and the unit's weights only if there is room for these, too.
    int64_t elsewhere;
} zr_unit_task;
int64_t zr_unit_task_bytes(const zr_unit_task *task); // of memory; 0: the unit refuses the shape
extern const zr_common_work zr_unit_work;

enum { ZR_MOST_VECTOR_ITEMS = 64 };
// What is done with long vectors, apart from units: the update, the gradient norm, and rounding.
typedef enum zr_vector_item_kind {
    ZR_VECTOR_UPDATE,  // one walk of the optimizer
    ZR_VECTOR_SQUARES, // of a gradient
    ZR_VECTOR_ROUND,   // fp32 contributions to the type of the gradient window
    // What a rank does that has no others to exchange with: its contributions become the sum, or
    // are added to that of earlier micro-batches.
    ZR_VECTOR_SET,
    ZR_VECTOR_ADD,
    ZR_VECTOR_ITEM_KINDS,
} zr_vector_item_kind;

typedef struct zr_vector_task {
    const zr_plan *plan;
    zr_update_kind update;
    int64_t elems; // of each vector, through which the items walk
    int count;
    struct {
        zr_vector_item_kind kind;
        int64_t elems;
    } items[ZR_MOST_VECTOR_ITEMS]; // (count) no two are equal
} zr_vector_task;
extern const zr_common_work zr_vector_work;
size_t zr_vector_task_bytes(const zr_vector_task *task); // of memory
// Shortens the vectors to `bytes` bytes of memory, as far as their items leave room for it.
void zr_vector_task_shorten(zr_vector_task *task, int64_t most);
// Lists the items of a plan and cuts long ones, because time grows in proportion.
void zr_vector_task_list(const zr_plan *plan, zr_update_kind update, zr_vector_task *out);

enum { ZR_MOST_MESSAGE_ITEMS = 32 };
typedef struct zr_message_item { // a collective among the members
    zr_activity what;        // reduce_scatter, all_gather, all_reduce or, of tensor ranks, exchange
    zero_exchange_kind kind; // of an exchange
    int64_t elems;           // of a rank's share
    zero_dtype dtype;
} zr_message_item;

typedef struct zr_message_task {
    int members;
    bool adds;              // sums of earlier micro-batches are added to reduced ones
    zero_dtype accumulator; // of reduced ones
    int count;
    zr_message_item items[ZR_MOST_MESSAGE_ITEMS]; // (count) no two are equal
} zr_message_task;
extern const zr_common_work zr_message_work;
// Lists the collectives of a plan as `members` ranks of one machine make them, where each fetches
// as many bytes as the plan's ranks do.
void zr_message_task_list(const zr_plan *plan, int members, zr_message_task *out);
// Returns the bytes of an item, as they are recorded.
int64_t zr_message_item_bytes(const zr_message_task *task, const zr_message_item *item);

#endif
