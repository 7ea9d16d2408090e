// Measures what the collectives of the installed MPI reach between ranks of this machine, and
// prints it like `zero bench comm`, which starts this program under mpirun to show the figures next
// to ours. argv[1]: seconds to spend on each figure, approximately.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes of the whole operand.
static const int sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct work {
    float *from, *to;
    int ranks, count; // count: elements of the whole operand
} work;

static void reduce_scatter(const work *w)
{
    MPI_Reduce_scatter_block(w->from, w->to, w->count / w->ranks, MPI_FLOAT, MPI_SUM,
                             MPI_COMM_WORLD);
}

static void all_gather(const work *w)
{
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, w->to, w->count / w->ranks, MPI_FLOAT,
                  MPI_COMM_WORLD);
}

static void all_reduce(const work *w)
{
    MPI_Allreduce(w->from, w->to, w->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

// Returns the mean seconds of a call on the slowest rank.
static double measure(void (*run)(const work *), const work *w, double seconds)
{
    run(w);
    for (long calls = 1;; calls *= 2) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (long i = 0; i < calls; i++)
            run(w);
        double mine = MPI_Wtime() - begin, slowest;
        MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (slowest >= seconds / 2 || calls >= 1L << 30)
            return slowest / (double)calls;
    }
}

static void report(const char *name, int bytes, double seconds)
{
    char size[32];
    snprintf(size, sizeof size, bytes >= 1 << 20 ? "%d MiB" : "%d KiB",
             bytes >= 1 << 20 ? bytes >> 20 : bytes >> 10);
    printf("%-19s %8s  %10.2f us  %8.2f GB/s\n", name, size, seconds * 1e6,
           (double)bytes / seconds * 1e-9);
    fflush(stdout);
}

static void measure_all(work *w, int rank, double seconds)
{
    static const struct {
        const char *name;
        void (*run)(const work *);
    } rows[] = {
        {"reduce-scatter", reduce_scatter}, {"all-gather", all_gather}, {"all-reduce", all_reduce}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int i = 0; i < SIZES; i++) {
            w->count = sizes[i] / (int)sizeof(float) / w->ranks * w->ranks;
            double time = measure(rows[r].run, w, seconds);
            if (rank == 0)
                report(rows[r].name, sizes[i], time);
        }
    }
}

int main(int argc, char **argv)
{
    int rank, length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    work w;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.ranks);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    w.from = calloc(1, (size_t)sizes[SIZES - 1]);
    w.to = calloc(1, (size_t)sizes[SIZES - 1]);
    if (!w.from || !w.to)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("\n%s, %d ranks\n", version, w.ranks);
    measure_all(&w, rank, argc > 1 ? atof(argv[1]) : 0.2);
    free(w.from);
    free(w.to);
    MPI_Finalize();
    return 0;
}
