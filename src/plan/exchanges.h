// What tensor ranks exchange: units inside of a call (zero_unit_sizes.exchanges), and shares of
// activation checkpoints between calls. The plan and the engine both count their messages with
// these functions, so that they agree.
#ifndef ZR_PLAN_EXCHANGES_H
#define ZR_PLAN_EXCHANGES_H

#include "plan/plan.h"

// The slots of a window of exchanges: one for each kind that units make, and one for a JOIN.
enum { ZR_EXCHANGE_JOIN = ZR_EXCHANGE_KINDS, ZR_EXCHANGE_SLOTS };

// Returns the operation as which an exchange is counted.
zero_comm_op zr_exchange_op(zero_exchange_kind kind);
// Returns the bytes that a rank fetches in one exchange among `ranks` ranks.
int64_t zr_exchange_fetched(zero_exchange_kind kind, int ranks, int64_t elements, zero_dtype dtype);
// Finds how many neighbouring tensor ranks share a flat parameter of the model, if that is neither
// one nor all of them; else 0. ZERO_ERR_USAGE: the number differs between flat
// parameters.
zero_status zr_model_replicas(const zero_model *model, int tensor_ranks, int *out,
                              zero_error *error);
// Returns a pass's traffic before its first message.
zr_pass_traffic zr_traffic_none(void);
// Adds the exchanges of one call of a unit. `sizes` may be for another shape than the plan's.
void zr_exchanges_fold(const zr_plan *plan, const zero_unit_sizes *sizes, zr_call call,
                       zr_pass_traffic *to);
// Returns the exchange that a JOIN makes: shares as elements of fp32, whatever they hold.
zero_exchange zr_join_exchange(const zr_plan *plan, const zr_instruction *join);
// Adds the exchange that a JOIN makes.
void zr_join_fold(const zr_plan *plan, const zr_instruction *join, zr_pass_traffic *to);
// Adds the exchanges of all calls of a unit in a micro-batch.
void zr_exchanges_of_unit(const zr_plan *plan, int unit, zr_pass_traffic *to);
int64_t zr_pass_times(const zr_plan *plan, int kind); // Returns how often a step runs a pass.
// Return the sum of the passes of a micro-batch, and of a step: calls, bytes and messages; hashes
// are 0. Scalars, which all ranks of the job exchange, are not part of it.
zr_pass_traffic zr_traffic_of_micro_batch(const zr_plan *plan);
zr_pass_traffic zr_traffic_of_step(const zr_plan *plan);
// Returns what a rank fetches from other tensor ranks in a step.
int64_t zr_exchanged_bytes(const zr_plan *plan);

#endif
