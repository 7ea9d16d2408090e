// Facts of this machine that plan/ needs, filled in from compute/ and comm/ (contract 5), and how
// many threads a rank uses.
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
// Divides the ranks as far as that is known before their groups are made. model_ranks: the ranks
// that compute one model, `tensor` for each pipeline stage.
void zr_machine_divide_ranks(zr_machine *machine, int model_ranks, int tensor, int tensor_rank);
// Sets what follows from a job's groups: ZeRO partitions among the data ranks.
void zr_machine_take_groups(const zr_grid *grid, zr_machine *machine);
// Sets what would follow from the groups of the mesh's rank if the job ran on these machines.
// replicas: how many tensor ranks share a flat parameter, if some but not all do; else 0.
void zr_machine_imagine_groups(const zr_job_machines *machines, const zr_mesh *mesh, int replicas,
                               zr_machine *machine);
// Checks that the ranks which share a copy of the weights are all ranks of one machine.
// ZERO_ERR_CONFIG, with the numbers.
zero_status zr_machine_check(const zr_machine *machine, const zr_settings *settings,
                             zero_error *error);
// Sets the budgets of a configuration as limits of one rank, when local_ranks share the machine.
void zr_machine_set_limit(zr_machine *machine, const zr_offload_config *budgets, int local_ranks);
// Returns whether data ranks exchange while they compute: as the configuration says, or else always
// if they exchange by messages, and only with a spare core if they read their peers' memory
// (mapped). threads: of all ranks.
bool zr_wants_overlap(const zr_config *config, bool mapped, int threads);
// Returns the setting to which the rates of an engine's operations belong.
zr_rate_setting zr_rate_setting_of(const zero_engine *engine);
int zr_local_ranks(const zero_comm *comm); // Returns how many ranks share this machine's memory.

// rank_threads.c: OpenMP threads of a rank, which are the cores that this machine allows, divided
// among the ranks that share them.
typedef struct zr_rank_threads {
    int count;
    char reason[192]; // "1 of 2 cores: affinity mask, shared by 2 ranks"
    // Threads of all ranks that share this rank's cores, and how many cores those are.
    int wanted, cores;
} zr_rank_threads;

// Chooses the number of threads, or takes `requested` if that is above 0. Collective.
zero_status zr_rank_threads_choose(zero_comm *comm, int requested, zr_rank_threads *out,
                                   zero_error *error);

#endif
