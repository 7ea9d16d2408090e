// The bubble of each schedule in real time, beside what its paper says. Units of this model do not
// compute but sleep: forward 10 ms, backward 10 ms for the input and 10 ms for the weights. Ranks
// are threads.
//
//   build/bench/sleeping_pipeline [STEPS]
//
// bench/pipeline runs it. STEPS: of each schedule, 3 if it is not given.
// Exit status 1 if a bubble is more than 3 points from the paper's.
#include "setup/initialize.h"
#include "sleepers.h"
#include "report/pipeline_times.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STAGES = 4, MICRO_BATCHES = 8, NAP = 10000000 }; // nanoseconds
#define POINTS 0.03

// Makes a unit for each chunk. Units of several chunks a stage sleep shorter, so that every
// schedule has the same to do.
static void make(sleepers *s, int chunks)
{
    long naps[SLEEPERS_MOST];
    for (int u = 0; u < STAGES * chunks; u++)
        naps[u] = NAP / chunks;
    sleepers_make(s, STAGES * chunks, naps);
}

typedef struct rank {
    const sleepers *model;
    const char *schedule;
    zero_comm *comm;
    zero_engine *engine;
    int steps;
    zr_pipeline_times times;
    zero_status status;
    zero_error error;
} rank;

static zero_status one_step(void *user, zero_error *error)
{
    rank *r = user;
    return sleepers_step(r->engine, MICRO_BATCHES, error);
}

static zero_status measure(rank *r, zero_error *error)
{
    char config[128];
    snprintf(config, sizeof config,
             "{\"gradient_accumulation_steps\": %d, \"pipeline\": {\"partition\": \"uniform\"}}",
             MICRO_BATCHES);
    const zero_options options = {.struct_size = sizeof options,
                                  .model = &r->model->model,
                                  .comm = r->comm,
                                  .config_text = config,
                                  .shape = {.batch = 1, .seq = 1},
                                  .threads = 1};
    const zr_trial trial = {.parallel = {.pipeline = STAGES, .schedule = r->schedule}};
    ZERO_TRY(zr_initialize(&options, &trial, &r->engine, error));
    ZERO_TRY(one_step(r, error));
    return zr_pipeline_times_measure(r->comm, r->engine, r->steps, one_step, r, &r->times, error);
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    r->status = measure(r, &r->error);
    zero_destroy(r->engine);
    zr_free(r->times.cost); // the other figures are wanted yet
    r->times.cost = NULL;
    return NULL;
}

typedef struct known_bubble {
    const char *schedule;
    int chunks;
    double share; // of the time of all pipeline stages, as its paper has it
} known_bubble;

// Starts the ranks and waits for them. Returns rank 0's, whose times all have.
static rank run_ranks(const known_bubble *of, int steps)
{
    static sleepers model;
    static rank ranks[STAGES];
    zero_comm *comms[STAGES] = {0};
    pthread_t threads[STAGES];
    zero_error error = {0};
    make(&model, of->chunks);
    if (zero_comm_threads(STAGES, NULL, comms, &error) != ZERO_OK) {
        fprintf(stderr, "sleeping_pipeline: %s\n", error.message);
        exit(1);
    }
    for (int r = 0; r < STAGES; r++) {
        ranks[r] =
            (rank){.model = &model, .schedule = of->schedule, .comm = comms[r], .steps = steps};
        if (pthread_create(&threads[r], NULL, run_rank, &ranks[r]) != 0)
            abort();
    }
    for (int r = 0; r < STAGES; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < STAGES; r++)
        zero_comm_destroy(comms[r]);
    return ranks[0];
}

int main(int argc, char **argv)
{
    // (p - 1) / (v m + p - 1); zb-h1 where forward and both halves of backward take equally long:
    // (p - 1) / (3 m + p - 1).
    static const known_bubble known[] = {{"gpipe", 1, 3 / 11.0},
                                         {"1f1b", 1, 3 / 11.0},
                                         {"interleaved:2", 2, 3 / 19.0},
                                         {"zb-h1", 1, 3 / 27.0}};
    int steps = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 3, failed = 0;
    printf("%d pipeline stages, %d micro-batches, %d ms of sleep each\n\n", STAGES, MICRO_BATCHES,
           3 * NAP / 1000000);
    printf("| schedule | step, ms | simulated, ms | bubble | simulated | known | simulating, ms |\n"
           "|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < ZR_COUNT(known); i++) {
        rank of = run_ranks(&known[i], steps);
        if (of.status != ZERO_OK) {
            fprintf(stderr, "sleeping_pipeline: %s: %s\n", known[i].schedule, of.error.message);
            return 1;
        }
        bool near = fabs(of.times.bubble - known[i].share) <= POINTS;
        printf("| %s | %.1f | %.1f | %.1f%% | %.1f%% | %.1f%%%s | %.3f |\n", known[i].schedule,
               of.times.step * 1e3, of.times.simulated * 1e3, 100 * of.times.bubble,
               100 * of.times.simulated_bubble, 100 * known[i].share,
               near ? "" : ": not within 3 points", of.times.simulating * 1e3);
        failed += !near;
    }
    return failed > 0;
}
