// What plan/ needs to know of this machine, filled from compute/ and comm/ (contract 5).
#ifndef ZR_SETUP_MACHINE_FACTS_H
#define ZR_SETUP_MACHINE_FACTS_H

#include "comm/communicator.h"
#include "compute/compute.h"
#include "config/config_offload.h"
#include "plan/machine.h"

// `queue` answers for the scratch of products and outlives *out. comm NULL: one rank that maps.
void zr_machine_fill(zr_queue *queue, zero_comm *comm, zr_machine *out);
// The budgets of a configuration, as limits of one rank where local_ranks share the machine.
void zr_machine_limit(zr_machine *machine, const zr_offload_config *budgets, int local_ranks);
int zr_local_ranks(const zero_comm *comm); // ranks that share this machine's memory

#endif
