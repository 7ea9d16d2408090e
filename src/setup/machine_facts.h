// What plan/ needs to know of this machine, filled from compute/ and comm/ (contract 5).
#ifndef ZR_SETUP_MACHINE_FACTS_H
#define ZR_SETUP_MACHINE_FACTS_H

#include "comm/communicator.h"
#include "compute/compute.h"
#include "config/config.h"
#include "engine/rank_grid.h"
#include "plan/plan_settings.h"
#include "plan/network.h"
#include "predict/rates.h"
#include <zero/engine.h>

// Fills in the facts of this machine. `queue` answers how much scratch products need, so it must
// outlive *out. comm NULL: one rank that maps its peers' memory.
void zr_machine_fill(zr_queue *queue, zero_comm *comm, zr_machine *out);
// Divides ranks before their groups are made, as far as that is known before. model_ranks: those
// that compute one model, `tensor` for each pipeline stage.
void zr_machine_expect(zr_machine *machine, int model_ranks, int tensor, int tensor_rank);
// Sets what follows from a job's groups: ZeRO partitions among the data ranks.
void zr_machine_divide(const zr_grid *grid, zr_machine *machine);
// Sets what would follow of ranks and memory from the groups of the mesh's rank, if the job ran on
// these machines. replicas: tensor ranks that share a flat parameter, if they are some but not all;
// 0: none.
void zr_machine_imagine(const zr_job_machines *machines, const zr_mesh *mesh, int replicas,
                        zr_machine *machine);
// Checks that the ranks which share a copy of the weights are all ranks of one machine.
// ZERO_ERR_CONFIG, with the numbers.
zero_status zr_machine_check(const zr_machine *machine, const zr_settings *settings,
                             zero_error *error);
// Sets the budgets of a configuration as limits of one rank, when local_ranks share the machine.
void zr_machine_limit(zr_machine *machine, const zr_offload_config *budgets, int local_ranks);
// Says whether data ranks exchange while they compute, unless the configuration says it. A rank
// that exchanges by messages always gains from that; one that reads its peers' memory (mapped)
// gains only if it has a spare core for it. threads: of all ranks.
bool zr_wants_overlap(const zr_config *config, bool mapped, int threads);
// Returns the setting to which the rates of an engine's operations belong.
zr_rate_setting zr_rate_setting_of(const zero_engine *engine);
int zr_local_ranks(const zero_comm *comm); // Returns how many ranks share this machine's memory.

#endif
