// Machines under MPI: which ranks share one, and memory that they map together.
//
// A machine is a host name on one boot of one kernel, seen from one PID namespace; whether its
// ranks can really map each other's memory is tried once. The memory is a memfd of the machine's
// first rank, which the others open through /proc, so nothing is left behind.
#define _GNU_SOURCE
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/random.h"
#include "base/traffic.h"
#include "comm/mpi_rank.h"
#include "comm/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PROBE_BYTES 4096

typedef struct offer {           // from the machine's first rank to the others
    int64_t process, descriptor; // -1 if it could not create any
    uint64_t token;              // the first word of the memory
} offer;

// Returns the fetcher, chosen in turn over the ranks elsewhere, in the order of the list;
// zr_fetches says how often a rank is chosen.
int zr_mpi_fetcher(const zr_mpi *mpi, int machine, int rank)
{
    const zr_mpi_machines *machines = &mpi->machines;
    int first = machines->first[machine], ranks = machines->first[machine + 1] - first,
        listed = machines->place[rank];
    return machines->ranks[first + (listed < first ? listed : listed - ranks) % ranks];
}

bool zr_mpi_is_local(const zr_mpi *mpi, int rank)
{
    const zr_mpi_machines *machines = &mpi->machines;
    return machines->place[rank] >= machines->first[machines->own] &&
           machines->place[rank] < machines->first[machines->own + 1];
}

int zr_mpi_neighbour(const zr_mpi *mpi, int distance)
{
    const zr_mpi_machines *machines = &mpi->machines;
    int place = (machines->local + distance + machines->locals) % machines->locals;
    return machines->ranks[machines->first[machines->own] + place];
}

// A dissemination barrier: after round k each rank has heard, directly or not, of 2^(k+1) - 1
// others.
zero_status zr_mpi_local_barrier(zero_comm *comm, const char *doing, const char *slot,
                                 zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    for (int distance = 1; distance < mpi->machines.locals; distance *= 2) {
        ZERO_TRY(
            zr_mpi_irecv(comm, &mpi->batch[0], NULL, 0, zr_mpi_neighbour(mpi, -distance), error));
        ZERO_TRY(
            zr_mpi_isend(comm, &mpi->batch[0], NULL, 0, zr_mpi_neighbour(mpi, distance), error));
        ZERO_TRY(zr_mpi_await(comm, &mpi->batch[0], doing, slot, error));
    }
    return ZERO_OK;
}

static uint64_t hash_own_machine(void)
{
    struct {
        char host[256], processes[64], boot[ZR_BOOT_ID];
    } name = {0};
    if (readlink("/proc/self/ns/pid", name.processes, sizeof name.processes - 1) < 0)
        name.processes[0] = 0;
    gethostname(name.host, sizeof name.host - 1);
    zr_boot_id(name.boot);
    return zr_hash_bytes(&name, sizeof name, 0);
}

// Fills names[r] for every rank, by an exchange of small sums.
static zero_status exchange_names(zero_comm *comm, int64_t *names, zero_error *error)
{
    for (int r = 0; r < comm->size; r++)
        names[r] = r == comm->rank ? (int64_t)(hash_own_machine() >> 1) : 0;
    return zr_mpi_all_reduce_small(comm, names, comm->size, ZERO_I64, ZR_SUM, error);
}

static void group_ranks_by_machine(const zero_comm *comm, const int64_t *names,
                                   zr_mpi_machines *out)
{
    int listed = 0;
    for (int r = 0; r < comm->size; r++) {
        bool seen = false;
        for (int before = 0; before < r; before++)
            seen = seen || names[before] == names[r];
        if (seen)
            continue;
        int machine = out->count++;
        out->first[machine] = listed;
        for (int s = r; s < comm->size; s++) {
            if (names[s] != names[r])
                continue;
            out->place[s] = listed;
            out->number[s] = machine;
            if (s == comm->rank)
                out->own = machine;
            out->ranks[listed++] = s;
        }
    }
    out->first[out->count] = listed;
    out->local = out->place[comm->rank] - out->first[out->own];
    out->locals = out->first[out->own + 1] - out->first[out->own];
}

static void fill_comm(zero_comm *comm, const zr_mpi *mpi)
{
    const zr_mpi_machines *machines = &mpi->machines;
    comm->machine_ranks = comm->size;
    comm->even = true;
    for (int m = 0; m < machines->count; m++) {
        int ranks = machines->first[m + 1] - machines->first[m];
        comm->machine_ranks = ZR_MIN(comm->machine_ranks, ranks);
        comm->even = comm->even && ranks == machines->locals;
    }
    comm->strangers = comm->size - machines->locals;
    comm->machines = machines->number;
    comm->fetches = zr_fetches(comm->strangers, machines->locals, machines->local);
}

static int create_memfd(int64_t bytes, zero_error *error)
{
    if (zr_region_check(bytes, error) != ZERO_OK)
        return -1;
    int fd = memfd_create("zero-machine", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
        return fd;
    zr_fail_errno(error, ZERO_ERR_MEMORY, errno,
                  "creating %lld bytes that the ranks of this machine share (memfd_create)",
                  (long long)bytes);
    if (fd >= 0)
        close(fd);
    return -1;
}

static zero_status map_memory(int fd, int64_t bytes, char **out, zero_error *error)
{
    void *base = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno,
                             "mapping %lld bytes that the ranks of this machine share",
                             (long long)bytes);
    *out = base;
    return ZERO_OK;
}

// Runs on the first rank of a machine: creates the memory and offers it to the others.
static zero_status offer_memory(zero_comm *comm, int64_t bytes, int *fd, char **out,
                                zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    *fd = create_memfd(bytes, error);
    zero_status status = *fd < 0 ? ZERO_ERR_MEMORY : map_memory(*fd, bytes, out, error);
    offer offer = {.process = getpid(), .descriptor = status == ZERO_OK ? *fd : -1};
    if (status == ZERO_OK) {
        offer.token = zr_hash_bytes(&offer, sizeof offer, hash_own_machine());
        memcpy(*out, &offer.token, sizeof offer.token);
    }
    for (int i = 1; i < mpi->machines.locals; i++)
        ZERO_TRY(zr_mpi_send(comm, &offer, sizeof offer, zr_mpi_neighbour(mpi, i), error));
    return status;
}

static zero_status open_offer(const offer *offer, int64_t bytes, char **out, zero_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)offer->process,
             (long long)offer->descriptor);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return zr_fail_errno(error, ZERO_ERR_MEMORY, errno,
                             "opening %s, the memory that the ranks of this machine share", path);
    zero_status status = map_memory(fd, bytes, out, error);
    close(fd);
    uint64_t found = 0;
    if (status == ZERO_OK)
        memcpy(&found, *out, sizeof found);
    if (status != ZERO_OK || found == offer->token)
        return status;
    zr_region_destroy(*out, bytes);
    *out = NULL;
    return zr_fail(error, ZERO_ERR_MEMORY,
                   "%s is not the memory that this machine's first rank shares", path);
}

static zero_status accept_memory(zero_comm *comm, int64_t bytes, char **out, zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    offer offer;
    ZERO_TRY(zr_mpi_recv(comm, &offer, sizeof offer, zr_mpi_neighbour(mpi, -mpi->machines.local),
                         error));
    if (offer.descriptor < 0)
        return zr_fail(error, ZERO_ERR_MEMORY,
                       "this machine's first rank could not share %lld bytes", (long long)bytes);
    return open_offer(&offer, bytes, out, error);
}

// Populates this rank's part of the pages, so that the parts lie near the cores of each rank in
// turn.
static zero_status populate_part(const zr_mpi *mpi, char *base, int64_t bytes, zero_error *error)
{
    int64_t part = ZR_ROUND_UP(bytes / mpi->machines.locals + 1, (int64_t)4096),
            first = ZR_MIN(part * mpi->machines.local, bytes);
    return zr_region_touch(base + first, ZR_MIN(part, bytes - first), error);
}

zero_status zr_mpi_share(zero_comm *comm, int64_t bytes, char **out, zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    int fd = -1;
    *out = NULL;
    if (bytes == 0)
        return ZERO_OK;
    zero_status status = mpi->machines.local == 0 ? offer_memory(comm, bytes, &fd, out, error)
                                                  : accept_memory(comm, bytes, out, error);
    if (status == ZERO_OK)
        status = populate_part(mpi, *out, bytes, error);
    zero_error late;
    // This waits until all have opened it.
    zero_status met =
        zr_mpi_local_barrier(comm, "sharing memory", NULL, status == ZERO_OK ? error : &late);
    if (fd >= 0)
        close(fd);
    status = status == ZERO_OK ? met : status;
    if (status != ZERO_OK) {
        zr_region_destroy(*out, bytes);
        *out = NULL;
    }
    return status;
}

// Tries whether ranks can share memory. Containers may hide processes of one host from each other;
// then nothing is shared, on any machine.
static zero_status try_sharing(zero_comm *comm, zero_error *error)
{
    zero_error own;
    char *probe = NULL;
    int64_t works = zr_mpi_share(comm, PROBE_BYTES, &probe, &own) == ZERO_OK;
    zr_region_destroy(probe, PROBE_BYTES);
    ZERO_TRY(zr_mpi_all_reduce_small(comm, &works, 1, ZERO_I64, ZR_MIN, error));
    if (!works)
        comm->machine_ranks = 1;
    return ZERO_OK;
}

zero_status zr_mpi_machines_find(zero_comm *comm, zero_error *error)
{
    zr_mpi *mpi = comm->impl;
    ZERO_TRY(exchange_names(comm, mpi->machines.names, error));
    group_ranks_by_machine(comm, mpi->machines.names, &mpi->machines);
    fill_comm(comm, mpi);
    return comm->machine_ranks > 1 ? try_sharing(comm, error) : ZERO_OK;
}

zero_status zr_mpi_machines_reserve(zero_comm *comm, zero_error *error)
{
    zr_mpi_machines *machines = &((zr_mpi *)comm->impl)->machines;
    size_t ranks = (size_t)comm->size;
    machines->names = zr_alloc(sizeof *machines->names * ranks, error);
    machines->ranks = zr_alloc(sizeof *machines->ranks * ranks, error);
    machines->first = zr_alloc(sizeof *machines->first * (ranks + 1), error);
    machines->place = zr_alloc(sizeof *machines->place * ranks, error);
    machines->number = zr_alloc(sizeof *machines->number * ranks, error);
    return machines->names && machines->ranks && machines->first && machines->place &&
                   machines->number
               ? ZERO_OK
               : ZERO_ERR_MEMORY;
}

void zr_mpi_machines_free(zr_mpi *mpi)
{
    zr_free(mpi->machines.names);
    zr_free(mpi->machines.ranks);
    zr_free(mpi->machines.first);
    zr_free(mpi->machines.place);
    zr_free(mpi->machines.number);
}
