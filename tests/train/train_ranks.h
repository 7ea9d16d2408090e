// A training on ranks that are threads of one process, as a host program would run it.
#ifndef TESTS_TRAIN_RANKS_H
#define TESTS_TRAIN_RANKS_H

#include <zero/train.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MOST_RANKS = 3 };

#define TINY_MODEL "gpt2:layers=1,heads=2,width=16,context=16"

typedef struct rank_job {
    zero_comm *comm;
    const zero_train_options *options;
    zero_status status;
    zero_error error;
} rank_job;

static inline void *train_rank(void *argument)
{
    rank_job *job = argument;
    job->status = zero_train(job->comm, job->options, &job->error);
    return NULL;
}

// Trains on threads. jobs (ranks): how the training ended on each.
static inline void train_ranks(int ranks, const zero_train_options *options, rank_job *jobs)
{
    zero_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    zero_comm_options comm_options = {.struct_size = sizeof comm_options, .timeout_seconds = 30};
    assert_int_equal(zero_comm_threads(ranks, &comm_options, comms, NULL), ZERO_OK);
    for (int r = 0; r < ranks; r++) {
        jobs[r] = (rank_job){.comm = comms[r], .options = options};
        assert_int_equal(pthread_create(&threads[r], NULL, train_rank, &jobs[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < ranks; r++)
        zero_comm_destroy(comms[r]);
}

// Makes a directory of the test's own in `parent`, and a text in it to train on. Returns 0 if both
// exist.
static inline int make_text(const char *parent, char directory[static 64], char text[static 96])
{
    snprintf(directory, 64, "%s/zero-test-XXXXXX", parent);
    if (!mkdtemp(directory))
        return -1;
    snprintf(text, 96, "%s/text.txt", directory);
    FILE *file = fopen(text, "w");
    for (int i = 0; file && i < 400; i++)
        fprintf(file, "the %d of them sang %d songs\n", i % 7, i % 11);
    return file ? fclose(file) : -1;
}

#endif
