// Answers what a CUDA backend hangs on, on the device at hand: a line of JSON an answer.
//
//   probe [--small] [--limit SECONDS] [--image FILE] [--text DIR] [--libraries DIR]... [PROBE...]
//
// It links with nothing of CUDA's. Each probe runs in a process of its own, with a time that it may
// take: one that fails, hangs or dies costs the others nothing, and what it has found until then is
// in its line. Exit status: 0 if every probe that was asked for has its line, whatever it says; 64
// for options that are none.
#define _GNU_SOURCE
#include "probe.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct probe_row {
    const char *name;
    bool (*run)(probe_session *);
    double seconds; // at most
} probe_row;

// Whether there is a device is asked in a process, too: this one never opens the driver.
static bool open_device(probe_session *session)
{
    char name[128] = "";
    PROBE_TRY(session, cuDeviceGetName, name, sizeof name, session->device);
    probe_answer_text(session->answer, "name", name);
    return true;
}

static const probe_row device_row = {"device", open_device, 40};

// What the others build upon comes first.
static const probe_row rows[] = {
    {"facts", probe_facts, 20},
    {"compile", probe_compile, 30},
    {"attention", probe_attention, 30},
    {"limbs", probe_limbs, 20},
    {"copies", probe_copies, 20},
    {"launches", probe_launches, 20},
    {"words", probe_words, 15},
    {"products", probe_products, 60},
    {"host_memory", probe_host_memory, 60},
};

static void run_here(const probe_row *row, const probe_options *options, probe_answer *answer)
{
    probe_session *session = calloc(1, sizeof *session);
    if (!session) {
        probe_answer_fail(answer, "the host has no %zu bytes", sizeof *session);
        return;
    }
    session->options = options;
    session->answer = answer;
    if (probe_session_open(session))
        row->run(session);
    probe_session_close(session);
    free(session);
}

// Waits for a process at most so long. Returns false if it still runs.
static bool wait_for(pid_t process, double seconds, int *status)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    for (double end = probe_now() + seconds; probe_now() < end; nanosleep(&nap, NULL))
        if (waitpid(process, status, WNOHANG) == process)
            return true;
    return false;
}

// The end of the process is its failure, whatever call had failed in it before.
static void forget_failure(probe_answer *answer)
{
    answer->failed = false;
    answer->call[0] = 0;
}

// What became of the process, if it did not end by itself and well.
static void judge(pid_t process, double seconds, probe_answer *answer)
{
    int status = 0;
    if (!wait_for(process, seconds, &status)) {
        kill(process, SIGKILL);
        wait_for(process, 5, &status);
        forget_failure(answer);
        probe_answer_fail(answer, "it took longer than %g s", seconds);
    } else if (WIFSIGNALED(status)) {
        forget_failure(answer);
        probe_answer_fail(answer, "it died of signal %d (%s)", WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status)) {
        probe_answer_fail(answer, "its process ended with status %d", WEXITSTATUS(status));
    }
}

static void run_apart(const probe_row *row, const probe_options *options, double left,
                      probe_answer *answer)
{
    const double began = probe_now(), seconds = PROBE_MIN(row->seconds, left);
    probe_answer_begin(answer, row->name);
    if (seconds <= 0) {
        probe_answer_fail(answer, "left out: the limit of %g s for all is reached", options->limit);
    } else {
        fflush(stdout);
        pid_t process = fork();
        if (process == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_here(row, options, answer);
            exit(0);
        }
        if (process > 0)
            judge(process, seconds, answer);
        else
            probe_answer_fail(answer, "no process could be started for it");
    }
    probe_answer_number(answer, "seconds", probe_now() - began);
    probe_answer_print(answer);
}

static bool is_asked(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], name))
            return true;
    return count == 0;
}

static bool are_known(char **names, int count)
{
    for (int i = 0; i < count; i++) {
        bool known = false;
        for (size_t k = 0; k < PROBE_LENGTH(rows); k++)
            known = known || !strcmp(names[i], rows[k].name);
        if (!known) {
            fprintf(stderr, "probe: there is no probe \"%s\"; there are:", names[i]);
            for (size_t k = 0; k < PROBE_LENGTH(rows); k++)
                fprintf(stderr, " %s", rows[k].name);
            fprintf(stderr, "\n");
            return false;
        }
    }
    return true;
}

static bool read_limit(const char *text, probe_options *out)
{
    char *end;
    out->limit = strtod(text, &end);
    if (*text && !*end && out->limit > 0)
        return true;
    fprintf(stderr, "probe: --limit %s: seconds above 0 are wanted\n", text);
    return false;
}

static bool add_folder(const char *path, probe_options *out)
{
    if (out->library_count == (int)PROBE_LENGTH(out->libraries)) {
        fprintf(stderr, "probe: at most %zu folders of libraries\n", PROBE_LENGTH(out->libraries));
        return false;
    }
    out->libraries[out->library_count++] = path;
    return true;
}

static bool read_options(int count, char **arguments, probe_options *out)
{
    static const struct option known[] = {
        {"small", no_argument, NULL, 's'},           {"limit", required_argument, NULL, 'l'},
        {"image", required_argument, NULL, 'i'},     {"text", required_argument, NULL, 't'},
        {"libraries", required_argument, NULL, 'd'}, {NULL, 0, NULL, 0},
    };
    for (int which; (which = getopt_long(count, arguments, "", known, NULL)) != -1;) {
        if (which == 's')
            out->small = true;
        else if (which == 'i')
            out->image = optarg;
        else if (which == 't')
            out->text = optarg;
        else if (which == 'd' && !add_folder(optarg, out))
            return false;
        else if (which == 'l' && !read_limit(optarg, out))
            return false;
        else if (which == '?')
            return false;
    }
    return are_known(arguments + optind, count - optind);
}

int main(int count, char **arguments)
{
    probe_options options = {.limit = 120, .text = "."};
    if (!read_options(count, arguments, &options))
        return 64;
    probe_answer *answer =
        mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED) {
        fprintf(stderr, "probe: the host has no %zu bytes\n", sizeof *answer);
        return 1;
    }
    const double end = probe_now() + options.limit;
    run_apart(&device_row, &options, options.limit, answer);
    const bool has_device = !answer->failed;
    for (size_t i = 0; i < PROBE_LENGTH(rows) && has_device; i++)
        if (is_asked(rows[i].name, arguments + optind, count - optind))
            run_apart(&rows[i], &options, end - probe_now(), answer);
    munmap(answer, sizeof *answer);
    return 0;
}
